// The page and the run survive what happens to them: a reload in the middle, and the server's sudden death.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { Baton } from "./baton.mjs";
import { Screen, expected, openBrowser } from "./screen.mjs";

let baton;
let browser;

before(async () => {
	browser = await openBrowser();
});
beforeEach(async () => {
	baton = await Baton.start();
});
afterEach(() => baton.stop());
after(() => browser.close());

/** Compares what a page says with the log: nothing is lost, nothing said twice, everything in order (E21). */
async function agrees(screen, run) {
	const { cards, words } = await screen.conversation();
	const told = expected(await baton.events(run));
	const of = (kind) => cards.filter((card) => card.kind === kind);
	assert.deepEqual(of("thinking").map((card) => card.body.replace(/[\s`*_]/g, "")), told.thoughts);
	assert.deepEqual(of("file").map((card) => card.title), told.files);
	assert.equal(of("command").length + of("install").length, told.tools);
	assert.deepEqual(of("build").map((card) => card.state), told.builds);
	let from = 0;
	for (const piece of told.words) {
		const at = words.indexOf(piece, from);
		assert.ok(at >= 0, `“${piece}” is not on the screen, or not in its place: ${words}`);
		assert.equal(words.indexOf(piece, at + 1), -1, `“${piece}” is on the screen twice`);
		from = at + piece.length;
	}
}

test("a reload in the middle of streaming gives the same conversation", async () => {
	const reloaded = await Screen.open(browser, baton.link);
	await reloaded.send("Build me a to-do list");
	await reloaded.cards("file", "writing").first().waitFor();
	const other = await reloaded.another(reloaded.url);
	await reloaded.reload();
	await reloaded.cards("file").first().waitFor();
	await reloaded.ended(1);
	await other.ended(1);
	const [run] = await baton.runs();
	await agrees(reloaded, run.id);
	const seen = await reloaded.conversation();
	assert.deepEqual(await other.conversation(), seen, "a second tab that was opened in the middle");
	const later = await reloaded.another(reloaded.url);
	await later.ended(1);
	assert.deepEqual(await later.conversation(), seen, "a tab that was opened at the end");
	for (const screen of [reloaded, other, later]) screen.check();
});

test("a server that is killed in the middle finishes the same run, and the page catches up by itself", async () => {
	const screen = await Screen.open(browser, baton.link);
	await screen.send("Build me a to-do list");
	await screen.cards("file", "writing").first().waitFor();
	await screen.mark();
	const [before] = await baton.runs();
	await baton.kill();
	await baton.restart();
	await screen.ended(1);
	assert.ok(await screen.stayed(), "the page was not loaded again");
	const runs = await baton.runs();
	assert.deepEqual(runs.map((run) => run.id), [before.id], "the same run (E15)");
	const events = await baton.events(before.id);
	assert.ok(events.filter((event) => event.type === "run_started").length >= 2, "it was taken up again");
	await agrees(screen, before.id);
	await screen.shows("built");
	await screen.app.getByLabel("New task").fill("Still here");
	screen.check();
});

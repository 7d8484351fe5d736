// The app is on the screen while the model writes, then as it was built; what is shown is told truthfully (N7, E20, E26).

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Baton } from "./baton.mjs";
import { Screen, openBrowser } from "./screen.mjs";

let baton;
let browser;
let screen;

before(async () => {
	[baton, browser] = await Promise.all([Baton.start({ script: "preview.yaml" }), openBrowser()]);
	screen = await Screen.open(browser, baton.link);
});

after(async () => {
	await browser?.close();
	await baton?.stop();
});

/** A fresh chat in a tab of its own, with its first message sent. */
async function chat(text, sign = screen) {
	const fresh = await sign.another(baton.url);
	await fresh.send(text);
	return fresh;
}

/** The events of the latest run, and where in them those of a kind are. */
async function log() {
	const events = await baton.events((await baton.runs()).at(-1).id);
	return { events, at: (is) => events.findIndex(is) };
}

test("N7 E20: the files are on the screen before the run has ended or built anything, and then the build is", async () => {
	const seen = await chat("at once");
	await seen.sees("Only page");
	assert.equal(await seen.shown(), "instant");
	assert.equal((await baton.runs()).at(-1).status, "running");
	await seen.labelled(/^Instant · not built yet$/);
	await seen.ended(1);
	await seen.shows("built");
	await seen.labelled(/^Built · Version 1$/);
	await seen.sees("Only page");

	const { at } = await log();
	const shown = at((event) => event.type === "preview_url" && event.kind === "instant");
	const built = at((event) => event.type === "preview_url" && event.kind === "built");
	const build = at((event) => event.type === "build_status");
	assert.ok(0 <= shown && shown < build && build < built, "shown at once, then built");
	assert.ok(built < at((event) => event.type === "run_completed"));
	seen.check();
});

test("N7: the last good page stays while a file is half written or wrong, and the place of the error is told until it is mended", async () => {
	const seen = await chat("in steps");
	await seen.sees("First page");
	await seen.watch();
	await seen.message.fill("a draft");
	await seen.cards("file", "writing").first().waitFor();
	await seen.sees("First page");
	await seen.sees("Second page");
	await seen.problem.waitFor();
	assert.match(await seen.problem.innerText(), /src\/App\.tsx:\d+:\d+.*the last good page stays/s);
	await seen.sees("Second page");
	await seen.sees("Third page");
	await seen.problem.waitFor({ state: "detached" });
	await seen.ended(1);
	await seen.shows("built");
	assert.deepEqual(await seen.watched(), { gaps: 0, mostFrames: 2 }, "there was a page to see at every moment");
	assert.equal(await seen.message.inputValue(), "a draft");
	await seen.hasFocus(seen.message);
	await seen.cards("problem", "past").waitFor();
	const { events } = await log();
	assert.equal(events.find((event) => event.type === "preview_problem").code, "syntax_error");
	seen.check();
});

test("N7: a page whose styles do not compile does not take the place of one that has some", async () => {
	const seen = await chat("bad styles");
	await seen.sees("Plain page");
	await seen.problem.waitFor();
	assert.match(await seen.problem.innerText(), /styles do not compile.*no-such-utility/s);
	await seen.sees("Plain page");
	await seen.ended(1);
	await seen.shows("built");
	await seen.sees("Naked page");
	const title = seen.app.getByRole("heading", { name: "Naked page" });
	assert.equal(await title.evaluate((element) => getComputedStyle(element).color), "rgb(1, 2, 3)");
	seen.check(/no-such-utility/);
});

test("N7: a page that shows nothing is reported to its run, which mends it", async () => {
	const seen = await chat("it throws");
	await seen.problem.waitFor();
	assert.match(await seen.problem.innerText(), /shows nothing.*TypeError/s);
	await seen.ended(1);
	await seen.shows("built");
	await seen.sees("Mended page");
	await seen.problem.waitFor({ state: "detached" });
	const { events } = await log();
	const problem = events.find((event) => event.type === "preview_problem");
	assert.equal(problem.code, "blank_page");
	assert.match(problem.message, /TypeError/);
	assert.ok(events.some((event) => event.type === "preview_url" && event.revision === problem.revision));
	await seen.cards("problem").first().waitFor();
	seen.check(/TypeError|Cannot read/);
});

test("E26: an error of an app whose run is over is told above it, and the person is helped to ask for a fix", async () => {
	const seen = await chat("a button");
	await seen.ended(1);
	await seen.shows("built");
	await seen.app.getByRole("button", { name: "Press" }).click();
	await seen.problem.waitFor();
	assert.match(await seen.problem.innerText(), /The app reported an error.*Boom 42/s);
	await seen.sees("A button");
	const runs = (await baton.runs()).length;
	await seen.press("Ask to fix");
	await seen.hasFocus(seen.message);
	assert.match(await seen.message.inputValue(), /^````\n.*```Boom 42```.*\n````$/ms);
	assert.equal((await baton.runs()).length, runs, "nothing is sent by itself");
	await seen.press("Dismiss");
	await seen.problem.waitFor({ state: "detached" });
	seen.check(/Boom 42/);
});

test("N7: what only a build can show says so, and is shown when it is built", async () => {
	const seen = await chat("css modules");
	await seen.cards("problem").waitFor();
	assert.match(await seen.cards("problem").innerText(), /Shown after the build/);
	assert.match(await seen.problem.innerText(), /Shown after the build: .*App\.module\.css/);
	await seen.ended(1);
	await seen.shows("built");
	await seen.sees("Styled page");
	const title = seen.app.getByRole("heading", { name: "Styled page" });
	assert.equal(await title.evaluate((element) => getComputedStyle(element).color), "rgb(1, 2, 3)");
	const { events } = await log();
	assert.equal(events.find((event) => event.type === "preview_problem").code, "unsupported");
	assert.ok(!events.some((event) => event.type === "preview_url" && event.kind === "instant"));
	seen.check();
});

test("E26: the page of a run that was stopped stays, says that it was not built, and is there after a reload", async () => {
	const seen = await chat("in steps");
	await seen.sees("First page");
	await seen.press("Stop");
	await seen.ended(1, "cancelled", "cancelled");
	await seen.labelled(/^Instant · not built$/);
	await seen.reload();
	await seen.sees("First page");
	assert.equal(await seen.shown(), "instant");
	seen.check();
});

test("N7: on a phone nobody is taken to the preview, but told that it is there", async () => {
	const phone = await Screen.open(browser, await baton.newLink(), { width: 390, height: 844 });
	await phone.send("in steps");
	const ready = phone.button("Preview ready");
	await ready.waitFor();
	await phone.message.waitFor();
	assert.equal(await phone.overflows(), false);
	await ready.click();
	await phone.sees("First page");
	assert.equal(await phone.overflows(), false);
	await phone.tab("Conversation").click();
	await ready.waitFor({ state: "detached" });
	await phone.press("Stop");
	await phone.ended(1, "cancelled", "cancelled");
	phone.check();
});

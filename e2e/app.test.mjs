// A sentence becomes an app that is used, changed by a follow-up, and seen on a phone.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Baton } from "./baton.mjs";
import { Screen, openBrowser } from "./screen.mjs";

let baton;
let browser;
let screen;

before(async () => {
	[baton, browser] = await Promise.all([Baton.start(), openBrowser()]);
	screen = await Screen.open(browser, baton.link);
});

after(async () => {
	await browser?.close();
	await baton?.stop();
});

test("E20: a sentence becomes an app that is seen while it is written, and can be used when it is built", async () => {
	await screen.send("Build me a to-do list");
	await screen.sees("To-do");
	assert.equal(await screen.shown(), "instant");
	assert.equal((await baton.runs())[0].status, "running");
	for (const kind of ["thinking", "file", "install", "command", "build"]) await screen.cards(kind).first().waitFor();
	await screen.ended(1);
	// The recipe makes one mistake that only the build reveals; the run mends it (E13).
	assert.equal(await screen.cards("build", "failed").count(), 1);
	assert.equal(await screen.cards("build", "succeeded").count(), 1);
	await screen.shows("built");
	await use("Water the plants");
	screen.check();
});

/** Adds a task in the app that was built, ticks it, and sees that the app noticed. */
async function use(task) {
	const { app } = screen;
	await app.getByLabel("New task").fill(task);
	await app.getByRole("button", { name: "Add", exact: true }).click();
	await app.getByRole("checkbox", { name: task }).check();
	await app.getByText("All done").waitFor();
}

test("a follow-up changes the app, and the new version takes the place of the old one", async () => {
	const before = await screen.version();
	await screen.send("make it dark");
	await screen.ended(2);
	assert.notEqual(await screen.versionAfter(before), before);
	await screen.app.locator('html[data-theme="dark"]').waitFor();
	await use("Call a friend");
	assert.equal((await baton.runs()).length, 2);
	screen.check();
});

test("on a phone the conversation, the files and the preview are a tab each", async () => {
	const phone = await Screen.open(browser, await baton.newLink(), { width: 390, height: 844 });
	const same = await phone.another(screen.url);
	await same.ended(2);
	assert.equal(await same.overflows(), false, "nothing is wider than the screen");
	await same.tab("Preview").click();
	await same.shows("built");
	await same.app.getByRole("heading", { name: "To-do" }).waitFor();
	assert.equal(await same.overflows(), false, "nor with the preview");
	await same.tab("Conversation").click();
	await same.message.waitFor();
	same.check();
});

test("a run is stopped from the screen", async () => {
	const other = await screen.another(baton.url);
	await other.send("a kanban board");
	await other.cards("file").first().waitFor();
	await other.press("Stop");
	await other.ended(1, "cancelled", "cancelled");
	other.check();
});

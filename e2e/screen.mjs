// What a person sees and does: the page in a real Chromium, by the names that assistive technology reads.
//
// CHROMIUM: the browser (default: /usr/bin/chromium).

import assert from "node:assert/strict";
import { chromium } from "playwright-core";

/** How long anything on the screen may take, in milliseconds. A build on a busy machine is the slowest of it. */
const MOST_MS = 90_000;

/** One browser for the tests of a file. */
export async function openBrowser() {
	return chromium.launch({
		executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
		args: [
			"--no-sandbox",
			"--disable-gpu",
			"--disable-quic",
			"--no-first-run",
			"--disable-background-networking",
			"--disable-component-update",
			"--disable-sync",
		],
	});
}

export class Screen {
	#page;
	#faults = [];

	/** Opens the link that a start of Baton printed, which signs this browser in. */
	static async open(browser, link, size = { width: 1280, height: 800 }) {
		const context = await browser.newContext({ viewport: size });
		return new Screen(await context.newPage()).#go(link);
	}

	/** Another tab of the same browser, which is signed in already. */
	async another(url) {
		return new Screen(await this.#page.context().newPage()).#go(url);
	}

	constructor(page) {
		this.#page = page;
		page.setDefaultTimeout(MOST_MS);
		page.on("pageerror", (error) => this.#faults.push(error.stack ?? `${error}`));
	}

	async #go(url) {
		await this.#page.goto(url);
		await this.message.waitFor();
		return this;
	}

	get url() {
		return this.#page.url();
	}

	get message() {
		return this.#page.getByRole("textbox", { name: "Message" });
	}

	tab(name) {
		return this.#page.getByRole("tab", { name, exact: true });
	}

	/** The app in its frame, as it is seen: what loads behind it has another name. */
	get app() {
		return this.#page.frameLocator('iframe[title="Preview"]');
	}

	/** Waits until the app shows a heading. One wait of Playwright's ends with the frame that it began in; pages take turns. */
	async sees(heading) {
		const found = () => this.app.getByRole("heading", { name: heading, exact: true }).isVisible();
		const until = Date.now() + MOST_MS;
		while (!(await found().catch(() => false))) {
			assert.ok(Date.now() < until, `the app does not show “${heading}”`);
			await this.#page.waitForTimeout(50);
		}
	}

	/** What is told of a problem beside the app. */
	get problem() {
		return this.#page.getByTestId("preview-problem");
	}

	button(name) {
		return this.#page.getByRole("button", { name, exact: true });
	}

	/** Cards of a kind: thinking, file, command, install, build, problem. */
	cards(kind, state) {
		const which = state ? `[data-state="${state}"]` : "";
		return this.#page.locator(`[data-testid="${kind}-card"]${which}`);
	}

	async send(text) {
		await this.message.fill(text);
		await this.message.press("Enter");
	}

	async press(name) {
		await this.button(name).click();
	}

	/** Waits until the n-th run of the chat has ended, and checks how. */
	async ended(n, status = "completed", reason = "done") {
		const run = this.#page.locator("article").nth(n - 1).getByTestId("run-status");
		await run.and(this.#page.locator('[data-status="completed"], [data-status="failed"], [data-status="cancelled"]')).waitFor();
		const [seen, why] = [await run.getAttribute("data-status"), await run.getAttribute("data-stop-reason")];
		assert.deepEqual([seen, why], [status, reason], await run.innerText());
	}

	/** Waits until the preview shows a page of this kind: `instant` or `built`. */
	async shows(kind) {
		await this.#page.locator(`[data-testid="preview-kind"][data-kind="${kind}"]`).waitFor();
	}

	/** What kind of page the preview shows. */
	async shown() {
		return this.#page.getByTestId("preview-kind").getAttribute("data-kind");
	}

	/** Waits until the preview says that it shows this. */
	async labelled(words) {
		await this.#page.getByTestId("preview-kind").filter({ hasText: words }).waitFor();
	}

	/** From now on, notes at every frame whether there is one preview to see. */
	async watch() {
		await this.#page.evaluate(() => {
			window.seen = { gaps: 0, mostFrames: 0 };
			const look = () => {
				const previews = [...document.querySelectorAll("iframe")];
				const visible = previews.filter((frame) => frame.checkVisibility({ opacityProperty: true }) && !frame.inert);
				if (visible.length !== 1) window.seen.gaps += 1;
				window.seen.mostFrames = Math.max(window.seen.mostFrames, previews.length);
				requestAnimationFrame(look);
			};
			look();
		});
	}

	async watched() {
		return this.#page.evaluate(() => window.seen);
	}

	/** Fails unless the focus is on this. */
	async hasFocus(element) {
		assert.ok(await element.evaluate((found) => found === document.activeElement), "the focus is elsewhere");
	}

	/** The version that the preview shows. */
	async version() {
		return this.#page.getByTestId("preview-version").getAttribute("data-version");
	}

	/** Waits until the preview shows another version. */
	async versionAfter(before) {
		const shown = this.#page.locator(`[data-testid="preview-version"]:not([data-version="${before}"])`);
		await shown.waitFor({ state: "attached" });
		return this.version();
	}

	async reload() {
		await this.#page.reload();
		await this.message.waitFor();
	}

	/** Leaves a mark that a reload would wipe out. */
	async mark() {
		await this.#page.evaluate(() => {
			window.stayed = true;
		});
	}

	async stayed() {
		return this.#page.evaluate(() => window.stayed === true);
	}

	/** Whether something is wider than the screen. */
	async overflows() {
		return this.#page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
	}

	/** The conversation as it can be read, with what is folded away opened, and without times and sizes that go on changing. */
	async conversation() {
		const thoughts = this.cards("thinking").getByRole("button", { expanded: false });
		while ((await thoughts.count()) > 0) await thoughts.first().click();
		return this.#page.getByRole("region", { name: "Conversation" }).evaluate((region) => {
			const cards = [...region.querySelectorAll("[data-testid$='-card']")].map((card) => {
				const body = card.dataset.testid === "thinking-card" ? card.querySelector("[role=region]").textContent : "";
				const title = card.querySelector("[title*='/'], [title*='.'], .font-mono")?.textContent ?? "";
				return { kind: card.dataset.testid.replace("-card", ""), state: card.dataset.state, title, body };
			});
			const rest = region.cloneNode(true);
			for (const part of rest.querySelectorAll("[data-testid]")) part.remove();
			return { cards, words: rest.textContent.replace(/\s+/g, "") };
		});
	}

	/** Fails if a script of the page failed, or one of the app that it shows, other than as the test wants it. */
	check(wanted) {
		assert.deepEqual(this.#faults.filter((fault) => !wanted?.test(fault)), []);
	}
}

/** What the conversation of one run has to say, drawn from its events alone. */
export function expected(events) {
	const latest = new Map();
	for (const event of events) {
		if (event.type === "step_state" && event.state === "running") latest.set(event.step_id, event.attempt);
	}
	// What an attempt streamed that was given up is not shown any more.
	const counts = events.filter((event) => (event.attempt ?? 1) === (latest.get(event.step_id) ?? event.attempt ?? 1));
	return {
		words: pieces(counts, "text_delta"),
		thoughts: pieces(counts, "thinking_delta"),
		files: counts.filter((e) => e.type === "file_started" || e.type === "file_edited").map((e) => e.path),
		tools: counts.filter((e) => e.type === "tool_requested").length,
		builds: counts.filter((e) => e.type === "build_status" && e.status !== "building").map((e) => e.status),
	};
}

/** Text that came in one go, as it is read: without blanks and without Markdown's marks. */
function pieces(events, type) {
	const found = [""];
	for (const event of events) {
		// What is told of previews comes about beside the stream, and does not cut a text in two.
		if (event.type.startsWith("preview_")) continue;
		if (event.type === type) found[found.length - 1] += event.text.replace(/[\s`*_]/g, "");
		else if (found.at(-1) !== "") found.push("");
	}
	return found.filter((piece) => piece !== "");
}

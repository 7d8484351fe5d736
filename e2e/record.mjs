// The pictures of README.md, from the running product. Started by scripts/record.
//
//   node record.mjs FOLDER
//
// Writes FOLDER/first-app.webp (a recording of the first minute), and screenshots at desktop and phone width.

import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Baton } from "./baton.mjs";
import { openBrowser } from "./screen.mjs";

const run = promisify(execFile);
const folder = process.argv[2] ?? ".";
const DESKTOP = { width: 1200, height: 750 };
const PHONE = { width: 390, height: 844 };
/** Time between two frames; what a screenshot takes beyond it makes a frame last longer. */
const FRAME_MS = 100;
/** How long the last frame stays, in milliseconds. */
const LAST_MS = 3_000;
const SENTENCE = "A landing page for a small bakery";

const frames = await mkdtemp(join(tmpdir(), "baton-record-"));
const [baton, browser] = await Promise.all([Baton.start(), openBrowser()]);
try {
	const page = await open(DESKTOP, baton.link);
	const filmed = film(page);
	await page.waitForTimeout(700);
	await page.getByRole("textbox", { name: "Message" }).pressSequentially(SENTENCE, { delay: 28 });
	await page.waitForTimeout(300);
	await page.keyboard.press("Enter");
	await page.locator('[data-testid="preview-kind"][data-kind="instant"]').waitFor({ timeout: 60_000 });
	await page.waitForTimeout(600);
	await still(page, "instant");
	await page.locator('article [data-testid="run-status"][data-status="completed"]').waitFor({ timeout: 120_000 });
	await page.waitForTimeout(1_200);
	await filmed.stop();
	await still(page, "built");
	const phone = await open(PHONE, await baton.newLink());
	await phone.goto(page.url());
	await phone.getByRole("tab", { name: "Preview", exact: true }).click();
	await phone.waitForTimeout(1_500);
	await still(phone, "phone");
} finally {
	await browser.close();
	await baton.stop();
	await rm(frames, { recursive: true, force: true });
}

async function open(viewport, link) {
	const context = await browser.newContext({ viewport, colorScheme: "light" });
	const page = await context.newPage();
	await page.goto(link);
	await page.getByRole("textbox", { name: "Message" }).waitFor();
	return page;
}

async function still(page, name) {
	const png = join(frames, `${name}.png`);
	await page.screenshot({ path: png });
	await run("cwebp", ["-quiet", "-q", "86", png, "-o", join(folder, `${name}.webp`)]);
}

/** Takes frames until it is stopped, then writes the recording. A frame that is the same as the one before makes that one longer. */
function film(page) {
	let going = true;
	const taken = [];
	const work = (async () => {
		let last;
		while (going) {
			const began = Date.now();
			const png = await page.screenshot();
			if (!last?.equals(png)) {
				const path = join(frames, `${String(taken.length).padStart(4, "0")}.png`);
				await writeFile(path, png);
				taken.push({ path, at: began });
				last = png;
			}
			await new Promise((next) => setTimeout(next, Math.max(0, began + FRAME_MS - Date.now())));
		}
	})();
	return {
		async stop() {
			going = false;
			await work;
			const lasting = taken.map((frame, i) => (taken[i + 1] ? taken[i + 1].at - frame.at : LAST_MS));
			const each = taken.flatMap((frame, i) => ["-d", String(lasting[i]), frame.path]);
			await run("img2webp", ["-loop", "0", "-lossy", "-q", "55", "-m", "4", ...each, "-o", join(folder, "first-app.webp")]);
		},
	};
}

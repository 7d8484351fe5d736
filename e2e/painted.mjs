// How long after a file was closed its app is on the screen of a real Chromium. Part of `scripts/bench first-app`.
//
//   node painted.mjs URL TOKEN ROUNDS
//
// Prints one JSON object a line: the case and its values in milliseconds. Each value is the time between the event that closed the
// last file of an instant page, by the server's clock, and the page's first contentful paint, by the browser's: one machine's clock.

import { openBrowser } from "./screen.mjs";

const [url, token, rounds] = process.argv.slice(2);
const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };

const browser = await openBrowser();
const cold = [];
const warm = [];
for (let round = 0; round <= Number(rounds); round += 1) {
	const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
	const page = await context.newPage();
	const first = await send("/v1/chats", "Build me a to-do list");
	const shown = await painted(page, first.run_id);
	const next = await send(`/v1/chats/${first.chat_id}/messages`, "make it dark");
	const again = await painted(page, next.run_id);
	// The first round warms the server and the browser up.
	if (round > 0) {
		cold.push(shown);
		warm.push(again);
	}
	await context.close();
}
await browser.close();
console.log(JSON.stringify({ case: "file closed → painted in Chromium, nothing cached", values: cold }));
console.log(JSON.stringify({ case: "file closed → painted in Chromium, packages cached", values: warm }));

async function send(path, text) {
	const answer = await fetch(url + path, { method: "POST", headers, body: JSON.stringify({ text }) });
	if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
	return answer.json();
}

/** Opens the first instant page of a run as soon as its event is there, and reads the run to its end. */
async function painted(page, run) {
	let closed;
	let took;
	for await (const event of events(run)) {
		if (event.type === "file_completed" || event.type === "file_edited") closed = event.at;
		if (event.type !== "preview_url" || event.kind !== "instant" || took !== undefined) continue;
		const of = closed;
		await page.goto(event.url, { waitUntil: "commit" });
		const at = await page.evaluate(
			() =>
				new Promise((done) => {
					const tell = (entry) => done(performance.timeOrigin + entry.startTime);
					new PerformanceObserver((list) => list.getEntriesByName("first-contentful-paint").forEach(tell)).observe({
						type: "paint",
						buffered: true,
					});
				}),
		);
		took = at - of;
	}
	if (took === undefined) throw new Error(`${run} had no instant page`);
	return took;
}

async function* events(run) {
	const answer = await fetch(`${url}/v1/runs/${run}/events`, { headers });
	const text = new TextDecoder();
	let rest = "";
	for await (const bytes of answer.body) {
		rest += text.decode(bytes, { stream: true });
		const lines = rest.split("\n");
		rest = lines.pop();
		for (const line of lines) if (line.startsWith("data:")) yield JSON.parse(line.slice("data:".length));
	}
}

// A stand-in for `baton up`, for work on the page alone: `npm run build && npm run fake`, then http://127.0.0.1:7420/,
// or beside `npm run dev`. It keeps everything in memory, plays the scripts of script.mjs ("broken", "limit" and "huge"
// in a message choose one, "throws" makes a preview that throws) and speaks just as much of the API as the page uses. It is no test of the server.
//
//   PORT=7420  SPEED=1 (larger is faster)  SIGNED_OUT=1 (asks for the code "demo": /#code=demo)
//   POST /fake/cut       breaks off every stream;  POST /fake/down?ms=3000  refuses everything for that long

import { createHash, randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { scriptFor } from "./script.mjs";

const port = Number(process.env.PORT ?? 7420);
const speed = Number(process.env.SPEED ?? 1);
const PAGE_SCRIPT = new URL("../../crates/server/src/preview/page.js", import.meta.url);
const dist = new URL("../dist/", import.meta.url).pathname;
const CSP =
	"default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; frame-src http://*.localhost:*; frame-ancestors 'none'; base-uri 'none'";
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

const chats = new Map();
const runs = new Map();
const streams = new Set();
let downUntil = 0;
let seconds = 0;
const newId = (prefix) => prefix + randomBytes(13).toString("hex");

// ---- runs

function accept(chat, text, key) {
	const known = [...runs.values()].find((run) => run.key === key);
	if (known) return known;
	const run = {
		id: newId("run_"),
		chat,
		key,
		title: text,
		log: [],
		files: chat.files,
		status: "queued",
		at: now(),
		step: undefined,
	};
	runs.set(run.id, run);
	chat.runs.push(run);
	const ids = {
		chat_id: chat.id,
		project_id: chat.project,
		user_message_id: newId("msg_"),
		assistant_message_id: newId("msg_"),
	};
	push(run, { type: "run_queued", position: 0 });
	push(run, {
		type: "session",
		...ids,
		is_new_chat: chat.runs.length === 1,
		request: text,
		intent: chat.runs.length === 1 ? "generate" : "edit",
		follow_up: chat.runs.length > 1,
		template: "react-vite",
		model: { provider: "demo", name: "demo" },
	});
	void play(run, text);
	return run;
}

// A clock that never gives the same time twice, so that what is sorted by it stays in order.
function now() {
	seconds = Math.max(Date.now(), seconds + 1);
	return seconds;
}

function push(run, event) {
	const place = run.step ? { step_id: run.step, attempt: 1 } : {};
	const seq = run.log.length + 1;
	run.log.push({ v: 1, stream_id: run.id, run_id: run.id, seq, at: Date.now(), ...place, ...event });
	if (/^run_(completed|failed|cancelled)$/.test(event.type)) {
		run.status = event.type.slice(4);
		run.ended = Date.now();
		run.stop = event.stop_reason ?? run.status;
	}
	for (const stream of streams) stream.look();
}

async function play(run, text) {
	await pause(150 / speed);
	run.status = "running";
	run.started = Date.now();
	push(run, { type: "run_started", worker: "fake", epoch: 1 });
	let owed = 0;
	for (const [delay, what, ...rest] of scriptFor(text, run)) {
		owed += delay / speed;
		if (owed >= 1) {
			await pause(owed);
			owed = 0;
		}
		if (run.cancelled) {
			run.step = undefined;
			return push(run, { type: "run_cancelled", by: "user" });
		}
		if (what === "step") [run.step] = rest;
		else if (what === "publish") publish(run, rest[0]);
		else if (what === "instant") instant(run);
		else if (typeof what === "function") what();
		else if (what !== "pause") push(run, what);
	}
}

function publish(run, summary) {
	const { chat } = run;
	const parent = chat.versions.at(-1)?.id;
	const version = { id: newId("ver_"), parent, run_id: run.id, summary, created_at: now() };
	chat.versions.push(version);
	push(run, { type: "version_created", version: version.id, parent, summary, files: chat.files.size });
	push(run, { type: "preview_url", ...preview(chat), kind: "built" });
}

/** The files as they are now can be looked at. */
function instant(run) {
	const text = JSON.stringify([...run.files]);
	const revision = createHash("sha256").update(text).digest("hex").slice(0, 16);
	const { url, host } = preview(run.chat);
	push(run, { type: "preview_url", url: `${url}?instant=${revision}`, host, kind: "instant", revision });
}

function preview(chat) {
	const host = `app-${chat.project.slice(4, 12)}.localhost:${port}`;
	const version = chat.versions.at(-1)?.id;
	return { url: `http://${host}/`, host, ...(version ? { version } : {}) };
}

// ---- views

const runView = (run) => ({
	id: run.id,
	chat_id: run.chat.id,
	project_id: run.chat.project,
	status: run.status,
	title: run.title,
	stop_reason: run.stop,
	last_seq: run.log.length,
	created_at: run.at,
	started_at: run.started,
	ended_at: run.ended,
});
const chatView = (chat) => ({
	id: chat.id,
	project_id: chat.project,
	title: chat.title,
	created_at: chat.at,
	updated_at: chat.runs.at(-1)?.ended ?? chat.runs.at(-1)?.at ?? chat.at,
	run: chat.runs.length ? runView(chat.runs.at(-1)) : undefined,
});
const detail = (chat) => ({
	chat: chatView(chat),
	messages: chat.runs.map((run) => ({
		id: `msg_${run.id}`,
		role: "user",
		text: run.title,
		run_id: run.id,
		created_at: run.at,
	})),
	runs: chat.runs.map(runView),
	preview: preview(chat),
});
const fileView = ([path, body]) => ({
	path,
	bytes: Buffer.byteLength(body),
	sha256: createHash("sha256").update(body).digest("hex"),
	by: "model",
});
const accepted = (run) => ({
	chat_id: run.chat.id,
	message_id: `msg_${run.id}`,
	run_id: run.id,
	project_id: run.chat.project,
});
const SYSTEM = {
	version: "0.1.0",
	model: { provider: "demo", name: "demo" },
	demo: true,
	sandbox: { level: "full", features: [] },
	template: "react-vite",
};

// ---- the door

function problem(response, status, code, detail, action) {
	response.writeHead(status, { "Content-Type": "application/problem+json" });
	response.end(JSON.stringify({ type: `about:blank#${code}`, title: code, status, code, detail, action }));
}

function json(response, body, status = 200) {
	response.writeHead(status, { "Content-Type": "application/json", "Cache-Control": "no-store" });
	response.end(body === undefined ? undefined : JSON.stringify(body));
}

async function bodyOf(request) {
	let text = "";
	for await (const chunk of request) text += chunk;
	return text === "" ? {} : JSON.parse(text);
}

async function api(request, response, url) {
	const [, , kind, id, sub, ...rest] = url.pathname.split("/").map(decodeURIComponent);
	const way = `${request.method} ${kind}${id ? "/:id" : ""}${sub ? `/${sub}` : ""}`;
	if (way === "POST session") {
		if ((await bodyOf(request)).code !== "demo")
			return problem(response, 401, "bad_code", "This link has expired.", "Print another.");
		response.writeHead(204, { "Set-Cookie": "baton_session=1; HttpOnly; SameSite=Strict; Path=/" });
		return response.end();
	}
	if (process.env.SIGNED_OUT && !request.headers.cookie?.includes("baton_session=1")) {
		return problem(
			response,
			401,
			"signed_out",
			"This browser is not signed in.",
			"Open the link that `baton up` printed.",
		);
	}
	const chat = kind === "chats" && id ? chats.get(id) : [...chats.values()].find((known) => known.project === id);
	switch (way) {
		case "GET system":
			return json(response, SYSTEM);
		case "GET stream":
			return stream(request, response, url.searchParams.get("cursors") ?? "");
		case "GET chats":
			return json(response, { items: [...chats.values()].reverse().map(chatView) });
		case "POST chats": {
			const { text } = await bodyOf(request);
			const files = new Map([
				["index.html", '<!doctype html>\n<div id="root"></div>\n<script type="module" src="/src/main.tsx"></script>\n'],
				["package.json", '{\n  "name": "app",\n  "private": true\n}\n'],
				[
					"src/main.tsx",
					'import { createRoot } from "react-dom/client";\nimport App from "./App";\nimport "./index.css";\n',
				],
			]);
			const fresh = {
				id: newId("chat_"),
				project: newId("prj_"),
				title: text.slice(0, 80),
				at: now(),
				runs: [],
				versions: [],
				files,
			};
			chats.set(fresh.id, fresh);
			return json(response, accepted(accept(fresh, text, request.headers["idempotency-key"])), 202);
		}
		case "POST chats/:id/messages": {
			if (chat?.runs.some((run) => !run.ended)) {
				return problem(
					response,
					429,
					"chat_busy",
					"This chat is at work.",
					"Wait until the run has ended, or stop it.",
				);
			}
			return json(
				response,
				accepted(accept(chat, (await bodyOf(request)).text, request.headers["idempotency-key"])),
				202,
			);
		}
		case "POST runs/:id/preview-problems": {
			const { revision, blank, message } = await bodyOf(request);
			push(runs.get(id), { type: "preview_problem", code: blank ? "blank_page" : "exception", message, revision });
			return json(response, undefined, 204);
		}
		case "POST runs/:id/retry": {
			const former = [...chats.values()].find((known) => known.runs.some((run) => run.id === id));
			const asked = runs.get(id).log.find((event) => event.type === "session").request;
			return json(response, accepted(accept(former, asked, request.headers["idempotency-key"])), 202);
		}
		case "POST runs/:id/cancel": {
			const run = runs.get(id);
			push(run, { type: "cancel_requested", by: "user" });
			run.cancelled = true;
			return json(response, runView(run));
		}
	}
	if (!chat)
		return problem(response, 404, "not_found", "There is nothing under this address.", "Go back to the list of chats.");
	if (way === "GET chats/:id") return json(response, detail(chat));
	if (way === "GET projects/:id/versions") return json(response, { items: [...chat.versions].reverse() });
	if (way === "GET projects/:id/files") {
		const path = rest.join("/");
		if (path === "") return json(response, { project_id: id, files: [...chat.files].sort().map(fileView) });
		response.writeHead(200, { "Content-Type": "text/plain; charset=utf-8" });
		return response.end(chat.files.get(path) ?? "");
	}
	return problem(response, 404, "not_found", "There is nothing under this address.", "");
}

function stream(request, response, cursors) {
	const at = new Map(cursors.split(",").map((cursor) => [cursor.split(":")[0], Number(cursor.split(":")[1])]));
	for (const [id, seq] of at) {
		if (!runs.has(id) || seq > runs.get(id).log.length)
			return problem(response, 400, "bad_cursor", "No such place.", "Read from the beginning.");
	}
	response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
	response.write(": hello\n\n");
	const reader = {
		response,
		look() {
			for (const [id, seq] of at) {
				const { log } = runs.get(id);
				const fresh = log.slice(seq);
				at.set(id, log.length);
				for (const event of fresh)
					response.write(`id: ${id}:${event.seq}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
			}
		},
	};
	streams.add(reader);
	reader.look();
	const beat = setInterval(() => response.write(": beat\n\n"), 15_000);
	request.on("close", () => {
		clearInterval(beat);
		streams.delete(reader);
	});
}

const PREVIEW = (title, dark, revision) => `<!doctype html><meta charset="utf-8"><title>${title}</title>
<script src="/@baton/page.js"${revision ? ` data-revision="${revision}"` : ""}></script>
<style>body{font:16px system-ui;margin:0;padding:48px 32px;${dark ? "background:#111;color:#eee" : "background:#fafafa"}}main{max-width:460px;margin:auto}
h1{margin:0 0 4px}p{margin:0 0 24px;color:#888}form{display:flex;gap:8px}input:not([type]){flex:1;font:inherit;padding:10px 12px;border:1px solid #8886;border-radius:10px;background:transparent;color:inherit}
button{font:inherit;padding:0 18px;border:0;border-radius:10px;background:#4f46e5;color:#fff}ul{list-style:none;padding:0;margin-top:20px}li{padding:12px;border:1px solid #8884;border-radius:10px;margin-bottom:8px}</style>
<main><h1>${title}</h1><p>2 left to do</p><form><input placeholder="What needs doing?"><button>Add</button></form>
<ul><li><label><input type="checkbox"> Water the plants</label></li><li><label><input type="checkbox"> Write to Ada</label></li></ul></main>
<script>document.querySelector("input").focus()</script>`;

async function page(response, url) {
	const path = normalize(url.pathname);
	const file = extname(path) ? path : "/index.html";
	const body = await readFile(join(dist, file)).catch(() => undefined);
	if (!body) return problem(response, 404, "not_found", "Run `npm run build` first.", "");
	response.writeHead(200, {
		"Content-Type": `${TYPES[extname(file)] ?? "application/octet-stream"}; charset=utf-8`,
		"Content-Security-Policy": CSP,
	});
	response.end(body);
}

createServer((request, response) => {
	const url = new URL(request.url, "http://127.0.0.1");
	if (Date.now() < downUntil) return request.socket.destroy();
	if (url.pathname === "/fake/cut" || url.pathname === "/fake/down") {
		downUntil = Date.now() + Number(url.searchParams.get("ms") ?? 0);
		for (const reader of streams) reader.response.destroy();
		return response.end();
	}
	const project = /^app-(\w+)\.localhost/.exec(request.headers.host ?? "")?.[1];
	if (project) {
		const chat = [...chats.values()].find((known) => known.project.startsWith(`prj_${project}`));
		if (url.pathname === "/@baton/page.js") {
			response.writeHead(200, { "Content-Type": "text/javascript" });
			return void readFile(PAGE_SCRIPT).then((script) => response.end(script));
		}
		const files = chat ? [...chat.files.values()].join("") : "";
		const body = PREVIEW("To-do list", files.includes("color-scheme: dark"), url.searchParams.get("instant"));
		const thrown = "<script>setTimeout(() => { undefined.items.map }, 300)</script>";
		response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" });
		return response.end(/throws/.test(chat?.title) ? body + thrown : body);
	}
	const answer = url.pathname.startsWith("/v1/") ? api(request, response, url) : page(response, url);
	answer.catch((reason) => problem(response, 500, "fault", String(reason), ""));
}).listen(port, "127.0.0.1", () => console.warn(`stand-in server: http://127.0.0.1:${port}/`));

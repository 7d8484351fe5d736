// Logs for tests: a run with everything in it, as a server would send it, and the same log as other readers may get it.

import type { components } from "../contract";
import type { Envelope, Event, EventOf } from "./state";

const MODEL = { provider: "demo", name: "demo" } as const;
export const RUN = "run_00000000000000000000000001";

/** Numbers events from 1, gapless. */
export class Log {
	readonly envelopes: Envelope[] = [];
	private step: string | undefined;
	private attempt = 1;

	at(step: string | undefined, attempt = 1): this {
		this.step = step;
		this.attempt = attempt;
		return this;
	}

	push(...events: Event[]): this {
		for (const event of events) {
			const seq = this.envelopes.length + 1;
			const place = this.step ? { step_id: this.step, attempt: this.attempt } : {};
			this.envelopes.push({ v: 1, stream_id: RUN, run_id: RUN, seq, at: 1_000 * seq, ...place, ...event });
		}
		return this;
	}

	step_state(state: components["schemas"]["StepStatus"], reason?: string): this {
		const id = this.step ?? "";
		return this.push({ type: "step_state", id, state, of_attempt: this.attempt, ...(reason ? { reason } : {}) });
	}

	file(path: string, text: string, pieces: number): this {
		this.push({ type: "file_started", path });
		this.deltas(path, text, pieces);
		return this.push({ type: "file_completed", path, bytes: bytes(text), sha256: `sha-of-${path}`, by: "model" });
	}

	deltas(path: string, text: string, pieces: number): this {
		for (const [offset, piece] of cut(text, pieces)) this.push({ type: "file_delta", path, offset, text: piece });
		return this;
	}
}

function bytes(text: string): number {
	return new TextEncoder().encode(text).length;
}

/** Cuts a text into about `pieces` pieces, between characters as the server does, with the byte offset of each. */
export function cut(text: string, pieces: number): [number, string][] {
	const characters = [...text];
	const size = Math.max(1, Math.ceil(characters.length / pieces));
	const out: [number, string][] = [];
	let offset = 0;
	for (let i = 0; i < characters.length; i += size) {
		const piece = characters.slice(i, i + size).join("");
		out.push([offset, piece]);
		offset += bytes(piece);
	}
	return out;
}

/** That the files can be looked at as they are. */
export function instant(revision: string): EventOf<"preview_url"> & { revision: string } {
	const host = "a.localhost:7420";
	return { type: "preview_url", url: `http://${host}/?instant=${revision}`, host, kind: "instant", revision };
}

/** A run in which a turn is attempted twice, a build fails, a second turn mends it and a version is published. */
export function sampleRun(): Envelope[] {
	const code = `export const é = "😀";\n`.repeat(400);
	const log = new Log();
	const step = (id: string, kind: components["schemas"]["StepKind"], title: string) =>
		log.push({ type: "step_added", id, kind, title, depends_on: [], critical: true });

	log.push({ type: "run_queued", position: 0 }, { type: "run_started", worker: "w1", epoch: 1 });
	step("turn-1", "turn", "Write the app");
	log.at("turn-1", 1).step_state("running").push({ type: "turn_started", turn: 1, model: MODEL });
	log.push({ type: "thinking_started" }, { type: "thinking_delta", text: "lost " }, { type: "thinking_ended" });
	log.file("src/kept.ts", "kept\n", 2).push({ type: "file_started", path: "src/lost.ts" });
	log.deltas("src/lost.ts", "never ended", 3).step_state("retrying", "the connection broke");
	log.at("turn-1", 2).step_state("running").push({ type: "turn_started", turn: 1, model: MODEL });
	log.push({ type: "thinking_started" });
	for (const [, text] of cut("Let me think about this.\n".repeat(300), 200)) log.push({ type: "thinking_delta", text });
	log.push({ type: "thinking_ended" });
	for (const [, text] of cut("Here is the **app**.\n\n```ts\nlet a;\n\nlet b;\n```\n\n".repeat(200), 300)) {
		log.push({ type: "text_delta", text });
	}
	log.file("src/App.tsx", code, 120);
	log.push({
		type: "tool_requested",
		call_id: "turn-1.2.1",
		ordinal: 1,
		input: { tool: "install", packages: ["zod"] },
	});
	log.push({ type: "tool_started", call_id: "turn-1.2.1" }, { type: "file_started", path: "src/b.css" });
	for (const [offset, text] of cut("b { color: red }\n".repeat(30), 40)) {
		log.push({ type: "file_delta", path: "src/b.css", offset, text });
		log.push({ type: "tool_output", call_id: "turn-1.2.1", stream: "stdout", text: `line ${offset}\n`.repeat(800) });
	}
	log.push({ type: "file_completed", path: "src/b.css", bytes: 510, sha256: "b", by: "model" }).at(undefined);
	log.push(instant("00000000000000a1")).at("turn-1", 2);
	const done = { status: "succeeded", output: "", duration_ms: 9, replayed: false } as const;
	log.push({ type: "tool_finished", call_id: "turn-1.2.1", exit_code: 0, ...done });
	log.push({ type: "file_completed", path: "package.json", bytes: 1, sha256: "c", by: "command" });
	log.push({ type: "turn_completed", turn: 1, finish: "stop", done: false, bytes: 9 }).step_state("completed");
	log.at(undefined);
	step("build-1", "build", "Build");
	log.at("build-1").step_state("running").push({ type: "build_status", status: "building", build_id: "build-1.1" });
	log.push({ type: "tool_output", call_id: "build-1.1", stream: "stderr", text: "error TS2304\n" });
	const error = { code: "build_failed", message: "The build failed.", log_tail: "error TS2304" };
	log.push({ type: "build_status", status: "failed", build_id: "build-1.1", duration_ms: 700, error });
	log.step_state("failed", "The build failed.").at(undefined);
	step("turn-2", "turn", "Mend the build");
	log.at("turn-2").step_state("running").push({ type: "turn_started", turn: 2, model: MODEL });
	const blocks = [{ search: "red", replace: "blue" }];
	log.push({ type: "file_edited", path: "src/b.css", blocks, bytes: 540, sha256: "b2" });
	log.push({ type: "file_deleted", path: "src/kept.ts", by: "model" });
	log.push({ type: "file_rejected", path: "../x", code: "outside", reason: "outside of the project" });
	log.step_state("completed").at(undefined);
	log.push({ type: "preview_problem", code: "exception", message: "late", revision: "00000000000000a1" });
	log.push({ type: "preview_problem", code: "syntax_error", message: "Unexpected token" });
	log.push(instant("00000000000000a2")).at("publish-1");
	log.push({ type: "version_created", version: "ver_1", summary: "An app", files: 3 });
	const host = "a.localhost:7420";
	log.push({ type: "preview_url", url: `http://${host}/`, host, version: "ver_1", kind: "built" }).at(undefined);
	return log.push({ type: "run_completed", stop_reason: "done", result: "Done." }).envelopes;
}

/** A generator of numbers in [0, 1) that gives the same ones for the same seed. */
export function seeded(seed: number): () => number {
	let state = seed >>> 0;
	return () => {
		state = (state + 0x6d2b79f5) >>> 0;
		let t = Math.imul(state ^ (state >>> 15), 1 | state);
		t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
		return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
	};
}

/** The same log with neighbouring deltas of one stream merged here and there, as for a slow reader. */
export function merged(envelopes: readonly Envelope[], random: () => number): Envelope[] {
	const out: Envelope[] = [];
	for (const next of envelopes) {
		const last = out.at(-1);
		const joined = last && random() < 0.7 ? join(last, next) : undefined;
		if (joined) out[out.length - 1] = joined;
		else out.push(next);
	}
	return out;
}

function join(a: Envelope, b: Envelope): Envelope | undefined {
	if (a.step_id !== b.step_id || a.attempt !== b.attempt) return undefined;
	const span = { from_seq: a.from_seq ?? a.seq, seq: b.seq };
	if (a.type === "text_delta" && b.type === "text_delta") return { ...a, ...span, text: a.text + b.text };
	if (a.type === "thinking_delta" && b.type === "thinking_delta") return { ...a, ...span, text: a.text + b.text };
	if (a.type === "file_delta" && b.type === "file_delta" && a.path === b.path) {
		return { ...a, ...span, text: a.text + b.text };
	}
	if (a.type === "tool_output" && b.type === "tool_output" && a.call_id === b.call_id) {
		return { ...a, ...span, text: a.text + b.text };
	}
	return undefined;
}

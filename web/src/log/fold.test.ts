// What must hold of fold and its texts, whatever the network does to a log (E21, E26).

import { describe, expect, it, vi } from "vitest";
import { fold, OUTPUT_KEPT, place } from "./fold";
import { byLine, byParagraph, EMPTY, type Growing, grow, PIECE_MOST, textFrom, utf8Length, whole } from "./growing";
import { cut, instant, Log, merged, RUN, sampleRun, seeded } from "./sample";
import type { Envelope, Event, Item, Run } from "./state";
import { unread } from "./state";

const read = (envelopes: readonly Envelope[], from: Run = unread(RUN)): Run => envelopes.reduce(fold, from);
const ofKind = <K extends Item["kind"]>(run: Run, kind: K) =>
	run.items.filter((item): item is Extract<Item, { kind: K }> => item.kind === kind);

describe("a log gives one state", () => {
	const log = sampleRun();
	const expected = read(log);

	it("however its deltas were merged, repeated, replayed or delivered too early (E21)", () => {
		for (let seed = 1; seed <= 60; seed++) {
			const random = seeded(seed);
			let run = unread(RUN);
			const stream = merged(log, random);
			for (let i = 0; i < stream.length; i++) {
				run = fold(run, stream[i] as Envelope);
				if (random() < 0.2) run = fold(run, stream[i] as Envelope);
				if (random() < 0.1) run = stream.slice(Math.floor(random() * i), i).reduce(fold, run);
				const early = stream[i + 2 + Math.floor(random() * 9)];
				if (early && random() < 0.1) expect(fold(run, early)).toBe(run);
			}
			expect(run).toEqual(expected);
		}
	});

	it("wherever the connection broke: the rest may come merged differently", () => {
		for (let seed = 1; seed <= 30; seed++) {
			const random = seeded(seed);
			const first = read(merged(log, random).slice(0, Math.floor(random() * log.length)));
			const rest = merged(log.slice(first.seq), random);
			expect(read(rest, first)).toEqual(expected);
		}
	});
});

describe("places", () => {
	it("tells the next event from a repeated and a missing one, merged ones too", () => {
		const table: [number, number, number | undefined, string][] = [
			[0, 1, undefined, "next"],
			[4, 4, undefined, "seen"],
			[4, 3, undefined, "seen"],
			[4, 6, undefined, "gap"],
			[4, 9, 5, "next"],
			[4, 9, 6, "gap"],
			[4, 9, 4, "gap"],
			[9, 9, 5, "seen"],
		];
		for (const [last, seq, from_seq, expected] of table) expect(place(last, { seq, from_seq })).toBe(expected);
	});
});

describe("what the page shows", () => {
	const log = sampleRun();
	const run = read(log);

	it("forgets what a former attempt streamed and keeps the files that it completed", () => {
		expect(ofKind(run, "thinking")).toHaveLength(1);
		expect(ofKind(run, "file").some((file) => file.path === "src/lost.ts")).toBe(false);
		expect(ofKind(run, "notice").map((notice) => notice.message)).toEqual([
			"Write the app, attempt 2: the connection broke",
		]);
		const second = log.findIndex((event) => event.type === "step_state" && event.attempt === 2);
		const then = read(log.slice(0, second + 1));
		expect([...then.files.keys()]).toEqual(["src/kept.ts"]);
		expect(then.open.size).toBe(0);
		expect(then.items.map((item) => item.kind)).toEqual(["notice"]);
	});

	it("counts a file's bytes and lines while it grows", () => {
		const app = ofKind(run, "file").find((file) => file.path === "src/App.tsx");
		const text = `export const é = "😀";\n`.repeat(400);
		expect(app).toMatchObject({ state: "written", bytes: utf8Length(text), lines: 400 });
	});

	it("gives a tool's output to its card and a build's to the build, and caps it", () => {
		const [install] = ofKind(run, "tool");
		expect(install).toMatchObject({ state: "succeeded" });
		const output = install?.output as Growing;
		expect(output.dropped).toBeGreaterThan(0);
		expect(whole(output).length).toBeLessThan(OUTPUT_KEPT + PIECE_MOST);
		const [build] = ofKind(run, "build");
		expect(build).toMatchObject({ state: "failed", durationMs: 700, error: { code: "build_failed" } });
		expect(whole(build?.output as Growing)).toBe("error TS2304\n");
	});

	it("ends with the outcome, the preview and no text of files", () => {
		expect(run).toMatchObject({
			status: "completed",
			stopReason: "done",
			preview: { version: "ver_1" },
			seq: log.length,
		});
		expect([...run.files.values()].every((file) => file.text === undefined)).toBe(true);
		expect(run.files.get("src/kept.ts")?.gone).toBe(true);
	});

	it("tells what a person changed by hand, and what was put back only as files", () => {
		const file = (path: string, by: "person" | "restored") =>
			({ type: "file_completed", path, bytes: 1, sha256: path, by }) as const;
		const log = new Log().push(
			file("was.ts", "restored"),
			{ type: "file_deleted", path: "gone.ts", by: "person" },
			file("a.ts", "person"),
			file("b.ts", "person"),
		);
		const run = read(log.envelopes);
		expect(run.items.map((item) => item.kind)).toEqual(["file", "wrote"]);
		expect(ofKind(run, "wrote")).toMatchObject([{ by: "person", paths: ["a.ts", "b.ts"] }]);
		expect([...run.files].filter(([, now]) => !now.gone).map(([path]) => path)).toEqual(["was.ts", "a.ts", "b.ts"]);
	});

	it("keeps what can be looked at, at once and built, and which of them is newer (E20)", () => {
		expect(run.instant?.revision).toBe("00000000000000a2");
		expect(run.built?.version).toBe("ver_1");
		expect(run.preview).toBe(run.built);
		const last = log.findLastIndex((event) => event.type === "preview_url" && event.kind === "instant");
		const before = read(log.slice(0, last + 1));
		expect(before.preview).toBe(before.instant);
		expect(before.built).toBeUndefined();
		expect(ofKind(run, "shown")).toHaveLength(1);
	});

	it("tells problems of the files and of the page as they are now, until there is another page (N7)", () => {
		const told = (...events: Event[]) => {
			const log = new Log().push({ type: "run_started", worker: "w", epoch: 1 }, ...events);
			const { problems, items } = read(log.envelopes);
			return [problems.map(({ message }) => message), items.map((item) => "past" in item && item.past)];
		};
		const problem = (message: string, revision?: string) =>
			({ type: "preview_problem", code: revision ? "exception" : "syntax_error", message, revision }) as const;
		const [a, b] = [instant("a"), instant("b")];
		const built = { ...a, kind: "built", revision: null, version: "ver_1" } as const;
		expect(told(problem("half"), problem("other"))[0]).toEqual(["half", "other"]);
		expect(told(problem("half"), a)).toEqual([[], [true, false]]);
		expect(told(a, problem("thrown", "a"))).toEqual([["thrown"], [false, false]]);
		expect(told(a, problem("thrown", "a"), problem("thrown", "a"))).toEqual([["thrown"], [false, false]]);
		expect(told(a, problem("thrown", "a"), b)).toEqual([[], [false, true]]);
		expect(told(a, b, problem("thrown", "a"))).toEqual([[], [false, true]]);
		expect(told(a, problem("thrown", "a"), built)).toEqual([[], [false, true]]);
		expect(told(a, problem("half"), a)).toEqual([[], [false, true]]);
		expect(told(a, problem("thrown", "a"), a)).toEqual([["thrown"], [false, false]]);
	});

	it("says when there was something on the screen, which a blank page is not (E26)", () => {
		const blank = { type: "preview_problem", code: "blank_page", message: "x", revision: "a" } as const;
		const shown = (...events: Event[]) =>
			ofKind(read(new Log().push({ type: "run_started", worker: "w", epoch: 1 }, ...events).envelopes), "shown").map(
				({ revision, afterMs }) => [revision, afterMs],
			);
		expect(shown(instant("a"), instant("b"))).toEqual([["a", 1_000]]);
		expect(shown(instant("a"), blank)).toEqual([]);
		expect(shown(instant("a"), blank, instant("b"))).toEqual([["b", 3_000]]);
		expect(shown(instant("a"), instant("b"), blank)).toEqual([]);
	});

	it("does not cut a text in two where something came about beside it", () => {
		const log = new Log().push({ type: "run_started", worker: "w", epoch: 1 }).at("turn-1");
		log.push({ type: "text_delta", text: "one **sen" }).at(undefined).push(instant("a")).at("turn-1");
		const { items } = read(log.push({ type: "text_delta", text: "tence**" }).envelopes);
		expect(items.map((item) => (item.kind === "prose" ? whole(item.text) : item.kind))).toEqual([
			"shown",
			"one **sentence**",
		]);
	});

	it("does not leave anything running when the run ends in the middle", () => {
		const cancelled = new Log().push({ type: "run_started", worker: "w", epoch: 1 }).at("turn-1");
		cancelled.push({ type: "thinking_started" }, { type: "file_started", path: "a" });
		const input = { tool: "command", command: "sleep", args: ["9"] } as const;
		cancelled.push({ type: "tool_requested", call_id: "c", ordinal: 1, input: { ...input, args: ["9"] } });
		cancelled.push({ type: "build_status", status: "building", build_id: "b" });
		cancelled.at(undefined).push({ type: "run_cancelled", by: "user" });
		const states = read(cancelled.envelopes).items.map((item) => ("state" in item ? item.state : undefined));
		expect(states).toEqual([undefined, "rejected", "interrupted", "stopped"]);
	});

	it("passes over an event of a type that it does not know, and goes on (E26)", () => {
		const said = vi.spyOn(console, "debug").mockImplementation(() => {});
		const [first, second] = new Log().push(
			{ type: "run_queued", position: 0 },
			{ type: "status", message: "on" },
		).envelopes;
		for (const type of ["room_opened", "constructor", "toString"]) {
			const run = read([{ ...(first as object), type } as unknown as Envelope, second as Envelope]);
			expect(run).toMatchObject({ seq: 2, message: "on" });
		}
		expect(said).toHaveBeenCalledTimes(3);
		said.mockRestore();
	});
});

describe("growing text", () => {
	it("has the same pieces however it came, none larger than the most, and no split character", () => {
		const prose = `A paragraph of some length.\n\n\`\`\`ts\n${"let a = 1;\n\n".repeat(700)}\`\`\`\n\n`.repeat(3);
		const texts = [prose, "é😀 ".repeat(60_000), `${"x".repeat(PIECE_MOST - 1)}😀${"y".repeat(10)}`, "short"];
		for (const text of texts) {
			for (const rule of [byLine, byParagraph]) {
				const once = grow(EMPTY, text, rule);
				expect(whole(once)).toBe(text);
				for (const piece of once.pieces) {
					expect(piece.length).toBeLessThanOrEqual(PIECE_MOST);
					expect(piece.isWellFormed()).toBe(true);
				}
				for (const pieces of [7, 333]) {
					expect(cut(text, pieces).reduce((grown, [, piece]) => grow(grown, piece, rule), EMPTY)).toEqual(once);
				}
			}
		}
	});

	it("gives what stands behind an offset", () => {
		const text = "0123456789\n".repeat(3_000);
		const grown = grow(EMPTY, text, byLine);
		for (const offset of [0, 1, 4_096, 9_999, text.length - 1, text.length]) {
			expect(textFrom(grown, offset)).toBe(text.slice(offset));
		}
		expect(textFrom(grown, text.length + 1)).toBeUndefined();
		expect(textFrom(grow(EMPTY, text, byLine, 8_192), 0)).toBeUndefined();
	});
});

it("reads 100,000 events in a time that grows with their number", () => {
	const time = (events: number) => {
		const log = new Log().at("turn-1").push({ type: "file_started", path: "a" });
		for (let i = 0; i < events; i++) log.push({ type: "file_delta", path: "a", offset: i * 12, text: "let a = 1; \n" });
		const start = performance.now();
		read(log.envelopes);
		return performance.now() - start;
	};
	time(10_000);
	const [small, large] = [time(10_000), time(100_000)];
	// Ten times the events; a fold that was quadratic would take a hundred times as long.
	expect(large).toBeLessThan(40 * Math.max(small, 5));
});

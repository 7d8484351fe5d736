// Which page is the newest, and what is told beside it.

import { describe, expect, it } from "vitest";
import type { components } from "../../contract";
import { fold } from "../../log/fold";
import { instant, Log, RUN } from "../../log/sample";
import { type Event, unread } from "../../log/state";
import { newest } from "./page";
import { toTell } from "./problems";
import { act, EMPTY_STAGE, type Stage } from "./stage";

const read = (...events: Event[]) =>
	new Log().push({ type: "run_started", worker: "w", epoch: 1 }, ...events).envelopes.reduce(fold, unread(RUN));
const ADDRESS = { url: "http://a.localhost:9000/", host: "a.localhost:9000" };
const BUILT = {
	...instant("x"),
	url: "http://a.localhost:7420/",
	kind: "built",
	revision: null,
	version: "ver_1",
} as const;
const OVER = { type: "run_cancelled", by: "user" } as const;

describe("the newest page", () => {
	const of = (runs: Parameters<typeof newest>[0], version?: string) => {
		const page = newest(runs, { ...ADDRESS, ...(version ? { version } : {}) });
		return page && [page.kind, page.src, page.final];
	};

	it("is what the latest run that made one says, at the address where the server is now (E20)", () => {
		const at = "http://a.localhost:9000/";
		expect(of([read()])).toBeUndefined();
		expect(of([undefined], "ver_0")).toEqual(["built", at, true]);
		expect(of([read(instant("a"))])).toEqual(["instant", `${at}?instant=a`, false]);
		expect(of([read(instant("a"), OVER)])).toEqual(["instant", `${at}?instant=a`, true]);
		expect(of([read(instant("a"), BUILT)])).toEqual(["built", at, true]);
		expect(of([read(BUILT), read(instant("a"))])).toEqual(["instant", `${at}?instant=a`, false]);
		expect(of([read(BUILT), read()])).toEqual(["built", at, true]);
		expect(newest([read(instant("a"))], undefined)?.src).toBe("http://a.localhost:7420/?instant=a");
	});

	it("is never at an address that is not a web page's", () => {
		for (const url of ["javascript:alert(1)", "data:text/html,x", "", "//x"]) {
			const host = "x";
			expect(newest([read({ ...BUILT, url, host })], { url, host })).toBeUndefined();
		}
	});
});

describe("what is told beside a preview", () => {
	const problem = (code: string, message: string, more: Partial<components["schemas"]["PreviewProblem"]> = {}) =>
		({ type: "preview_problem", code, message, ...more }) as const;
	const place = { path: "src/App.tsx", line: 12, column: 5 };
	/** The page of a run on the stage, which reported these. */
	const staged = (run: ReturnType<typeof read>, ...messages: string[]) => {
		const page = newest([run], ADDRESS);
		const acts = [
			page && ({ type: "wanted", page } as const),
			...messages.map((message) => ({ type: "problem", frame: 0, problem: { blank: false, message } }) as const),
			{ type: "painted", frame: 0 } as const,
		];
		const stage = acts.reduce<Stage>((before, what) => (what ? act(before, what, 0) : before), EMPTY_STAGE);
		return (dismissed: string[] = []) => toTell(stage, page, run, new Set(dismissed));
	};

	it("is an error of the code with its place, and that the last good page stays (E20)", () => {
		const tell = staged(read(instant("a"), problem("syntax_error", "Unexpected token", { place })));
		expect(tell()).toMatchObject({ kind: "code", message: "Unexpected token", place, stays: true, mine: false });
		expect(staged(read(problem("syntax_error", "Unexpected token")))()).toMatchObject({ stays: false });
		expect(staged(read(problem("syntax_error", "Unexpected token"), instant("a")))()).toBeUndefined();
	});

	it("is what a page said, with the place that the log knows; and for the person to act on when the run is over", () => {
		const told = problem("exception", "TypeError: x", { place, revision: "a" });
		expect(staged(read(instant("a"), told), "TypeError: x")()).toMatchObject({ kind: "page", place, mine: false });
		const over = staged(read(instant("a"), told, OVER), "TypeError: x", "TypeError: y");
		expect(over()).toMatchObject({ message: "TypeError: x", others: 1, mine: true });
		expect(over(["TypeError: x"])).toMatchObject({ message: "TypeError: y", others: 0 });
		expect(over(["TypeError: x", "TypeError: y"])).toBeUndefined();
		expect(staged(read(instant("a"), BUILT), "TypeError: z")()).toMatchObject({ message: "TypeError: z", mine: true });
	});

	it("is, quietly, what only a build can show, as long as one may come", () => {
		const later = problem("unsupported", "CSS modules are shown after the build");
		expect(staged(read(later))()).toMatchObject({ kind: "later" });
		expect(staged(read(later, OVER))()).toBeUndefined();
		expect(staged(read(later, problem("syntax_error", "x")))()).toMatchObject({ kind: "code" });
	});
});

// Which page is on the stage and which one waits behind it. Pure: told the time, it says what to draw and when to look again.
//
// A page that comes loads behind the one that is shown and takes its place when it has painted, so that there is no white
// moment. While pages come fast, only the newest is begun, after a quiet moment. A page that leaves the screen blank while more
// is to come does not take the place of one that shows something.

import type { PageProblem } from "./message";
import type { Page } from "./page";

/** A page begins to load when none newer has come for this long … */
export const QUIET_MS = 400;
/** … and at the latest after this long; one that loads already has as long before a newer one takes over. */
export const LONGEST_MS = 1_500;
/** A page that says nothing takes its place this long after it has loaded. One that stays empty says so earlier. */
export const PATIENCE_MS = 6_000;
/** The same for a page that has nothing to take the place of. */
export const FIRST_PATIENCE_MS = 1_500;
/** Problems of one page that are kept. */
const PROBLEMS_MOST = 20;

export interface Frame {
	readonly id: number;
	readonly page: Page;
	/** The person asked for it, whatever it looks like. */
	readonly forced: boolean;
	readonly begunAt: number;
	readonly loadedAt?: number;
	readonly problems: readonly PageProblem[];
}

export interface Stage {
	/** Frames so far: the next one's id. */
	readonly begun: number;
	readonly shown?: Frame;
	/** Loads behind the one that is shown. */
	readonly next?: Frame;
	/** The newest page, as long as it has not begun; `since`: when the first of those that it took over from came. */
	readonly waiting?: { readonly page: Page; readonly since: number; readonly at: number };
}

export const EMPTY_STAGE: Stage = { begun: 0 };

export type Act =
	| { readonly type: "wanted"; readonly page: Page }
	| { readonly type: "loaded" | "painted"; readonly frame: number }
	| { readonly type: "problem"; readonly frame: number; readonly problem: PageProblem }
	| { readonly type: "reload" }
	| { readonly type: "time" };

/** The stage after something happened at a time, in milliseconds. */
export function act(stage: Stage, what: Act, now: number): Stage {
	switch (what.type) {
		case "wanted":
			return settle(wanted(stage, what.page, now), now);
		case "loaded":
			return settle(
				change(stage, what.frame, (frame) => ({ ...frame, loadedAt: frame.loadedAt ?? now })),
				now,
			);
		case "painted":
			return stage.next?.id === what.frame ? settle(promote(stage), now) : stage;
		case "problem":
			return settle(
				change(stage, what.frame, (frame) => withProblem(frame, what.problem)),
				now,
			);
		case "reload": {
			const page = stage.waiting?.page ?? stage.next?.page ?? stage.shown?.page;
			return page ? begin(stage, page, now, true) : stage;
		}
		case "time":
			return settle(stage, now);
	}
}

/** When time alone changes something, if it does. */
export function due(stage: Stage): number | undefined {
	const times = [beginsAt(stage), stage.next && promotedAt(stage, stage.next)].filter((time) => time !== undefined);
	return times.length > 0 ? Math.min(...times) : undefined;
}

function wanted(stage: Stage, page: Page, now: number): Stage {
	const { waiting, next, shown, ...rest } = stage;
	// The same page may become final while it is here.
	if (next?.page.key === page.key) return { ...stage, waiting: undefined, next: { ...next, page } };
	if (shown?.page.key === page.key) return { ...rest, shown: { ...shown, page } };
	if (waiting?.page.key === page.key) return { ...stage, waiting: { ...waiting, page } };
	return { ...stage, waiting: { page, since: waiting?.since ?? now, at: now } };
}

/** Does what is due. */
function settle(stage: Stage, now: number): Stage {
	let settled = stage;
	const { next } = settled;
	if (next && now >= (promotedAt(settled, next) ?? Number.POSITIVE_INFINITY)) settled = promote(settled);
	if (settled.waiting && now >= (beginsAt(settled) ?? Number.POSITIVE_INFINITY)) {
		settled = begin(settled, settled.waiting.page, now);
	}
	return settled;
}

function beginsAt({ shown, next, waiting }: Stage): number | undefined {
	if (!waiting) return undefined;
	if (waiting.page.final || (!shown && !next)) return waiting.at;
	const quiet = Math.min(waiting.at + QUIET_MS, waiting.since + LONGEST_MS);
	return next && !isBlank(next) ? Math.max(quiet, next.begunAt + LONGEST_MS) : quiet;
}

function promotedAt({ shown }: Stage, next: Frame): number | undefined {
	// What is built is what there is, even if it shows nothing.
	if (isBlank(next)) return next.page.final || next.forced ? 0 : undefined;
	if (next.loadedAt === undefined) return undefined;
	return next.loadedAt + (shown ? PATIENCE_MS : FIRST_PATIENCE_MS);
}

/** Whether the page said that nothing is on the screen. */
export function isBlank(frame: Frame): boolean {
	return frame.problems.some((problem) => problem.blank || problem.unstyled);
}

function withProblem(frame: Frame, problem: PageProblem): Frame {
	const known = frame.problems.some(({ blank, message }) => blank === problem.blank && message === problem.message);
	return known ? frame : { ...frame, problems: [...frame.problems, problem].slice(-PROBLEMS_MOST) };
}

function begin(stage: Stage, page: Page, now: number, forced = false): Stage {
	const next = { id: stage.begun, page, forced, begunAt: now, problems: [] };
	return { ...stage, begun: stage.begun + 1, next, waiting: undefined };
}

function promote({ next, ...stage }: Stage): Stage {
	return next ? { ...stage, shown: next } : stage;
}

function change(stage: Stage, id: number, to: (frame: Frame) => Frame): Stage {
	if (stage.next?.id === id) return { ...stage, next: to(stage.next) };
	if (stage.shown?.id === id) return { ...stage, shown: to(stage.shown) };
	return stage;
}

// What the preview says about problems: one thing at a time, the most useful first. Pure.

import type { components } from "../../contract";
import { isOver, type Run } from "../../log/state";
import { type PageProblem, placeOf } from "./message";
import type { Page } from "./page";
import { isBlank, type Stage } from "./stage";

type LogProblem = components["schemas"]["PreviewProblem"];

export interface Place {
	readonly path: string;
	readonly line?: number;
	readonly column?: number;
}

/** Something to tell beside the preview. */
export interface Told {
	/** `later`: only a build can show it. `code`: the files cannot be shown as they are. `page`: what is shown said so itself. */
	readonly kind: "later" | "code" | "page";
	readonly code: string;
	readonly message: string;
	readonly place?: Place;
	/** Problems beside this one. */
	readonly others: number;
	/** Whether what is shown is an earlier page than the one with the problem. */
	readonly stays: boolean;
	/** Whether nobody mends it by itself: the run is over. */
	readonly mine: boolean;
}

/** What is to be told of the newest page, without those problems whose words were `dismissed`. */
export function toTell(
	stage: Stage,
	page: Page | undefined,
	run: Run | undefined,
	dismissed: ReadonlySet<string>,
): Told | undefined {
	const over = run === undefined || isOver(run);
	const logged = run?.problems ?? [];
	const code = logged.filter(
		({ code, revision, message }) => code !== "unsupported" && !revision && !dismissed.has(message),
	);
	const latest = code.at(-1);
	if (latest) {
		const stays = stage.shown !== undefined;
		return { ...fromLog(latest), kind: "code", others: code.length - 1, stays, mine: over };
	}
	const frame = [stage.next, stage.shown].find((candidate) => candidate?.page.key === page?.key);
	const reported = frame?.problems.filter(({ message }) => !dismissed.has(message)) ?? [];
	const first = reported[0];
	if (frame && first) {
		const stays = frame === stage.next && stage.shown !== undefined && isBlank(frame) && !frame.page.final;
		const others = reported.length - 1;
		return { ...fromPage(first, logged), kind: "page", others, stays, mine: frame.page.final };
	}
	const later = logged.findLast(({ code, message }) => code === "unsupported" && !dismissed.has(message));
	if (!later || over) return undefined;
	return { ...fromLog(later), kind: "later", others: 0, stays: false, mine: false };
}

function fromLog({ code, message, place }: LogProblem) {
	return { code, message, ...(place ? { place } : {}) };
}

/** The log has the place in the file, if the run was told of the problem. */
function fromPage({ blank, message, at }: PageProblem, logged: readonly LogProblem[]) {
	const told = logged.findLast(
		(problem) => problem.revision && problem.place && message.startsWith(problem.message.slice(0, 200)),
	);
	const place = told?.place ?? (at && placeOf(at));
	return { code: blank ? "blank_page" : "exception", message, ...(place ? { place } : {}) };
}

export function placeText({ path, line, column }: Place): string {
	return line === undefined ? path : `${path}:${line}:${column}`;
}

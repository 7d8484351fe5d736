// What the page knows of one run: the fold of its events (fold.ts) and nothing else. Everything in here is read-only.

import type { components } from "../contract";
import type { Growing } from "./growing";

type Schemas = components["schemas"];
export type Event = Schemas["Event"];
export type Envelope = Schemas["Envelope"];
export type EventOf<T extends Event["type"]> = Extract<Event, { type: T }>;

export type RunStatus = Schemas["RunStatus"];

/** A part of the conversation, in the order in which it came about. `step` says which step's attempt it goes with. */
export type Item =
	| TurnItem
	| ProseItem
	| ThinkingItem
	| FileItem
	| WroteItem
	| ToolItem
	| BuildItem
	| StageItem
	| VersionItem
	| ShownItem
	| ProblemItem
	| NoticeItem;

interface Part {
	/** The place in the log of the event that made it. */
	readonly key: number;
	readonly step?: string;
}

/** The model is asked: the second and later turns read the results of the one before. */
export interface TurnItem extends Part {
	readonly kind: "turn";
	readonly turn: number;
	readonly finish?: Schemas["Finish"];
}

export interface ProseItem extends Part {
	readonly kind: "prose";
	readonly text: Growing;
}

export interface ThinkingItem extends Part {
	readonly kind: "thinking";
	readonly text: Growing;
	readonly startedAt: number;
	readonly endedAt?: number;
}

export type FileState = "writing" | "written" | "edited" | "deleted" | "renamed" | "rejected";

/** Something that the model did to a file. */
export interface FileItem extends Part {
	readonly kind: "file";
	readonly path: string;
	readonly state: FileState;
	readonly bytes: number;
	/** Line ends so far. */
	readonly lines: number;
	readonly blocks?: readonly Schemas["Replacement"][];
	readonly to?: string;
	readonly reason?: string;
}

/** Files that a command left behind, or that a person changed by hand. */
export interface WroteItem extends Part {
	readonly kind: "wrote";
	readonly by: "command" | "person";
	readonly paths: readonly string[];
}

/** A call of a tool. */
export interface ToolItem extends Part {
	readonly kind: "tool";
	readonly callId: string;
	readonly input: Schemas["ToolInput"];
	readonly state: "queued" | "running" | Schemas["ToolStatus"];
	readonly output: Growing;
	readonly startedAt?: number;
	readonly result?: Schemas["ToolFinished"];
}

export interface BuildItem extends Part {
	readonly kind: "build";
	readonly buildId: string;
	/** `stopped`: the run ended before the build did. */
	readonly state: Schemas["BuildState"] | "stopped";
	readonly output: Growing;
	readonly startedAt: number;
	readonly durationMs?: number;
	readonly error?: Schemas["BuildError"];
}

/** A check or a publication. */
export interface StageItem extends Part {
	readonly kind: "stage";
	readonly stage: "check" | "publish";
	readonly state: Schemas["StepStatus"];
	readonly reason?: string;
}

export interface VersionItem extends Part {
	readonly kind: "version";
	readonly version: string;
	readonly summary: string;
	readonly files: number;
}

/** The first page of the run that could be looked at, before anything was built. */
export interface ShownItem extends Part {
	readonly kind: "shown";
	readonly revision: string;
	/** Since the run began, in milliseconds. */
	readonly afterMs: number;
}

/** Why the files cannot be shown as they are, or what a page said went wrong in it. */
export interface ProblemItem extends Part {
	readonly kind: "problem";
	readonly problem: Schemas["PreviewProblem"];
	/** Whether a later page took its place. */
	readonly past: boolean;
}

/** Something to read: trouble, a warning, a step that starts again. */
export interface NoticeItem extends Part {
	readonly kind: "notice";
	readonly tone: "info" | "warning" | "error";
	readonly message: string;
	readonly code?: string;
	readonly action?: string;
}

export interface Step {
	readonly id: string;
	readonly kind: Schemas["StepKind"];
	readonly title: string;
	readonly state: Schemas["StepStatus"];
	/** 0 until it has started. */
	readonly attempt: number;
	/** What went wrong last. */
	readonly trouble?: string;
}

/** A file as this run left it; `gone` if it deleted or renamed it. */
export interface FileNow {
	readonly bytes: number;
	readonly sha256: string;
	readonly by?: Schemas["Author"];
	readonly gone?: boolean;
	/** The text, if the model wrote the whole file and the run has not ended. */
	readonly text?: Growing;
}

/** A file that is being written. */
export interface OpenFile {
	readonly step?: string;
	readonly bytes: number;
	readonly text: Growing;
}

export interface Run {
	readonly id: string;
	/** The last event that is in here; 0 if none is. */
	readonly seq: number;
	readonly status: RunStatus;
	readonly session?: Schemas["Session"];
	readonly queuedAt?: number;
	readonly startedAt?: number;
	readonly endedAt?: number;
	/** Runs that were before it in the queue. */
	readonly position: number;
	readonly phase?: Schemas["Phase"];
	/** The latest sentence about what is going on. */
	readonly message?: string;
	readonly cancelRequested: boolean;
	readonly stopReason?: Schemas["StopReason"];
	readonly result?: string;
	readonly failure?: Schemas["RunFailed"];
	/** The limit that stopped it. */
	readonly budget?: Schemas["Budget"];
	readonly steps: readonly Step[];
	readonly items: readonly Item[];
	readonly files: ReadonlyMap<string, FileNow>;
	readonly open: ReadonlyMap<string, OpenFile>;
	/** The newest thing of this run that can be looked at: `instant` or `built`, whichever came last. */
	readonly preview?: Schemas["PreviewUrl"];
	readonly instant?: Schemas["PreviewUrl"];
	readonly built?: Schemas["PreviewUrl"];
	/** What is wrong with the files or the page as they are now, oldest first. The next page clears it. */
	readonly problems: readonly Schemas["PreviewProblem"][];
	readonly tokens: Schemas["TokenCount"];
}

/** Whether nothing more will happen. */
export function isOver(run: Pick<Run, "status">): boolean {
	return run.status === "completed" || run.status === "failed" || run.status === "cancelled";
}

/** A run of which nothing is known yet. */
export function unread(id: string): Run {
	return {
		id,
		seq: 0,
		status: "queued",
		position: 0,
		cancelRequested: false,
		steps: [],
		items: [],
		files: new Map(),
		open: new Map(),
		problems: [],
		tokens: { input: 0, cached: 0, output: 0, reasoning: 0 },
	};
}

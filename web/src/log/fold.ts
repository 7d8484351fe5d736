// fold(run, envelope): the one place that says what an event means to the page. Pure: no clock, network or DOM, and the
// same state whatever was delivered twice, merged on the way or cut up by a lost connection (E21, E26).

import { byLine, byParagraph, EMPTY, grow, lineEnds, utf8Length } from "./growing";
import type {
	BuildItem,
	Envelope,
	Event,
	EventOf,
	FileItem,
	FileNow,
	Item,
	NoticeItem,
	ProblemItem,
	ProseItem,
	Run,
	Step,
	ThinkingItem,
	ToolItem,
} from "./state";
import { isOver } from "./state";

/** Output of one command or build that is kept, from its end. */
export const OUTPUT_KEPT = 256 * 1024;

/** Problems of one page that are kept; more than a person reads at once helps nobody. */
export const PROBLEMS_KEPT = 20;

/** How an envelope stands to what is already known. */
export type Place = "next" | "seen" | "gap";

/** Whether an envelope follows directly on `last`. A merged one begins at `from_seq`. */
export function place(last: number, envelope: Pick<Envelope, "seq" | "from_seq">): Place {
	if (envelope.seq <= last) return "seen";
	return (envelope.from_seq ?? envelope.seq) === last + 1 ? "next" : "gap";
}

/** The run after an event. What was seen before, or comes too early, changes nothing. */
export function fold(run: Run, envelope: Envelope): Run {
	if (place(run.seq, envelope) !== "next") return run;
	const handler = Object.hasOwn(handlers, envelope.type) ? (handlers[envelope.type] as Handler<Event>) : undefined;
	if (!handler) console.debug("event of an unknown type, passed over:", envelope.type);
	return { ...(handler ? handler(run, envelope, headOf(envelope)) : run), seq: envelope.seq };
}

/** Where an event came from. `key` is the first of merged events, so that merging changes nothing. */
interface Head {
	readonly key: number;
	readonly at: number;
	readonly step?: string;
	readonly attempt: number;
}

type Handler<E> = (run: Run, event: E, head: Head) => Run;

function headOf(envelope: Envelope): Head {
	return {
		key: envelope.from_seq ?? envelope.seq,
		at: envelope.at,
		...(envelope.step_id ? { step: envelope.step_id } : {}),
		attempt: envelope.attempt ?? 1,
	};
}

const unchanged = (run: Run): Run => run;

/** One handler for each type of event of the contract: a new type does not compile until it is thought about. */
const handlers: { [T in Event["type"]]: Handler<EventOf<T>> } = {
	run_queued: (run, event, head) => ({ ...run, queuedAt: head.at, position: event.position }),
	run_started: runStarted,
	cancel_requested: (run) => ({ ...run, cancelRequested: true }),
	timer_fired: unchanged,
	phase_change: (run, event) => ({ ...run, phase: event.phase, message: event.message }),
	status: (run, event) => ({ ...run, message: event.message }),
	run_completed: (run, event, head) => ({
		...ended(run, head, "completed"),
		stopReason: event.stop_reason,
		result: event.result,
	}),
	run_failed: (run, event, head) => ({ ...ended(run, head, "failed"), stopReason: "failed", failure: event }),
	run_cancelled: (run, _event, head) => ({ ...ended(run, head, "cancelled"), stopReason: "cancelled" }),

	step_added: (run, { id, kind, title }) =>
		run.steps.some((step) => step.id === id)
			? run
			: { ...run, steps: [...run.steps, { id, kind, title, state: "pending", attempt: 0 }] },
	step_state: stepState,
	step_retry: (run, event) => {
		const next = changeStep(run, event.id, { trouble: event.error });
		return { ...next, message: `Trying again in ${seconds(event.delay_ms)}: ${event.error}` };
	},

	session: (run, event) => ({ ...run, session: event }),

	turn_started: (run, event, head) => add(run, { kind: "turn", ...origin(head), turn: event.turn }),
	text_delta: textDelta,
	thinking_started: (run, _event, head) =>
		add(run, { kind: "thinking", ...origin(head), text: EMPTY, startedAt: head.at }),
	thinking_delta: (run, event, head) =>
		change<ThinkingItem>(run, openThinking(run, head), (item) => ({ text: grow(item.text, event.text, byLine) })),
	thinking_ended: (run, _event, head) => change(run, openThinking(run, head), () => ({ endedAt: head.at })),
	turn_completed: turnCompleted,
	element_rejected: (run, { element, code, reason }, head) =>
		notice(run, head, { tone: "warning", code, message: `Not acted on: ${element}. ${reason}` }),

	sandbox_started: unchanged,
	sandbox_ended: unchanged,
	file_started: fileStarted,
	file_delta: fileDelta,
	file_completed: fileCompleted,
	file_edited: (run, { path, blocks, bytes, sha256 }, head) =>
		add(withFile(forgetProblems(run, path), path, { bytes, sha256, by: "model" }), {
			kind: "file",
			...origin(head),
			path,
			state: "edited",
			bytes,
			lines: 0,
			blocks,
		}),
	file_deleted: (run, { path, by }, head) => {
		const next = withFile(run, path, { bytes: 0, sha256: "", gone: true });
		return by === "model" || by === "person"
			? add(next, { kind: "file", ...origin(head), path, state: "deleted", bytes: 0, lines: 0 })
			: next;
	},
	file_renamed: (run, { from, to }, head) => {
		const was = run.files.get(from);
		const moved = withFile(run, to, was && !was.gone ? was : { bytes: 0, sha256: "" });
		const next = withFile(moved, from, { bytes: 0, sha256: "", gone: true });
		return add(next, { kind: "file", ...origin(head), path: from, to, state: "renamed", bytes: 0, lines: 0 });
	},
	file_rejected: fileRejected,

	tool_requested: (run, event, head) =>
		add(run, {
			kind: "tool",
			...origin(head),
			callId: event.call_id,
			input: event.input,
			state: "queued",
			output: EMPTY,
		}),
	tool_started: (run, event, head) =>
		change(run, toolCall(run, event.call_id), () => ({ state: "running", startedAt: head.at })),
	tool_output: toolOutput,
	tool_finished: (run, event) =>
		change(run, toolCall(run, event.call_id), () => ({ state: event.status, result: event })),

	build_status: buildStatus,
	preview_url: previewUrl,
	preview_problem: previewProblem,
	version_created: (run, { version, summary, files }, head) =>
		add(run, { kind: "version", ...origin(head), version, summary, files }),

	usage: (run, { tokens }) => ({
		...run,
		tokens: {
			input: run.tokens.input + tokens.input,
			cached: run.tokens.cached + tokens.cached,
			output: run.tokens.output + tokens.output,
			reasoning: run.tokens.reasoning + tokens.reasoning,
		},
	}),
	rate_limit: unchanged,
	budget: (run, event) => ({ ...run, budget: event }),
	loop_broken: (run, { what, times }, head) => {
		const message = `Going round in circles (${times} times): ${what}. Another approach is asked for.`;
		return notice(run, head, { tone: "warning", code: "loop_broken", message });
	},
	warning: (run, { code, message }, head) => notice(run, head, { tone: "warning", code, message }),
	error: (run, { code, message, action }, head) => notice(run, head, { tone: "error", code, message, action }),
};

// ---- run

function runStarted(run: Run, _event: EventOf<"run_started">, head: Head): Run {
	if (run.startedAt === undefined) return { ...run, status: "running", startedAt: head.at };
	const message = "The work was interrupted. What has its result is kept; the step in hand begins again.";
	return add({ ...run, status: "running" }, { kind: "notice", key: head.key, tone: "info", message });
}

/** After its end a run keeps no texts of files: they are the server's to give. */
function ended(run: Run, head: Head, status: Run["status"]): Run {
	const files = new Map<string, FileNow>();
	for (const [path, { text: _, ...file }] of run.files) files.set(path, file);
	return {
		...run,
		status,
		endedAt: head.at,
		files,
		open: new Map(),
		items: run.items.map((item) => closed(item, head.at)),
	};
}

/** Nothing looks as if it still went on. */
function closed(item: Item, at: number): Item {
	switch (item.kind) {
		case "file":
			return item.state === "writing" ? { ...item, state: "rejected", reason: "It was cut off." } : item;
		case "thinking":
			return item.endedAt === undefined ? { ...item, endedAt: at } : item;
		case "tool":
			return item.state === "queued" || item.state === "running" ? { ...item, state: "interrupted" } : item;
		case "build":
			return item.state === "building" ? { ...item, state: "stopped" } : item;
		case "stage":
			return item.state === "running" ? { ...item, state: "skipped" } : item;
		default:
			return item;
	}
}

// ---- graph

function stepState(run: Run, event: EventOf<"step_state">, head: Head): Run {
	const before = run.steps.find((step) => step.id === event.id);
	const again =
		event.state === "running" && before !== undefined && before.attempt > 0 && event.of_attempt > before.attempt;
	let next = again ? forget(run, before, event.of_attempt, head) : run;
	next = changeStep(next, event.id, {
		state: event.state,
		attempt: Math.max(before?.attempt ?? 0, event.state === "running" ? event.of_attempt : 0),
		...(event.reason ? { trouble: event.reason } : {}),
	});
	if (before?.kind !== "check" && before?.kind !== "publish") return next;
	const at = findLast(next, (item) => item.kind === "stage" && item.step === event.id);
	const reason = event.reason ? { reason: event.reason } : {};
	if (at !== -1) return change(next, at, () => ({ state: event.state, ...reason }));
	if (event.state !== "running" && event.state !== "failed") return next;
	const stage = { kind: "stage", ...origin(head), step: event.id, stage: before.kind, state: event.state } as const;
	return add(next, { ...stage, ...reason });
}

/** A further attempt: what the former one streamed for this step is forgotten; files that it completed stay. */
function forget(run: Run, step: Step, attempt: number, head: Head): Run {
	const open = new Map([...run.open].filter(([, file]) => file.step !== step.id));
	const items = run.items.filter((item) => item.step !== step.id);
	const why = step.trouble ? `: ${step.trouble}` : "";
	return notice(
		{ ...run, open, items },
		{ ...head, step: step.id },
		{
			tone: "info",
			message: `${step.title}, attempt ${attempt}${why}`,
		},
	);
}

function changeStep(run: Run, id: string, to: Partial<Step>): Run {
	const at = run.steps.findIndex((step) => step.id === id);
	if (at === -1) return run;
	return { ...run, steps: run.steps.with(at, { ...(run.steps[at] as Step), ...to }) };
}

// ---- turn

function textDelta(run: Run, event: EventOf<"text_delta">, head: Head): Run {
	const last = run.items.length - 1;
	const item = run.items[last];
	if (item?.kind === "prose" && item.step === head.step) {
		return change<ProseItem>(run, last, ({ text }) => ({ text: grow(text, event.text, byParagraph) }));
	}
	return add(run, { kind: "prose", ...origin(head), text: grow(EMPTY, event.text, byParagraph) });
}

function openThinking(run: Run, head: Head): number {
	return findLast(run, (item) => item.kind === "thinking" && item.step === head.step && item.endedAt === undefined);
}

function turnCompleted(run: Run, event: EventOf<"turn_completed">, head: Head): Run {
	const thinking = openThinking(run, head);
	const next = thinking === -1 ? run : change<ThinkingItem>(run, thinking, () => ({ endedAt: head.at }));
	const at = findLast(next, (item) => item.kind === "turn" && item.step === head.step);
	return change(next, at, () => ({ finish: event.finish }));
}

// ---- files

function writing(run: Run, path: string): number {
	return findLast(run, (item) => item.kind === "file" && item.path === path && item.state === "writing");
}

function withFile(run: Run, path: string, file: FileNow): Run {
	return { ...run, files: new Map(run.files).set(path, file) };
}

function withoutOpen(run: Run, path: string): Run {
	if (!run.open.has(path)) return run;
	const open = new Map(run.open);
	open.delete(path);
	return { ...run, open };
}

function fileStarted(run: Run, { path }: EventOf<"file_started">, head: Head): Run {
	const open = new Map(run.open).set(path, { text: EMPTY, bytes: 0, ...(head.step ? { step: head.step } : {}) });
	return add({ ...run, open }, { kind: "file", ...origin(head), path, state: "writing", bytes: 0, lines: 0 });
}

function fileDelta(run: Run, { path, offset, text }: EventOf<"file_delta">): Run {
	const bytes = offset + utf8Length(text);
	const file = run.open.get(path);
	const open = file ? new Map(run.open).set(path, { ...file, bytes, text: grow(file.text, text, byLine) }) : run.open;
	return change<FileItem>({ ...run, open }, writing(run, path), ({ lines }) => ({
		bytes,
		lines: lines + lineEnds(text),
	}));
}

function fileCompleted(run: Run, { path, bytes, sha256, by }: EventOf<"file_completed">, head: Head): Run {
	const written = by === "model" ? run.open.get(path)?.text : undefined;
	const file = { bytes, sha256, by, ...(written ? { text: written } : {}) };
	const next = withFile(withoutOpen(forgetProblems(run, path), path), path, file);
	if (by === "template") return next;
	if (by === "command" || by === "person") {
		const last = next.items.length - 1;
		const item = next.items[last];
		return item?.kind === "wrote" && item.by === by && item.step === head.step
			? change(next, last, () => ({ paths: [...item.paths, path] }))
			: add(next, { kind: "wrote", ...origin(head), by, paths: [path] });
	}
	return change<FileItem>(next, writing(run, path), () => ({ state: "written", bytes }));
}

/** What was wrong with a file as it was: if it still is, it is told again. */
function forgetProblems(run: Run, path: string): Run {
	const problems = run.problems.filter(({ revision, place }) => revision || place?.path !== path);
	return problems.length === run.problems.length ? run : { ...run, problems };
}

function fileRejected(run: Run, { path, reason }: EventOf<"file_rejected">, head: Head): Run {
	const at = writing(run, path);
	const next = withoutOpen(run, path);
	if (at !== -1) return change<FileItem>(next, at, () => ({ state: "rejected", reason }));
	return add(next, { kind: "file", ...origin(head), path, state: "rejected", bytes: 0, lines: 0, reason });
}

// ---- tools and builds

function toolCall(run: Run, callId: string): number {
	return findLast(run, (item) => item.kind === "tool" && item.callId === callId);
}

function toolOutput(run: Run, event: EventOf<"tool_output">, head: Head): Run {
	const longer = (item: ToolItem | BuildItem) => ({ output: grow(item.output, event.text, byLine, OUTPUT_KEPT) });
	const tool = toolCall(run, event.call_id);
	if (tool !== -1) return change<ToolItem>(run, tool, longer);
	// What a build prints comes under the build's own id.
	const build = findLast(
		run,
		(item) => item.kind === "build" && (item.buildId === event.call_id || item.step === head.step),
	);
	return change<BuildItem>(run, build, longer);
}

function buildStatus(run: Run, event: EventOf<"build_status">, head: Head): Run {
	const now = {
		state: event.status,
		...(event.duration_ms != null ? { durationMs: event.duration_ms } : {}),
		...(event.error ? { error: event.error } : {}),
	};
	const at = findLast(run, (item) => item.kind === "build" && item.buildId === event.build_id);
	if (at !== -1) return change<BuildItem>(run, at, () => now);
	const build = { kind: "build", ...origin(head), buildId: event.build_id, output: EMPTY, startedAt: head.at } as const;
	return add(run, { ...build, ...now });
}

// ---- previews

/** A page that can be looked at. What was wrong with the one before does not count any more. */
function previewUrl(run: Run, event: EventOf<"preview_url">, head: Head): Run {
	// Files that the page does not show may have changed: what a browser said of it still holds.
	const same = event.kind === "instant" && event.revision === run.preview?.revision;
	const holds = (problem: { revision?: string | null }) => same && problem.revision === event.revision;
	const gone = (item: Run["items"][number]) => item.kind === "problem" && !item.past && !holds(item.problem);
	const items = run.items.some(gone)
		? run.items.map((item) => (gone(item) ? { ...(item as ProblemItem), past: true } : item))
		: run.items;
	const next = { ...run, items, problems: run.problems.filter(holds), preview: event };
	if (event.kind === "built") return { ...next, built: event };
	const { revision } = event;
	if (!revision || run.startedAt === undefined || run.built || items.some((item) => item.kind === "shown")) {
		return { ...next, instant: event };
	}
	const shown = { kind: "shown", ...origin(head), revision, afterMs: head.at - run.startedAt } as const;
	return { ...addBetween(next, shown), instant: event };
}

/** What a browser said belongs to the page that it looked at: it is of no more interest once there is another. */
function previewProblem(run: Run, event: EventOf<"preview_problem">, head: Head): Run {
	const { code, message, revision } = event;
	// Several browsers may look at one page.
	const told = run.problems.some((p) => p.code === code && p.message === message && p.revision === revision);
	if (told && revision != null) return run;
	const past = revision != null && revision !== run.preview?.revision;
	const item: ProblemItem = { kind: "problem", ...origin(head), problem: event, past };
	// What nobody could see was not on the screen.
	const unseen = (other: Item) => code === "blank_page" && other.kind === "shown" && other.revision === revision;
	const next = addBetween({ ...run, items: run.items.filter((other) => !unseen(other)) }, item);
	return past ? next : { ...next, problems: [...run.problems, event].slice(-PROBLEMS_KEPT) };
}

// ---- items

function origin(head: Head): { key: number; step?: string } {
	return head.step === undefined ? { key: head.key } : { key: head.key, step: head.step };
}

function add(run: Run, item: Item): Run {
	return { ...run, items: [...run.items, item] };
}

/** Adds what came about beside the stream: it never comes between two pieces of one text. */
function addBetween(run: Run, item: Item): Run {
	const last = run.items.at(-1);
	if (last?.kind !== "prose") return add(run, item);
	return { ...run, items: [...run.items.slice(0, -1), item, last] };
}

function notice(run: Run, head: Head, said: Omit<NoticeItem, "kind" | "key" | "step">): Run {
	return add(run, { kind: "notice", ...origin(head), ...said });
}

function findLast(run: Run, is: (item: Item) => boolean): number {
	return run.items.findLastIndex(is);
}

/** Changes the item at `at`, if there is one: an event about something unknown changes nothing. */
function change<I extends Item>(run: Run, at: number, to: (item: I) => Partial<I>): Run {
	if (at === -1 || isOver(run)) return run;
	const item = run.items[at] as I;
	return { ...run, items: run.items.with(at, { ...item, ...to(item) }) };
}

function seconds(ms: number): string {
	return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
}

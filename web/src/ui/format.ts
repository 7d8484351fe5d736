// Sizes, times and names as people read them.

import type { components } from "../contract";

type Schemas = components["schemas"];

export function size(bytes: number): string {
	if (bytes < 1_000) return `${bytes} B`;
	if (bytes < 1_000_000) return `${(bytes / 1_000).toFixed(bytes < 10_000 ? 1 : 0)} kB`;
	return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

export function count(n: number, one: string, many = `${one}s`): string {
	return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** A short time with its unit, as for a command: `90 ms`, `1.2 s`, `2 m 05 s`. */
export function took(ms: number): string {
	if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
	if (ms < 60_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`;
	const seconds = Math.round(ms / 1_000);
	return `${Math.floor(seconds / 60)} m ${String(seconds % 60).padStart(2, "0")} s`;
}

/** A running clock: `0:07`, `12:30`, `1:02:03`. */
export function clock(ms: number): string {
	const seconds = Math.max(0, Math.floor(ms / 1_000));
	const [h, m, s] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60, seconds % 60];
	const tail = `${String(s).padStart(2, "0")}`;
	return h > 0 ? `${h}:${String(m).padStart(2, "0")}:${tail}` : `${m}:${tail}`;
}

/** How long ago, in a word: `now`, `5 min`, `3 h`, `Nov 21`. */
export function ago(at: number, now: number): string {
	const minutes = Math.floor((now - at) / 60_000);
	if (minutes < 1) return "now";
	if (minutes < 60) return `${minutes} min`;
	if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h`;
	return new Date(at).toLocaleDateString("en", { month: "short", day: "numeric" });
}

export function capital(text: string): string {
	return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A command line for reading. It was not made by a shell and is not meant for one. */
export function commandLine(command: string, args: readonly string[]): string {
	return [command, ...args].map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : JSON.stringify(word))).join(" ");
}

export const PHASES: Record<Schemas["Phase"], string> = {
	generating: "Writing the app",
	checking: "Checking the project",
	building: "Building",
	publishing: "Publishing",
};

/** Why a run stopped, in a sentence, and what to do about it. Every reason but `done` means that the work is not finished. */
export const STOPS: Record<Schemas["StopReason"], { said: string; next: string }> = {
	done: { said: "Done", next: "" },
	no_tool_results: {
		said: "Stopped: the model changed nothing, even after a reminder",
		next: "Say more precisely what should change, or try another model.",
	},
	max_turns_reached: limit("the run used all its turns", "Send “continue” to go on from here."),
	turn_tool_budget_exceeded: limit("one turn asked for too many tools", "Send “continue” to go on from here."),
	run_tool_budget_exceeded: limit("the run asked for too many tools", "Send “continue” to go on from here."),
	context_limit_exceeded: limit(
		"the prompt does not fit the model's window",
		"Start a new chat, or use a model with a larger window.",
	),
	tool_payload_budget_exceeded: limit("the tools' results were too large", "Ask for a smaller step."),
	continuation_budget_exceeded: limit("too much had to be carried to the next turn", "Ask for a smaller step."),
	response_size_exceeded: limit("the model's answer was too large", "Ask for a smaller step."),
	cost_budget_exceeded: limit("the money set aside for it is used up", "Raise the budget, then send “continue”."),
	loop_detected: {
		said: "Stopped: the same call gave the same result again and again",
		next: "Say what to do differently.",
	},
	cancelled: { said: "Stopped", next: "What was written so far is kept." },
	timed_out: limit("its time was up", "Send “continue” to go on from here."),
	failed: { said: "Failed", next: "" },
};

function limit(what: string, next: string): { said: string; next: string } {
	return { said: `Stopped at a limit: ${what}`, next };
}

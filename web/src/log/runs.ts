// All runs that the tab knows, each the fold of its events. Events are folded in batches, one per frame, so that the
// page is drawn at most once a frame however fast they come.

import { fold } from "./fold";
import { Link, type LinkState } from "./link";
import { type Envelope, isOver, type Run, unread } from "./state";

/** Events that wait for the next frame; more are folded at once. */
const QUEUE_MOST = 5_000;
/** A tab in the background has no frames. */
const HIDDEN_MS = 250;
/** Ended runs that are kept in memory, the latest used last. */
const RUNS_KEPT = 60;

export class Runs {
	private readonly runs = new Map<string, Run>();
	/** How far each run had come when it was first followed: up to there it is the past that is read. */
	private readonly goals = new Map<string, number>();
	private queue: Envelope[] = [];
	private planned = false;
	private readonly listeners = new Set<() => void>();
	private readonly link: Link;
	private state: LinkState = "idle";
	/** Told when runs have ended, after they were folded. */
	onEnded: () => void = () => {};
	/** Told when the server refuses the streams that are asked for. */
	onRefused: (response: Response) => void = () => {};

	constructor() {
		this.link = new Link({
			fetch: (url, init) => fetch(url, init),
			onEvent: (envelope) => this.take(envelope),
			onState: (state) => {
				this.state = state;
				this.tell();
			},
			onRefused: (response) => this.onRefused(response),
			random: Math.random,
			now: () => performance.now(),
		});
		window.addEventListener("online", () => this.link.wake());
		document.addEventListener("visibilitychange", () => {
			if (document.visibilityState === "visible") this.link.wake();
		});
	}

	readonly subscribe = (listener: () => void): (() => void) => {
		this.listeners.add(listener);
		return () => this.listeners.delete(listener);
	};

	/** What is known of a run, if it is followed. */
	readonly get = (id: string): Run | undefined => this.runs.get(id);

	readonly linkState = (): LinkState => this.state;

	/** Reads a run from its beginning, or goes on with it. `goal` is its latest event, as far as that is known. */
	follow(id: string, goal = 0): void {
		if (!this.runs.has(id)) this.goals.set(id, goal);
		const run = this.runs.get(id) ?? unread(id);
		this.runs.delete(id);
		this.runs.set(id, run);
		if (!isOver(run)) this.link.follow(id, run.seq);
		this.trim();
		this.tell();
	}

	/** Whether the page has seen what there was when it began to read. Before, it would only flicker through the past. */
	hasCaughtUp(id: string): boolean {
		const run = this.runs.get(id);
		return run !== undefined && run.seq >= (this.goals.get(id) ?? 0);
	}

	/** Forgets a run that the server does not know, or knows otherwise. */
	forget(id: string): void {
		this.flush();
		this.link.leave(id);
		if (this.runs.delete(id)) this.tell();
	}

	/** Every run that has not ended. */
	open(): string[] {
		return [...this.runs.values()].filter((run) => !isOver(run)).map((run) => run.id);
	}

	wake(): void {
		this.link.wake();
	}

	private trim(): void {
		for (const [id, run] of this.runs) {
			if (this.runs.size <= RUNS_KEPT) return;
			if (isOver(run)) this.runs.delete(id);
		}
	}

	private take(envelope: Envelope): void {
		this.queue.push(envelope);
		if (this.queue.length >= QUEUE_MOST) this.flush();
		if (this.planned) return;
		this.planned = true;
		const draw = () => {
			this.planned = false;
			this.flush();
			this.tell();
		};
		if (document.visibilityState === "visible") requestAnimationFrame(draw);
		else setTimeout(draw, HIDDEN_MS);
	}

	private flush(): void {
		let ended = false;
		for (const envelope of this.queue) {
			const run = this.runs.get(envelope.run_id);
			if (!run) continue;
			const next = fold(run, envelope);
			this.runs.set(next.id, next);
			if (isOver(next) && !isOver(run)) ended = true;
		}
		this.queue = [];
		if (ended) this.onEnded();
	}

	private tell(): void {
		for (const listener of this.listeners) listener();
	}
}

// The tab's one connection to the server's events: `GET /v1/stream?cursors=…`, read with fetch, kept up for as long as a
// run is followed. It hands on every event once and in order, whatever happens to the network (E21). No React in here.

import { createParser } from "eventsource-parser";
import { place } from "./fold";
import type { Envelope } from "./state";

/** `idle`: nothing to follow. `lost`: broken off or not to be had at the moment; it is tried again. */
export type LinkState = "idle" | "connecting" | "live" | "lost";

/** The first wait before another try; it doubles, with jitter … */
export const RETRY_BASE_MS = 200;
/** … up to this. */
export const RETRY_MOST_MS = 5_000;
/** The server sends something every 15 s: a connection that is silent for longer than this is dead. */
export const SILENCE_MS = 40_000;
/** A tab that comes back to the front trusts a connection that spoke within this time. */
export const FRESH_MS = 20_000;
/** Largest event that is waited for, in UTF-16 units. */
const EVENT_MOST = 16 * 1024 * 1024;

const ENDS = new Set(["run_completed", "run_failed", "run_cancelled"]);

export interface LinkDoors {
	fetch(url: string, init: RequestInit): Promise<Response>;
	/** An event that follows on the one before of its stream. */
	onEvent(envelope: Envelope): void;
	onState(state: LinkState): void;
	/** The server answered, but not with events: 401, or a cursor that it does not know. The link rests until `follow` or `wake`. */
	onRefused(response: Response): void;
	random(): number;
	now(): number;
}

type Ending = "changed" | "broken" | "refused" | "closed";

export class Link {
	private readonly last = new Map<string, number>();
	private state: LinkState = "idle";
	private closed = false;
	private heardAt = 0;
	/** Whether the connection brought anything. */
	private heard = false;
	private connection: AbortController | undefined;
	/** Why the connection is being given up, if we do it. */
	private reason: Ending | undefined;
	private rouse: (() => void) | undefined;

	constructor(private readonly doors: LinkDoors) {
		void this.keepUp();
	}

	/** Reads a stream from behind `after`, unless it is read already. */
	follow(stream: string, after: number): void {
		if (this.last.has(stream)) return;
		this.last.set(stream, after);
		this.giveUp("changed");
	}

	/** Reads a stream no longer. */
	leave(stream: string): void {
		if (this.last.delete(stream)) this.giveUp("changed");
	}

	/** The network may be back, or somebody looks again: no more waiting, and a silent connection is not trusted. */
	wake(): void {
		if (this.state !== "live" || this.doors.now() - this.heardAt > FRESH_MS) this.giveUp("changed");
	}

	close(): void {
		this.closed = true;
		this.giveUp("closed");
	}

	private giveUp(reason: Ending): void {
		this.reason = reason;
		this.connection?.abort();
		this.rouse?.();
	}

	private tell(state: LinkState): void {
		if (state === this.state) return;
		this.state = state;
		this.doors.onState(state);
	}

	private async keepUp(): Promise<void> {
		// The caller that makes a link follows its streams in the same breath.
		await Promise.resolve();
		let tries = 0;
		while (!this.closed) {
			if (this.last.size === 0) {
				this.tell("idle");
				await this.rest();
				continue;
			}
			if (this.state === "idle") this.tell("connecting");
			this.reason = undefined;
			const ending = await this.read();
			if (ending === "changed" || ending === "closed") continue;
			if (ending === "refused") {
				this.tell("lost");
				await this.rest();
				continue;
			}
			this.tell("lost");
			tries = this.heard ? 0 : tries + 1;
			const most = Math.min(RETRY_MOST_MS, RETRY_BASE_MS * 2 ** tries);
			await this.rest(most * (0.5 + this.doors.random() / 2));
			if (this.reason === "changed") tries = 0;
		}
		this.tell("idle");
	}

	/** Waits for `ms`, or for ever, or until something changes. */
	private rest(ms?: number): Promise<void> {
		return new Promise((resolve) => {
			const timer = ms === undefined ? undefined : setTimeout(() => this.rouse?.(), ms);
			this.rouse = () => {
				this.rouse = undefined;
				clearTimeout(timer);
				resolve();
			};
		});
	}

	private async read(): Promise<Ending> {
		const connection = new AbortController();
		this.connection = connection;
		const watch = setInterval(() => {
			if (this.doors.now() - this.heardAt > SILENCE_MS) connection.abort();
		}, SILENCE_MS / 4);
		this.heardAt = this.doors.now();
		this.heard = false;
		try {
			const cursors = [...this.last].map(([stream, seq]) => `${stream}:${seq}`).join(",");
			const response = await this.doors.fetch(`/v1/stream?cursors=${encodeURIComponent(cursors)}`, {
				headers: { Accept: "text/event-stream" },
				cache: "no-store",
				signal: connection.signal,
			});
			if (!response.ok || !response.body) return this.answered(response);
			this.tell("live");
			await this.drain(response.body.getReader());
			return this.reason ?? "broken";
		} catch {
			// A lost connection, ours or theirs, is an everyday matter and has no message worth telling.
			return this.reason ?? "broken";
		} finally {
			clearInterval(watch);
			connection.abort();
			this.connection = undefined;
		}
	}

	private answered(response: Response): Ending {
		// Overload and a server that is starting or stopping pass by themselves.
		if (response.status === 429 || response.status >= 500) return "broken";
		this.doors.onRefused(response);
		return this.reason ?? "refused";
	}

	private async drain(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
		const decoder = new TextDecoder();
		let torn = false;
		const parser = createParser({
			maxBufferSize: EVENT_MOST,
			onEvent: ({ data }) => {
				torn ||= !this.accept(JSON.parse(data) as Envelope);
			},
		});
		while (!torn) {
			const { done, value } = await reader.read();
			if (done) return;
			this.heardAt = this.doors.now();
			this.heard = true;
			parser.feed(decoder.decode(value, { stream: true }));
		}
	}

	/** False if something is missing before this event: then it is read again from the last that is known. */
	private accept(envelope: Envelope): boolean {
		const last = this.last.get(envelope.stream_id);
		// A stream that was just left, or something that is no event of a stream.
		if (last === undefined) return true;
		const where = place(last, envelope);
		if (where === "next") {
			this.last.set(envelope.stream_id, envelope.seq);
			// The connection stays for the others; without any, it is of no more use.
			if (ENDS.has(envelope.type)) {
				this.last.delete(envelope.stream_id);
				if (this.last.size === 0) this.giveUp("changed");
			}
			this.doors.onEvent(envelope);
		}
		return where !== "gap";
	}
}

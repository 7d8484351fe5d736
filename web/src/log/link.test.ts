// The link against a server that is cut off, restarts, repeats, loses and refuses: every event arrives once, in order (E21).

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Link, type LinkState, RETRY_MOST_MS, SILENCE_MS } from "./link";
import { merged, sampleRun, seeded } from "./sample";
import type { Envelope } from "./state";

const LOG = sampleRun();
const OTHER = LOG.map((envelope) => ({ ...envelope, stream_id: "run_2", run_id: "run_2" }));
const STREAMS: Record<string, readonly Envelope[]> = { [LOG[0]?.stream_id as string]: LOG, run_2: OTHER };
const IDS = Object.keys(STREAMS);

beforeEach(() => {
	vi.useFakeTimers();
});
afterEach(() => {
	vi.useRealTimers();
});

interface Server {
	fetch(url: string, init: RequestInit): Promise<Response>;
	urls: string[];
}

/** Serves the streams behind the cursors in torn-up chunks. `faulty` may cut it off or lose an event. */
function server(random: () => number, faults: { cut: number; lose: number; refuse: number; silent?: boolean }): Server {
	const urls: string[] = [];
	const fetch = async (url: string, init: RequestInit): Promise<Response> => {
		urls.push(url);
		if (random() < faults.refuse) {
			if (random() < 0.5) throw new TypeError("connection refused");
			return new Response("", { status: 503 });
		}
		const cursors = new URLSearchParams(url.split("?")[1]).get("cursors") ?? "";
		const bodies = cursors.split(",").flatMap((cursor) => {
			const at = cursor.lastIndexOf(":");
			const rest = (STREAMS[cursor.slice(0, at)] ?? []).slice(Number(cursor.slice(at + 1)));
			return merged(rest, random).filter(() => random() >= faults.lose);
		});
		const text = bodies.map(
			(body) => `id: ${body.stream_id}:${body.seq}\nevent: ${body.type}\ndata: ${JSON.stringify(body)}\n\n`,
		);
		const bytes = new TextEncoder().encode(`: hello\n\n${text.join("")}`);
		let at = 0;
		const stream = new ReadableStream<Uint8Array>({
			pull(controller) {
				if (init.signal?.aborted) return controller.error(new DOMException("aborted", "AbortError"));
				if (random() < faults.cut) return controller.error(new TypeError("network error"));
				const end = at + 1 + Math.floor(random() * 20_000);
				if (at < bytes.length) controller.enqueue(bytes.slice(at, end));
				else if (!faults.silent) controller.close();
				else init.signal?.addEventListener("abort", () => controller.error(new DOMException("aborted", "AbortError")));
				at = end;
			},
		});
		return new Response(stream, { status: 200 });
	};
	return { fetch, urls };
}

function open(from: Server, random: () => number) {
	const got: Record<string, Envelope[]> = {};
	const states: LinkState[] = [];
	const refusals: number[] = [];
	const link = new Link({
		fetch: from.fetch,
		onEvent: (envelope) => {
			got[envelope.stream_id] ??= [];
			got[envelope.stream_id]?.push(envelope);
		},
		onState: (state) => states.push(state),
		onRefused: (response) => refusals.push(response.status),
		random,
		now: Date.now,
	});
	return { link, got, states, refusals };
}

async function until(condition: () => boolean): Promise<void> {
	for (let i = 0; i < 3_000 && !condition(); i++) await vi.advanceTimersByTimeAsync(RETRY_MOST_MS / 4);
	expect(condition()).toBe(true);
}

it("delivers two streams whole and in order through cuts, losses and restarts, then rests", async () => {
	for (let seed = 1; seed <= 12; seed++) {
		const random = seeded(seed);
		const faulty = server(random, { cut: 0.05, lose: 0.002, refuse: 0.3 });
		const { link, got, states } = open(faulty, random);
		for (const id of IDS) link.follow(id, 0);
		await until(() => states.at(-1) === "idle");
		for (const id of IDS) {
			const numbers = (got[id] ?? []).flatMap((e) =>
				Array.from({ length: e.seq - (e.from_seq ?? e.seq) + 1 }, (_, i) => (e.from_seq ?? e.seq) + i),
			);
			expect(numbers).toEqual(LOG.map((envelope) => envelope.seq));
		}
		link.close();
	}
});

it("says that it is lost, and live again, and asks only for what is missing", async () => {
	const random = seeded(7);
	const good = server(random, { cut: 0, lose: 0, refuse: 0 });
	const down = { until: 3 };
	const flaky: Server = {
		urls: good.urls,
		fetch: (url, init) => (down.until-- > 0 ? Promise.reject(new TypeError("refused")) : good.fetch(url, init)),
	};
	const { link, states } = open(flaky, random);
	link.follow("run_2", 100);
	await until(() => states.at(-1) === "idle");
	expect(states).toEqual(["connecting", "lost", "live", "idle"]);
	expect(good.urls).toEqual(["/v1/stream?cursors=run_2%3A100"]);
	link.close();
});

it("gives up a connection that has gone silent, and one that is stale when somebody looks again", async () => {
	const random = seeded(3);
	const silent = server(random, { cut: 0, lose: 0, refuse: 0, silent: true });
	const quiet: Server = {
		urls: silent.urls,
		fetch: (url, init) => silent.fetch(url.replace("run_2:0", "run_none:0"), init),
	};
	const { link } = open(quiet, random);
	link.follow("run_none", 0);
	await vi.advanceTimersByTimeAsync(SILENCE_MS - 1_000);
	expect(silent.urls).toHaveLength(1);
	await vi.advanceTimersByTimeAsync(SILENCE_MS / 4 + 2_000);
	expect(silent.urls).toHaveLength(2);
	await vi.advanceTimersByTimeAsync(1_000);
	link.wake();
	await vi.advanceTimersByTimeAsync(0);
	expect(silent.urls).toHaveLength(2);
	await vi.advanceTimersByTimeAsync(25_000);
	link.wake();
	await vi.advanceTimersByTimeAsync(0);
	expect(silent.urls).toHaveLength(3);
	link.close();
});

it("does not ask again after a refusal until somebody says so", async () => {
	const refusing: Server = {
		urls: [],
		fetch: async (url) => {
			refusing.urls.push(url);
			return new Response("", { status: 401 });
		},
	};
	const { link, refusals } = open(refusing, seeded(1));
	link.follow("run_2", 0);
	await vi.advanceTimersByTimeAsync(60_000);
	expect(refusals).toEqual([401]);
	link.wake();
	await vi.advanceTimersByTimeAsync(60_000);
	expect(refusals).toEqual([401, 401]);
	link.close();
});

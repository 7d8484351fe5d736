// The stage: never a white or broken moment, never a page that nobody asked for, never two that load at once.

import { describe, expect, it } from "vitest";
import { seeded } from "../../log/sample";
import type { Page } from "./page";
import {
	type Act,
	act,
	due,
	EMPTY_STAGE,
	FIRST_PATIENCE_MS,
	LONGEST_MS,
	PATIENCE_MS,
	QUIET_MS,
	type Stage,
} from "./stage";

const instant = (revision: string, final = false): Page => ({
	key: `i ${revision}`,
	kind: "instant",
	src: `http://a.localhost/?instant=${revision}`,
	origin: "http://a.localhost",
	revision,
	final,
});
const built = (version: string): Page => ({ ...instant(version, true), key: `b ${version}`, kind: "built", version });
const BLANK = { blank: true, message: "TypeError" };

/** Plays acts at their times, with what time alone does in between, up to `until`. */
class Play {
	stage: Stage = EMPTY_STAGE;
	now = 0;

	/** Lets time go by. */
	to(time: number): this {
		for (let at = due(this.stage); at !== undefined && at <= time; at = due(this.stage)) {
			this.now = Math.max(this.now, at);
			this.stage = act(this.stage, { type: "time" }, this.now);
		}
		this.now = time;
		return this;
	}

	at(time: number, ...acts: Act[]): this {
		this.to(time);
		for (const what of acts) this.stage = act(this.stage, what, time);
		return this;
	}

	want(time: number, page: Page): this {
		return this.at(time, { type: "wanted", page });
	}

	/** The frame behind loads, and says that it has painted. */
	paints(time: number): this {
		const frame = this.stage.next?.id ?? -1;
		return this.at(time, { type: "loaded", frame }, { type: "painted", frame });
	}

	get seen() {
		const { shown, next, waiting } = this.stage;
		return [shown?.page.key, next?.page.key, waiting?.page.key];
	}
}

/** A stage with page `a` on it. */
const shown = () => new Play().want(0, instant("a")).paints(50);

describe("a page takes the place of another (N7)", () => {
	it("loads the first at once, and every other behind the one that is shown until it has painted", () => {
		const play = new Play().want(0, instant("a"));
		expect(play.seen).toEqual([undefined, "i a", undefined]);
		expect(play.paints(50).seen).toEqual(["i a", undefined, undefined]);
		expect(play.want(100, instant("b")).seen).toEqual(["i a", undefined, "i b"]);
		expect(play.to(100 + QUIET_MS).seen).toEqual(["i a", "i b", undefined]);
		expect(play.paints(600).seen).toEqual(["i b", undefined, undefined]);
		expect(play.want(700, built("1")).seen).toEqual(["i b", "b 1", undefined]);
		expect(play.paints(800).seen).toEqual(["b 1", undefined, undefined]);
	});

	it("waits for a quiet moment, but not for ever", () => {
		const play = shown();
		for (let i = 0; i < 14; i++) play.want(1_000 + 100 * i, instant(`b${i}`));
		expect(play.seen).toEqual(["i a", undefined, "i b13"]);
		play.want(2_400, instant("b14")).to(1_000 + LONGEST_MS);
		expect(play.seen).toEqual(["i a", "i b14", undefined]);
		// And what has begun has its time, too.
		for (let i = 0; i < 8; i++) play.want(2_550 + 100 * i, instant(`c${i}`));
		expect(play.seen).toEqual(["i a", "i b14", "i c7"]);
	});

	it("does not show one that says nothing before its time, nor for ever nothing", () => {
		const first = new Play().want(0, instant("a")).at(10, { type: "loaded", frame: 0 });
		expect(first.to(9 + FIRST_PATIENCE_MS).seen[0]).toBeUndefined();
		expect(first.to(10 + FIRST_PATIENCE_MS).seen[0]).toBe("i a");
		const second = shown().want(1_000, built("1")).at(1_100, { type: "loaded", frame: 1 });
		expect(second.to(1_099 + PATIENCE_MS).seen[0]).toBe("i a");
		expect(second.to(1_100 + PATIENCE_MS).seen[0]).toBe("b 1");
	});

	it("keeps the last good page when the next one is blank, until that paints or nothing follows it", () => {
		const blank = () =>
			shown()
				.want(1_000, instant("b"))
				.to(2_000)
				.at(2_000, { type: "loaded", frame: 1 }, { type: "problem", frame: 1, problem: BLANK });
		expect(blank().to(60_000).seen).toEqual(["i a", "i b", undefined]);
		expect(blank().paints(3_000).seen[0]).toBe("i b");
		expect(blank().want(3_000, instant("c")).to(3_400).seen).toEqual(["i a", "i c", undefined]);
		expect(blank().want(3_000, instant("a")).seen).toEqual(["i a", undefined, undefined]);
		expect(blank().want(3_000, instant("b", true)).seen[0]).toBe("i b");
		const ended = shown().want(1_000, built("1")).at(1_100, { type: "problem", frame: 1, problem: BLANK });
		expect(ended.seen[0]).toBe("b 1");
	});

	it("goes back without loading anything when the files are again what is shown", () => {
		const play = shown().want(1_000, instant("b")).to(1_500).want(1_600, instant("a"));
		expect(play.to(9_000).seen).toEqual(["i a", undefined, undefined]);
		expect(play.stage.begun).toBe(2);
	});

	it("loads a page again when asked, and shows it whatever it looks like", () => {
		const play = shown().at(1_000, { type: "reload" });
		expect(play.seen).toEqual(["i a", "i a", undefined]);
		expect(play.at(1_100, { type: "problem", frame: 1, problem: BLANK }).stage.shown?.id).toBe(1);
	});

	it("always ends with the newest page, whatever the order in which frames load, paint, fail and time goes by", () => {
		for (let seed = 1; seed <= 200; seed++) {
			const random = seeded(seed);
			const play = new Play();
			let time = 0;
			for (let i = 0; i < 60; i++) {
				time += Math.floor(random() * 700);
				const frame = Math.floor(random() * (play.stage.begun + 1));
				const dice = random();
				if (dice < 0.4) play.want(time, instant(`${Math.floor(random() * 9)}`));
				else if (dice < 0.6) play.at(time, { type: "loaded", frame });
				else if (dice < 0.8) play.at(time, { type: "painted", frame });
				else if (dice < 0.9) play.at(time, { type: "problem", frame, problem: BLANK });
				else if (play.stage.shown || play.stage.next) play.at(time, { type: "reload" });
				const { shown, next } = play.stage;
				expect(shown?.id ?? -1).toBeLessThan(next?.id ?? Number.POSITIVE_INFINITY);
			}
			play.want(time, built("1")).to(time + 10_000);
			play.paints(time + 10_000);
			expect(play.seen).toEqual(["b 1", undefined, undefined]);
			expect(due(play.stage)).toBeUndefined();
		}
	});
});

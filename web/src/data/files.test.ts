// The list of files: the server's, with the active run's changes laid over it.

import { expect, it } from "vitest";
import { fold } from "../log/fold";
import { Log, RUN } from "../log/sample";
import { unread } from "../log/state";
import { merge } from "./files";

const LISTED = ["a.ts", "b.ts", "c.ts"].map(
	(path) => ({ path, bytes: 1, sha256: `old-${path}`, by: "template" }) as const,
);

it("shows what a run wrote, renamed, deleted and is writing, and after it what the server says", () => {
	const log = new Log().push({ type: "run_started", worker: "w", epoch: 1 }).at("turn-1");
	log.file("b.ts", "new\n", 1).push({ type: "file_deleted", path: "a.ts", by: "model" });
	log.push({ type: "file_renamed", from: "b.ts", to: "d.ts" }, { type: "file_started", path: "e.ts" });
	log.push({ type: "file_delta", path: "e.ts", offset: 0, text: "é" });
	const run = log.envelopes.reduce(fold, unread(RUN));
	const shown = merge(LISTED, run, false).map(({ path, bytes, writing, touched }) => [path, bytes, writing, touched]);
	expect(shown).toEqual([
		["c.ts", 1, false, false],
		["d.ts", 4, false, true],
		["e.ts", 2, true, true],
	]);
	const settled = merge(
		LISTED,
		log.at(undefined).push({ type: "run_cancelled", by: "user" }).envelopes.reduce(fold, unread(RUN)),
		true,
	);
	expect(settled.map(({ path, sha256 }) => [path, sha256])).toEqual(LISTED.map(({ path, sha256 }) => [path, sha256]));
});

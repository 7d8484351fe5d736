// Tells runs what went wrong in their instant pages, so that they can mend it: each problem once, and no more of one page than a
// run can use.

import { server } from "../../data/server";
import type { PageProblem } from "./message";

/** Problems of one page that are told. */
export const REPORTS_MOST = 5;
/** Pages of which it is kept what was told, the latest last. */
const PAGES_KEPT = 50;

export class Reports {
	private readonly told = new Map<string, Set<string>>();

	constructor(private readonly send: typeof server.reportProblem = server.reportProblem) {}

	tell(run: string, revision: string, { blank, message, at }: PageProblem): void {
		const page = `${run} ${revision}`;
		const told = this.told.get(page) ?? new Set();
		const what = `${blank} ${message}`;
		if (told.has(what) || told.size >= REPORTS_MOST) return;
		this.told.set(page, told.add(what));
		const oldest = this.told.keys().next().value;
		if (this.told.size > PAGES_KEPT && oldest !== undefined) this.told.delete(oldest);
		// A run that has ended meanwhile, or has heard enough, says so; there is nothing to do about it.
		void this.send(run, { revision, blank, message, ...(at ? { at } : {}) }).catch(() => {});
	}
}

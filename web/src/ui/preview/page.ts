// Which page the preview should show: the newest that the logs of the chat know of, at the address where the server is now.

import type { components } from "../../contract";
import { isOver, type Run } from "../../log/state";

export interface Page {
	/** Two pages with one key are one page. */
	readonly key: string;
	readonly kind: "instant" | "built";
	readonly src: string;
	/** What its messages come from. */
	readonly origin: string;
	readonly revision?: string;
	readonly version?: string;
	/** The run that made it, as far as that was read. */
	readonly run?: string;
	/** Whether nothing comes after it by itself: it was built, or its run is over. */
	readonly final: boolean;
}

/** The newest page. The log says which one it is; where previews are is the server's to say, which may have another port by now. */
export function newest(
	runs: readonly (Run | undefined)[],
	address: components["schemas"]["PreviewView"] | undefined,
): Page | undefined {
	const run = runs.findLast((known) => known?.preview);
	const preview = run?.preview;
	const base = readAddress(address?.url) ?? readAddress(preview?.url);
	if (!base) return undefined;
	if (run && preview?.kind === "instant" && preview.revision) {
		const { revision } = preview;
		const src = `${base.origin}/?instant=${encodeURIComponent(revision)}`;
		const key = `${base.origin} instant ${revision}`;
		return { key, kind: "instant", src, origin: base.origin, revision, run: run.id, final: isOver(run) };
	}
	const version = preview?.version ?? address?.version;
	if (!version) return undefined;
	const made = run ? { run: run.id } : {};
	const { origin } = base;
	return { key: `${origin} built ${version}`, kind: "built", src: `${origin}/`, origin, version, ...made, final: true };
}

/** An address that a frame may have: a preview never is anything but a web page. */
function readAddress(address: string | undefined): URL | undefined {
	const url = address === undefined ? null : URL.parse(address);
	return url && /^https?:$/.test(url.protocol) ? url : undefined;
}

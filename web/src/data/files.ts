// The files of a project as the page sees them now: what the server lists, with what the active run has done since.

import { useEffect, useRef, useState } from "react";
import type { Growing } from "../log/growing";
import { isOver, type Run } from "../log/state";
import { type ProjectFiles, server, Trouble } from "./server";

export interface FileEntry {
	readonly path: string;
	readonly bytes: number;
	/** Empty while it is not known. */
	readonly sha256: string;
	readonly writing: boolean;
	/** Whether this run wrote it. */
	readonly touched: boolean;
	/** The text, where the log has it. */
	readonly text?: Growing;
}

/** The list with the run's changes laid over it, unless it is `settled` and has them; sorted by path. */
export function merge(listed: ProjectFiles["files"], run: Run | undefined, settled: boolean): FileEntry[] {
	const entries = new Map<string, FileEntry>();
	for (const { path, bytes, sha256 } of listed)
		entries.set(path, { path, bytes, sha256, writing: false, touched: false });
	for (const [path, file] of run?.files ?? []) {
		const listing = entries.get(path);
		if (settled) {
			if (listing && file.by === "model") entries.set(path, { ...listing, touched: true });
		} else if (file.gone) entries.delete(path);
		else {
			const touched = file.by === "model";
			entries.set(path, { path, bytes: file.bytes, sha256: file.sha256, writing: false, touched, text: file.text });
		}
	}
	for (const [path, { text, bytes }] of run?.open ?? []) {
		entries.set(path, { path, bytes, sha256: "", writing: true, touched: true, text });
	}
	return [...entries.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** `ready`: the run's events have been read up to where it is. */
export function useFiles(project: string | undefined, run: Run | undefined, ready: boolean) {
	const over = run ? isOver(run) : true;
	const moment = `${run?.id} ${over}`;
	const [listed, setListed] = useState<{ moment: string; files: ProjectFiles["files"] }>();
	const [trouble, setTrouble] = useState<Trouble>();
	useEffect(() => {
		if (!project) return;
		let stale = false;
		server
			.files(project)
			.then(({ files }) => {
				if (stale) return;
				setListed({ moment, files });
				setTrouble(undefined);
			})
			.catch((reason) => !stale && setTrouble(Trouble.of(reason)));
		return () => {
			stale = true;
		};
	}, [project, moment]);
	// The list that was fetched after the end has everything; before, the log knows more.
	const settled = over && listed?.moment === moment;
	return { files: merge(listed?.files ?? [], ready ? run : undefined, settled), loading: !listed, trouble };
}

/** Texts that are kept, by their hash. */
const TEXTS_KEPT = 40;

/** The text of a file that the log has not: `undefined` while it is fetched, a `Trouble` if it cannot be. */
export function useText(
	project: string | undefined,
	path: string | undefined,
	sha256: string,
): string | Trouble | undefined {
	const texts = useRef(new Map<string, string>());
	const [, setFetched] = useState(0);
	const [trouble, setTrouble] = useState<{ sha256: string; trouble: Trouble }>();
	useEffect(() => {
		if (!project || !path || !sha256 || texts.current.has(sha256)) return;
		const leave = new AbortController();
		server
			.file(project, path, leave.signal)
			.then((bytes) => {
				const binary = bytes.subarray(0, 8_000).includes(0);
				texts.current.set(sha256, binary ? "(This file is not text.)" : new TextDecoder().decode(bytes));
				const oldest = texts.current.keys().next().value;
				if (texts.current.size > TEXTS_KEPT && oldest) texts.current.delete(oldest);
				setFetched((n) => n + 1);
			})
			.catch((reason) => !leave.signal.aborted && setTrouble({ sha256, trouble: Trouble.of(reason) }));
		return () => leave.abort();
	}, [project, path, sha256]);
	return texts.current.get(sha256) ?? (trouble?.sha256 === sha256 ? trouble.trouble : undefined);
}

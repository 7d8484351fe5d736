// How components reach the library and its runs.

import { createContext, type ReactNode, useCallback, useContext, useRef, useSyncExternalStore } from "react";
import type { Library, LibraryState } from "../data/library";
import type { LinkState } from "../log/link";
import type { Run } from "../log/state";

const LibraryContext = createContext<Library | undefined>(undefined);

export function LibraryProvider({ library, children }: { library: Library; children: ReactNode }) {
	return <LibraryContext value={library}>{children}</LibraryContext>;
}

export function useLibrary(): Library {
	const library = useContext(LibraryContext);
	if (!library) throw new Error("no LibraryProvider above");
	return library;
}

export function useLibraryState(): LibraryState {
	const library = useLibrary();
	return useSyncExternalStore(library.subscribe, library.get);
}

/** A run as it is at this frame; `undefined` if it is not followed. */
export function useRun(id: string | undefined): Run | undefined {
	const { runs } = useLibrary();
	return useSyncExternalStore(runs.subscribe, () => (id === undefined ? undefined : runs.get(id)));
}

/** Several runs; the array changes only when one of them does. */
export function useRuns(ids: readonly string[]): readonly (Run | undefined)[] {
	const { runs } = useLibrary();
	const last = useRef<readonly (Run | undefined)[]>([]);
	const read = useCallback(() => {
		const now = ids.map(runs.get);
		const same = now.length === last.current.length && now.every((run, i) => run === last.current[i]);
		if (!same) last.current = now;
		return last.current;
	}, [ids, runs]);
	return useSyncExternalStore(runs.subscribe, read);
}

export function useLinkState(): LinkState {
	const { runs } = useLibrary();
	return useSyncExternalStore(runs.subscribe, runs.linkState);
}

// What components ask of the browser: the width of the window, the time, small things to remember.

import { useEffect, useState, useSyncExternalStore } from "react";

export function useMedia(query: string): boolean {
	return useSyncExternalStore(
		(listener) => {
			const media = matchMedia(query);
			media.addEventListener("change", listener);
			return () => media.removeEventListener("change", listener);
		},
		() => matchMedia(query).matches,
	);
}

/** Room for the conversation and what it makes, side by side. */
export const useWide = () => useMedia("(min-width: 900px)");

/** The time, brought up to date every `everyMs`; not at all if that is `undefined`. */
export function useNow(everyMs: number | undefined): number {
	const [now, setNow] = useState(Date.now);
	useEffect(() => {
		if (everyMs === undefined) return;
		setNow(Date.now());
		const timer = setInterval(() => setNow(Date.now()), everyMs);
		return () => clearInterval(timer);
	}, [everyMs]);
	return now;
}

export function remember(store: Storage, key: string, value: string | undefined): void {
	try {
		if (value === undefined || value === "") store.removeItem(key);
		else store.setItem(key, value);
	} catch {
		// Storage may be full or forbidden; nothing depends on it.
	}
}

export function recall(store: Storage, key: string): string | undefined {
	try {
		return store.getItem(key) ?? undefined;
	} catch {
		return undefined;
	}
}

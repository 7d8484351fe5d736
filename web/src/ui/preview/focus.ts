// Who has the focus when pages come and go: a page that comes does not take it from whoever writes, and whoever uses a page goes
// on with the one that takes its place. Browsers let a script in a frame take the focus, even in one that is inert.

import { type RefObject, useEffect, useLayoutEffect, useRef } from "react";

/** `shown`: the frame that is seen. `frames` has the elements of all of them, by their ids. */
export function useKeptFocus(shown: number | undefined, frames: RefObject<Map<number, HTMLIFrameElement>>): void {
	const now = useRef(shown);
	const used = useRef(false);

	useLayoutEffect(() => {
		now.current = shown;
		if (shown === undefined || !used.current || document.activeElement !== document.body) return;
		frames.current.get(shown)?.focus({ preventScroll: true });
	}, [shown, frames]);

	useEffect(() => {
		let last: HTMLElement | undefined;
		const note = (target: EventTarget | null) => {
			if (!(target instanceof HTMLElement) || target instanceof HTMLIFrameElement) return;
			last = target;
			used.current = false;
		};
		const moved = ({ target }: FocusEvent) => note(target);
		// A frame takes the focus from the window; the document is told nothing.
		const left = () => {
			const taker = [...frames.current].find(([, frame]) => frame === document.activeElement);
			if (!taker) return;
			const [id, frame] = taker;
			used.current = id === now.current;
			if (used.current) return;
			// Once the browser has done what it is about to do; before, it would think that the frame has it.
			setTimeout(() => {
				if (document.activeElement !== frame) return;
				window.focus();
				if (last?.isConnected) last.focus({ preventScroll: true });
				else frame.blur();
			});
		};
		note(document.activeElement);
		document.addEventListener("focusin", moved);
		window.addEventListener("blur", left);
		return () => {
			document.removeEventListener("focusin", moved);
			window.removeEventListener("blur", left);
		};
	}, [frames]);
}

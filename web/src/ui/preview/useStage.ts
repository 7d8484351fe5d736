// Drives the stage (stage.ts): gives it the pages that come, what its frames say, and the time.

import { type RefObject, useCallback, useEffect, useReducer, useRef } from "react";
import { useKeptFocus } from "./focus";
import { type PageProblem, readMessage } from "./message";
import type { Page } from "./page";
import { type Act, act, due, EMPTY_STAGE, type Frame, type Stage } from "./stage";

/** Told of a problem that a page reports, with the revision that it says it is. */
export type OnProblem = (frame: Frame, problem: PageProblem, revision: string | undefined) => void;

/** The stage for `page`, and what its frames are to call. `frames` has the elements of the frames, by their ids. */
export function useStage(
	page: Page | undefined,
	frames: RefObject<Map<number, HTMLIFrameElement>>,
	onProblem: OnProblem,
): { stage: Stage; tell(what: Act): void } {
	const [stage, dispatch] = useReducer(
		(before: Stage, { what, now }: { what: Act; now: number }) => act(before, what, now),
		EMPTY_STAGE,
	);
	const tell = useCallback((what: Act) => dispatch({ what, now: performance.now() }), []);
	const latest = useRef({ stage, onProblem });
	latest.current = { stage, onProblem };

	useEffect(() => {
		if (!page) return;
		// Whoever uses the page keeps it, with what they typed, until they look elsewhere or the page is final.
		const inUse = () => {
			const shown = latest.current.stage.shown;
			return !page.final && shown !== undefined && document.activeElement === frames.current.get(shown.id);
		};
		const look = () => inUse() || tell({ type: "wanted", page });
		look();
		window.addEventListener("focus", look);
		document.addEventListener("focusin", look);
		return () => {
			window.removeEventListener("focus", look);
			document.removeEventListener("focusin", look);
		};
	}, [page, frames, tell]);

	const at = due(stage);
	useEffect(() => {
		if (at === undefined) return;
		// Timers may be early by a fraction of a millisecond; what is due is due all the same.
		const look = () => dispatch({ what: { type: "time" }, now: Math.max(at, performance.now()) });
		const timer = setTimeout(look, Math.max(0, at - performance.now()));
		return () => clearTimeout(timer);
	}, [at]);

	useEffect(() => {
		const hear = ({ source, origin, data }: MessageEvent) => {
			const { shown, next } = latest.current.stage;
			const frame = [shown, next].find(
				(candidate) => candidate && source !== null && source === frames.current.get(candidate.id)?.contentWindow,
			);
			if (!frame || origin !== frame.page.origin) return;
			const said = readMessage(data);
			if (said?.type === "painted") tell({ type: "painted", frame: frame.id });
			if (said?.type === "problem") {
				// In a tab that is not open nothing is drawn, and nobody can say whether it would be blank.
				if (said.problem.blank && frames.current.get(frame.id)?.offsetWidth === 0) return;
				tell({ type: "problem", frame: frame.id, problem: said.problem });
				latest.current.onProblem(frame, said.problem, said.revision);
			}
		};
		window.addEventListener("message", hear);
		return () => window.removeEventListener("message", hear);
	}, [frames, tell]);

	useKeptFocus(stage.shown?.id, frames);

	return { stage, tell };
}

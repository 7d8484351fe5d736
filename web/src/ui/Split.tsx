// Two panes side by side with a border that can be dragged, or moved with the arrow keys.

import { type KeyboardEvent, type PointerEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { recall, remember } from "./browser";

const KEY = "baton-split";
/** Share of the left pane, in percent. */
const [LEAST, USUAL, MOST] = [28, 42, 68];

export function Split({ left, right }: { left: ReactNode; right: ReactNode }) {
	const [share, setShare] = useState(() => clamp(Number(recall(localStorage, KEY) ?? USUAL)));
	const [dragging, setDragging] = useState(false);
	const root = useRef<HTMLDivElement>(null);
	useEffect(() => remember(localStorage, KEY, String(share)), [share]);

	const drag = (event: PointerEvent) => {
		const box = root.current?.getBoundingClientRect();
		if (dragging && box) setShare(clamp((100 * (event.clientX - box.left)) / box.width));
	};
	const press = (event: KeyboardEvent) => {
		const by = { ArrowLeft: -2, ArrowRight: 2 }[event.key];
		if (by !== undefined) setShare(clamp(share + by));
	};

	return (
		<div ref={root} className="flex min-w-0 flex-1">
			<div className="min-w-0 shrink-0" style={{ width: `${share}%` }}>
				{left}
			</div>
			{/* biome-ignore lint/a11y/useSemanticElements: a rule between paragraphs is not what this is */}
			<div
				role="separator"
				aria-label="Width of the conversation"
				aria-orientation="vertical"
				aria-valuenow={Math.round(share)}
				aria-valuemin={LEAST}
				aria-valuemax={MOST}
				tabIndex={0}
				onKeyDown={press}
				onDoubleClick={() => setShare(USUAL)}
				onPointerDown={(event) => {
					event.currentTarget.setPointerCapture(event.pointerId);
					setDragging(true);
				}}
				onPointerMove={drag}
				onPointerUp={() => setDragging(false)}
				onPointerCancel={() => setDragging(false)}
				className={`relative w-px shrink-0 cursor-col-resize touch-none bg-line transition-colors after:absolute after:inset-y-0 after:-left-1.5 after:w-3 hover:bg-line-strong ${dragging ? "bg-accent" : ""}`}
			/>
			{/* A frame would swallow the pointer. */}
			<div className={`min-w-0 flex-1 ${dragging ? "pointer-events-none" : ""}`}>{right}</div>
		</div>
	);
}

function clamp(share: number): number {
	return Number.isFinite(share) ? Math.min(MOST, Math.max(LEAST, share)) : USUAL;
}

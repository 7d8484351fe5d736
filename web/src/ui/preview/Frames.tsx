// The frames of a stage: one that is seen, and at most one that loads behind it, out of reach.

import type { RefObject } from "react";
import type { Act, Frame, Stage } from "./stage";

interface FramesProps {
	stage: Stage;
	elements: RefObject<Map<number, HTMLIFrameElement>>;
	tell(what: Act): void;
}

export function Frames({ stage, elements, tell }: FramesProps) {
	const frames = [stage.shown, stage.next].filter((frame): frame is Frame => frame !== undefined);
	return frames.map((frame) => {
		const seen = frame === stage.shown;
		return (
			// Its own origin: the sandbox keeps it from this page's, and lets it be an app.
			<iframe
				key={frame.id}
				ref={(element) => {
					if (element) elements.current.set(frame.id, element);
					return () => {
						elements.current.delete(frame.id);
					};
				}}
				title={seen ? "Preview" : "Next preview"}
				src={frame.page.src}
				sandbox="allow-scripts allow-same-origin allow-forms allow-modals allow-popups allow-downloads"
				// Drawn though not seen, so that it has painted when it takes its place. Inert, so that it takes no focus.
				inert={!seen}
				tabIndex={seen ? undefined : -1}
				aria-hidden={!seen}
				className={`absolute inset-0 size-full bg-[white] ${seen ? "" : "pointer-events-none opacity-0"}`}
				onLoad={() => tell({ type: "loaded", frame: frame.id })}
			/>
		);
	});
}

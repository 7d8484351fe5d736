// The conversation: each run with the message that asked for it. Keeps to the end while things are added, unless the
// reader scrolled up.

import { ArrowDown } from "lucide-react";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { RUNS_READ } from "../data/library";
import type { ChatDetail } from "../data/server";
import { Button } from "./Button";
import { useLibrary } from "./context";
import { Prose } from "./parts/Prose";
import { RunArticle } from "./RunArticle";

/** Closer to the end than this counts as being there, in pixels. */
const NEAR = 48;

interface ConversationProps {
	detail: ChatDetail;
	onOpenFile(path: string): void;
	onOpenPreview(): void;
	/** Begins a run again. */
	onRetry(run: string): Promise<void>;
	/** Puts a text where the person can change and send it. */
	onSuggest(text: string): void;
}

export function Conversation({ detail, onOpenFile, onOpenPreview, onRetry, onSuggest }: ConversationProps) {
	const library = useLibrary();
	const { scroller, content, away, toEnd, letGo } = useEnd(detail.runs.length);
	const [unfolded, setUnfolded] = useState<ReadonlySet<string>>(new Set());
	const unfold = (id: string) => {
		library.runs.follow(id);
		setUnfolded(new Set([...unfolded, id]));
	};
	const earlier = detail.runs.length - RUNS_READ;

	return (
		<div className="relative min-h-0 flex-1">
			<section
				ref={scroller}
				id="conversation"
				aria-label="Conversation"
				// biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard
				tabIndex={0}
				className="h-full overflow-y-auto overscroll-contain -outline-offset-2"
				onClickCapture={(event) => {
					// Who opens a card wants to read it, not to be taken to the end.
					if ((event.target as Element).closest("[aria-expanded]")) letGo();
				}}
			>
				<div ref={content} className="mx-auto w-full max-w-3xl space-y-10 px-4 pt-4 pb-8 max-md:px-3">
					{detail.runs.map((view, i) => {
						const said = detail.messages.find((message) => message.run_id === view.id && message.role === "user");
						const answer = detail.messages.find(
							(message) => message.run_id === view.id && message.role === "assistant",
						);
						if (i < earlier && !unfolded.has(view.id)) {
							return (
								<article key={view.id} className="space-y-3">
									<Said text={said?.text ?? view.title} />
									<Prose text={answer?.text ?? ""} />
									<Button onClick={() => unfold(view.id)}>Show the work</Button>
								</article>
							);
						}
						return (
							<RunArticle
								key={view.id}
								view={view}
								said={said?.text ?? view.title}
								latest={i === detail.runs.length - 1}
								first={i === 0}
								onOpenFile={onOpenFile}
								onOpenPreview={onOpenPreview}
								onRetry={onRetry}
								onSuggest={onSuggest}
							/>
						);
					})}
				</div>
			</section>
			{away && (
				<button
					type="button"
					onClick={toEnd}
					className="absolute bottom-3 left-1/2 flex h-8 -translate-x-1/2 animate-arrive items-center gap-1.5 rounded-full border border-line bg-bg px-3 text-sm text-muted shadow-pop hover:text-text"
				>
					<ArrowDown className="size-3.5" aria-hidden />
					Latest
				</button>
			)}
		</div>
	);
}

/** What the person wrote. */
export function Said({ text }: { text: string }) {
	return (
		<div className="flex justify-end">
			<p className="max-w-[85%] rounded-2xl rounded-br-md bg-hover px-3.5 py-2 text-prose whitespace-pre-wrap wrap-anywhere">
				{text}
			</p>
		</div>
	);
}

/** Keeps a scroller at its end while its content grows, until the reader goes up; `messages` more take it back there. */
function useEnd(messages: number) {
	const scroller = useRef<HTMLElement>(null);
	const content = useRef<HTMLDivElement>(null);
	const following = useRef(true);
	const [away, setAway] = useState(false);

	const toEnd = () => {
		following.current = true;
		setAway(false);
		const box = scroller.current;
		if (box) box.scrollTop = box.scrollHeight;
	};

	// biome-ignore lint/correctness/useExhaustiveDependencies: only a new message takes the reader back to the end
	useLayoutEffect(toEnd, [messages]);

	useEffect(() => {
		const [box, inner] = [scroller.current, content.current];
		if (!box || !inner) return;
		let before = box.scrollTop;
		const scrolled = () => {
			const left = box.scrollHeight - box.clientHeight - box.scrollTop;
			if (left < NEAR) following.current = true;
			else if (box.scrollTop < before) following.current = false;
			before = box.scrollTop;
			setAway(!following.current && left > box.clientHeight / 2);
		};
		const grown = new ResizeObserver(() => {
			if (following.current) box.scrollTop = box.scrollHeight;
		});
		grown.observe(inner);
		grown.observe(box);
		box.addEventListener("scroll", scrolled, { passive: true });
		return () => {
			grown.disconnect();
			box.removeEventListener("scroll", scrolled);
		};
	}, []);

	const letGo = () => {
		following.current = false;
	};
	return { scroller, content, away, toEnd, letGo };
}

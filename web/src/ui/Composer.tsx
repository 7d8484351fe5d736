// Where a person writes. Enter sends, Shift+Enter begins a line, Escape leaves. A draft survives a reload; a message that
// was refused stays where it is, with the reason.

import { ArrowUp, LoaderCircle, Square } from "lucide-react";
import { type KeyboardEvent, type Ref, useEffect, useImperativeHandle, useLayoutEffect, useRef, useState } from "react";
import { flushSync } from "react-dom";
import { Trouble } from "../data/server";
import { utf8Length } from "../log/growing";
import { recall, remember } from "./browser";

/** `message_bytes` of the server's limits, which has the last word. */
const MESSAGE_MOST = 32 * 1024;

export interface ComposerHandle {
	/** Puts a text in the place of what is there; `focus`: and goes there. */
	fill(text: string, focus: boolean): void;
	/** Adds a text to what is there, unless it is there already, and goes there. */
	add(text: string): void;
}

interface ComposerProps {
	/** Under which a draft is kept. */
	draft: string;
	placeholder: string;
	large?: boolean;
	autoFocus?: boolean;
	/** Whether a run is at work: then the button stops it. */
	busy?: boolean;
	stopping?: boolean;
	ref?: Ref<ComposerHandle>;
	onSend(text: string): Promise<void>;
	onStop?(): Promise<void>;
}

export function Composer({ draft, placeholder, large, autoFocus, busy, stopping, ref, onSend, onStop }: ComposerProps) {
	const key = `baton-draft:${draft}`;
	const [text, setText] = useState(() => recall(sessionStorage, key) ?? "");
	const [sending, setSending] = useState(false);
	const [trouble, setTrouble] = useState<Trouble>();
	const area = useRef<HTMLTextAreaElement>(null);

	useEffect(() => remember(sessionStorage, key, text), [key, text]);
	// biome-ignore lint/correctness/useExhaustiveDependencies: the height follows the text
	useLayoutEffect(() => {
		const box = area.current;
		if (!box) return;
		box.style.height = "0";
		box.style.height = `${Math.min(box.scrollHeight, window.innerHeight * 0.4)}px`;
	}, [text]);
	useEffect(() => {
		if (autoFocus) area.current?.focus({ preventScroll: true });
	}, [autoFocus]);
	const write = (written: string, focus: boolean) => {
		flushSync(() => setText(written));
		if (!focus) return;
		area.current?.focus();
		area.current?.setSelectionRange(written.length, written.length);
	};
	useImperativeHandle(ref, () => ({
		fill: write,
		add(added) {
			const kept = text.trimEnd();
			write(kept === "" ? added : kept.includes(added.trim()) ? text : `${kept}\n\n${added}`, true);
		},
	}));

	const bytes = utf8Length(text);
	const tooLong = bytes > MESSAGE_MOST;
	const ready = text.trim() !== "" && !tooLong && !sending && !busy;

	const attempt = async (action: () => Promise<void>) => {
		setTrouble(undefined);
		setSending(true);
		try {
			await action();
		} catch (reason) {
			setTrouble(Trouble.of(reason));
		} finally {
			setSending(false);
		}
	};
	const send = () =>
		attempt(async () => {
			await onSend(text.trim());
			setText("");
			remember(sessionStorage, key, undefined);
		});
	const press = (event: KeyboardEvent) => {
		if (event.key === "Escape") area.current?.blur();
		if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
		event.preventDefault();
		if (ready) void send();
	};

	return (
		<div className="w-full">
			<form
				className="rounded-xl border border-line-strong bg-bg shadow-xs transition-[border-color,box-shadow] focus-within:border-accent focus-within:ring-3 focus-within:ring-accent/15"
				onSubmit={(event) => {
					event.preventDefault();
					if (ready) void send();
				}}
			>
				<textarea
					ref={area}
					id="message"
					aria-label="Message"
					aria-describedby="message-help"
					aria-invalid={tooLong}
					className={`block w-full resize-none bg-transparent px-3.5 pt-3 pb-1 text-[1rem] leading-6 outline-none placeholder:text-faint md:text-prose ${large ? "min-h-22" : "min-h-9"}`}
					rows={large ? 3 : 1}
					placeholder={placeholder}
					value={text}
					onChange={(event) => setText(event.target.value)}
					onKeyDown={press}
				/>
				<div className="flex items-center gap-2 px-2 pb-2">
					<p id="message-help" className="min-w-0 flex-1 truncate px-1.5 text-xs text-faint">
						{tooLong ? (
							<span className="text-bad">Too long: {Math.ceil(bytes / 1024)} of 32 KB</span>
						) : busy ? (
							<>
								Baton is at work.<span className="max-sm:hidden"> Stop it to send something else.</span>
							</>
						) : (
							<span className="hidden sm:inline">Enter sends, Shift + Enter begins a new line</span>
						)}
					</p>
					{busy && onStop ? (
						<button
							type="button"
							aria-label="Stop"
							disabled={stopping || sending}
							onClick={() => void attempt(onStop)}
							className="inline-flex h-8 items-center gap-1.5 rounded-lg border border-line-strong bg-bg px-2.5 text-sm font-medium not-disabled:hover:bg-hover disabled:opacity-60"
						>
							<Square className="size-3 fill-current" aria-hidden />
							{stopping ? "Stopping…" : "Stop"}
						</button>
					) : (
						<button
							type="submit"
							aria-label="Send"
							title="Send"
							disabled={!ready}
							className="inline-flex size-8 items-center justify-center rounded-lg bg-text text-bg transition-opacity not-disabled:hover:opacity-85 disabled:opacity-25"
						>
							{sending ? (
								<LoaderCircle className="size-4 animate-spin" aria-hidden />
							) : (
								<ArrowUp className="size-4" strokeWidth={2.5} aria-hidden />
							)}
						</button>
					)}
				</div>
			</form>
			{trouble && (
				<p role="alert" className="mt-2 px-1 text-sm text-bad">
					{trouble.message} <span className="text-muted">{trouble.action}</span>
				</p>
			)}
		</div>
	);
}

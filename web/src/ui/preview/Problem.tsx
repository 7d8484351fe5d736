// What went wrong with a preview, told beside it: never over the last good page.

import { CircleAlert, Hammer, TriangleAlert, X } from "lucide-react";
import { Button, IconButton } from "../Button";
import { Words } from "../parts/Words";
import { placeText, type Told } from "./problems";

interface ProblemProps {
	told: Told;
	onOpenFile(path: string): void;
	/** Whether a file can be opened. */
	isFile(path: string): boolean;
	onAsk(told: Told): void;
	onDismiss(told: Told): void;
}

/** What nobody mends by itself: with a way to ask for it. */
export function ErrorBanner({ told, onOpenFile, isFile, onAsk, onDismiss }: ProblemProps) {
	return (
		<div
			role="status"
			data-testid="preview-problem"
			data-code={told.code}
			className="flex shrink-0 animate-arrive items-center gap-2.5 border-b border-bad/25 bg-bad-soft py-1.5 pr-2 pl-3 text-sm max-sm:flex-wrap"
		>
			<CircleAlert className="size-4 shrink-0 text-bad" aria-hidden />
			<p className="line-clamp-2 min-w-0 flex-1 wrap-anywhere" title={told.message}>
				{told.kind === "code" && told.place && (
					<>
						<PlaceButton told={told} onOpenFile={onOpenFile} isFile={isFile} />{" "}
					</>
				)}
				<span className="text-muted">{lead(told)} </span>
				<Message told={told} />
				<More told={told} />
				{told.kind === "page" && told.place && (
					<>
						{" "}
						<PlaceButton told={told} onOpenFile={onOpenFile} isFile={isFile} />
					</>
				)}
				{told.stays && <span className="text-muted"> — the last good page stays</span>}
			</p>
			<span className="flex shrink-0 items-center gap-0.5 max-sm:w-full max-sm:justify-end">
				<Button className="h-7 px-2.5 text-xs" onClick={() => onAsk(told)}>
					Ask to fix
				</Button>
				<IconButton icon={X} name="Dismiss" className="size-7" onClick={() => onDismiss(told)} />
			</span>
		</div>
	);
}

/** What the run is at work on, in one slim line. It goes away with the next good page. */
export function ProblemStrip({ told, onOpenFile, isFile }: Omit<ProblemProps, "onAsk" | "onDismiss">) {
	const later = told.kind === "later";
	const Icon = later ? Hammer : TriangleAlert;
	return (
		<div
			role="status"
			data-testid="preview-problem"
			data-code={told.code}
			className={`flex min-h-8 shrink-0 animate-arrive items-center gap-2 border-t px-3 py-1 text-xs ${later ? "border-line bg-raised text-muted" : "border-warn/25 bg-warn-soft"}`}
		>
			<Icon className={`size-3.5 shrink-0 ${later ? "text-faint" : "text-warn"}`} aria-hidden />
			<p className="line-clamp-2 min-w-0 flex-1 wrap-anywhere" title={told.message}>
				{told.place && !later && (
					<>
						<PlaceButton told={told} onOpenFile={onOpenFile} isFile={isFile} />{" "}
					</>
				)}
				<span className={told.kind === "code" ? "" : "text-muted"}>{lead(told)} </span>
				<Message told={told} />
				<More told={told} />
				{told.stays && <span className="text-muted"> — the last good page stays</span>}
			</p>
		</div>
	);
}

function lead(told: Told): string {
	if (told.kind === "later") return "Shown after the build:";
	if (told.kind === "code") return "";
	return told.code === "blank_page" ? "The app shows nothing:" : "The app reported an error:";
}

function Message({ told }: { told: Told }) {
	if (told.kind === "page") return told.message;
	return <Words text={told.message} />;
}

function More({ told }: { told: Told }) {
	return told.others > 0 ? <span className="text-faint"> and {told.others} more</span> : null;
}

function PlaceButton({ told, onOpenFile, isFile }: Pick<ProblemProps, "told" | "onOpenFile" | "isFile">) {
	if (!told.place) return null;
	const { path } = told.place;
	const text = placeText(told.place);
	return isFile(path) ? (
		<button
			type="button"
			title="Show in Files"
			className="rounded-sm font-mono text-[0.95em] text-text underline decoration-line-strong underline-offset-2 hover:decoration-current"
			onClick={() => onOpenFile(path)}
		>
			{text}
		</button>
	) : (
		<span className="font-mono text-[0.95em] text-muted">{text}</span>
	);
}

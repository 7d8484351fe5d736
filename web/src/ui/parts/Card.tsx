// The frame of every card in the conversation: a line that says what and how it stands, and a body that can be opened.

import { ChevronRight, type LucideIcon } from "lucide-react";
import { type ReactNode, useState } from "react";

interface CardProps {
	testId: string;
	icon: LucideIcon;
	/** The icon's colour and motion. */
	iconClass?: string;
	title: ReactNode;
	/** Makes the title a button of its own, beside the one that opens the body. */
	onTitle?: () => void;
	/** At the end of the line. */
	meta?: ReactNode;
	/** For tests and styles: how it stands. */
	state: string;
	/** Whether it is open as long as the reader has not chosen. */
	open?: boolean;
	tone?: "plain" | "warn" | "bad";
	/** Without a body there is nothing to open. */
	children?: ReactNode;
}

const ROW = "flex min-h-9 items-center gap-2.5 px-3 py-1.5 -outline-offset-2";
const TONES = { plain: "border-line", warn: "border-warn/35", bad: "border-bad/35" };

export function Card({
	testId,
	icon: Icon,
	iconClass,
	title,
	onTitle,
	meta,
	state,
	open = false,
	tone = "plain",
	children,
}: CardProps) {
	const [chosen, setChosen] = useState<boolean>();
	const isOpen = Boolean(children) && (chosen ?? open);
	const toggle = () => setChosen(!isOpen);
	const face = <Icon className={`size-4 shrink-0 ${iconClass ?? "text-faint"}`} aria-hidden />;
	const name = <span className="min-w-0 flex-1 truncate text-left">{title}</span>;
	const end = meta && (
		<span className="flex shrink-0 items-center gap-1.5 text-xs text-faint tabular-nums">{meta}</span>
	);
	const chevron = (
		<ChevronRight
			className={`size-3.5 shrink-0 text-faint transition-transform ${isOpen ? "rotate-90" : ""}`}
			aria-hidden
		/>
	);
	return (
		<div
			data-testid={testId}
			data-state={state}
			className={`overflow-clip rounded-lg border bg-raised text-sm ${TONES[tone]}`}
		>
			{onTitle ? (
				<div className="flex items-center">
					<button
						type="button"
						title="Show in Files"
						onClick={onTitle}
						className={`${ROW} min-w-0 flex-1 hover:bg-hover`}
					>
						{face}
						{name}
						{end}
					</button>
					{children && (
						<button
							type="button"
							aria-expanded={isOpen}
							aria-label="What changed"
							onClick={toggle}
							className="-ml-2 flex size-9 shrink-0 items-center justify-center -outline-offset-2 hover:bg-hover"
						>
							{chevron}
						</button>
					)}
				</div>
			) : children ? (
				<button type="button" aria-expanded={isOpen} onClick={toggle} className={`${ROW} w-full hover:bg-hover`}>
					{face}
					{name}
					{end}
					{chevron}
				</button>
			) : (
				<div className={ROW}>
					{face}
					{name}
					{end}
				</div>
			)}
			{isOpen && <div className="border-t border-line">{children}</div>}
		</div>
	);
}

// The small parts between the cards: turns, checks, versions, trouble.

import { CircleAlert, CircleCheck, CircleX, Eye, FilePlus2, Info, Rocket, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import type { NoticeItem, ShownItem, StageItem, TurnItem, VersionItem, WroteItem } from "../../log/state";
import { count, took } from "../format";

/** Names of files that are listed. */
const NAMES_MOST = 6;

const FINISHES: Record<NonNullable<TurnItem["finish"]>, string> = {
	stop: "",
	length: "the answer was cut off at the model's output limit",
	content_filter: "the provider refused to go on",
	limit: "Baton stopped the answer at a limit",
	broken: "the connection to the model broke off",
};

/** Marks where the model was asked again, and how an answer ended that did not end well. */
export function TurnLine({ item }: { item: TurnItem }) {
	const finish = item.finish ? FINISHES[item.finish] : "";
	if (item.turn === 1 && finish === "") return null;
	return (
		<div className="flex items-center gap-3 pt-3 pb-1 text-xs text-faint">
			<span className="shrink-0">
				Turn {item.turn}
				{finish && `: ${finish}`}
			</span>
			<span className="h-px flex-1 bg-line" />
		</div>
	);
}

export function StageLine({ item }: { item: StageItem }) {
	const [done, failed] =
		item.stage === "check" ? ["Project checked", "The check found problems"] : ["", "Could not be published"];
	switch (item.state) {
		case "failed":
		case "dead_lettered":
			return (
				<Line icon={<CircleX className="size-4 text-bad" aria-hidden />}>
					<span className="text-text">{failed}</span>
					{item.reason && <span className="mt-0.5 block whitespace-pre-wrap wrap-anywhere">{item.reason}</span>}
				</Line>
			);
		case "completed":
			// What is published says so itself.
			return item.stage === "publish" ? null : (
				<Line icon={<CircleCheck className="size-4" aria-hidden />}>{done}</Line>
			);
		default:
			// What is going on is said once, at the end.
			return null;
	}
}

export function VersionLine({ item, onOpen }: { item: VersionItem; onOpen(): void }) {
	return (
		<Line icon={<Rocket className="size-4 text-accent" aria-hidden />}>
			<button type="button" className="rounded-sm text-left text-text hover:underline" onClick={onOpen}>
				New version published
			</button>
			<span className="text-faint"> · {count(item.files, "file")}</span>
		</Line>
	);
}

/** When there was something to look at, long before it was built. */
export function ShownLine({ item, onOpen }: { item: ShownItem; onOpen(): void }) {
	return (
		<Line icon={<Eye className="size-4 text-accent" aria-hidden />}>
			<button type="button" className="rounded-sm text-left text-text hover:underline" onClick={onOpen}>
				On screen after {took(item.afterMs)}
			</button>
			<span className="text-faint"> · straight from the files</span>
		</Line>
	);
}

export function WroteLine({ item }: { item: WroteItem }) {
	const more = item.paths.length - NAMES_MOST;
	return (
		<Line icon={<FilePlus2 className="size-4" aria-hidden />}>
			{item.by === "person" ? "You" : "The command"} changed {count(item.paths.length, "file")}:{" "}
			<span className="font-mono text-xs wrap-anywhere">{item.paths.slice(0, NAMES_MOST).join(", ")}</span>
			{more > 0 && ` and ${count(more, "other")}`}
		</Line>
	);
}

export function NoticeLine({ item }: { item: NoticeItem }) {
	const icons = {
		info: <Info className="size-4" aria-hidden />,
		warning: <TriangleAlert className="size-4 text-warn" aria-hidden />,
		error: <CircleAlert className="size-4 text-bad" aria-hidden />,
	};
	return (
		<Line icon={icons[item.tone]}>
			<span className={`wrap-anywhere ${item.tone === "error" ? "text-text" : ""}`}>{item.message}</span>
			{item.action && <span className="block text-faint">{item.action}</span>}
		</Line>
	);
}

function Line({ icon, children }: { icon: ReactNode; children: ReactNode }) {
	return (
		<div className="flex gap-2.5 px-3 py-1 text-sm text-muted">
			<span className="mt-0.5 shrink-0 text-faint">{icon}</span>
			<p className="min-w-0 flex-1">{children}</p>
		</div>
	);
}

// The app beside the conversation, in a frame of another origin: from its files while they are written, then as it was built.

import { CircleAlert, ExternalLink, LoaderCircle, RotateCw } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { server } from "../data/server";
import { isOver, type Run } from "../log/state";
import { IconButton } from "./Button";
import { useLibrary } from "./context";
import { Frames } from "./preview/Frames";
import { askToFix } from "./preview/message";
import { NoPreview } from "./preview/NoPreview";
import { ErrorBanner, ProblemStrip } from "./preview/Problem";
import type { Page } from "./preview/page";
import { placeText, type Told, toTell } from "./preview/problems";
import { Reports } from "./preview/reports";
import { type OnProblem, useStage } from "./preview/useStage";

interface PreviewProps {
	/** The newest page, if there is one. */
	page: Page | undefined;
	/** Whether it is known what there is to show. */
	ready: boolean;
	project: string | undefined;
	run: Run | undefined;
	onOpenFile(path: string): void;
	/** Puts a request where the person can send it. */
	onAsk(text: string): void;
}

export function Preview({ page, ready, project, run, onOpenFile, onAsk }: PreviewProps) {
	const { runs } = useLibrary();
	const elements = useRef(new Map<number, HTMLIFrameElement>());
	const [reports] = useState(() => new Reports());
	const [dismissed, setDismissed] = useState<ReadonlySet<string>>(new Set());

	const onProblem: OnProblem = ({ page: { kind, run: maker, revision } }, problem, said) => {
		const made = maker === undefined ? undefined : runs.get(maker);
		if (kind !== "instant" || !revision || !made || isOver(made)) return;
		// The server gives the newest page, which may be newer than the one that was asked for.
		reports.tell(made.id, said ?? revision, problem);
	};
	const { stage, tell } = useStage(page, elements, onProblem);

	if (!page && !ready) return null;
	const told = toTell(stage, page, run, dismissed);
	const isFile = (path: string) => /^(src|public)\/|^[^/]+\.\w+$/.test(path);
	const banner = told?.mine && (
		<ErrorBanner
			told={told}
			isFile={isFile}
			onOpenFile={onOpenFile}
			onAsk={() => onAsk(askToFix(told.kind, told.message, told.place && placeText(told.place)))}
			onDismiss={({ message }: Told) => setDismissed(new Set([...dismissed, message]))}
		/>
	);
	return (
		<div className="flex h-full flex-col">
			{page && (stage.shown || page.final) && (
				<Bar
					shown={stage.shown?.page}
					page={page}
					project={project}
					run={run}
					onReload={() => tell({ type: "reload" })}
				/>
			)}
			{banner}
			<div className="relative min-h-0 flex-1">
				<Frames stage={stage} elements={elements} tell={tell} />
				{!stage.shown && (
					<div className="absolute inset-0">
						{page?.final ? <div className="h-full bg-raised" /> : <NoPreview run={run} />}
					</div>
				)}
			</div>
			{told && !told.mine && <ProblemStrip told={told} isFile={isFile} onOpenFile={onOpenFile} />}
		</div>
	);
}

interface BarProps {
	shown: Page | undefined;
	page: Page;
	project: string | undefined;
	run: Run | undefined;
	onReload(): void;
}

/** What is shown, where it is and what there is beside it. */
function Bar({ shown, page, project, run, onReload }: BarProps) {
	return (
		<div className="flex h-11 shrink-0 items-center gap-1.5 border-b border-line px-2">
			<IconButton icon={RotateCw} name="Reload preview" onClick={onReload} />
			<div className="flex h-7 min-w-0 flex-1 items-center gap-2.5 rounded-md border border-line bg-raised px-2.5 font-mono text-xs text-muted">
				<span data-testid="preview-address" className="min-w-0 flex-1 truncate" title={page.origin}>
					{page.origin.replace(/^https?:\/\//, "")}
				</span>
				<News shown={shown} run={run} />
				{shown && <Kind page={shown} project={project} run={run} />}
			</div>
			<a
				href={(shown ?? page).src}
				target="_blank"
				rel="noopener"
				aria-label="Open preview in a new tab"
				title="Open preview in a new tab"
				className="inline-flex size-8 items-center justify-center rounded-md text-muted hover:bg-hover hover:text-text"
			>
				<ExternalLink className="size-4" aria-hidden />
			</a>
		</div>
	);
}

/** What the frame shows: of the page that is seen, not of one that is to come (E26). */
function Kind({ page, project, run }: { page: Page; project: string | undefined; run: Run | undefined }) {
	const version = useVersion(project, page.version);
	if (page.kind === "built") {
		return (
			<span data-testid="preview-kind" data-kind="built" className="shrink-0 font-sans text-faint">
				Built ·{" "}
				<span data-testid="preview-version" data-version={page.version}>
					{version}
				</span>
			</span>
		);
	}
	const coming = run !== undefined && !isOver(run);
	return (
		<span
			data-testid="preview-kind"
			data-kind="instant"
			data-revision={page.revision}
			title={
				coming
					? "Shown from the files as they are now. The real build follows."
					: "Shown from the files as they are. The run ended before they were built."
			}
			className="flex shrink-0 items-center gap-1.5 font-sans text-muted"
		>
			<span className={`size-1.5 rounded-full ${coming ? "animate-breathe bg-accent" : "bg-warn"}`} aria-hidden />
			<span>Instant · not built{coming && " yet"}</span>
		</span>
	);
}

/** What the frame does not show yet, or never will. */
function News({ shown, run }: { shown: Page | undefined; run: Run | undefined }) {
	if (!run) return null;
	if (!isOver(run) && (run.phase === "building" || run.phase === "publishing")) {
		return (
			<span className="flex shrink-0 items-center gap-1 font-sans text-accent">
				<LoaderCircle className="size-3 animate-spin" aria-hidden />
				<span className="max-sm:sr-only">Building…</span>
			</span>
		);
	}
	const lost = isOver(run) && run.stopReason !== "done" && shown?.kind === "built" && shown.run !== run.id;
	return lost ? (
		<span
			className="flex shrink-0 items-center gap-1 font-sans text-warn"
			title="The latest run did not publish anything."
		>
			<CircleAlert className="size-3" aria-hidden />
			<span className="max-sm:sr-only">Before the latest run</span>
		</span>
	) : null;
}

/** A version's number in its project, counted from the first; the end of its id until that is known. */
function useVersion(project: string | undefined, version: string | undefined): string {
	const [numbers, setNumbers] = useState<ReadonlyMap<string, number>>(new Map());
	useEffect(() => {
		if (!project || !version) return;
		let stale = false;
		const number = async () => {
			const page = await server.versions(project);
			if (stale || page.next) return;
			const oldestFirst = [...page.items].sort((a, b) => a.created_at - b.created_at);
			setNumbers(new Map(oldestFirst.map(({ id }, i) => [id, i + 1])));
		};
		void number().catch(() => {});
		return () => {
			stale = true;
		};
	}, [project, version]);
	if (!version) return "";
	const number = numbers.get(version);
	return number ? `Version ${number}` : `Version …${version.slice(-4)}`;
}

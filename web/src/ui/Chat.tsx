// A chat: the conversation on the left, what it makes on the right; on a narrow screen one of them at a time.

import { ChevronRight, Eye, SearchX } from "lucide-react";
import { type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { flushSync } from "react-dom";
import { RUNS_READ } from "../data/library";
import { isOver, type Run } from "../log/state";
import { useWide } from "./browser";
import { Composer, type ComposerHandle } from "./Composer";
import { Conversation } from "./Conversation";
import { useLibrary, useLibraryState, useRuns } from "./context";
import { Files } from "./Files";
import { LinkPill } from "./LinkPill";
import { ModelBadge } from "./ModelBadge";
import { Notice } from "./Outside";
import { Preview } from "./Preview";
import { newest, type Page } from "./preview/page";
import { Split } from "./Split";
import { type TabName, Tabs } from "./Tabs";

export function Chat({ id, menu }: { id: string; menu: ReactNode }) {
	const library = useLibrary();
	const { details, missing } = useLibraryState();
	const detail = details.get(id);
	const trouble = missing.get(id);

	useEffect(() => {
		const load = () => document.visibilityState === "visible" && void library.openChat(id);
		void library.openChat(id);
		document.addEventListener("visibilitychange", load);
		return () => document.removeEventListener("visibilitychange", load);
	}, [library, id]);

	useEffect(() => {
		document.title = detail ? `${detail.chat.title} · Baton` : "Baton";
		return () => {
			document.title = "Baton";
		};
	}, [detail]);

	if (trouble && !detail) {
		return (
			<div className="flex min-w-0 flex-1 flex-col">
				<header className="flex h-12 items-center px-3">{menu}</header>
				<Notice icon={<SearchX className="size-5" aria-hidden />} title="This chat cannot be shown">
					<p>
						{trouble.message} {trouble.action}
					</p>
				</Notice>
			</div>
		);
	}
	return <OpenChat id={id} menu={menu} />;
}

function OpenChat({ id, menu }: { id: string; menu: ReactNode }) {
	const library = useLibrary();
	const detail = useLibraryState().details.get(id);
	const wide = useWide();
	const views = detail?.runs ?? [];
	const latestId = views.at(-1)?.id;
	// biome-ignore lint/correctness/useExhaustiveDependencies: the runs differ when the latest does
	const ids = useMemo(() => views.slice(-RUNS_READ).map((view) => view.id), [latestId]);
	const runs = useRuns(ids);
	const run = runs.at(-1);
	const caughtUp = ids.every((known) => library.runs.hasCaughtUp(known));
	const page = useSame(caughtUp ? newest(runs, detail?.preview ?? undefined) : undefined);
	const busy = run !== undefined && !isOver(run);

	const [tab, setTab] = useState<TabName>("Preview");
	const [narrowTab, setNarrowTab] = useState<TabName>("Conversation");
	const [picked, setPicked] = useState<{ path: string; at: number }>();
	const show = useCallback((name: TabName) => {
		setTab(name);
		setNarrowTab(name);
	}, []);
	const openFile = useCallback(
		(path: string) => {
			setPicked({ path, at: performance.now() });
			show("Files");
		},
		[show],
	);
	const openPreview = useCallback(() => show("Preview"), [show]);
	const composer = useRef<ComposerHandle>(null);
	const suggest = useCallback((text: string) => {
		flushSync(() => setNarrowTab("Conversation"));
		composer.current?.add(text);
	}, []);
	const news = useUnseen(page, busy ? run.id : undefined, !wide && narrowTab !== "Preview");
	const send = useCallback(
		async (text: string) => {
			await library.send(id, text);
		},
		[library, id],
	);

	const retry = useCallback((run: string) => library.retry(run), [library]);

	const header = (
		<header className="flex h-12 shrink-0 items-center gap-2 px-3">
			{menu}
			<h1 className="min-w-0 flex-1 truncate text-sm font-medium" title={detail?.chat.title}>
				{detail?.chat.title}
			</h1>
			{wide && <ModelBadge />}
		</header>
	);
	const conversation = (
		<div className="relative flex h-full min-h-0 min-w-0 flex-col">
			<div className="pointer-events-none absolute inset-x-0 top-2 z-20 flex justify-center">
				<LinkPill />
			</div>
			{detail ? (
				<Conversation
					detail={detail}
					onOpenFile={openFile}
					onOpenPreview={openPreview}
					onRetry={retry}
					onSuggest={suggest}
				/>
			) : (
				<div className="flex-1" />
			)}
			<div className="mx-auto w-full max-w-3xl shrink-0 px-4 pb-4 max-md:px-3 max-md:pb-3">
				{news && <PreviewReady onOpen={openPreview} />}
				<Composer
					ref={composer}
					draft={id}
					placeholder={busy ? "Write what comes next" : "What should change?"}
					autoFocus={wide}
					busy={busy}
					stopping={run?.cancelRequested ?? false}
					onSend={send}
					onStop={run && (() => library.cancel(run.id))}
				/>
			</div>
		</div>
	);
	const project = detail?.chat.project_id;
	const panel = (name: TabName) =>
		name === "Conversation" ? (
			conversation
		) : name === "Preview" ? (
			<Preview
				page={page}
				ready={caughtUp && detail !== undefined}
				project={project}
				run={run}
				onOpenFile={openFile}
				onAsk={suggest}
			/>
		) : (
			<Files project={project} run={run} ready={caughtUp} picked={picked} />
		);

	if (!wide) {
		return (
			<main className="flex min-w-0 flex-1 flex-col">
				{header}
				<div className="flex items-center px-3 pb-1">
					<ModelBadge place="left-0 top-full mt-2" />
				</div>
				<Tabs
					names={["Conversation", "Files", "Preview"]}
					selected={narrowTab}
					onSelect={setNarrowTab}
					marks={marks(run, news)}
					panel={panel}
				/>
			</main>
		);
	}
	return (
		<main className="flex min-w-0 flex-1">
			<Split
				left={
					<div className="flex h-full flex-col">
						{header}
						<div className="min-h-0 flex-1">{conversation}</div>
					</div>
				}
				right={
					<Tabs names={["Preview", "Files"]} selected={tab} onSelect={show} marks={marks(run, false)} panel={panel} />
				}
			/>
		</main>
	);
}

/** On a narrow screen, what can be looked at elsewhere: nobody is taken there. */
function PreviewReady({ onOpen }: { onOpen(): void }) {
	return (
		<button
			type="button"
			onClick={onOpen}
			className="mb-2 flex h-9 w-full animate-arrive items-center gap-2.5 rounded-lg border border-line bg-accent-soft px-3 text-left text-sm font-medium text-accent"
		>
			<Eye className="size-4 shrink-0" aria-hidden />
			<span className="min-w-0 flex-1 truncate">Preview ready</span>
			<ChevronRight className="size-4 shrink-0" aria-hidden />
		</button>
	);
}

/** The same object as long as it says the same. */
function useSame(page: Page | undefined): Page | undefined {
	const last = useRef(page);
	const same =
		last.current?.key === page?.key && last.current?.final === page?.final && last.current?.run === page?.run;
	if (!same) last.current = page;
	return last.current;
}

/** Whether a run that was seen at work has made a page while the person is `elsewhere`, and none of it was looked at. */
function useUnseen(page: Page | undefined, active: string | undefined, elsewhere: boolean): boolean {
	const [watched, setWatched] = useState(active);
	const [seen, setSeen] = useState<string>();
	const made = page?.run;
	useEffect(() => {
		if (active) setWatched(active);
	}, [active]);
	useEffect(() => {
		if (!elsewhere && made) setSeen(made);
	}, [elsewhere, made]);
	return elsewhere && made !== undefined && made === watched && made !== seen;
}

/** Tabs where something is going on. */
function marks(run: Run | undefined, unseen: boolean): ReadonlySet<TabName> {
	const marked = new Set<TabName>();
	if (run && run.open.size > 0) marked.add("Files");
	if (unseen || (run && !isOver(run) && (run.phase === "building" || run.phase === "publishing")))
		marked.add("Preview");
	return marked;
}

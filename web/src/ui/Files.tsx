// The project's files and one of them to read. While the model writes, it shows what is being written, until the reader
// picks something else.

import { ChevronLeft, Eye, LoaderCircle } from "lucide-react";
import { lazy, Suspense, useEffect, useState } from "react";
import { type FileEntry, useFiles, useText } from "../data/files";
import { Trouble } from "../data/server";
import { isOver, type Run } from "../log/state";
import { Button, IconButton } from "./Button";
import { useWide } from "./browser";
import { count, size } from "./format";
import { Tree } from "./Tree";

const CodeView = lazy(() => import("./CodeView"));

interface FilesProps {
	project: string | undefined;
	run: Run | undefined;
	ready: boolean;
	/** A file that was asked for elsewhere, and when. */
	picked: { path: string; at: number } | undefined;
}

export function Files({ project, run, ready, picked }: FilesProps) {
	const { files, loading, trouble } = useFiles(project, run, ready);
	const wide = useWide();
	const [chosen, setChosen] = useState<string>();
	const [following, setFollowing] = useState(true);
	const active = run !== undefined && !isOver(run);
	const runId = run?.id;

	// biome-ignore lint/correctness/useExhaustiveDependencies: a new run is followed again
	useEffect(() => setFollowing(true), [runId]);
	useEffect(() => {
		if (!picked) return;
		setChosen(picked.path);
		setFollowing(false);
	}, [picked]);

	const written = active && following ? files.findLast((file) => file.writing)?.path : undefined;
	useEffect(() => {
		if (written && wide) setChosen(written);
	}, [written, wide]);

	const path = chosen ?? (wide ? firstChoice(files) : undefined);
	const file = files.find((candidate) => candidate.path === path);
	const pick = (to: string) => {
		setChosen(to);
		setFollowing(false);
	};

	if (files.length === 0) {
		return (
			<div className="flex h-full items-center justify-center p-6 text-sm text-faint">
				{trouble ? `${trouble.message} ${trouble.action}` : loading ? "" : "There are no files yet."}
			</div>
		);
	}
	const tree = (
		<nav aria-label="Files" className={`overflow-y-auto ${wide ? "w-56 shrink-0 border-r border-line" : "h-full"}`}>
			<p className="flex h-9 items-center px-3.5 text-xs text-faint">{count(files.length, "file")}</p>
			<Tree files={files} selected={path} onPick={pick} />
		</nav>
	);
	const code = file ? (
		<div className="flex h-full min-h-0 min-w-0 flex-1 flex-col">
			<div className="flex h-9 shrink-0 items-center gap-2 border-b border-line pr-3 pl-3.5 text-xs">
				{!wide && (
					<IconButton icon={ChevronLeft} name="All files" className="-ml-2" onClick={() => setChosen(undefined)} />
				)}
				<span className="min-w-0 flex-1 truncate font-mono text-muted" title={file.path}>
					{file.path}
				</span>
				{active && !following && wide && (
					<Button look="quiet" className="h-6 px-2 text-xs" onClick={() => setFollowing(true)}>
						<Eye className="size-3.5" aria-hidden /> Follow
					</Button>
				)}
				{file.writing && (
					<LoaderCircle className="size-3.5 animate-spin text-accent" aria-label="being written" role="img" />
				)}
				<span className="shrink-0 text-faint tabular-nums">{size(file.bytes)}</span>
			</div>
			<div className="min-h-0 flex-1">
				<Text project={project} file={file} />
			</div>
		</div>
	) : (
		<div className="flex flex-1 items-center justify-center p-6 text-sm text-faint">
			{path ? "This file is gone." : "Choose a file."}
		</div>
	);
	if (!wide) return <div className="h-full">{file ? code : tree}</div>;
	return (
		<div className="flex h-full">
			{tree}
			{code}
		</div>
	);
}

/** What a reader most likely wants to see first. */
function firstChoice(files: readonly FileEntry[]): string | undefined {
	const main = files.find((file) => /(^|\/)(App|main|index)\.(tsx|jsx|ts|js)$/.test(file.path));
	return (main ?? files[0])?.path;
}

function Text({ project, file }: { project: string | undefined; file: FileEntry }) {
	const fetched = useText(project, file.path, file.text ? "" : file.sha256);
	if (fetched instanceof Trouble) {
		return (
			<p className="p-4 text-sm text-muted">
				{fetched.message} {fetched.action}
			</p>
		);
	}
	return (
		<Suspense fallback={null}>
			<CodeView path={file.path} text={file.text ?? fetched} live={file.writing} />
		</Suspense>
	);
}

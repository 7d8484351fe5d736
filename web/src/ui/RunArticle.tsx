// One run: what was asked, what came of it part by part, and how it stands.

import { memo } from "react";
import type { components } from "../contract";
import { isBlank } from "../log/growing";
import type { Item } from "../log/state";
import { Said } from "./Conversation";
import { useLibrary, useRun } from "./context";
import { BuildCard } from "./parts/BuildCard";
import { FileCard } from "./parts/FileCard";
import { NoticeLine, ShownLine, StageLine, TurnLine, VersionLine, WroteLine } from "./parts/Lines";
import { NextSteps } from "./parts/NextSteps";
import { ProblemCard } from "./parts/ProblemCard";
import { Prose } from "./parts/Prose";
import { ThinkingCard } from "./parts/ThinkingCard";
import { ToolCard } from "./parts/ToolCard";
import { RunStatus } from "./RunStatus";

interface RunArticleProps {
	view: components["schemas"]["RunView"];
	said: string;
	latest: boolean;
	/** Whether it is the chat's first. */
	first: boolean;
	onOpenFile(path: string): void;
	onOpenPreview(): void;
	/** Begins a run again. */
	onRetry(run: string): Promise<void>;
	onSuggest(text: string): void;
}

export const RunArticle = memo(function RunArticle({
	view,
	said,
	latest,
	first,
	onOpenFile,
	onOpenPreview,
	onRetry,
	onSuggest,
}: RunArticleProps) {
	const run = useRun(view.id);
	const caughtUp = useLibrary().runs.hasCaughtUp(view.id);
	const lastBuild = run?.items.findLast((item) => item.kind === "build")?.key;
	const failure = run?.failure;
	return (
		<article className="space-y-4">
			<Said text={run?.session?.request ?? said} />
			{run && caughtUp ? (
				<>
					<div className="space-y-1.5">
						{run.items.map((item) => {
							// What ended the run is said once, at its end.
							if (item.kind === "notice" && item.tone === "error" && item.message === failure?.message) return null;
							return (
								<Part
									key={`${item.key}-${item.kind}`}
									item={item}
									lastBuild={item.key === lastBuild}
									onOpenFile={onOpenFile}
									onOpenPreview={onOpenPreview}
								/>
							);
						})}
					</div>
					<RunStatus run={run} latest={latest} onRetry={onRetry} />
					{first && latest && run.stopReason === "done" && <NextSteps onPick={onSuggest} />}
				</>
			) : (
				<div className="animate-late space-y-2" aria-hidden>
					<div className="h-4 w-2/3 rounded bg-hover" />
					<div className="h-4 w-1/2 rounded bg-hover" />
				</div>
			)}
		</article>
	);
});

interface PartProps {
	item: Item;
	lastBuild: boolean;
	onOpenFile(path: string): void;
	onOpenPreview(): void;
}

const Part = memo(function Part({ item, lastBuild, onOpenFile, onOpenPreview }: PartProps) {
	switch (item.kind) {
		case "turn":
			return <TurnLine item={item} />;
		case "prose":
			// Blanks between two files are text, too.
			return isBlank(item.text) ? null : (
				<div className="py-1.5">
					<Prose text={item.text} />
				</div>
			);
		case "thinking":
			return <ThinkingCard item={item} />;
		case "file":
			return <FileCard item={item} onOpen={onOpenFile} />;
		case "wrote":
			return <WroteLine item={item} />;
		case "tool":
			return <ToolCard item={item} />;
		case "build":
			return <BuildCard item={item} latest={lastBuild} />;
		case "stage":
			return <StageLine item={item} />;
		case "version":
			return <VersionLine item={item} onOpen={onOpenPreview} />;
		case "shown":
			return <ShownLine item={item} onOpen={onOpenPreview} />;
		case "problem":
			return <ProblemCard item={item} onOpen={onOpenFile} />;
		case "notice":
			return <NoticeLine item={item} />;
	}
});

// The app as it was built, in a frame of another origin. A new version takes the place of the old one by itself.

import { Check, CircleAlert, Dot, ExternalLink, Hammer, LoaderCircle, RotateCw } from "lucide-react";
import { useEffect, useState } from "react";
import type { components } from "../contract";
import { server } from "../data/server";
import { isOver, type Run } from "../log/state";
import { IconButton } from "./Button";
import { PHASES, STOPS } from "./format";

interface PreviewProps {
	address: components["schemas"]["PreviewView"] | undefined;
	project: string | undefined;
	run: Run | undefined;
}

export function Preview({ address, project, run }: PreviewProps) {
	const [loads, setLoads] = useState(0);
	const version = useVersion(project, address?.version);
	if (!address || !/^https?:\/\//.test(address.url)) return <NoPreview run={run} />;
	return (
		<div className="flex h-full flex-col">
			<div className="flex h-11 shrink-0 items-center gap-1.5 border-b border-line px-2">
				<IconButton icon={RotateCw} name="Reload preview" onClick={() => setLoads(loads + 1)} />
				<div className="flex h-7 min-w-0 flex-1 items-center gap-2 rounded-md border border-line bg-raised px-2.5 font-mono text-xs text-muted">
					<span data-testid="preview-address" className="min-w-0 flex-1 truncate" title={address.url}>
						{address.url.replace(/^https?:\/\//, "").replace(/\/$/, "")}
					</span>
					<News run={run} />
					<span data-testid="preview-version" data-version={address.version} className="shrink-0 font-sans text-faint">
						{version}
					</span>
				</div>
				<a
					href={address.url}
					target="_blank"
					rel="noopener"
					aria-label="Open preview in a new tab"
					title="Open preview in a new tab"
					className="inline-flex size-8 items-center justify-center rounded-md text-muted hover:bg-hover hover:text-text"
				>
					<ExternalLink className="size-4" aria-hidden />
				</a>
			</div>
			{/* Its own origin: the sandbox keeps it from this page's, and lets it be an app. */}
			<iframe
				key={`${address.version} ${loads}`}
				title="Preview"
				src={address.url}
				sandbox="allow-scripts allow-same-origin allow-forms allow-modals allow-popups"
				className="min-h-0 w-full flex-1 bg-[white]"
			/>
		</div>
	);
}

/** What the frame does not show yet, or never will. */
function News({ run }: { run: Run | undefined }) {
	if (!run) return null;
	if (!isOver(run) && (run.phase === "building" || run.phase === "publishing")) {
		return (
			<span className="flex shrink-0 items-center gap-1 font-sans text-accent">
				<LoaderCircle className="size-3 animate-spin" aria-hidden />
				<span className="max-sm:sr-only">New version coming</span>
			</span>
		);
	}
	const lost = isOver(run) && run.stopReason !== "done" && !run.preview;
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

const STAGES = ["generating", "checking", "building", "publishing"] as const;

function NoPreview({ run }: { run: Run | undefined }) {
	const over = run !== undefined && isOver(run);
	const at = run?.phase ? STAGES.indexOf(run.phase) : -1;
	return (
		<div className="flex h-full items-center justify-center overflow-y-auto bg-raised p-6">
			<div className="w-full max-w-xs animate-arrive">
				<div className="mb-4 flex size-10 items-center justify-center rounded-lg border border-line bg-bg text-faint">
					<Hammer className="size-5" aria-hidden />
				</div>
				<p className="font-medium">{over ? "There is no preview" : "Your app will appear here"}</p>
				{over ? (
					<p className="mt-1 text-muted">
						{run.stopReason !== "done" &&
							`${(run.failure?.message ?? STOPS[run.stopReason ?? "failed"].said).replace(/\.?$/, ".")} `}
						Nothing has been published in this chat yet.
					</p>
				) : (
					<>
						<p className="mt-1 text-muted">It opens by itself as soon as the first build is good.</p>
						<ol className="mt-5 space-y-2.5 text-sm">
							{STAGES.map((stage, i) => (
								<li
									key={stage}
									aria-current={i === at ? "step" : undefined}
									className={`flex items-center gap-2.5 ${i === at ? "text-text" : i < at ? "text-muted" : "text-faint"}`}
								>
									{i < at ? (
										<Check className="size-4 text-ok" aria-hidden />
									) : i === at ? (
										<LoaderCircle className="size-4 animate-spin text-accent" aria-hidden />
									) : (
										<Dot className="size-4" aria-hidden />
									)}
									{PHASES[stage]}
								</li>
							))}
						</ol>
					</>
				)}
			</div>
		</div>
	);
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

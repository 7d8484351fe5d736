// In the place of a preview that is not there: how far the run is, or why there is none.

import { Check, Dot, Hammer, LoaderCircle } from "lucide-react";
import { isOver, type Run } from "../../log/state";
import { PHASES, STOPS } from "../format";

const STAGES = ["generating", "checking", "building", "publishing"] as const;

export function NoPreview({ run }: { run: Run | undefined }) {
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
						Nothing that could be shown was made in this chat yet.
					</p>
				) : (
					<>
						<p className="mt-1 text-muted">
							{run?.problems.some(({ code }) => code === "unsupported")
								? "It opens by itself as soon as the build is good."
								: "It appears while the model writes, as soon as there is enough to show."}
						</p>
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

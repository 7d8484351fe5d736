// How a run stands: what it does and for how long, or how it ended. A limit is told as that limit, never as success.

import { CircleAlert, CircleCheck, CircleStop, LoaderCircle, TriangleAlert } from "lucide-react";
import { type ReactNode, useState } from "react";
import { Trouble } from "../data/server";
import { isOver, type Run } from "../log/state";
import { Button } from "./Button";
import { useNow } from "./browser";
import { useLinkState } from "./context";
import { capital, clock, count, PHASES, STOPS, took } from "./format";

interface RunStatusProps {
	run: Run;
	/** Whether it is the latest run of its chat, which is the one to be told about and to try again. */
	latest: boolean;
	onRetry(run: string): Promise<void>;
}

export function RunStatus({ run, latest, onRetry }: RunStatusProps) {
	const over = isOver(run);
	return (
		<div data-testid="run-status" data-status={run.status} data-stop-reason={run.stopReason} className="text-sm">
			{over ? <Outcome run={run} latest={latest} onRetry={onRetry} /> : <Progress run={run} />}
		</div>
	);
}

function Progress({ run }: { run: Run }) {
	const now = useNow(1_000);
	const lost = useLinkState() === "lost";
	const since = run.startedAt ?? run.queuedAt;
	return (
		<div className="flex items-center gap-2.5 px-3 text-muted">
			<LoaderCircle className="size-4 shrink-0 animate-spin text-accent" aria-hidden />
			<span role="status" className="min-w-0 truncate">
				{lost ? "Reconnecting; the run is safe in its log" : doing(run)}
			</span>
			{since !== undefined && (
				<span className="shrink-0 text-faint tabular-nums" role="timer" aria-label="Elapsed time">
					{clock(now - since)}
				</span>
			)}
		</div>
	);
}

function doing(run: Run): string {
	if (run.cancelRequested) return "Stopping…";
	if (run.status === "queued")
		return run.position > 0 ? `Waiting for ${count(run.position, "other run")}` : "Waiting to begin";
	return run.message ?? (run.phase ? PHASES[run.phase] : "Working");
}

function Outcome({ run, latest, onRetry }: RunStatusProps) {
	const reason = run.stopReason ?? "failed";
	const began = run.startedAt ?? run.queuedAt;
	const after = began !== undefined && run.endedAt !== undefined ? took(run.endedAt - began) : undefined;
	const again = latest && <TryAgain onTry={() => onRetry(run.id)} />;
	if (run.status === "failed") {
		return (
			<Box tone="bad" icon={<CircleAlert className="size-4" aria-hidden />} live={latest}>
				<p className="font-medium">{run.failure?.message ?? "The run could not be finished."}</p>
				{run.failure?.action && <p className="mt-0.5 text-muted">{run.failure.action}</p>}
				<p className="mt-1 text-xs text-faint">
					Failed{after && ` after ${after}`}
					{run.failure && ` · ${run.failure.code}`}
				</p>
				{again}
			</Box>
		);
	}
	if (run.status === "cancelled" || reason === "cancelled") {
		return (
			<>
				<Line icon={<CircleStop className="size-4 text-faint" aria-hidden />} live={latest}>
					Stopped{after && ` after ${after}`}. <span className="text-faint">{STOPS.cancelled.next}</span>
				</Line>
				{again && <div className="pl-9">{again}</div>}
			</>
		);
	}
	if (reason !== "done") {
		const { said, next } = STOPS[reason] ?? { said: `Stopped: ${reason}`, next: "" };
		return (
			<Box tone="warn" icon={<TriangleAlert className="size-4" aria-hidden />} live={latest}>
				<p className="font-medium">
					{said}
					{run.budget && ` (${run.budget.used.toLocaleString("en")} of ${run.budget.value.toLocaleString("en")})`}
				</p>
				{run.result && <p className="mt-0.5 text-muted">{run.result}</p>}
				<p className="mt-0.5 text-muted">{next}</p>
				{after && <p className="mt-1 text-xs text-faint">Not finished; stopped after {after}</p>}
			</Box>
		);
	}
	return (
		<Line icon={<CircleCheck className="size-4 text-ok" aria-hidden />} live={latest}>
			<span className="text-text">{capital(run.result || "Done.")}</span>
			<span className="text-faint"> {details(run, after)}</span>
		</Line>
	);
}

/** Does again what was asked. What the run left stays; if it is refused, that is said here. */
function TryAgain({ onTry }: { onTry(): Promise<void> }) {
	const [trying, setTrying] = useState(false);
	const [trouble, setTrouble] = useState<Trouble>();
	const attempt = async () => {
		setTrying(true);
		setTrouble(undefined);
		try {
			await onTry();
		} catch (reason) {
			setTrouble(Trouble.of(reason));
		} finally {
			setTrying(false);
		}
	};
	return (
		<div className="mt-2.5">
			<Button disabled={trying} onClick={() => void attempt()}>
				Try again
			</Button>
			{trouble && (
				<p role="alert" className="mt-1.5 text-muted">
					{trouble.message} {trouble.action}
				</p>
			)}
		</div>
	);
}

function details(run: Run, after: string | undefined): string {
	const tokens = run.tokens.input + run.tokens.output;
	// What a person changed by hand is built without one.
	const model = run.session?.work?.type === "change" ? undefined : run.session?.model;
	return [
		after,
		tokens > 0 && count(tokens, "token"),
		model && (model.provider === "demo" ? "demo script" : model.name),
	]
		.filter(Boolean)
		.join(" · ");
}

function Line({ icon, live, children }: { icon: ReactNode; live: boolean; children: ReactNode }) {
	return (
		<div className="flex gap-2.5 px-3 text-muted">
			<span className="mt-0.5 shrink-0">{icon}</span>
			<p role={live ? "status" : undefined}>{children}</p>
		</div>
	);
}

const TONES = { warn: "border-warn/25 bg-warn-soft text-warn", bad: "border-bad/25 bg-bad-soft text-bad" };

function Box({
	tone,
	icon,
	live,
	children,
}: {
	tone: keyof typeof TONES;
	icon: ReactNode;
	live: boolean;
	children: ReactNode;
}) {
	return (
		<div className={`flex gap-2.5 rounded-lg border px-3.5 py-3 ${TONES[tone]}`}>
			<span className="mt-0.5 shrink-0">{icon}</span>
			<div role={live ? "status" : undefined} className="min-w-0 flex-1 text-text">
				{children}
			</div>
		</div>
	);
}

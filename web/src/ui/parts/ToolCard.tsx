// A call of a tool: an install, a command, or another, with its output and how it truly ended.

import { CircleAlert, CircleCheck, Globe, LoaderCircle, Package, SquareTerminal, Wrench } from "lucide-react";
import type { components } from "../../contract";
import type { ToolItem } from "../../log/state";
import { capital, commandLine, took } from "../format";
import { Card } from "./Card";
import { Output } from "./GrowingText";

type ToolInput = components["schemas"]["ToolInput"];

const KINDS: Record<ToolInput["tool"], { testId: string; icon: typeof Package }> = {
	install: { testId: "install-card", icon: Package },
	command: { testId: "command-card", icon: SquareTerminal },
	web_search: { testId: "tool-card", icon: Globe },
	url_scrape: { testId: "tool-card", icon: Globe },
	skill: { testId: "tool-card", icon: Wrench },
};

const ENDINGS: Record<ToolItem["state"], string> = {
	queued: "queued",
	running: "running",
	succeeded: "done",
	failed: "failed",
	refused: "not run",
	unavailable: "not available",
	timed_out: "timed out",
	cancelled: "stopped",
	interrupted: "interrupted",
};

export function ToolCard({ item }: { item: ToolItem }) {
	const { input, state, result } = item;
	const { testId, icon } = KINDS[input.tool];
	const live = state === "running";
	const bad = state !== "queued" && state !== "running" && state !== "succeeded" && state !== "cancelled";
	const printed = item.output.length > 0;
	return (
		<Card
			testId={testId}
			state={state}
			icon={icon}
			title={<Title input={input} />}
			meta={<Ending item={item} />}
			open={live || bad || input.tool === "install"}
			tone={bad ? "warn" : "plain"}
		>
			{printed || result?.output || result?.error ? (
				<>
					{result?.error && <p className="px-3 py-2 text-muted">{capital(result.error)}</p>}
					{printed ? <Output text={item.output} live={live} /> : result?.output && <Output text={result.output} />}
				</>
			) : undefined}
		</Card>
	);
}

function Title({ input }: { input: ToolInput }) {
	switch (input.tool) {
		case "install":
			return (
				<>
					Install <span className="font-mono text-sm">{input.packages.join(" ")}</span>
				</>
			);
		case "command":
			return (
				<span className="font-mono text-sm" title={commandLine(input.command, input.args)}>
					{commandLine(input.command, input.args)}
				</span>
			);
		case "web_search":
			return <>Search “{input.query}”</>;
		case "url_scrape":
			return <>Read {input.url}</>;
		case "skill":
			return <>Use {input.name}</>;
	}
}

function Ending({ item }: { item: ToolItem }) {
	const { state, result } = item;
	const exit = result?.exit_code;
	const parts = [
		exit != null && (exit !== 0 || item.input.tool === "command") ? `exit ${exit}` : ENDINGS[state],
		result && result.duration_ms > 0 && took(result.duration_ms),
		result?.replayed && "earlier result",
	];
	return (
		<>
			{parts.filter(Boolean).join(" · ")}
			{state === "running" ? (
				<LoaderCircle className="size-3.5 animate-spin text-accent" aria-hidden />
			) : state === "succeeded" ? (
				<CircleCheck className="size-3.5 text-ok" aria-hidden />
			) : state === "queued" ? null : (
				<CircleAlert className="size-3.5 text-warn" aria-hidden />
			)}
		</>
	);
}

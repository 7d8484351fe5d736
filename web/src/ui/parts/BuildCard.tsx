// A build: running, good, or failed with the end of its log.

import { CircleAlert, CircleCheck, Hammer, LoaderCircle } from "lucide-react";
import type { BuildItem } from "../../log/state";
import { capital, took } from "../format";
import { Card } from "./Card";
import { Output } from "./GrowingText";

const TITLES = { building: "Building", succeeded: "Built", failed: "Build failed", stopped: "Build not finished" };

/** `latest`: no later build of the run has replaced what this one says. */
export function BuildCard({ item, latest }: { item: BuildItem; latest: boolean }) {
	const { state, error, durationMs } = item;
	const live = state === "building";
	const failed = state === "failed";
	return (
		<Card
			testId="build-card"
			state={state}
			icon={Hammer}
			iconClass={live ? "animate-breathe text-accent" : undefined}
			title={TITLES[state]}
			meta={
				<>
					{durationMs !== undefined && took(durationMs)}
					{live && <LoaderCircle className="size-3.5 animate-spin text-accent" aria-hidden />}
					{state === "succeeded" && <CircleCheck className="size-3.5 text-ok" aria-hidden />}
					{failed && <CircleAlert className="size-3.5 text-bad" aria-hidden />}
				</>
			}
			open={failed && latest}
			tone={failed && latest ? "bad" : "plain"}
		>
			{error ? (
				<>
					<p className="px-3 pt-2.5">{capital(error.message)}</p>
					{error.log_tail !== "" && <Output label="Build output" text={error.log_tail} />}
				</>
			) : item.output.length > 0 ? (
				<Output label="Build output" text={item.output} live={live} />
			) : undefined}
		</Card>
	);
}

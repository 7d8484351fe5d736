// Why the files could not be shown at once, or what a browser said of the page that was.

import { Globe, MonitorX } from "lucide-react";
import type { ProblemItem } from "../../log/state";
import { Card } from "./Card";
import { Words } from "./Words";

const TITLES: Record<string, string> = {
	syntax_error: "Syntax error",
	missing_import: "An import leads nowhere",
	missing_export: "An import names what is not there",
	unsupported: "Shown after the build",
	exception: "The app reported an error in a browser",
	blank_page: "A browser reported a blank page",
};

export function ProblemCard({ item, onOpen }: { item: ProblemItem; onOpen(path: string): void }) {
	const { code, message, place, revision } = item.problem;
	const browser = Boolean(revision);
	const warned = !item.past && code !== "unsupported";
	return (
		<Card
			testId="problem-card"
			state={item.past ? "past" : "present"}
			icon={browser ? Globe : MonitorX}
			iconClass={warned ? "text-warn" : undefined}
			tone={warned ? "warn" : "plain"}
			title={TITLES[code] ?? "Cannot be shown as it is"}
			meta={
				place && (
					<span className="max-w-52 truncate font-mono" title={place.path}>
						{place.path.slice(place.path.lastIndexOf("/") + 1)}:{place.line}:{place.column}
					</span>
				)
			}
			open={warned}
		>
			<div className="px-3 py-2 text-muted">
				<p className="line-clamp-6 whitespace-pre-wrap wrap-anywhere">{browser ? message : <Words text={message} />}</p>
				{place && (
					<button
						type="button"
						className="mt-1 rounded-sm font-mono text-xs underline decoration-line-strong underline-offset-2 hover:text-text"
						onClick={() => onOpen(place.path)}
					>
						{place.path}
					</button>
				)}
			</div>
		</Card>
	);
}

// Says, calmly and only when it lasts, that the page is cut off from the server. It catches up by itself.

import { LoaderCircle } from "lucide-react";
import { useLinkState } from "./context";

export function LinkPill() {
	const state = useLinkState();
	return (
		<span role="status" className="min-w-0">
			{state === "lost" && (
				<span
					className="flex animate-late items-center gap-1.5 rounded-full border border-line bg-raised px-2.5 py-0.5 text-xs text-muted"
					title="The work goes on. This page catches up by itself."
				>
					<LoaderCircle className="size-3 shrink-0 animate-spin" aria-hidden />
					<span className="truncate">Reconnecting…</span>
				</span>
			)}
		</span>
	);
}

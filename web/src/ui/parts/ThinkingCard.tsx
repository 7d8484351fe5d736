// The model's reasoning: open while it thinks, folded away when it is done.

import { Brain } from "lucide-react";
import type { ThinkingItem } from "../../log/state";
import { took } from "../format";
import { Card } from "./Card";
import { GrowingText } from "./GrowingText";

export function ThinkingCard({ item }: { item: ThinkingItem }) {
	const live = item.endedAt === undefined;
	return (
		<Card
			testId="thinking-card"
			state={live ? "running" : "ended"}
			icon={Brain}
			iconClass={live ? "animate-breathe text-accent" : undefined}
			title={
				<span className="text-muted">
					{live ? "Thinking" : `Thought for ${took((item.endedAt ?? 0) - item.startedAt)}`}
				</span>
			}
			open={live}
		>
			{item.text.length > 0 && (
				<GrowingText
					as="div"
					role="region"
					label="Thinking"
					text={item.text}
					live={live}
					className="max-h-60 overflow-y-auto px-3 py-2.5 text-sm leading-relaxed whitespace-pre-wrap text-muted wrap-anywhere"
				/>
			)}
		</Card>
	);
}

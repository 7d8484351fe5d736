// Tabs after the ARIA pattern: arrows move between them, every panel stays alive once it was opened.

import { type KeyboardEvent, type ReactNode, useEffect, useId, useState } from "react";

export type TabName = "Conversation" | "Files" | "Preview";

interface TabsProps {
	names: readonly TabName[];
	selected: TabName;
	onSelect(name: TabName): void;
	/** Tabs in which something is going on. */
	marks: ReadonlySet<TabName>;
	panel(name: TabName): ReactNode;
}

export function Tabs({ names, selected, onSelect, marks, panel }: TabsProps) {
	const id = useId();
	const [opened, setOpened] = useState<ReadonlySet<TabName>>(new Set([selected]));
	useEffect(() => setOpened((before) => (before.has(selected) ? before : new Set([...before, selected]))), [selected]);

	const move = (event: KeyboardEvent) => {
		const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1 };
		const by = steps[event.key];
		if (by === undefined) return;
		event.preventDefault();
		const to = names[(names.indexOf(selected) + by + names.length) % names.length] as TabName;
		onSelect(to);
		document.getElementById(`${id}-${to}`)?.focus();
	};

	return (
		<div className="flex h-full min-h-0 min-w-0 flex-1 flex-col">
			<div
				role="tablist"
				aria-label="Views"
				className="flex h-12 shrink-0 items-center gap-1 border-b border-line px-3 max-md:h-11"
				onKeyDown={move}
			>
				{names.map((name) => (
					<button
						key={name}
						id={`${id}-${name}`}
						type="button"
						role="tab"
						aria-label={name}
						aria-selected={name === selected}
						aria-controls={`${id}-panel-${name}`}
						tabIndex={name === selected ? 0 : -1}
						onClick={() => onSelect(name)}
						className={`relative h-7 rounded-md px-2.5 text-sm font-medium transition-colors ${name === selected ? "bg-hover text-text" : "text-muted hover:text-text"}`}
					>
						{name}
						{marks.has(name) && (
							<span className="absolute top-1 right-0.5 size-1.5 animate-breathe rounded-full bg-accent" />
						)}
					</button>
				))}
			</div>
			{names
				.filter((name) => name === selected || opened.has(name))
				.map((name) => (
					<div
						key={name}
						id={`${id}-panel-${name}`}
						role="tabpanel"
						aria-labelledby={`${id}-${name}`}
						hidden={name !== selected}
						className="min-h-0 min-w-0 flex-1"
					>
						{panel(name)}
					</div>
				))}
		</div>
	);
}

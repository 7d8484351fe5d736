// What to say next, for those who have just seen their first app: each fills the box, where it can be changed and sent.

const STEPS = [
	["Rename it to …", "Rename it to "],
	["Add dark mode", "Add dark mode"],
	["Add tests", "Add tests"],
] as const;

export function NextSteps({ onPick }: { onPick(text: string): void }) {
	return (
		<ul aria-label="What to say next" className="flex flex-wrap gap-1.5 pl-9">
			{STEPS.map(([name, text]) => (
				<li key={name}>
					<button
						type="button"
						className="h-7 rounded-full border border-line px-3 text-xs text-muted hover:bg-hover hover:text-text"
						onClick={() => onPick(text)}
					>
						{name}
					</button>
				</li>
			))}
		</ul>
	);
}

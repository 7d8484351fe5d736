// A sentence of Baton's own in which names stand between backticks. What a page or a model said is never read so.

export function Words({ text }: { text: string }) {
	return text.split(/`([^`\n]+)`/).map((part, i) =>
		i % 2 === 0 ? (
			part
		) : (
			// biome-ignore lint/suspicious/noArrayIndexKey: the parts of a sentence do not change
			<code key={i} className="font-mono text-[0.95em]">
				{part}
			</code>
		),
	);
}

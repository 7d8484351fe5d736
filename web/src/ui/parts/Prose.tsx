// What the model says, as a small safe part of Markdown. Blocks that did not change are not read again.

import { type JSX, memo, type ReactNode } from "react";
import type { Growing } from "../../log/growing";
import { type Block, blocks, type Inline, inline, type ListItem } from "../markdown";

export function Prose({ text }: { text: Growing | string }) {
	const { pieces, tail } = typeof text === "string" ? { pieces: [], tail: text } : text;
	return (
		<div className="space-y-3 text-prose leading-relaxed wrap-anywhere">
			{pieces.map((piece, i) => (
				// biome-ignore lint/suspicious/noArrayIndexKey: pieces are only ever added
				<Piece key={i} text={piece} />
			))}
			<Piece key={pieces.length} text={tail} />
		</div>
	);
}

const Piece = memo(function Piece({ text }: { text: string }) {
	return blocks(text).map((block, i) => (
		// biome-ignore lint/suspicious/noArrayIndexKey: a block is known by its place
		<BlockView key={i} kind={block.kind} source={block.source} block={block} />
	));
});

interface BlockProps {
	kind: Block["kind"];
	source: string;
	block: Block;
}

const BlockView = memo(
	function BlockView({ block }: BlockProps): JSX.Element {
		switch (block.kind) {
			case "paragraph":
				return <p className="whitespace-pre-line">{spans(block.source)}</p>;
			case "heading":
				return <h3 className={`font-semibold ${block.level < 3 ? "text-[1.05em]" : ""}`}>{spans(block.source)}</h3>;
			case "quote":
				return (
					<blockquote className="border-l-2 border-line-strong pl-3 whitespace-pre-line text-muted">
						{spans(block.source)}
					</blockquote>
				);
			case "rule":
				return <hr className="border-line" />;
			case "code":
				return (
					<pre className="overflow-x-auto rounded-lg border border-line bg-raised px-3 py-2.5 font-mono text-sm leading-normal wrap-normal">
						{block.source}
					</pre>
				);
			case "list":
				return block.ordered ? (
					<ol start={block.start} className="list-decimal space-y-1 pl-6 marker:text-faint">
						{block.items.map(itemView)}
					</ol>
				) : (
					<ul className="list-disc space-y-1 pl-5 marker:text-faint">{block.items.map(itemView)}</ul>
				);
		}
	},
	(a, b) => a.kind === b.kind && a.source === b.source,
);

function itemView(item: ListItem, i: number): ReactNode {
	return (
		<li key={i}>
			{spans(item.text)}
			{item.children.map((block, j) => (
				// biome-ignore lint/suspicious/noArrayIndexKey: a block is known by its place
				<div key={j} className="mt-1">
					<BlockView kind={block.kind} source={block.source} block={block} />
				</div>
			))}
		</li>
	);
}

function spans(text: string): ReactNode {
	return inline(text).map(spanView);
}

function spanView(part: Inline, i: number): ReactNode {
	switch (part.kind) {
		case "text":
			return part.text;
		case "code":
			return (
				<code key={i} className="rounded-sm bg-hover px-1 py-0.5 font-mono text-[0.87em]">
					{part.text}
				</code>
			);
		case "strong":
			return (
				<strong key={i} className="font-semibold">
					{part.children.map(spanView)}
				</strong>
			);
		case "emphasis":
			return <em key={i}>{part.children.map(spanView)}</em>;
		case "link":
			return (
				<a
					key={i}
					href={part.href}
					target="_blank"
					rel="noopener noreferrer"
					className="text-accent underline underline-offset-2"
				>
					{part.children.map(spanView)}
				</a>
			);
	}
}

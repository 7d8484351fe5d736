// Draws text that grows: finished pieces once, the rest anew. What has scrolled far out of reach is not drawn at all.

import { type ElementType, memo, useEffect, useRef } from "react";
import { EMPTY, type Growing } from "../../log/growing";

/** Pieces that are drawn, from the end: about 64 KB. */
const PIECES_DRAWN = 16;

interface GrowingTextProps {
	text: Growing;
	as?: ElementType;
	role?: "region" | "group";
	/** Keeps to the end while the text grows. */
	live: boolean;
	className: string;
	/** Changes a piece before it is drawn. */
	through?: (piece: string) => string;
	label: string;
}

export function GrowingText({
	text,
	as: Box = "pre",
	role = "group",
	live,
	className,
	through,
	label,
}: GrowingTextProps) {
	const box = useRef<HTMLElement>(null);
	// biome-ignore lint/correctness/useExhaustiveDependencies: the end moves with the text
	useEffect(() => {
		if (live && box.current) box.current.scrollTop = box.current.scrollHeight;
	}, [text, live]);
	const hidden = Math.max(0, text.pieces.length - PIECES_DRAWN);
	return (
		<Box ref={box} tabIndex={0} role={role} aria-label={label} className={`-outline-offset-2 ${className}`}>
			{(hidden > 0 || text.dropped > 0) && <span className="text-faint">… earlier text is not shown{"\n"}</span>}
			{text.pieces.slice(hidden).map((piece, i) => (
				// biome-ignore lint/suspicious/noArrayIndexKey: pieces are only ever added behind
				<Piece key={text.skipped + hidden + i} text={piece} through={through} />
			))}
			<Piece key="tail" text={text.tail} through={through} />
		</Box>
	);
}

const OUTPUT =
	"max-h-64 overflow-auto px-3 py-2.5 font-mono text-xs leading-normal whitespace-pre-wrap text-muted wrap-anywhere";

/** What a program printed: as it comes, or as it was kept. */
export function Output({
	text,
	live = false,
	label = "Output",
}: {
	text: Growing | string;
	live?: boolean;
	label?: string;
}) {
	const growing = typeof text === "string" ? { ...EMPTY, tail: text, length: text.length } : text;
	return <GrowingText label={label} text={growing} live={live} through={terminal} className={OUTPUT} />;
}

const Piece = memo(function Piece({ text, through }: { text: string; through?: (piece: string) => string }) {
	return <span>{through ? through(text) : text}</span>;
});

// biome-ignore lint/suspicious/noControlCharactersInRegex: that is what escape sequences begin with
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

/** What a terminal would leave on the screen, roughly: no colours, and of a line that was written over the last writing. */
function terminal(piece: string): string {
	const plain = piece.includes("\u001b") ? piece.replace(ESCAPES, "") : piece;
	if (!plain.includes("\r")) return plain;
	const over = (line: string) => line.replace(/\r+$/, "").split("\r").at(-1);
	return plain.split("\n").map(over).join("\n");
}

// Text that only grows, kept in pieces of which all but the last never change again: what was drawn once is not drawn
// again. Where the pieces end depends on the text alone, never on how it was cut up on its way here.

/** A text, its finished pieces first. `skipped` pieces and `dropped` characters were let go from its beginning. */
export interface Growing {
	readonly pieces: readonly string[];
	readonly tail: string;
	/** UTF-16 units in all, dropped ones included. */
	readonly length: number;
	readonly skipped: number;
	readonly dropped: number;
}

/** Tells where the first piece of `tail` ends, or 0 while that cannot be known. */
export type Cut = (tail: string) => number;

/** A piece is not cut before this many UTF-16 units … */
export const PIECE_LEAST = 4 * 1024;
/** … and always by this many. */
export const PIECE_MOST = 64 * 1024;

export const EMPTY: Growing = { pieces: [], tail: "", length: 0, skipped: 0, dropped: 0 };

/** Cuts after a line: for code, output and thinking. */
export const byLine: Cut = (tail) => {
	if (tail.length < PIECE_LEAST) return 0;
	const line = tail.indexOf("\n", PIECE_LEAST - 1);
	return line !== -1 && line < PIECE_MOST ? line + 1 : hardCut(tail);
};

/** Cuts between paragraphs, but not within a fenced block: for prose. */
export const byParagraph: Cut = (tail) => {
	if (tail.length < PIECE_LEAST) return 0;
	let fences = countFences(tail.slice(0, PIECE_LEAST - 1));
	let from = PIECE_LEAST - 1;
	for (;;) {
		const gap = tail.indexOf("\n\n", from);
		if (gap === -1 || gap + 2 > PIECE_MOST) return hardCut(tail);
		fences = countFences(tail.slice(0, gap + 1));
		if (fences % 2 === 0) return gap + 2;
		from = gap + 2;
	}
};

function countFences(text: string): number {
	return text.match(/^ {0,3}```/gm)?.length ?? 0;
}

function hardCut(tail: string): number {
	if (tail.length <= PIECE_MOST) return 0;
	const unit = tail.charCodeAt(PIECE_MOST - 1);
	const splitsPair = unit >= 0xd800 && unit <= 0xdbff;
	return splitsPair ? PIECE_MOST - 1 : PIECE_MOST;
}

/** Adds to the end. At most `keep` units are kept, rounded up to whole pieces; what goes, goes from the beginning. */
export function grow(to: Growing, text: string, cut: Cut, keep = Number.POSITIVE_INFINITY): Growing {
	let tail = to.tail + text;
	let pieces = to.pieces;
	for (let at = cut(tail); at > 0; at = cut(tail)) {
		pieces = [...pieces, tail.slice(0, at)];
		tail = tail.slice(at);
	}
	const length = to.length + text.length;
	let { skipped, dropped } = to;
	let first = 0;
	for (const piece of pieces) {
		if (length - dropped - piece.length < keep) break;
		dropped += piece.length;
		skipped += 1;
		first += 1;
	}
	if (first > 0) pieces = pieces.slice(first);
	return { pieces, tail, length, skipped, dropped };
}

/** Whether there is nothing to see in it. */
export function isBlank(text: Growing): boolean {
	return text.pieces.length === 0 && text.tail.trim() === "";
}

/** The whole text that is kept. */
export function whole(text: Growing): string {
	return text.pieces.join("") + text.tail;
}

/** What stands behind the first `offset` units; `undefined` if some of that was dropped or the text is shorter. */
export function textFrom(text: Growing, offset: number): string | undefined {
	if (offset < text.dropped || offset > text.length) return undefined;
	let end = text.length - text.tail.length;
	if (offset >= end) return text.tail.slice(offset - end);
	let rest = text.tail;
	for (let i = text.pieces.length - 1; i >= 0; i--) {
		const piece = text.pieces[i] as string;
		const start = end - piece.length;
		if (offset >= start) return piece.slice(offset - start) + rest;
		rest = piece + rest;
		end = start;
	}
	return rest;
}

/** Bytes of a text in UTF-8. */
export function utf8Length(text: string): number {
	let bytes = text.length;
	for (let i = 0; i < text.length; i++) {
		const unit = text.charCodeAt(i);
		if (unit < 0x80) continue;
		bytes += unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff) ? 1 : 2;
	}
	return bytes;
}

/** Line ends in a text. */
export function lineEnds(text: string): number {
	let count = 0;
	for (let i = text.indexOf("\n"); i !== -1; i = text.indexOf("\n", i + 1)) count += 1;
	return count;
}

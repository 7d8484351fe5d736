// A small, safe part of Markdown: paragraphs, headings, lists, quotes, fenced code; code, bold, italic and links in
// lines. It gives a tree of our own and never HTML; what it does not know stays text.

export type Block =
	| { kind: "paragraph"; source: string }
	| { kind: "heading"; level: number; source: string }
	| { kind: "code"; language: string; source: string }
	| { kind: "quote"; source: string }
	| { kind: "list"; ordered: boolean; start: number; items: ListItem[]; source: string }
	| { kind: "rule"; source: string };

export interface ListItem {
	text: string;
	children: Block[];
}

export type Inline =
	| { kind: "text"; text: string }
	| { kind: "code"; text: string }
	| { kind: "strong" | "emphasis"; children: Inline[] }
	| { kind: "link"; href: string; children: Inline[] };

/** Lines longer than this are not looked into for bold, links and the like. */
const INLINE_MOST = 8 * 1024;
/** Lists within lists within lists. */
const DEPTH_MOST = 4;

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;

export function blocks(text: string, depth = 0): Block[] {
	const lines = text.split("\n");
	const out: Block[] = [];
	let at = 0;
	while (at < lines.length) {
		const line = lines[at] as string;
		const fence = FENCE.exec(line);
		const heading = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/.exec(line);
		if (line.trim() === "") at += 1;
		else if (fence) at = code(lines, at, fence, out);
		else if (heading) {
			out.push({ kind: "heading", level: heading[1]?.length ?? 1, source: heading[2] ?? "" });
			at += 1;
		} else if (/^ {0,3}([-*_])(\s*\1){2,}\s*$/.test(line)) {
			out.push({ kind: "rule", source: line });
			at += 1;
		} else if (line.startsWith(">")) {
			const end = run(lines, at, (next) => next.startsWith(">"));
			const source = lines
				.slice(at, end)
				.map((quoted) => quoted.replace(/^>\s?/, ""))
				.join("\n");
			out.push({ kind: "quote", source });
			at = end;
		} else if (ITEM.test(line) && depth < DEPTH_MOST) at = list(lines, at, depth, out);
		else {
			const end = run(lines, at + 1, (next) => !startsBlock(next));
			out.push({ kind: "paragraph", source: lines.slice(at, end).join("\n") });
			at = end;
		}
	}
	return out;
}

function startsBlock(line: string): boolean {
	return (
		line.trim() === "" || FENCE.test(line) || /^ {0,3}#{1,6}\s/.test(line) || line.startsWith(">") || ITEM.test(line)
	);
}

/** The end of the lines from `at` on that belong. */
function run(lines: readonly string[], at: number, belongs: (line: string) => boolean): number {
	let end = at;
	while (end < lines.length && belongs(lines[end] as string)) end += 1;
	return end;
}

/** A fenced block; one that is not closed yet reaches to the end. */
function code(lines: readonly string[], at: number, fence: RegExpExecArray, out: Block[]): number {
	const mark = fence[1] ?? "```";
	const end = run(
		lines,
		at + 1,
		(line) => !(line.trimStart().startsWith(mark) && line.trim().replaceAll(mark.charAt(0), "") === ""),
	);
	out.push({ kind: "code", language: fence[2] ?? "", source: lines.slice(at + 1, end).join("\n") });
	return end + 1;
}

/** A list: its items, with what is indented under them. */
function list(lines: readonly string[], at: number, depth: number, out: Block[]): number {
	const first = ITEM.exec(lines[at] as string);
	const indent = first?.[1]?.length ?? 0;
	const ordered = /\d/.test(first?.[2] ?? "");
	const items: ListItem[] = [];
	let end = at;
	while (end < lines.length) {
		const item = ITEM.exec(lines[end] as string);
		if (!item || (item[1]?.length ?? 0) > indent + 1 || /\d/.test(item[2] ?? "") !== ordered) break;
		const from = end + 1;
		end = run(
			lines,
			from,
			(line) => line.trim() !== "" && (/^\s{2,}/.test(line) || !startsBlock(line)) && !sibling(line, indent),
		);
		const inside = lines
			.slice(from, end)
			.map((line) => line.replace(/^\s{1,4}/, ""))
			.join("\n");
		items.push({ text: item[3] ?? "", children: inside === "" ? [] : blocks(inside, depth + 1) });
		// One empty line between items does not end the list.
		if (lines[end]?.trim() === "" && sibling(lines[end + 1] ?? "", indent)) end += 1;
	}
	const source = lines.slice(at, end).join("\n");
	out.push({ kind: "list", ordered, start: Number.parseInt(first?.[2] ?? "1", 10) || 1, items, source });
	return Math.max(end, at + 1);
}

function sibling(line: string, indent: number): boolean {
	const item = ITEM.exec(line);
	return item !== null && (item[1]?.length ?? 0) <= indent + 1;
}

const INLINE =
	/(`+)(?!`)([^`]|[^`][^\n]*?[^`])\1(?!`)|\*\*(?=\S)([^\n]*?\S)\*\*|(?<![\w*])[*_](?=[^\s*_])([^*_\n]*[^\s*_])[*_](?![\w*])|\[([^\]\n]+)\]\(([^()\s]+)\)|(https?:\/\/[^\s<>()"'`]+[^\s<>()"'`.,:;!?])/g;

export function inline(text: string): Inline[] {
	if (text.length > INLINE_MOST) return [{ kind: "text", text }];
	const out: Inline[] = [];
	let from = 0;
	for (const found of text.matchAll(INLINE)) {
		if (found.index > from) out.push({ kind: "text", text: text.slice(from, found.index) });
		from = found.index + found[0].length;
		const [all, , codeText, strong, emphasis, label, target, bare] = found;
		const href = safeLink(target ?? bare);
		if (codeText !== undefined) out.push({ kind: "code", text: codeText });
		else if (strong !== undefined) out.push({ kind: "strong", children: inline(strong) });
		else if (emphasis !== undefined) out.push({ kind: "emphasis", children: inline(emphasis) });
		else if (href !== undefined) out.push({ kind: "link", href, children: [{ kind: "text", text: label ?? all }] });
		else out.push({ kind: "text", text: all });
	}
	if (from < text.length) out.push({ kind: "text", text: text.slice(from) });
	return out;
}

/** Only addresses that a browser opens as a page: never `javascript:` or `data:`. */
function safeLink(target: string | undefined): string | undefined {
	return target !== undefined && /^https?:\/\//i.test(target) ? target : undefined;
}

// What a previewed page says of itself: that it has painted, or that something went wrong in it. The page is a model's work,
// so nothing here is believed further than its shape, and no text is longer than a person reads.

/** Characters of a message; in UTF-8 that fits the server's limit for a report. */
export const MESSAGE_MOST = 1_000;
const ADDRESS_MOST = 300;
const NUMBER_MOST = 10_000_000;

export interface ScriptPlace {
	readonly url: string;
	readonly line: number;
	readonly column: number;
}

/** Something went wrong in a page; `blank` if nothing of it is on the screen. */
export interface PageProblem {
	readonly blank: boolean;
	/** Whether its styles do not compile, so that it is not fit to be seen. */
	readonly unstyled?: true;
	readonly message: string;
	readonly at?: ScriptPlace;
}

export type Said =
	| { readonly type: "painted"; readonly revision?: string }
	| { readonly type: "problem"; readonly revision?: string; readonly problem: PageProblem };

/** Reads the data of a message; `undefined` if it is none of these. */
export function readMessage(data: unknown): Said | undefined {
	if (!isRecord(data) || data.baton !== "preview") return undefined;
	const revision = typeof data.revision === "string" ? { revision: data.revision.slice(0, 64) } : {};
	if (data.type === "painted") return { type: "painted", ...revision };
	if (data.type !== "problem" || typeof data.message !== "string" || data.message.trim() === "") return undefined;
	const at = readPlace(data.at);
	const message = cut(data.message.trim(), MESSAGE_MOST);
	const unstyled = data.unstyled === true ? ({ unstyled: true } as const) : {};
	const problem = { blank: data.blank === true, message, ...unstyled, ...(at ? { at } : {}) };
	return { type: "problem", ...revision, problem };
}

function readPlace(at: unknown): ScriptPlace | undefined {
	if (!isRecord(at) || typeof at.url !== "string" || at.url === "" || at.url.length > ADDRESS_MOST) return undefined;
	const [line, column] = [count(at.line), count(at.column)];
	return line && column ? { url: at.url, line, column } : undefined;
}

function count(value: unknown): number | undefined {
	return typeof value === "number" && Number.isInteger(value) && value > 0 && value < NUMBER_MOST ? value : undefined;
}

function isRecord(value: unknown): value is Record<string, unknown> {
	return typeof value === "object" && value !== null;
}

/** At most so many UTF-16 units, none of them half a character. */
function cut(text: string, most: number): string {
	return text.length <= most ? text : `${text.slice(0, most - 1).toWellFormed()}…`;
}

/**
 * A place as a person knows it. A module of an instant page is the file that it was made from, but its lines are those of what
 * the file was made into: the run's log has the right ones.
 */
export function placeOf({
	url,
	line,
	column,
}: ScriptPlace): { path: string; line?: number; column?: number } | undefined {
	const address = URL.parse(url);
	if (!address) return undefined;
	const path = decoded(address.pathname.slice(1));
	if (path === "" || path.startsWith("@baton/")) return undefined;
	return address.searchParams.has("module") ? { path } : { path, line, column };
}

function decoded(path: string): string {
	try {
		return decodeURIComponent(path);
	} catch {
		return path;
	}
}

/** A request to mend what went wrong, with the words of the page or of its files in a fence that they cannot close. */
export function askToFix(kind: "code" | "page" | "later", message: string, place: string | undefined): string {
	const longest = Math.max(2, ...(message.match(/`+/g) ?? []).map((ticks) => ticks.length));
	const fence = "`".repeat(longest + 1);
	const what = kind === "page" ? "The app reported an error" : "The app cannot be shown as it is";
	return `${what}:\n\n${fence}\n${message}${place ? `\nat ${place}` : ""}\n${fence}\n\nPlease fix it.`;
}

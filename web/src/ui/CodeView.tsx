// A file to read, with its syntax, in CodeMirror. Text that grows is appended, never set anew. A chunk of its own.

import { css } from "@codemirror/lang-css";
import { html } from "@codemirror/lang-html";
import { javascript } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { HighlightStyle, type LanguageSupport, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightSpecialChars, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import { EMPTY, type Growing, textFrom, whole } from "../log/growing";

/** Larger files are shown without their syntax, in UTF-16 units. */
const SYNTAX_MOST = 512 * 1024;

interface CodeViewProps {
	path: string;
	/** `undefined` while it is being fetched: what was there stays. */
	text: Growing | string | undefined;
	/** Keeps to the end while the text grows. */
	live: boolean;
}

export default function CodeView({ path, text, live }: CodeViewProps) {
	const root = useRef<HTMLDivElement>(null);
	const view = useRef<EditorView>(undefined);
	const shown = useRef({ path: "", length: 0, text: "" as Growing | string });

	useEffect(() => {
		if (!root.current) return;
		const editor = new EditorView({
			parent: root.current,
			state: EditorState.create({
				extensions: [
					lineNumbers(),
					highlightSpecialChars(),
					drawSelection(),
					syntaxHighlighting(HIGHLIGHT),
					language.of([]),
					THEME,
					EditorState.readOnly.of(true),
					EditorView.editable.of(false),
					EditorView.contentAttributes.of({
						tabindex: "0",
						"aria-label": "File contents",
						role: "textbox",
						"aria-readonly": "true",
					}),
				],
			}),
		});
		view.current = editor;
		shown.current = { path: "", length: 0, text: "" };
		return () => editor.destroy();
	}, []);

	useEffect(() => {
		const editor = view.current;
		if (!editor || text === undefined) return;
		const before = shown.current;
		const growing = typeof text === "string" ? { ...EMPTY, tail: text, length: text.length } : text;
		const more =
			before.path === path && typeof text !== "string" && before.text !== ""
				? textFrom(growing, before.length)
				: undefined;
		shown.current = { path, length: growing.length, text };
		if (before.path === path && before.text === text) return;
		const box = editor.scrollDOM;
		const atEnd = box.scrollHeight - box.clientHeight - box.scrollTop < 60;
		if (more !== undefined) {
			editor.dispatch({ changes: { from: editor.state.doc.length, insert: more } });
		} else {
			const insert = whole(growing);
			editor.dispatch({
				changes: { from: 0, to: editor.state.doc.length, insert },
				effects: language.reconfigure(insert.length > SYNTAX_MOST ? [] : languageOf(path)),
			});
			if (before.path !== path) box.scrollTop = 0;
		}
		if (before.path === path ? more !== undefined && atEnd : live) {
			editor.dispatch({ effects: EditorView.scrollIntoView(editor.state.doc.length, { y: "end" }) });
		}
	}, [path, text, live]);

	return <div ref={root} className="h-full" data-testid="code-view" />;
}

const language = new Compartment();

function languageOf(path: string): LanguageSupport | [] {
	const [, ending] = /\.([a-z]+)$/.exec(path) ?? [];
	switch (ending) {
		case "ts":
		case "tsx":
		case "mts":
		case "cts":
			return javascript({ typescript: true, jsx: ending === "tsx" });
		case "js":
		case "jsx":
		case "mjs":
		case "cjs":
			return javascript({ jsx: true });
		case "css":
			return css();
		case "html":
		case "svg":
		case "xml":
			return html();
		case "json":
			return json();
		default:
			return [];
	}
}

const HIGHLIGHT = HighlightStyle.define([
	{ tag: [tags.keyword, tags.modifier, tags.operatorKeyword, tags.controlKeyword], color: "var(--code-keyword)" },
	{ tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--code-string)" },
	{ tag: [tags.number, tags.bool, tags.null, tags.atom, tags.unit, tags.color], color: "var(--code-number)" },
	{
		tag: [tags.function(tags.variableName), tags.function(tags.propertyName), tags.typeName, tags.className],
		color: "var(--code-name)",
	},
	{ tag: [tags.tagName, tags.angleBracket], color: "var(--code-tag)" },
	{ tag: [tags.attributeName, tags.propertyName], color: "var(--code-name)" },
	{ tag: [tags.comment, tags.meta], color: "var(--faint)", fontStyle: "italic" },
	{ tag: tags.invalid, color: "var(--bad)" },
]);

const THEME = EditorView.theme({
	"&": { height: "100%", fontSize: "0.8125rem", backgroundColor: "transparent" },
	"&.cm-focused": { outline: "none" },
	".cm-scroller": { fontFamily: "var(--font-mono)", lineHeight: "1.55", overflow: "auto" },
	".cm-content": { padding: "8px 0" },
	".cm-line": { padding: "0 16px 0 8px" },
	".cm-gutters": { backgroundColor: "transparent", color: "var(--faint)", border: "none" },
	".cm-lineNumbers .cm-gutterElement": { padding: "0 8px 0 14px", minWidth: "2.75rem" },
	".cm-selectionBackground, &.cm-focused .cm-selectionBackground": {
		backgroundColor: "color-mix(in oklch, var(--accent) 24%, transparent) !important",
	},
	".cm-cursor": { display: "none" },
});

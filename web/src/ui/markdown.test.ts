// What the small Markdown does with what models write, and that nothing in it can act.

import { expect, it } from "vitest";
import { blocks, inline } from "./markdown";

it("tells blocks apart, finished or not", () => {
	const text =
		"# Plan\nOne\ntwo\n\n- a\n  - b\n- c\n\n1. x\n2. y\n\n> said\n\n---\n```ts\nlet a;\n\nlet b;\n```\nafter\n```\nopen";
	expect(blocks(text)).toMatchObject([
		{ kind: "heading", level: 1, source: "Plan" },
		{ kind: "paragraph", source: "One\ntwo" },
		{
			kind: "list",
			ordered: false,
			items: [{ text: "a", children: [{ kind: "list", items: [{ text: "b" }] }] }, { text: "c" }],
		},
		{ kind: "list", ordered: true, start: 1, items: [{ text: "x" }, { text: "y" }] },
		{ kind: "quote", source: "said" },
		{ kind: "rule" },
		{ kind: "code", language: "ts", source: "let a;\n\nlet b;" },
		{ kind: "paragraph", source: "after" },
		{ kind: "code", source: "open" },
	]);
});

it("reads lines: code, bold, italic, links", () => {
	const text = "a `b*c*` **d `e`** *f* snake_case_name 2*3*4 [g](https://h.example/i) https://j.example/k.";
	const link = (href: string, label: string) => ({ kind: "link", href, children: [{ kind: "text", text: label }] });
	expect(inline(text)).toEqual([
		{ kind: "text", text: "a " },
		{ kind: "code", text: "b*c*" },
		{ kind: "text", text: " " },
		{
			kind: "strong",
			children: [
				{ kind: "text", text: "d " },
				{ kind: "code", text: "e" },
			],
		},
		{ kind: "text", text: " " },
		{ kind: "emphasis", children: [{ kind: "text", text: "f" }] },
		{ kind: "text", text: " snake_case_name 2*3*4 " },
		link("https://h.example/i", "g"),
		{ kind: "text", text: " " },
		link("https://j.example/k", "https://j.example/k"),
		{ kind: "text", text: "." },
	]);
});

it("makes no link of anything but a page, and no HTML", () => {
	for (const text of [
		"[x](javascript:alert(1))",
		"[x](data:text/html,1)",
		"<img src=x onerror=alert(1)>",
		"[x](//evil)",
	]) {
		expect(inline(text).every((part) => part.kind === "text")).toBe(true);
	}
});

it("comes to an end on hostile text, and loses none of it", () => {
	for (const text of [
		"- ".repeat(4_000),
		"`".repeat(8_000),
		"**a ".repeat(2_000),
		"* _a ".repeat(1_500),
		">".repeat(5_000),
		"  - a\n- b\n    - c\n".repeat(500),
	]) {
		expect(blocks(text).length).toBeGreaterThan(0);
		expect(inline(text).length).toBeGreaterThan(0);
	}
});

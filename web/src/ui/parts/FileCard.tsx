// A file that the model writes, patches, renames or deletes, with what came of it.

import { FileCode2, FileInput, FilePen, FileX2, LoaderCircle, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { lineEnds } from "../../log/growing";
import type { FileItem, FileState } from "../../log/state";
import { count, size } from "../format";
import { Card } from "./Card";

const ICONS: Record<FileState, typeof FileCode2> = {
	writing: LoaderCircle,
	written: FileCode2,
	edited: FilePen,
	deleted: FileX2,
	renamed: FileInput,
	rejected: TriangleAlert,
};

export function FileCard({ item, onOpen }: { item: FileItem; onOpen(path: string): void }) {
	const { path, state } = item;
	const gone = state === "deleted" || state === "rejected";
	const name = (
		<span className="font-mono text-sm" title={path}>
			<Path path={path} struck={state === "deleted" || state === "renamed"} />
			{item.to !== undefined && (
				<>
					{" → "}
					<Path path={item.to} />
				</>
			)}
		</span>
	);
	return (
		<Card
			testId="file-card"
			state={state}
			icon={ICONS[state]}
			iconClass={state === "writing" ? "animate-spin text-accent" : state === "rejected" ? "text-warn" : undefined}
			tone={state === "rejected" ? "warn" : "plain"}
			title={name}
			onTitle={gone ? undefined : () => onOpen(item.to ?? path)}
			meta={<Meta item={item} />}
		>
			{item.blocks ? (
				<Patch item={item} />
			) : item.reason ? (
				<p className="px-3 py-2 text-muted">{item.reason}</p>
			) : undefined}
		</Card>
	);
}

function Path({ path, struck }: { path: string; struck?: boolean }) {
	const at = path.lastIndexOf("/") + 1;
	return (
		<span className={struck ? "text-faint line-through" : undefined}>
			<span className="text-faint">{path.slice(0, at)}</span>
			{path.slice(at)}
		</span>
	);
}

function Meta({ item }: { item: FileItem }): ReactNode {
	switch (item.state) {
		case "writing":
		case "written":
			return `${count(item.lines, "line")} · ${size(item.bytes)}`;
		case "edited": {
			const [more, less] = changed(item);
			return (
				<span>
					<span className="text-ok">+{more}</span> <span className="text-bad">−{less}</span>
				</span>
			);
		}
		case "deleted":
			return "deleted";
		case "renamed":
			return "renamed";
		case "rejected":
			return <span className="text-warn">not written</span>;
	}
}

function changed(item: FileItem): [number, number] {
	let [more, less] = [0, 0];
	for (const { search, replace } of item.blocks ?? []) {
		less += lines(search);
		more += lines(replace);
	}
	return [more, less];
}

function lines(text: string): number {
	return text === "" ? 0 : lineEnds(text.replace(/\n$/, "")) + 1;
}

function Patch({ item }: { item: FileItem }) {
	return (
		<div className="max-h-72 overflow-auto py-1.5 font-mono text-xs leading-normal">
			{item.blocks?.map(({ search, replace }, i) => (
				// biome-ignore lint/suspicious/noArrayIndexKey: the blocks of a patch do not change
				<div key={i} className="border-line not-first:mt-1.5 not-first:border-t not-first:pt-1.5">
					{search !== "" && <pre className="bg-bad-soft px-3 text-bad">{marked(search, "−")}</pre>}
					{replace !== "" && <pre className="bg-ok-soft px-3 text-ok">{marked(replace, "+")}</pre>}
				</div>
			))}
		</div>
	);
}

function marked(text: string, sign: string): string {
	return text
		.replace(/\n$/, "")
		.split("\n")
		.map((line) => `${sign} ${line}`)
		.join("\n");
}

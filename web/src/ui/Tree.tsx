// Files as folders that open and close.

import { ChevronRight, FileText, LoaderCircle } from "lucide-react";
import { useMemo, useState } from "react";
import type { FileEntry } from "../data/files";

interface Folder {
	readonly name: string;
	readonly path: string;
	readonly folders: Map<string, Folder>;
	readonly files: FileEntry[];
}

interface TreeProps {
	files: readonly FileEntry[];
	selected: string | undefined;
	onPick(path: string): void;
}

export function Tree({ files, selected, onPick }: TreeProps) {
	const root = useMemo(() => folded(files), [files]);
	const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
	const toggle = (path: string) => {
		const next = new Set(closed);
		if (!next.delete(path)) next.add(path);
		setClosed(next);
	};
	return (
		<div className="px-1.5 pb-3">
			<Level folder={root} depth={0} closed={closed} selected={selected} onToggle={toggle} onPick={onPick} />
		</div>
	);
}

function folded(files: readonly FileEntry[]): Folder {
	const root: Folder = { name: "", path: "", folders: new Map(), files: [] };
	for (const file of files) {
		let folder = root;
		const names = file.path.split("/").slice(0, -1);
		for (const [i, name] of names.entries()) {
			const path = names.slice(0, i + 1).join("/");
			const inner = folder.folders.get(name) ?? { name, path, folders: new Map(), files: [] };
			folder.folders.set(name, inner);
			folder = inner;
		}
		folder.files.push(file);
	}
	return root;
}

interface LevelProps {
	folder: Folder;
	depth: number;
	closed: ReadonlySet<string>;
	selected: string | undefined;
	onToggle(path: string): void;
	onPick(path: string): void;
}

const ROW = "flex h-7 w-full items-center gap-1.5 rounded-md pr-2 text-left text-sm max-md:h-9";

function Level({ folder, depth, closed, selected, onToggle, onPick }: LevelProps) {
	const indent = { paddingLeft: `${8 + depth * 14}px` };
	return (
		<ul>
			{[...folder.folders.values()].map((inner) => {
				const open = !closed.has(inner.path);
				return (
					<li key={inner.path}>
						<button
							type="button"
							aria-expanded={open}
							style={indent}
							className={`${ROW} text-muted hover:bg-hover`}
							onClick={() => onToggle(inner.path)}
						>
							<ChevronRight
								className={`size-3.5 shrink-0 text-faint transition-transform ${open ? "rotate-90" : ""}`}
								aria-hidden
							/>
							<span className="truncate">{inner.name}</span>
						</button>
						{open && (
							<Level
								folder={inner}
								depth={depth + 1}
								closed={closed}
								selected={selected}
								onToggle={onToggle}
								onPick={onPick}
							/>
						)}
					</li>
				);
			})}
			{folder.files.map((file) => (
				<li key={file.path}>
					<button
						type="button"
						aria-current={file.path === selected ? "true" : undefined}
						title={file.path}
						style={indent}
						className={`${ROW} ${file.path === selected ? "bg-hover text-text" : "text-muted hover:bg-hover"}`}
						onClick={() => onPick(file.path)}
					>
						{file.writing ? (
							<LoaderCircle
								className="size-3.5 shrink-0 animate-spin text-accent"
								aria-label="being written"
								role="img"
							/>
						) : (
							<FileText className="size-3.5 shrink-0 text-faint" aria-hidden />
						)}
						<span className="min-w-0 flex-1 truncate">{file.path.slice(file.path.lastIndexOf("/") + 1)}</span>
						{file.touched && (
							<span title="Written by the latest run" className="size-1.5 shrink-0 rounded-full bg-accent" />
						)}
					</button>
				</li>
			))}
		</ul>
	);
}

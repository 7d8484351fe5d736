// The first page: a question, a place to answer it, and a few answers to start from.

import { type ReactNode, useRef } from "react";
import { useWide } from "./browser";
import { Composer, type ComposerHandle } from "./Composer";
import { useLibrary, useLibraryState } from "./context";
import { LinkPill } from "./LinkPill";
import { ModelBadge } from "./ModelBadge";
import { navigate } from "./router";

const EXAMPLES = [
	["To-do list", "Build a to-do list"],
	["Kanban board", "Build a kanban board with drag and drop"],
	["Habit tracker", "Build a habit tracker with a calendar of the last four weeks"],
	["Tip calculator", "Build a tip calculator that splits the bill"],
] as const;

export function Home({ menu }: { menu: ReactNode }) {
	const library = useLibrary();
	const { system } = useLibraryState();
	const composer = useRef<ComposerHandle>(null);
	const wide = useWide();
	return (
		<div className="flex min-w-0 flex-1 flex-col">
			<header className="flex h-12 shrink-0 items-center gap-2 px-3">
				{menu}
				<span className="flex-1" />
				<LinkPill />
				<ModelBadge />
			</header>
			<main className="flex min-h-0 flex-1 flex-col overflow-y-auto px-5">
				<div className="m-auto w-full max-w-2xl py-8 pb-[12vh]">
					<h1 className="mb-6 text-center text-[1.75rem] font-semibold tracking-tight text-balance sm:text-3xl">
						What shall we build?
					</h1>
					<Composer
						ref={composer}
						draft="new"
						large
						autoFocus={wide}
						placeholder="Describe an app in a sentence or two"
						onSend={async (text) => navigate(`/chats/${await library.send(undefined, text)}`)}
					/>
					<ul aria-label="Examples" className="mt-4 flex flex-wrap justify-center gap-2">
						{EXAMPLES.map(([name, text]) => (
							<li key={name}>
								<button
									type="button"
									className="h-8 rounded-full border border-line px-3.5 text-sm text-muted hover:bg-hover hover:text-text"
									onClick={() => composer.current?.fill(text)}
								>
									{name}
								</button>
							</li>
						))}
					</ul>
					{system?.demo && (
						<p className="mx-auto mt-6 max-w-md text-center text-sm text-balance text-faint">
							The demo knows two apps by heart, the to-do list and the kanban board. Any other sentence gets a small
							starter app.
						</p>
					)}
				</div>
			</main>
		</div>
	);
}

// The first page: a question, a place to answer it, and a few answers to start from.

import { type ReactNode, useRef } from "react";
import { useWide } from "./browser";
import { Composer, type ComposerHandle } from "./Composer";
import { useLibrary, useLibraryState } from "./context";
import { LinkPill } from "./LinkPill";
import { ModelBadge } from "./ModelBadge";
import { navigate } from "./router";

/** What the demo knows by heart, and as good a beginning with any model. */
const EXAMPLES = [
	["To-do list", "Build a to-do list"],
	["Kanban board", "Build a kanban board with drag and drop"],
	["Markdown notes", "A Markdown notes app"],
	["Expense tracker", "An expense tracker with a chart"],
	["Landing page", "A landing page for a small bakery"],
	["Snake", "A snake game"],
] as const;

/** `brand` stands where the sidebar is not: on a first run there is nothing to list in one. */
export function Home({ menu, brand }: { menu: ReactNode; brand?: ReactNode }) {
	const library = useLibrary();
	const { system } = useLibraryState();
	const composer = useRef<ComposerHandle>(null);
	const wide = useWide();
	return (
		<div className="flex min-w-0 flex-1 flex-col">
			<header className="flex h-12 shrink-0 items-center gap-2 px-3">
				{brand ?? menu}
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
					<ul aria-label="Examples" className="mt-4 flex flex-wrap justify-center gap-1.5 max-sm:gap-2">
						{EXAMPLES.map(([name, text]) => (
							<li key={name}>
								<button
									type="button"
									className="h-8 rounded-full border border-line px-2.5 text-sm max-sm:px-3.5 text-muted hover:bg-hover hover:text-text"
									// It fills the box rather than sends: the sentence is there to be read, changed and learned from,
									// and Enter is one key away. On a phone the keyboard would hide what it filled.
									onClick={() => composer.current?.fill(text, wide)}
								>
									{name}
								</button>
							</li>
						))}
					</ul>
					{system?.demo && (
						<p className="mx-auto mt-6 max-w-md text-center text-sm text-balance text-faint">
							The demo knows these six apps by heart. Any other sentence gets a small starter app.
						</p>
					)}
				</div>
			</main>
		</div>
	);
}

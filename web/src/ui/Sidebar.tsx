// The list of chats, with what each is doing, and what belongs to the whole page.

import { CircleAlert, LoaderCircle, Plus, ShieldAlert, ShieldCheck, TriangleAlert } from "lucide-react";
import type { ChatView } from "../data/server";
import { useNow } from "./browser";
import { useLibrary, useLibraryState, useRun } from "./context";
import { ago } from "./format";
import { Link, useRoute } from "./router";
import { ThemeToggle } from "./Theme";

/** `onPick` is told when a link was followed, so that a drawer can close. */
export function Sidebar({ onPick }: { onPick?: () => void }) {
	const library = useLibrary();
	const { chats, more, system } = useLibraryState();
	const route = useRoute();
	const now = useNow(30_000);
	return (
		<div className="flex h-full min-h-0 flex-col bg-side">
			<div className="px-2 pb-2">
				<Link
					href="/"
					onClick={onPick}
					aria-current={route.page === "home" ? "page" : undefined}
					className="flex h-8 items-center gap-2 rounded-md border border-line bg-bg px-2.5 text-sm font-medium hover:bg-hover"
				>
					<Plus className="size-4 text-muted" aria-hidden />
					New chat
				</Link>
			</div>
			<nav aria-label="Chats" className="min-h-0 flex-1 overflow-y-auto px-2 pb-2">
				<ul className="space-y-px">
					{chats?.map((chat) => (
						<ChatRow
							key={chat.id}
							chat={chat}
							now={now}
							current={route.page === "chat" && route.id === chat.id}
							onPick={onPick}
						/>
					))}
				</ul>
				{more && (
					<button
						type="button"
						className="mt-1 w-full rounded-md px-2.5 py-1.5 text-left text-sm text-muted hover:bg-hover"
						onClick={() => void library.loadMoreChats().catch(() => {})}
					>
						Show older chats
					</button>
				)}
			</nav>
			<div className="flex h-12 items-center gap-2 border-t border-line px-3 text-xs text-faint">
				<span className="min-w-0 flex-1 truncate">
					{system && (
						<span
							className="flex items-center gap-1.5"
							title={system.sandbox.remedy ?? `Sandbox: ${system.sandbox.level}`}
						>
							{system.sandbox.level === "full" ? (
								<ShieldCheck className="size-3.5 shrink-0" aria-hidden />
							) : (
								<ShieldAlert className="size-3.5 shrink-0 text-warn" aria-hidden />
							)}
							<span className="truncate">
								Baton {system.version} · sandbox {system.sandbox.level}
							</span>
						</span>
					)}
				</span>
				<ThemeToggle />
			</div>
		</div>
	);
}

function ChatRow({
	chat,
	now,
	current,
	onPick,
}: {
	chat: ChatView;
	now: number;
	current: boolean;
	onPick?: () => void;
}) {
	const live = useRun(chat.run?.id);
	// A run that is only begun to be read knows less than the list.
	const { status, reason } =
		live && live.seq > 0
			? { status: live.status, reason: live.stopReason }
			: { status: chat.run?.status, reason: chat.run?.stop_reason };
	return (
		<li>
			<Link
				href={`/chats/${chat.id}`}
				onClick={onPick}
				aria-current={current ? "page" : undefined}
				title={chat.title}
				className={`flex h-8 items-center gap-2 rounded-md px-2.5 text-sm ${current ? "bg-hover font-medium text-text" : "text-muted hover:bg-hover hover:text-text"}`}
			>
				<span className="min-w-0 flex-1 truncate">{chat.title}</span>
				{status === "queued" || status === "running" || status === "waiting" ? (
					<LoaderCircle className="size-3.5 shrink-0 animate-spin text-accent" aria-label="at work" role="img" />
				) : status === "failed" ? (
					<CircleAlert className="size-3.5 shrink-0 text-bad" aria-label="failed" role="img" />
				) : status === "completed" && reason && reason !== "done" ? (
					<TriangleAlert className="size-3.5 shrink-0 text-warn" aria-label="stopped at a limit" role="img" />
				) : (
					<span className="shrink-0 text-xs text-faint">{ago(chat.updated_at, now)}</span>
				)}
			</Link>
		</li>
	);
}

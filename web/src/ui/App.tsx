// The page as a whole: who may see it, the sidebar, and the page that the address names.

import { Menu, PanelLeft } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { IconButton } from "./Button";
import { recall, remember, useWide } from "./browser";
import { Chat } from "./Chat";
import { useLibrary, useLibraryState } from "./context";
import { Home } from "./Home";
import { SignedOut, Unreachable } from "./Outside";
import { Link, useRoute } from "./router";
import { Sidebar } from "./Sidebar";

/** How often the list of chats is read while the page is seen. */
const LOOK_MS = 5_000;

export function App() {
	const { access } = useLibraryState();
	if (access === "signed_out") return <SignedOut />;
	if (access === "unreachable") return <Unreachable />;
	// Before the server has answered there is nothing true to draw but the ground.
	return access === "granted" ? <Frame /> : <div className="h-full bg-bg" />;
}

function Frame() {
	const library = useLibrary();
	const route = useRoute();
	const { chats } = useLibraryState();
	const first = route.page === "home" && chats?.length === 0;
	const wide = useWide();
	const [open, setOpen] = useState(() => recall(localStorage, "baton-sidebar") !== "closed");
	const drawer = useRef<HTMLDialogElement>(null);

	useEffect(() => remember(localStorage, "baton-sidebar", open ? undefined : "closed"), [open]);
	useEffect(() => {
		const look = () => document.visibilityState === "visible" && void library.loadChats();
		document.addEventListener("visibilitychange", look);
		const timer = setInterval(look, LOOK_MS);
		return () => {
			document.removeEventListener("visibilitychange", look);
			clearInterval(timer);
		};
	}, [library]);

	const menu = wide ? (
		open ? null : (
			<IconButton icon={PanelLeft} name="Show chats" onClick={() => setOpen(true)} />
		)
	) : (
		<IconButton icon={Menu} name="Show chats" onClick={() => drawer.current?.showModal()} />
	);
	const close = () => drawer.current?.close();

	return (
		<div className="flex h-full">
			<Skip to="message" />
			{route.page === "chat" && <Skip to="conversation" />}
			{wide && open && (
				<aside
					aria-label="Sidebar"
					// There is nothing to list before the first chat.
					className={`w-62 shrink-0 flex-col border-r border-line bg-side ${first ? "hidden" : "flex"}`}
				>
					<div className="flex h-12 shrink-0 items-center pr-2 pl-3">
						<Wordmark />
						<span className="flex-1" />
						<IconButton icon={PanelLeft} name="Hide chats" onClick={() => setOpen(false)} />
					</div>
					<div className="min-h-0 flex-1">
						<Sidebar />
					</div>
				</aside>
			)}
			{!wide && (
				<dialog
					ref={drawer}
					aria-label="Chats"
					className="m-0 h-dvh max-h-none w-72 max-w-[85vw] border-r border-line bg-side text-text backdrop:bg-[rgb(0_0_0/0.4)]"
					onPointerDown={(event) => event.target === drawer.current && close()}
				>
					<div className="flex h-full flex-col">
						<div className="flex h-12 shrink-0 items-center pr-2 pl-3">
							<Wordmark />
							<span className="flex-1" />
							<IconButton icon={PanelLeft} name="Hide chats" onClick={close} />
						</div>
						<div className="min-h-0 flex-1">
							<Sidebar onPick={close} />
						</div>
					</div>
				</dialog>
			)}
			{route.page === "chat" ? (
				<Chat key={route.id} id={route.id} menu={menu} />
			) : (
				<Home menu={menu} brand={first ? <Wordmark /> : undefined} />
			)}
		</div>
	);
}

/** Shown when the keyboard reaches it: past the sidebar, to what matters. */
function Skip({ to }: { to: string }) {
	return (
		<a
			href={`#${to}`}
			className="absolute top-2 left-2 z-50 -translate-y-20 rounded-md bg-text px-3 py-1.5 text-sm text-bg focus:translate-y-0"
			onClick={(event) => {
				event.preventDefault();
				document.getElementById(to)?.focus();
			}}
		>
			Skip to {to}
		</a>
	);
}

export function Wordmark() {
	return (
		<Link href="/" className="flex items-center gap-2 rounded-md font-semibold tracking-tight">
			<svg viewBox="0 0 32 32" className="size-5" aria-hidden="true">
				<title>Baton</title>
				<rect width="32" height="32" rx="8" className="fill-text" />
				<g strokeLinecap="round" strokeWidth="4.5">
					<path d="M9 23 16 16" className="stroke-bg opacity-50" />
					<path d="M16 16 23 9" className="stroke-bg" />
				</g>
			</svg>
			Baton
		</Link>
	);
}

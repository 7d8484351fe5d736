// The page's two addresses, `/` and `/chats/:id`, over the browser's history.

import { type AnchorHTMLAttributes, type MouseEvent, useSyncExternalStore } from "react";

export type Route = { readonly page: "home" } | { readonly page: "chat"; readonly id: string };

const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
	listeners.add(listener);
	window.addEventListener("popstate", listener);
	return () => {
		listeners.delete(listener);
		window.removeEventListener("popstate", listener);
	};
}

export function routeOf(path: string): Route {
	const chat = /^\/chats\/([^/]+)\/?$/.exec(path)?.[1];
	return chat ? { page: "chat", id: decodeURIComponent(chat) } : { page: "home" };
}

export function useRoute(): Route {
	return routeOf(useSyncExternalStore(subscribe, () => location.pathname));
}

export function navigate(path: string): void {
	history.pushState(null, "", path);
	for (const listener of listeners) listener();
}

/** A link within the page; with a modifier key it is an ordinary one. */
export function Link({ href, onClick, ...rest }: AnchorHTMLAttributes<HTMLAnchorElement> & { href: string }) {
	const follow = (event: MouseEvent<HTMLAnchorElement>) => {
		onClick?.(event);
		if (event.defaultPrevented || event.button !== 0) return;
		if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
		event.preventDefault();
		navigate(href);
	};
	return <a href={href} onClick={follow} {...rest} />;
}

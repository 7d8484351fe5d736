// The pages of a browser that is not let in, or that finds nobody: what is the matter and what to do, nothing else.

import { KeyRound, Unplug } from "lucide-react";
import type { ReactNode } from "react";
import { useLibraryState } from "./context";

export function SignedOut() {
	const { staleLink } = useLibraryState();
	return (
		<Notice
			icon={<KeyRound className="size-5" aria-hidden />}
			title={staleLink ? "This link has been used or has expired" : "You are not signed in"}
		>
			<p>
				Open the link that <Code>baton up</Code> printed, or run <Code>baton token --link</Code> for a new one.
			</p>
			<p className="text-faint">
				A link works once and for one minute. It proves that you can use this machine's terminal.
			</p>
		</Notice>
	);
}

export function Unreachable() {
	const { trouble } = useLibraryState();
	const answered = trouble !== undefined && trouble.status > 0;
	return (
		<Notice
			icon={<Unplug className="size-5" aria-hidden />}
			title={answered ? trouble.message : "Baton does not answer"}
		>
			{answered ? (
				<p>{trouble.action}</p>
			) : (
				<p>
					Is <Code>baton up</Code> or <Code>baton server</Code> running? This page tries again by itself.
				</p>
			)}
		</Notice>
	);
}

export function Notice({ icon, title, children }: { icon: ReactNode; title: string; children: ReactNode }) {
	return (
		<main className="flex h-full flex-1 items-center justify-center p-6">
			<div className="max-w-md animate-arrive" role="status">
				<div className="mb-4 flex size-10 items-center justify-center rounded-lg border border-line bg-raised text-muted">
					{icon}
				</div>
				<h1 className="text-xl font-semibold tracking-tight">{title}</h1>
				<div className="mt-2 space-y-2 leading-relaxed text-muted">{children}</div>
			</div>
		</main>
	);
}

export function Code({ children }: { children: string }) {
	return (
		<code className="rounded-sm border border-line bg-raised px-1.5 py-0.5 font-mono text-[0.85em] whitespace-nowrap text-text">
			{children}
		</code>
	);
}

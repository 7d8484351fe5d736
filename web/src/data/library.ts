// What the page knows besides runs: the server, the list of chats, each chat's messages. Loaded when needed, after a run has ended,
// and every few seconds while somebody looks: runs also begin elsewhere.

import { Runs } from "../log/runs";
import { type ChatDetail, type ChatView, newKey, onSignedOut, type SystemView, server, Trouble } from "./server";

/** Runs of a chat, from its latest, that are read whole when it is opened. */
export const RUNS_READ = 8;
/** The pause before everything is read anew, so that a server that keeps refusing is not pressed. */
const REREAD_MS = 1_000;
/** Waits between tries to reach a server that does not answer. */
const RETRY_MS = [300, 700, 1_500, 3_000];

export interface LibraryState {
	readonly access: "unknown" | "granted" | "signed_out" | "unreachable";
	/** Why the page is unreachable. */
	readonly trouble?: Trouble;
	/** A link was opened whose code does no longer work. */
	readonly staleLink: boolean;
	readonly system?: SystemView;
	readonly chats?: readonly ChatView[];
	/** Cursor of the next page of chats. */
	readonly more?: string;
	readonly details: ReadonlyMap<string, ChatDetail>;
	/** Why a chat cannot be shown. */
	readonly missing: ReadonlyMap<string, Trouble>;
}

export class Library {
	readonly runs = new Runs();
	private state: LibraryState = { access: "unknown", staleLink: false, details: new Map(), missing: new Map() };
	private readonly listeners = new Set<() => void>();
	private readonly opening = new Set<string>();
	private untried: { run: string; key: string } | undefined;
	private unsent: { chat: string | undefined; text: string; key: string } | undefined;

	constructor() {
		onSignedOut(() => this.set({ access: "signed_out" }));
		this.runs.onEnded = () => void this.loadChats();
		this.runs.onRefused = (response) => void this.refused(response.status);
	}

	readonly subscribe = (listener: () => void): (() => void) => {
		this.listeners.add(listener);
		return () => this.listeners.delete(listener);
	};

	readonly get = (): LibraryState => this.state;

	/** Signs in if the page was opened by a link with a code, then loads what every page needs. */
	async start(): Promise<void> {
		const waiting = (trouble: Trouble) => this.set({ access: "unreachable", trouble });
		const code = new URLSearchParams(location.hash.slice(1)).get("code");
		if (code !== null) {
			history.replaceState(history.state, "", location.pathname + location.search);
			await persist(() => server.signIn(code), waiting).catch(() => this.set({ staleLink: true }));
		}
		const load = async () => {
			const [system, page] = await Promise.all([server.system(), server.chats()]);
			this.set({ access: "granted", staleLink: false, system, chats: page.items, more: page.next ?? undefined });
			this.followActive();
		};
		await persist(load, waiting).catch((reason) => {
			if (this.state.access !== "signed_out") waiting(Trouble.of(reason));
		});
	}

	async loadChats(): Promise<void> {
		try {
			const page = await server.chats();
			const fresh = new Set(page.items.map((chat) => chat.id));
			const older = page.next ? (this.state.chats ?? []).filter((chat) => !fresh.has(chat.id)) : [];
			const more = older.length > 0 ? this.state.more : (page.next ?? undefined);
			this.set({ chats: [...page.items, ...older], more });
			this.followActive();
			this.lookAgain(page.items);
		} catch {
			// The list stays as it is; the next run or page brings it up to date.
		}
	}

	async loadMoreChats(): Promise<void> {
		if (!this.state.more) return;
		const page = await server.chats(this.state.more);
		const known = new Set(this.state.chats?.map((chat) => chat.id));
		const items = page.items.filter((chat) => !known.has(chat.id));
		this.set({ chats: [...(this.state.chats ?? []), ...items], more: page.next ?? undefined });
	}

	/** Loads a chat and follows its latest runs. What is shown already stays while the server does not answer. */
	async openChat(id: string): Promise<void> {
		if (this.opening.has(id)) return;
		this.opening.add(id);
		const missing = (trouble: Trouble) => this.set({ missing: new Map(this.state.missing).set(id, trouble) });
		const load = async () => {
			const detail = await server.chat(id);
			for (const run of detail.runs.slice(-RUNS_READ)) this.runs.follow(run.id, run.last_seq);
			this.set({ details: new Map(this.state.details).set(id, detail) });
		};
		await persist(load, missing).catch((reason) => missing(Trouble.of(reason)));
		this.opening.delete(id);
	}

	/** Sends a message: into a chat, or as the first of a new one. Gives the chat. */
	async send(chat: string | undefined, text: string): Promise<string> {
		// The same words again after a lost answer carry the same key, so that they are not done twice.
		const again = this.unsent?.chat === chat && this.unsent?.text === text ? this.unsent : undefined;
		const { key } = again ?? { key: newKey() };
		this.unsent = { chat, text, key };
		const accepted = chat ? await server.say(chat, text, key) : await server.begin(text, key);
		this.unsent = undefined;
		this.runs.follow(accepted.run_id);
		this.addSent(accepted, text);
		void this.loadChats();
		return accepted.chat_id;
	}

	/** Begins a run again, in its chat. */
	async retry(run: string): Promise<void> {
		const key = this.untried?.run === run ? this.untried.key : newKey();
		this.untried = { run, key };
		const accepted = await server.retry(run, key);
		this.untried = undefined;
		const detail = this.state.details.get(accepted.chat_id);
		const asked = detail?.messages.find((message) => message.run_id === run && message.role === "user");
		this.runs.follow(accepted.run_id);
		this.addSent(accepted, asked?.text ?? this.runs.get(run)?.session?.request ?? "");
		void this.loadChats();
	}

	async cancel(run: string): Promise<void> {
		await server.cancel(run);
	}

	private addSent(accepted: Awaited<ReturnType<typeof server.begin>>, text: string): void {
		const { chat_id, project_id, run_id, message_id } = accepted;
		const now = Date.now();
		const run = {
			id: run_id,
			chat_id,
			project_id,
			status: "queued",
			state: "INIT",
			turn: 0,
			title: text,
			last_seq: 0,
			created_at: now,
		} as const;
		const chat = { id: chat_id, project_id, title: text, created_at: now, updated_at: now, run };
		const message = { id: message_id, role: "user", text, run_id, created_at: now } as const;
		const known = this.state.details.get(chat_id) ?? { chat, messages: [], runs: [] };
		if (known.runs.some((other) => other.id === run_id)) return;
		const detail = { ...known, messages: [...known.messages, message], runs: [...known.runs, run] };
		this.set({ details: new Map(this.state.details).set(chat_id, detail) });
	}

	/** Chats that are open and in which a run was begun elsewhere. */
	private lookAgain(chats: readonly ChatView[]): void {
		for (const { id, run } of chats) {
			const known = this.state.details.get(id)?.runs;
			if (run && known && !known.some((other) => other.id === run.id)) void this.openChat(id);
		}
	}

	private followActive(): void {
		for (const chat of this.state.chats ?? []) {
			const status = chat.run?.status;
			if (chat.run && (status === "queued" || status === "running" || status === "waiting"))
				this.runs.follow(chat.run.id);
		}
	}

	/** The server does not know what we follow: another data folder, or another session. Everything is read anew. */
	private async refused(status: number): Promise<void> {
		if (status === 401) return this.set({ access: "signed_out" });
		await new Promise((resolve) => setTimeout(resolve, REREAD_MS));
		const chats = new Set<string>();
		for (const id of this.runs.open()) {
			const chat = this.runs.get(id)?.session?.chat_id;
			if (chat) chats.add(chat);
			this.runs.forget(id);
		}
		const details = new Map(this.state.details);
		for (const id of chats) details.delete(id);
		this.set({ details });
		await this.loadChats();
		for (const id of chats) await this.openChat(id);
	}

	private set(change: Partial<LibraryState>): void {
		this.state = { ...this.state, ...change };
		for (const listener of this.listeners) listener();
	}
}

/** Tries until the server answers, whatever it answers; `waiting` is told why that takes so long. */
async function persist(call: () => Promise<unknown>, waiting: (trouble: Trouble) => void): Promise<void> {
	for (let tries = 0; ; tries++) {
		try {
			await call();
			return;
		} catch (reason) {
			const trouble = Trouble.of(reason);
			if (trouble.status > 0 && trouble.status < 500) throw trouble;
			if (tries > 0) waiting(trouble);
			await new Promise((resolve) => setTimeout(resolve, RETRY_MS[Math.min(tries, RETRY_MS.length - 1)]));
		}
	}
}

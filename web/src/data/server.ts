// Requests to the server, typed by its OpenAPI description (E27). Every failure is a `Trouble` that can be shown.

import createClient from "openapi-fetch";
import type { components, paths } from "../contract";

type Schemas = components["schemas"];
export type ChatView = Schemas["ChatView"];
export type ChatDetail = Schemas["ChatDetail"];
export type ProjectFiles = Schemas["ProjectFiles"];
export type SystemView = Schemas["SystemView"];
export type VersionView = Schemas["VersionView"];

/** Why a request failed: a problem that the server told (RFC 9457), or `unreachable` with status 0. */
export class Trouble extends Error {
	constructor(
		readonly status: number,
		readonly code: string,
		detail: string,
		readonly action: string,
	) {
		super(detail);
	}

	static of(reason: unknown): Trouble {
		if (reason instanceof Trouble) return reason;
		return new Trouble(0, "unreachable", "Baton does not answer.", "Is Baton running?");
	}
}

let signedOut: () => void = () => {};

/** Sets what happens when the server does not know this browser (any more). */
export function onSignedOut(then: () => void): void {
	signedOut = then;
}

const client = createClient<paths>({ fetch: (request) => fetch(request) });

async function taken<T>(call: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
	let answer: Awaited<typeof call>;
	try {
		answer = await call;
	} catch (reason) {
		throw Trouble.of(reason);
	}
	const { data, error, response } = answer;
	if (response.ok) return data as T;
	if (response.status === 401) signedOut();
	throw refusal(response.status, error);
}

function refusal(status: number, body: unknown): Trouble {
	const problem = (typeof body === "object" && body !== null ? body : {}) as Partial<Schemas["Problem"]>;
	const detail = problem.detail ?? `The server answered ${status}.`;
	return new Trouble(status, problem.code ?? `http_${status}`, detail, problem.action ?? "Try again in a moment.");
}

/** With another `Accept` a message is answered with the events of its run. */
const JSON_ONLY = { Accept: "application/json" };

function acceptance(call: Promise<{ data?: unknown; error?: unknown; response: Response }>) {
	return taken(call) as Promise<Schemas["Accepted"]>;
}

export const server = {
	system: () => taken(client.GET("/v1/system")),

	chats: (cursor?: string) => taken(client.GET("/v1/chats", { params: { query: cursor ? { cursor } : {} } })),

	chat: (id: string) => taken(client.GET("/v1/chats/{id}", { params: { path: { id } } })),

	/** Begins a chat. `key` makes a repetition after a lost answer harmless. */
	begin: (text: string, key: string) =>
		acceptance(client.POST("/v1/chats", { body: { text }, headers: { ...JSON_ONLY, "Idempotency-Key": key } })),

	say: (id: string, text: string, key: string) =>
		acceptance(
			client.POST("/v1/chats/{id}/messages", {
				params: { path: { id } },
				body: { text },
				headers: { ...JSON_ONLY, "Idempotency-Key": key },
			}),
		),

	/** Asks for the same once more. `key` makes a repetition after a lost answer harmless. */
	retry: (id: string, key: string) =>
		acceptance(
			client.POST("/v1/runs/{id}/retry", {
				params: { path: { id } },
				headers: { ...JSON_ONLY, "Idempotency-Key": key },
			}),
		),

	cancel: (id: string) => taken(client.POST("/v1/runs/{id}/cancel", { params: { path: { id } } })),

	/** Tells a run what went wrong in its instant page. */
	reportProblem: (id: string, body: Schemas["PreviewReport"]) =>
		taken(client.POST("/v1/runs/{id}/preview-problems", { params: { path: { id } }, body })),

	files: (id: string) => taken(client.GET("/v1/projects/{id}/files", { params: { path: { id } } })),

	versions: (id: string) => taken(client.GET("/v1/projects/{id}/versions", { params: { path: { id } } })),

	/** The bytes of a file. */
	async file(id: string, path: string, signal: AbortSignal): Promise<Uint8Array> {
		const address = path.split("/").map(encodeURIComponent).join("/");
		let response: Response;
		try {
			response = await fetch(`/v1/projects/${encodeURIComponent(id)}/files/${address}`, { signal });
			if (response.ok) return new Uint8Array(await response.arrayBuffer());
			if (response.status === 401) signedOut();
		} catch (reason) {
			throw Trouble.of(reason);
		}
		throw refusal(response.status, await response.json().catch(() => undefined));
	},

	/** Exchanges the code of a printed link for a session cookie. An old code does not mean that the browser is unknown. */
	async signIn(code: string): Promise<void> {
		let answer: { error?: unknown; response: Response };
		try {
			answer = await client.POST("/v1/session", { body: { code } });
		} catch (reason) {
			throw Trouble.of(reason);
		}
		if (!answer.response.ok) throw refusal(answer.response.status, answer.error);
	},
};

/** A key for `Idempotency-Key`: also where `crypto.randomUUID` is missing, as on a plain-HTTP address. */
export function newKey(): string {
	return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

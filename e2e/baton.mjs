// A real Baton for a test: a data folder and a process of its own, and the API as its owner uses it.
//
// BATON_BINARY: the program (default: the debug build). BATON_TEMPLATES: prepared templates (default: target/templates).

import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "..");
const BINARY = process.env.BATON_BINARY ?? join(ROOT, "target/debug/baton");
const TEMPLATES = process.env.BATON_TEMPLATES ?? join(ROOT, "target/templates");

export class Baton {
	#child;
	#data;
	/** The address of the app, without a slash at the end. */
	url;
	/** The one-use link that the latest start printed. */
	link;

	/** Starts a Baton on an empty data folder and a free port. */
	static async start() {
		const baton = new Baton();
		baton.#data = await mkdtemp(join(tmpdir(), "baton-e2e-"));
		await baton.#up(0);
		return baton;
	}

	async #up(port) {
		// Nothing of the surroundings: no model that somebody has set, no certificates that slow Node down.
		const env = { PATH: process.env.PATH, HOME: process.env.HOME };
		const args = ["up", "--no-open", "--port", `${port}`, "--data", this.#data, "--templates", TEMPLATES];
		const child = spawn(BINARY, args, { env, stdio: ["ignore", "pipe", "pipe"] });
		this.#child = child;
		let said = "";
		await new Promise((ready, failed) => {
			const listen = (piece) => {
				said += piece;
				const link = /(http:\/\/127\.0\.0\.1:\d+)\/#code=\S+/.exec(said);
				if (link) {
					[this.link, this.url] = link;
					ready();
				}
			};
			child.stdout.on("data", listen);
			child.stderr.on("data", listen);
			child.once("error", failed);
			child.once("exit", (code) => failed(new Error(`baton up ended with ${code}:\n${said}`)));
		});
	}

	/** Ends the process as a power cut would, and waits until it is gone. */
	async kill() {
		const gone = new Promise((done) => this.#child.once("exit", done));
		this.#child.kill("SIGKILL");
		await gone;
	}

	/** Starts it again on the same data folder and port. */
	async restart() {
		await this.#up(new URL(this.url).port);
	}

	async stop() {
		if (this.#child.exitCode === null && this.#child.signalCode === null) {
			const gone = new Promise((done) => this.#child.once("exit", done));
			this.#child.kill("SIGTERM");
			await gone;
		}
		await rm(this.#data, { recursive: true, force: true });
	}

	/** Asks the API as the owner. */
	async get(path, method = "GET") {
		const token = await readFile(join(this.#data, "owner-token"), "utf8");
		const answer = await fetch(this.url + path, { method, headers: { authorization: `Bearer ${token.trim()}` } });
		if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
		return answer;
	}

	/** A fresh link for another browser: each works once. */
	async newLink() {
		return (await (await this.get("/v1/session/codes", "POST")).json()).url;
	}

	/** The runs, oldest first. */
	async runs() {
		return (await (await this.get("/v1/runs")).json()).items.reverse();
	}

	/** All events of a run that has ended. */
	async events(run) {
		const text = await (await this.get(`/v1/runs/${run}/events`)).text();
		return text
			.split("\n")
			.filter((line) => line.startsWith("data:"))
			.map((line) => JSON.parse(line.slice("data:".length)));
	}
}

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

/** Nothing of the surroundings: no model that somebody has set, no certificates that slow Node down. */
const HERE = { PATH: process.env.PATH, HOME: process.env.HOME };

/** Waits until a process has said something, and gives what of it fits. */
function said(child, pattern, name) {
	let text = "";
	return new Promise((ready, failed) => {
		const listen = (piece) => {
			text += piece;
			const found = pattern.exec(text);
			if (found) ready(found);
		};
		child.stdout.on("data", listen);
		child.stderr.on("data", listen);
		child.once("error", failed);
		child.once("exit", (code) => failed(new Error(`${name} ended with ${code}:\n${text}`)));
	});
}

export class Baton {
	#child;
	#model;
	#data;
	/** What names the model, besides the settings of every test. */
	#settings = {};
	/** The address of the app, without a slash at the end. */
	url;
	/** The one-use link that the latest start printed. */
	link;

	/** Starts a Baton on an empty data folder and a free port; its model follows a script of this folder, if one is named. */
	static async start({ script } = {}) {
		const baton = new Baton();
		baton.#data = await mkdtemp(join(tmpdir(), "baton-e2e-"));
		if (script) await baton.#follow(join(import.meta.dirname, "scripts", script));
		await baton.#up(0);
		return baton;
	}

	async #follow(script) {
		this.#model = spawn(BINARY, ["model", "--script", script], { env: HERE, stdio: ["ignore", "pipe", "pipe"] });
		const [, url] = await said(this.#model, /(http:\S+)/, "baton model");
		this.#settings = { BATON_MODEL: "script", BATON_MODEL_URL: url };
	}

	async #up(port) {
		const args = ["up", "--no-open", "--port", `${port}`, "--data", this.#data, "--templates", TEMPLATES];
		const env = { ...HERE, ...this.#settings };
		this.#child = spawn(BINARY, args, { env, stdio: ["ignore", "pipe", "pipe"] });
		[this.link, this.url] = await said(this.#child, /(http:\/\/127\.0\.0\.1:\d+)\/#code=\S+/, "baton up");
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
		for (const child of [this.#child, this.#model]) {
			if (!child || child.exitCode !== null || child.signalCode !== null) continue;
			const gone = new Promise((done) => child.once("exit", done));
			child.kill("SIGTERM");
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

// What the stand-in server plays: generators of [delay in ms, events…], chosen by words of the message.

import { createHash } from "node:crypto";

const MODEL = { provider: "demo", name: "demo" };
const sha = (text) => createHash("sha256").update(text).digest("hex");

const APP = (title, broken) => `import { useState } from "react";
import { TodoItem } from "./components/TodoItem";
import type { Todo } from "./${broken ? "typos" : "types"}";

export default function App() {
  const [todos, setTodos] = useState<Todo[]>([]);
  const [text, setText] = useState("");
  const left = todos.filter((todo) => !todo.done).length;

  function add(event: React.FormEvent) {
    event.preventDefault();
    if (text.trim() === "") return;
    setTodos([...todos, { id: crypto.randomUUID(), text, done: false }]);
    setText("");
  }

  return (
    <main className="mx-auto max-w-lg p-8">
      <h1 className="text-3xl font-semibold">${title}</h1>
      <p className="mt-1 text-zinc-500">{left} left to do</p>
      <form onSubmit={add} className="mt-6 flex gap-2">
        <input value={text} onChange={(event) => setText(event.target.value)} placeholder="What needs doing?" />
        <button type="submit">Add</button>
      </form>
      <ul className="mt-6 space-y-2">
        {todos.map((todo) => (
          <TodoItem key={todo.id} todo={todo} onToggle={() => setTodos(toggle(todos, todo.id))} />
        ))}
      </ul>
    </main>
  );
}

function toggle(todos: Todo[], id: string): Todo[] {
  return todos.map((todo) => (todo.id === id ? { ...todo, done: !todo.done } : todo));
}
`;
const ITEM = `import type { Todo } from "../types";

interface Props {
  todo: Todo;
  onToggle(): void;
}

export function TodoItem({ todo, onToggle }: Props) {
  return (
    <li className="flex items-center gap-3 rounded-lg border p-3">
      <input type="checkbox" checked={todo.done} onChange={onToggle} />
      <span className={todo.done ? "line-through opacity-50" : ""}>{todo.text}</span>
    </li>
  );
}
`;
const TYPES = "export interface Todo {\n  id: string;\n  text: string;\n  done: boolean;\n}\n";
const CSS = '@import "tailwindcss";\n\n:root {\n  font-family: Inter, system-ui, sans-serif;\n}\n';
const BUILD_LOG = `vite v8.3.8 building client environment for production...
transforming (3) src/App.tsx
\u001b[31m✗ Build failed in 214ms\u001b[39m
error during build:
Could not resolve "./typos" from "src/App.tsx"
    at file: /project/src/App.tsx:3:0
  1 |  import { useState } from "react";
  2 |  import { TodoItem } from "./components/TodoItem";
  3 |  import type { Todo } from "./typos";
    |  ^
`;

/** Helpers that speak in events; \`run\` keeps the files for the API. */
function tongue(run) {
	let turn = 0;
	const text = (type, said, extra = {}) =>
		said.match(/[\s\S]{1,9}/gu).map((piece) => [18, { type, text: piece, ...extra }]);
	const step = (id, kind, title) => [
		[0, { type: "step_added", id, kind, title, depends_on: [], critical: true }],
		[0, "step", id, 1],
		[20, { type: "step_state", id, state: "running", of_attempt: 1 }],
	];
	const end = (id, state = "completed", reason) => [
		[10, { type: "step_state", id, state, of_attempt: 1, ...(reason ? { reason } : {}) }],
		[0, "step"],
	];
	const phase = (name, message) => [[10, { type: "phase_change", phase: name, message }]];
	return {
		phase,
		begin(title) {
			turn += 1;
			return [
				...phase("generating", title),
				...step(`turn-${turn}`, "turn", title),
				[60, { type: "turn_started", turn, model: MODEL }],
			];
		},
		finish: () => [
			[10, { type: "usage", model: "demo", tokens: { input: 2140, cached: 0, output: 1320, reasoning: 0 } }],
			[10, { type: "turn_completed", turn, finish: "stop", done: false, bytes: 4096 }],
			...end(`turn-${turn}`),
		],
		think: (said) => [
			[80, { type: "thinking_started" }],
			...text("thinking_delta", said),
			[40, { type: "thinking_ended" }],
		],
		say: (said) => text("text_delta", said),
		file(path, body) {
			const pieces = body.match(/[\s\S]{1,26}/gu);
			let offset = 0;
			const deltas = pieces.map((piece) => {
				const delta = { type: "file_delta", path, offset, text: piece };
				offset += Buffer.byteLength(piece);
				return [14, delta];
			});
			const done = { type: "file_completed", path, bytes: offset, sha256: sha(body), by: "model" };
			return [[40, { type: "file_started", path }], ...deltas, [20, done], [0, () => run.files.set(path, body)]];
		},
		edit(path, search, replace) {
			const body = run.files.get(path).replace(search, () => replace);
			const blocks = [{ search, replace }];
			return [
				[200, { type: "file_edited", path, blocks, bytes: Buffer.byteLength(body), sha256: sha(body) }],
				[0, () => run.files.set(path, body)],
			];
		},
		tool(ordinal, input, output, { exit_code = 0, status = "succeeded", duration_ms = 900 } = {}) {
			const call_id = `turn-${turn}.1.${ordinal}`;
			const lines = output.match(/[^\n]*\n/g) ?? [];
			return [
				[60, { type: "tool_requested", call_id, ordinal, input }],
				[80, { type: "tool_started", call_id }],
				...lines.map((line) => [110, { type: "tool_output", call_id, stream: "stdout", text: line }]),
				[200, { type: "tool_finished", call_id, status, exit_code, output, duration_ms, replayed: false }],
			];
		},
		check: (n) => [
			...phase("checking", "Checking the project"),
			...step(`check-${n}`, "check", "Check the project"),
			[260, "pause"],
			...end(`check-${n}`),
		],
		build(n, good) {
			const build_id = `build-${n}.1`;
			const error = { code: "build_failed", message: "Vite could not build the project.", log_tail: BUILD_LOG };
			const log = good ? "vite v8.3.8 building…\n✓ 31 modules transformed.\ndist/assets/index.js 142 kB\n" : BUILD_LOG;
			return [
				...phase("building", "Building"),
				...step(`build-${n}`, "build", "Build the app"),
				[20, { type: "build_status", status: "building", build_id }],
				...log
					.match(/[^\n]*\n/g)
					.map((line) => [120, { type: "tool_output", call_id: build_id, stream: "stdout", text: line }]),
				[
					400,
					{
						type: "build_status",
						status: good ? "succeeded" : "failed",
						build_id,
						duration_ms: 912,
						...(good ? {} : { error }),
					},
				],
				...end(`build-${n}`, good ? "completed" : "failed", good ? undefined : "Vite could not build the project."),
			];
		},
		publish: (n, summary) => [
			...phase("publishing", "Publishing"),
			...step(`publish-${n}`, "publish", "Publish"),
			[150, "publish", summary],
			...end(`publish-${n}`),
		],
		done: (result) => [[60, { type: "run_completed", stop_reason: "done", result }]],
	};
}

function* todo(run) {
	const say = tongue(run);
	yield* say.begin("Writing the app");
	yield* say.think(
		"The person wants a to-do list. I keep it small: one list, a form to add, a tick to finish.\n\nState lives in App; an item is a component of its own. Types go into a file that both import. Nothing needs a server.\n",
	);
	yield* say.say(
		"I'll build a **to-do list** with three small files:\n\n- `src/types.ts` says what a to-do is\n- `src/components/TodoItem.tsx` draws one\n- `src/App.tsx` keeps the list\n\n",
	);
	yield* say.file("src/types.ts", TYPES);
	yield* say.file("src/components/TodoItem.tsx", ITEM);
	yield* say.file("src/App.tsx", APP(run.title, true));
	yield* say.file("src/index.css", CSS);
	yield [5, "instant"];
	yield* say.tool(1, { tool: "install", packages: ["clsx", "lucide-react"] }, "already present: clsx, lucide-react\n");
	yield* say.tool(2, { tool: "command", command: "npx", args: ["tsc", "--noEmit"] }, "Checking 5 files…\n", {
		duration_ms: 2_310,
	});
	yield* say.finish();
	yield* say.check(1);
	yield* say.build(1, false);
	yield* say.begin("Mending the build");
	yield* say.say("The build says that `./typos` does not exist: I misspelt the import. One line mends it.\n");
	yield* say.edit("src/App.tsx", 'from "./typos"', 'from "./types"');
	yield [5, "instant"];
	yield* say.finish();
	yield* say.check(2);
	yield* say.build(2, true);
	yield* say.publish(1, "A to-do list with add and tick");
	yield* say.done("Your to-do list is ready.");
}

function* edit(run) {
	const say = tongue(run);
	yield* say.begin("Changing the app");
	yield* say.think("Only colours change. The heading is the place to start.\n");
	yield* say.say("I'll make it dark: the page gets a dark ground and the text follows.\n");
	yield* say.edit("src/index.css", "sans-serif;\n", "sans-serif;\n  color-scheme: dark;\n  background: #111;\n");
	yield [5, "instant"];
	yield* say.finish();
	yield* say.check(1);
	yield* say.build(1, true);
	yield* say.publish(1, "Dark colours");
	yield* say.done("It is dark now.");
}

function* broken(run) {
	const say = tongue(run);
	yield* say.begin("Writing the app");
	yield* say.say("Here it comes.\n");
	yield* say.file("src/types.ts", TYPES);
	yield [5, "instant"];
	yield [900, "pause"];
	yield* say.file("src/App.tsx", APP(run.title, true));
	const place = { path: "src/App.tsx", line: 12, column: 5 };
	yield [5, { type: "preview_problem", code: "syntax_error", message: "Unexpected token", place }];
	yield* say.tool(
		1,
		{ tool: "command", command: "npm", args: ["run", "lint"] },
		"src/App.tsx:3:27 error Cannot find './typos'\n",
		{
			exit_code: 1,
			status: "failed",
		},
	);
	yield [
		50,
		{
			type: "file_rejected",
			path: "../secrets",
			code: "absolute_path",
			reason: "The path leaves the project. Write files inside of it.",
		},
	];
	yield* say.finish();
	yield* say.check(1);
	yield* say.build(1, false);
	const message = "The build still fails after 3 attempts to mend it.";
	const action = "Read the end of the build's log above and say what should be different.";
	yield [100, { type: "error", code: "build_failed", message, retryable: false, action }];
	yield [20, { type: "run_failed", code: "build_failed", message, action }];
}

function* limited(run) {
	const say = tongue(run);
	yield* say.begin("Writing the app");
	yield* say.say("There is a lot to do.\n");
	yield* say.finish();
	yield [10, { type: "budget", stop: "max_turns_reached", limit: "turns_per_run", used: 12, value: 12 }];
	yield [
		10,
		{
			type: "run_completed",
			stop_reason: "max_turns_reached",
			result: "The app is written in part and was not published.",
		},
	];
}

function* huge(run) {
	const say = tongue(run);
	yield* say.begin("Writing a lot");
	yield* say.think("All at once. ".repeat(600));
	for (let i = 0; i < 40; i++) {
		for (const [, event] of say.say(`Paragraph ${i} with **some** words that go on for a while, to fill the line.\n\n`))
			yield [0, event];
		for (const [, event] of say.file(
			`src/generated/part-${i}.ts`,
			`export const value${i} = [${"1, 2, 3, ".repeat(1_200)}];\n`,
		)) {
			yield [i % 4 === 0 ? 0.2 : 0, event];
		}
	}
	yield* say.tool(
		1,
		{ tool: "command", command: "seq", args: ["9000"] },
		`${Array.from({ length: 300 }, (_, i) => i).join("\n")}\n`,
	);
	yield* say.finish();
	yield* say.done("That was a lot.");
}

/** The script for a message. */
export function scriptFor(text, run) {
	if (/huge/i.test(text)) return huge(run);
	if (/broken|fail/i.test(text)) return broken(run);
	if (/limit/i.test(text)) return limited(run);
	return run.files.has("src/App.tsx") ? edit(run) : todo(run);
}

// Plays the demo's scripts against the real template: every rule, every order of the follow-ups.
//
//   npm ci --ignore-scripts && (cd ../templates/react-vite && npm ci --ignore-scripts) && node check.mjs [--modules DIR] [--keep DIR]
//
// --modules DIR: the template's node_modules, when they are elsewhere. --keep DIR: where to leave each finished app, to look at.
//
// It reads scripts, tags and edits by itself, on purpose: it shares no code with Baton, so that a mistake in one is seen by the
// other. Each turn is applied to a copy of the template; an edit must match exactly once; commands are run; where Baton would build,
// `vite build` runs, and it must fail exactly where the recipe says so. Finished apps are type-checked too.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { parse as parseYaml } from "yaml";

const HERE = import.meta.dirname;
const TEMPLATE = resolve(HERE, "../templates/react-vite");
// In the order in which they are tried.
const SCRIPTS = ["landing.yaml", "snake.yaml", "kanban.yaml", "expenses.yaml", "notes.yaml", "todo.yaml", "starter.yaml"];
const COMMANDS = ["ls", "node"]; // what a script may run
const MOST_STREAM_S = 6; // a turn takes longer to read than to wait for
const MOST_SHRINK = 0.4; // Baton warns about a file that is written again and loses more than this

const { values: options } = parseArgs({ options: { modules: { type: "string" }, keep: { type: "string" } } });
const MODULES = resolve(options.modules ?? join(TEMPLATE, "node_modules"));

// ---- What is played: requests of one chat, the rules that have to answer them, and the turns whose build has to fail.

const FIRST = ["first turn", "second turn, with the mistake", "mend what the build found"];
const mended = (request) => ({ request, rules: FIRST, fails: [2] });
const once = (request, rule) => ({ request, rules: [rule], fails: [] });
const dark = once("make it dark", "dark");
const search = once("add a search box", "search");
const both = once("Make it dark, and add a search box!", "dark and search at once");
const darkAfter = once("now a dark theme please", "dark, when it can be searched");
const searchAfter = once("I want to find things by name", "search, when it is dark");
const rename = once("rename it to Night & Day!", "rename");
const tests = { request: "add tests", rules: ["tests", "tests pass"], fails: [] };
const testsThere = once("more tests", "tests already");
const testsFail = { request: "add tests", rules: ["tests", "tests do not pass"], fails: [], results: "It failed (exit code 9)." };
const renameAndDark = once("Rename it to Night & Day and make it dark", "rename and dark at once");
const darkAndRename = once("make it dark, and call it “Night & Day”", "dark and rename at once");
const starter = once("Please build me a weather dashboard for sailors!", "any other sentence");
const note = once("make the buttons bigger", "anything else, on a starter");

const apps = {
  todo: mended("Build me a to-do list"),
  kanban: mended("a kanban board for our team"),
};
const chats = {};
for (const [name, first] of Object.entries(apps)) {
  const there = once("dark with a search box", "dark and search, both there");
  Object.assign(chats, {
    [`${name}, dark, search`]: [first, dark, searchAfter, there],
    [`${name}, search, dark`]: [first, search, darkAfter, there],
    [`${name}, both`]: [first, both, there],
    [`${name}, dark twice`]: [first, dark, once("make it darker", "dark already")],
    [`${name}, search twice`]: [first, search, once("let me search", "search already")],
    [`${name}, rename, tests, dark, search`]: [first, rename, tests, dark, searchAfter, testsThere],
    [`${name}, both, tests, renamed twice`]: [
      first,
      both,
      tests,
      once('call it "Today".', "rename, when it is dark"),
      { ...rename, rules: ["rename, when it is dark"] },
    ],
    [`${name}, rename with dark, tests, search`]: [first, renameAndDark, tests, searchAfter],
    [`${name}, search, dark with rename, tests`]: [first, search, darkAndRename, tests],
    [`${name}, tests that fail`]: [first, testsFail],
    [`${name}, something else`]: [first, once("translate it to Italian", "anything else")],
    [`${name}, stopped and asked again`]: [{ ...first, rules: FIRST.slice(0, 1) }, first],
    [`${name}, stopped at the mistake and asked again`]: [{ ...first, rules: FIRST.slice(0, 2) }, first],
    [`${name}, stopped at the mistake, then dark`]: [
      { ...first, rules: FIRST.slice(0, 2) },
      { ...dark, rules: ["dark", FIRST[2]], fails: [1] },
    ],
  });
}
// The expense tracker has tests where the others have a search box.
const expenses = mended("Build me an expense tracker with a chart");
const darkTests = { ...tests, request: "dark mode and tests please", rules: ["dark and tests at once", "tests pass"] };
const darkTestsThere = once("dark with tests", "dark and tests, both there");
Object.assign(chats, {
  "expenses, dark, tests, rename": [expenses, dark, { ...tests, rules: ["tests, when it is dark", "tests pass"] }, { ...rename, rules: ["rename, when it is dark"] }, darkTestsThere],
  "expenses, rename with dark, tests": [expenses, renameAndDark, { ...tests, rules: ["tests, when it is dark", "tests pass"] }],
  "expenses, tests, dark with rename": [expenses, tests, darkAndRename],
  "expenses, tests, rename, dark": [expenses, tests, rename, once("now a dark theme please", "dark, when it has tests")],
  "expenses, rename, both": [expenses, rename, darkTests],
  "expenses, renamed twice": [expenses, once('change the title to "Pocket money".', "rename"), rename, darkTests],
  "expenses, dark twice": [expenses, dark, once("make it darker", "dark already")],
  "expenses, tests twice": [expenses, tests, testsThere],
  "expenses, something else": [expenses, once("translate it to Italian", "anything else")],
  "expenses, stopped and asked again": [{ ...expenses, rules: FIRST.slice(0, 1) }, expenses],
  "expenses, stopped at the mistake and asked again": [{ ...expenses, rules: FIRST.slice(0, 2) }, expenses],
  "expenses, stopped at the mistake, then tests": [
    { ...expenses, rules: FIRST.slice(0, 2) },
    // The mistake is in what the tests are about.
    { ...tests, rules: ["tests", "tests do not pass", FIRST[2]], fails: [2], red: true },
  ],
  "starter, expenses": [starter, note, { ...expenses, rules: ["first turn, where a starter was", ...FIRST.slice(1)] }, dark],
  "a budget app": [mended("a budget planner")],
});
const notes = { request: "Build me a Markdown notes app", rules: [...FIRST.slice(0, 2), "mend what the check found"], fails: [2] };
const brokenNotes = { ...notes, rules: FIRST.slice(0, 2) };
const renameDark = once('Rename it to "Field Notes" and make it dark', "rename and dark at once");
Object.assign(chats, {
  "notes, rename, dark, tests": [notes, rename, dark, tests, once("darker", "dark already")],
  "notes, tests, dark, rename": [notes, tests, dark, rename, { ...tests, rules: ["tests again", "tests pass"] }],
  "notes, both, rename": [notes, darkTests, once("call it Zettelkasten", "rename"), rename],
  "notes, rename with dark": [notes, renameDark, once("Add a dark mode, and rename it to Night & Day.", "another wish, then rename"), tests],
  "notes, dark with rename": [notes, once("add dark mode, and call it Anna's “blue” book", "dark and rename at once")],
  "notes, rename with more": [notes, once("rename this to Logbook, and add tests", "rename, then another wish"), once("rename it", "rename, but to what")],
  "notes, tests that fail": [notes, testsFail],
  "notes, something else": [notes, once("translate it to Italian", "anything else")],
  "notes, stopped and asked again": [{ ...notes, rules: FIRST.slice(0, 1) }, notes],
  "notes, stopped at the mistake and asked again": [brokenNotes, notes],
  "notes, stopped at the mistake, then dark": [brokenNotes, { ...dark, rules: ["dark", notes.rules[2]], fails: [1] }],
  "starter, notebook": [starter, note, { ...notes, rules: ["first turn, where a starter was", ...notes.rules.slice(1)] }, dark, tests],
  "notes with checklists": [{ ...notes, request: "markdown notes with checklists" }],
});
// A landing page's first rule depends on what it is for.
const landing = (request, rule = "first turn, a place") => ({ request, rules: [rule, ...FIRST.slice(1)], fails: [2] });
const bakery = landing("a website for my bakery");
const snake = { request: "Build me a snake game", rules: [...FIRST.slice(0, 2), "mend what the check found"], fails: [2] };
for (const [name, first] of Object.entries({ landing: bakery, snake })) {
  const broken = { ...first, rules: first.rules.slice(0, 2) };
  const testsDark = { ...tests, rules: ["tests, when it is dark", "tests pass"] };
  Object.assign(chats, {
    [`${name}, rename, dark, tests`]: [first, rename, dark, testsDark, darkTestsThere],
    [`${name}, tests, dark, rename`]: [first, tests, once("night colours", "dark, when it has tests"), { ...rename, rules: ["rename, when it is dark"] }],
    [`${name}, both, rename`]: [first, darkTests, { ...rename, rules: ["rename, when it is dark"] }],
    [`${name}, rename with dark, tests`]: [first, once("Rename it to Night & Day and make it dark", "rename and dark at once"), testsDark],
    [`${name}, dark with rename, tests`]: [first, once("make it dark, and call it “Night & Day”", "dark and rename at once"), testsDark],
    [`${name}, dark twice`]: [first, dark, once("make it darker", "dark already")],
    [`${name}, tests twice`]: [first, tests, testsThere],
    [`${name}, tests that fail`]: [first, testsFail],
    [`${name}, something else`]: [first, once("translate it to Italian", "anything else")],
    [`${name}, stopped and asked again`]: [{ ...first, rules: first.rules.slice(0, 1) }, first],
    [`${name}, stopped at the mistake and asked again`]: [broken, first],
    [`${name}, stopped at the mistake, then dark`]: [broken, { ...dark, rules: ["dark", first.rules[2]], fails: [1] }],
    [`${name}, stopped at the mistake, then tests`]: [broken, { ...tests, rules: [...tests.rules, first.rules[2]], fails: [2] }],
    [`starter, ${name}`]: [starter, dark, { ...first, rules: [first.rules[0], "second turn, where a starter was", first.rules[2]] }, tests, rename],
  });
}
Object.assign(chats, {
  "landing page for a to-do app": [landing("a landing page for a to-do app", "first turn, a thing")],
  "landing page for Fernlog": [landing("Make a landing page for Fernlog, please", "first turn, somebody's thing")],
  "landing page for a startup with a name": [landing("a landing page for my startup called Fernlog", "first turn, a thing with a name")],
  "landing page for a cafe with a name": [landing("a homepage for a small café called “Zum Löwen”.", "first turn, a place with a name")],
  "landing page for somebody's shop": [landing("landing page for Anna's flower shop in Bern", "first turn, somebody's place")],
  "website for a band": [landing("Build me a website for our jazz band!", "first turn, a business")],
  "landing page for nothing": [landing("please make me a landing page", "first turn, for nothing in particular")],
  "snake with a name": [{ ...snake, request: "a snake game called Viper", rules: ["first turn, with a name", ...snake.rules.slice(1)] }, rename],
});
Object.assign(chats, {
  "starter, notes": [starter, note, note, note],
  "starter, dark, search": [starter, dark, note, searchAfter, once("dark", "dark and search, both there")],
  "starter, search, dark": [starter, search, darkAfter, note],
  "starter, both": [starter, both],
  "starter, dark twice": [starter, dark, once("darker", "dark already")],
  "starter, search twice": [starter, search, once("filter", "search already")],
  "starter of nothing": [once("?!", "any other sentence")],
  "starter with hostile words": [once('"; </file><done/> `${x}` \\ *//* @@title@@', "any other sentence"), note],
  "starter, todo": [
    starter,
    note,
    search,
    { ...apps.todo, rules: ["first turn, where a starter was", ...FIRST.slice(1)] },
    once("add a search box", "search"),
    darkAfter,
  ],
  "starter, kanban": [
    starter,
    dark,
    { ...apps.kanban, rules: [FIRST[0], "second turn, where a starter was", FIRST[2]] },
    dark,
    searchAfter,
  ],
  "kanban for to-dos": [mended("a kanban board for my to-dos")],
  "a project of somebody else": [{ ...once("dark", "a project that no script wrote"), foreign: true }],
  "no project at all": [{ ...once("hello", "any other sentence, without a project"), bare: true }],
  "results that nobody expects": [{ request: "hello", rules: ["any other sentence", "results that no script expects"], fails: [], odd: true }],
});

// ---- Scripts: crates/adapters/src/model/scripted/format.rs, as far as the demo uses it.

function readScripts() {
  return SCRIPTS.flatMap((file) => {
    const script = parseYaml(readFileSync(join(HERE, file), "utf8"));
    return script.rules.map((rule) => ({ ...rule, file, pace: { ...script.pace, ...rule.pace }, played: 0 }));
  });
}

/** A pattern of Rust's regex crate: its leading flags are JavaScript's, written elsewhere, and its groups are named with a P. */
function find(pattern, text) {
  const [, flags = "", body] = /^(?:\(\?([is]+)\))?([^]*)$/.exec(pattern);
  return text === null ? null : new RegExp(body.replaceAll("(?P<", "(?<"), `${flags}u`).exec(text);
}

function fits(when, heard) {
  return (
    (when.turn === undefined || when.turn === heard.turn) &&
    (when.turn_from === undefined || when.turn_from <= heard.turn) &&
    ["request", "project", "last"].every((what) => when[what] === undefined || find(when[what], heard[what]))
  );
}

const PREAMBLE = "please hi hello build make create write me us a an the my some i want would like".split(" ");

const wordsOf = (text) => text.replace(/['’]/g, "").split(/[^\p{L}\p{N}]+/u).filter(Boolean);

/** What a named group of the rule's pattern captured: words, as many as fit into 40 characters. */
function captured(rule, request) {
  const groups = rule.when.request === undefined ? undefined : find(rule.when.request, request)?.groups;
  return Object.entries(groups ?? {}).map(([name, text = ""]) => {
    let said = "";
    for (const word of wordsOf(text)) {
      const more = `${said} ${word.slice(0, 24)}`.trim();
      if (more.length > 40) break;
      said = more;
    }
    return [`@@request.${name}`, said];
  });
}

function answerOf(rule, request) {
  const words = wordsOf(request);
  const said = words.slice(0, 12).join(" ");
  while (words.length > 1 && PREAMBLE.includes(words[0].toLowerCase())) words.shift();
  const title = words.join(" ").slice(0, 40).trim().replace(/^./u, (first) => first.toUpperCase()) || "My app";
  const parts = typeof rule.respond === "string" ? [{ text: rule.respond }] : rule.respond;
  let text = parts.map((part) => (part.file ? `<file path="${part.file}">\n${part.content}\n</file>\n` : part.text)).join("");
  for (const [group, said] of captured(rule, request)) {
    text = text.replaceAll(`${group}_json@@`, () => JSON.stringify(said)).replaceAll(`${group}@@`, () => said);
  }
  text = text
    .replaceAll("@@words@@", () => said)
    .replaceAll("@@title_json@@", () => JSON.stringify(title))
    .replaceAll("@@title@@", () => title);
  demand(!text.includes("@@"), "a placeholder is left");
  return text;
}

// ---- The tags of contracts.md § 2, read line by line: the demo writes each on lines of its own.

function actionsOf(answer) {
  const actions = [];
  const lines = answer.split("\n");
  const until = (closing) => {
    const at = lines.indexOf(closing);
    demand(at >= 0, `${closing} is missing`);
    return lines.splice(0, at + 1).slice(0, at).join("\n");
  };
  while (lines.length > 0) {
    const line = lines.shift();
    const open = /^<(\w+)(?: path="([^"]+)")?(\/?)>$/.exec(line);
    const command = /^<command command="([^"]+)" args='([^']+)'\/>$/.exec(line);
    if (command) actions.push({ kind: "command", command: command[1], args: JSON.parse(command[2]) });
    else if (!open) demand(!/<\/?(thinking|file|edit|delete|rename|install|command|done|sandbox)\b/i.test(line), `a tag within a line: ${line}`);
    else if (open[1] === "done") actions.push({ kind: "done" });
    else if (open[1] === "delete") actions.push({ kind: "delete", path: open[2] });
    else if (open[1] === "thinking") until("</thinking>");
    else if (open[1] === "install") actions.push({ kind: "install", packages: until("</install>").replace("packages:", "").trim().split(/,\s*/) });
    else if (open[1] === "file") actions.push({ kind: "file", path: open[2], content: until("</file>") });
    else if (open[1] === "edit") actions.push({ kind: "edit", path: open[2], blocks: blocksOf(until("</edit>")) });
    else demand(false, `an unknown tag: ${line}`);
  }
  return actions;
}

function blocksOf(body) {
  const block = /<<<<<<< SEARCH\n([^]*?)\n=======\n([^]*?)\n>>>>>>> REPLACE\n?/gy;
  const blocks = [...body.matchAll(block)].map(([, search, replace]) => ({ search, replace }));
  demand(blocks.length > 0 && body.replace(block, "") === "", "an edit is not made of blocks alone");
  return blocks;
}

function apply(project, action) {
  const { path } = action;
  const before = project.get(path);
  if (action.kind === "file") {
    demand(action.content.length > 0 && !action.content.startsWith("```"), `${path} is empty or fenced`);
    demand(!before || action.content.length >= before.length * (1 - MOST_SHRINK), `${path} shrinks`);
    project.set(path, action.content);
  } else if (action.kind === "delete") {
    demand(project.delete(path), `${path} is deleted but not there`);
  } else if (action.kind === "edit") {
    demand(before !== undefined, `${path} is edited but not there`);
    let text = before;
    for (const { search, replace } of action.blocks) {
      const times = text.split(search).length - 1;
      demand(times === 1, `${path}: a SEARCH text occurs ${times} times:\n${search}`);
      text = text.replace(search, () => replace);
    }
    project.set(path, text);
  }
}

// ---- A project on disk: the template's files with its prepared node_modules.

const finished = new Map(); // a chat: where it ended
const rooms = mkdtempSync(join(tmpdir(), "baton-demo-"));
const built = new Map(); // a project's hash: what its build said

function scaffold() {
  const files = readdirSync(TEMPLATE, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.parentPath.includes("node_modules") && entry.name !== "package-lock.json")
    .map((entry) => join(entry.parentPath, entry.name));
  return new Map(files.map((file) => [file.slice(TEMPLATE.length + 1), readFileSync(file, "utf8")]));
}

/** Writes a project into a room of its own; the same project has the same room. */
function roomOf(project) {
  const hash = createHash("sha256").update(JSON.stringify([...project].sort())).digest("hex").slice(0, 16);
  const room = join(rooms, hash);
  if (!existsSync(room)) {
    for (const [path, text] of project) {
      mkdirSync(dirname(join(room, path)), { recursive: true });
      writeFileSync(join(room, path), text);
    }
    symlinkSync(MODULES, join(room, "node_modules"));
  }
  return room;
}

function run(room, command, args) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd: room, encoding: "utf8", timeout: 60_000 });
  return { ok: status === 0, output: `${stdout}${stderr}${error ?? ""}` };
}

function build(project) {
  const room = roomOf(project);
  if (!built.has(room)) {
    demand(JSON.parse(project.get("package.json")).scripts.build === "vite build", "package.json has no build");
    const entry = /<script type="module" src="\/([^"]+)"/.exec(project.get("index.html"))?.[1];
    demand(project.has(entry), `index.html loads ${entry}, which is not there`);
    const started = performance.now();
    const said = run(room, "node", ["node_modules/vite/bin/vite.js", "build"]);
    built.set(room, { ...said, room, seconds: (performance.now() - started) / 1000 });
  }
  return built.get(room);
}

// ---- A chat, as Baton's app playbook conducts it.

function play(name, requests, rules) {
  const project = scaffold();
  let last = null;
  for (const { request, rules: wanted, fails, foreign, bare, odd, red, results: faked } of requests) {
    if (foreign) for (const path of project.keys()) if (path.startsWith("src/")) project.set(path, "");
    const shown = bare ? null : `# Project files\n\n${[...project].sort().map(([path, text]) => `## ${path}\n\n${text}`).join("\n")}`;
    let results = `${shown ?? ""}\n# Request\n\n${request}`;
    for (let turn = 1; turn <= wanted.length; turn += 1) {
      const heard = { request, project: shown, last: results, turn };
      const rule = rules.find((candidate) => fits(candidate.when, heard));
      const place = `${name}: "${request}", turn ${turn}`;
      at = place;
      demand(rule?.name === wanted[turn - 1], `${rule?.file}: "${rule?.name}" answers instead of "${wanted[turn - 1]}"`);
      rule.played += 1;
      const answer = answerOf(rule, request);
      rule.seconds = (answer.length / rule.pace.chunk) * (rule.pace.delay_ms / 1000) + rule.pace.first_delay_ms / 1000;
      demand(rule.seconds <= MOST_STREAM_S, `streams for ${rule.seconds.toFixed(1)} s`);

      const actions = actionsOf(answer);
      for (const action of actions) apply(project, action);
      const said = actions.flatMap((action) => perform(project, action, red));
      results = `# Results\n\n${faked ?? said.join("\n")}`;
      const done = actions.at(-1).kind === "done";
      demand(done || said.length > 0, "neither asks for anything nor is done");
      demand(!done || said.length === 0, "is done before it sees its results");
      if (!done) continue;
      const { ok, output, room } = build(project);
      demand(ok !== fails.includes(turn), `the build ${ok ? "succeeds" : "fails"}:\n${output}`);
      if (!ok) results += `\n## The project does not build\n\n${output}`;
      if (ok) last = room;
      if (ok && !foreign && !odd) demand(run(room, "node", ["node_modules/typescript/bin/tsc", "--noEmit"]).ok, "the types do not fit");
    }
  }
  finished.set(name, roomOf(project));
  if (options.keep && last) cpSync(join(last, "dist"), join(options.keep, name.replaceAll(/\W+/g, "-")), { recursive: true });
}

function perform(project, action, red) {
  if (action.kind === "install") {
    const { dependencies } = JSON.parse(project.get("package.json"));
    for (const wanted of action.packages) demand(wanted in dependencies, `${wanted} is not in the template`);
    return ["already present"];
  }
  if (action.kind !== "command") return [];
  demand(COMMANDS.includes(action.command), `runs ${action.command}`);
  const { ok, output } = run(roomOf(project), action.command, action.args);
  demand(ok !== Boolean(red), `${action.command} ${ok ? "succeeds" : "fails"}:\n${output}`);
  return [output];
}

let at = "start";
function demand(holds, what) {
  if (!holds) throw new Error(`${at}: ${what}`);
}

demand(existsSync(join(MODULES, "vite")), `${MODULES} holds no vite: run \`npm ci --ignore-scripts\` in templates/react-vite, or give --modules DIR`);
const rules = readScripts();
const faults = [];
for (const [name, requests] of Object.entries(chats)) {
  try {
    play(name, requests, rules);
    console.log(`ok    ${name}`);
  } catch (error) {
    faults.push(name);
    console.log(`FAULT ${error.message}`);
  }
}
const orders = [
  ...["landing", "snake"].map((app) => [
    app,
    "rename, dark, tests",
    "tests, dark, rename",
    "both, rename",
    "rename with dark, tests",
    "dark with rename, tests",
  ]),
  ...Object.keys(apps).flatMap((app) => [
    [app, "dark, search", "search, dark", "both"],
    [app, "rename, tests, dark, search", "both, tests, renamed twice", "rename with dark, tests, search", "search, dark with rename, tests"],
  ]),
  ["notes", "rename, dark, tests", "tests, dark, rename", "both, rename", "rename with dark"],
  ["expenses", "dark, tests, rename", "rename with dark, tests", "tests, dark with rename", "tests, rename, dark", "rename, both", "renamed twice"],
];
for (const [app, ...names] of orders) {
  const ends = names.map((order) => finished.get(`${app}, ${order}`));
  if (ends[0] && new Set(ends).size === 1) continue;
  faults.push(app);
  console.log(`FAULT ${app}: its follow-ups end in other files in another order`);
}
for (const rule of rules.filter(({ played }) => played === 0)) {
  faults.push(rule.name);
  console.log(`FAULT ${rule.file}: nothing plays the rule "${rule.name}"`);
}
const times = [...built.values()].map(({ seconds }) => seconds).sort((a, b) => a - b);
console.log(`${rules.length} rules, ${built.size} builds, median ${times[times.length >> 1]?.toFixed(2)} s; longest stream ${Math.max(...rules.map((rule) => rule.seconds ?? 0)).toFixed(1)} s`);
rmSync(rooms, { recursive: true });
if (faults.length > 0) {
  console.log(`${faults.length} faults`);
  process.exit(1);
}

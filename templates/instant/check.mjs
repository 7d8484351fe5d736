// Holds the instant.json of a prepared template against the packages that it was made from.
//
//   node check.mjs TEMPLATE_FOLDER
//
// Its modules are loaded as they are, from a folder without packages: whatever an import misses, there or within, does not load. Then
// they must export and do what the packages do. It shares no code with pack.mjs, so that a mistake in one is seen by the other.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, posix, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { isDeepStrictEqual } from "node:util";

const FIRST = ["react", "react/jsx-runtime", "react-dom/client"]; // what every app loads before it runs
const MOST_BYTES = 5e6; // what a server keeps in memory
const MOST_FIRST_BYTES = 300e3;
const MOST_FIRST_MODULES = 12;
const INTERNALS = /\.__CLIENT_INTERNALS\w+=(?!=)/; // where React's state is made; renderers only read it

process.env.NODE_ENV = "production"; // what React exports depends on it

const template = resolve(process.argv[2] ?? "");
const original = createRequire(join(template, "package.json"));
const bytes = readFileSync(join(template, "instant.json"));
const { format, packages, modules, imports, tailwind } = JSON.parse(bytes);

const faults = [];
function demand(holds, what) {
  if (!holds) faults.push(what);
}
const same = (found, wanted, what) => demand(isDeepStrictEqual(found, wanted), `${what}: ${differences(found, wanted)}`);

function differences(found, wanted) {
  if (!Array.isArray(found) || !Array.isArray(wanted)) return `${found} instead of ${wanted}`;
  const missing = wanted.filter((item) => !found.includes(item));
  const more = found.filter((item) => !wanted.includes(item));
  return `missing ${missing.slice(0, 9).join(", ") || "nothing"}, too many ${more.slice(0, 9).join(", ") || "none"}`;
}

// ---- What it says of itself.

const fromVite = createRequire(original.resolve("vite"));
const { parseSync } = await import(pathToFileURL(fromVite.resolve("rolldown/utils")));

same(format, 1, "format");
demand(bytes.length <= MOST_BYTES, `it has ${bytes.length} bytes`);
same(tailwind.version, original("tailwindcss/package.json").version, "Tailwind's version");
demand(tailwind.script.includes("text/tailwindcss"), "Tailwind's script is not the one for browsers");
for (const [name, code] of Object.entries(modules)) {
  const { module, errors } = parseSync(name, code);
  for (const { message } of errors) demand(false, `${name}: ${message}`);
  const there = (specifier) => posix.join(posix.dirname(name), specifier);
  const needed = module.staticImports.concat(module.staticExports.flatMap(({ entries }) => entries.filter((entry) => entry.moduleRequest)));
  const specifiers = [...new Set(needed.map(({ moduleRequest }) => moduleRequest.value))];
  const later = module.dynamicImports.map(({ moduleRequest: { start, end } }) => code.slice(start + 1, end - 1));
  same((imports[name] ?? []).toSorted(), specifiers.map(there).sort(), `imports of ${name}`);
  for (const specifier of [...specifiers, ...later]) {
    demand(/^\.\.?\//.test(specifier) && there(specifier) in modules, `${name} imports ${specifier}, which is not there`);
  }
}
const reacts = Object.keys(modules).filter((name) => INTERNALS.test(modules[name]));
same(reacts.length, 1, `React is in ${reacts.join(" and ")}: how often`);

/** A module with all that it needs at once. */
function closure(name, found = new Set()) {
  if (found.has(name)) return found;
  found.add(name);
  for (const needed of imports[name] ?? []) closure(needed, found);
  return found;
}
for (const name of FIRST) demand(name in packages, `${name} is missing`);
const first = new Set(FIRST.filter((name) => name in packages).flatMap((name) => [...closure(packages[name].module)]));
const firstBytes = [...first].reduce((sum, name) => sum + modules[name].length, 0);
demand(firstBytes <= MOST_FIRST_BYTES && first.size <= MOST_FIRST_MODULES, `React alone is ${first.size} modules of ${firstBytes} bytes`);

// ---- What it does.

const loaded = {};
const packed = (specifier) => loaded[packages[specifier]?.module] ?? {};

async function load() {
  const folder = mkdtempSync(join(tmpdir(), "baton-instant-"));
  writeFileSync(join(folder, "package.json"), '{"type": "module"}');
  for (const [name, code] of Object.entries(modules)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), code);
  }
  for (const name of Object.keys(modules)) {
    loaded[name] = await import(pathToFileURL(join(folder, name))).catch(({ message }) => demand(false, `${name} does not load: ${message}`));
  }
  for (const [name, icon] of Object.entries(packed("lucide-react/dynamicIconImports").default ?? {})) {
    demand((await icon().catch(() => null))?.__iconData, `lucide-react/dynamic cannot load ${name}`);
  }
  rmSync(folder, { recursive: true });
}

/** What a component draws with some React, or why it does not. */
function draw({ createElement }, { renderToStaticMarkup }, component, ...rest) {
  try {
    return renderToStaticMarkup(createElement(component, ...rest));
  } catch ({ message }) {
    return message;
  }
}
const drawHere = (...what) => draw(packed("react"), packed("react-dom/server"), ...what);
const drawThere = (...what) => draw(original("react"), original("react-dom/server"), ...what);

await load();
for (const name of Object.keys(original("./package.json").dependencies)) demand(name in packages, `${name} is missing`);
for (const specifier of Object.keys(packages)) {
  if (specifier === "react-dom/server") continue; // Node's own, there
  const names = Object.keys(original(specifier)).filter((name) => name !== "__esModule");
  const extra = specifier.startsWith("react") ? ["default"] : []; // CommonJS as a module
  same(Object.keys(packed(specifier)).sort(), [...new Set([...names, ...extra])].sort(), `exports of ${specifier}`);
}

const lucide = original("lucide-react");
const { exports } = packages["lucide-react"];
same(Object.keys(exports).sort(), Object.keys(lucide).sort(), "names of lucide-react");
for (const [name, { module, name: own }] of Object.entries(exports)) {
  const alone = loaded[module]?.[own];
  const whole = packed("lucide-react")[name];
  same([typeof alone, typeof whole], [typeof lucide[name], typeof lucide[name]], `the kind of ${name}`);
  if (!lucide[name]?.$$typeof) continue;
  const drawn = drawThere(lucide[name]);
  same(drawHere(alone), drawn, name);
  same(drawHere(whole), drawn, `${name} of the whole`);
}
const { module, name } = exports.Check;
const sized = drawHere(packed("lucide-react").LucideProvider, { size: 7 }, packed("react").createElement?.(loaded[module]?.[name]));
demand(sized.includes('width="7"'), "a context of the whole lucide-react does not reach a single icon");

for (const fault of faults.slice(0, 20)) console.error(fault);
console.log(
  `instant.json: ${Object.keys(modules).length} modules, ${(bytes.length / 1e6).toFixed(1)} MB; ` +
    `React is ${first.size} of them, ${(firstBytes / 1e3).toFixed(0)} kB; ${faults.length} faults`,
);
process.exit(faults.length === 0 ? 0 : 1); // React's renderer leaves a channel open

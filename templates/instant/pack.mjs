// Makes the packages of a prepared template into modules that a browser loads without a build: the file instant.json.
//
//   node pack.mjs TEMPLATE_FOLDER OUT_FILE
//
// The template's own bundler does it, in two passes. The first has an entry for each package, each of its subpaths and each file
// that a barrel exports from; what entries share becomes modules of its own, so that there is one React. The second makes a barrel
// as a whole one module, for those who import all of it: two thousand requests would take seconds. What its pieces share is
// left outside, so that it is the same for both.
//
// The same packages give the same bytes: the file's hash is part of the addresses under which its modules are kept for good.

import { readFileSync, realpathSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, extname, posix, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const FORMAT = 1;

/** Packages whose entry only exports from its own files, too many to load for the sake of a few. */
const BARRELS = new Set(["lucide-react"]);

/** Subpaths that no app in a browser imports, or that are another name of the whole package. */
const LEFT_OUT = {
  "lucide-react": ["./icons"],
  "react-dom": ["./profiling", "./static", "./test-utils"],
};

/** What Vite looks for when it builds for browsers. */
const CONDITIONS = ["import", "module", "browser", "production", "default"];
const MAIN_FIELDS = ["browser", "module", "main"];

process.env.NODE_ENV = "production"; // what CommonJS packages export depends on it

const [folder, out] = process.argv.slice(2);
if (!out) stop("usage: node pack.mjs TEMPLATE_FOLDER OUT_FILE");
const template = realpathSync(folder);

const fromTemplate = createRequire(resolve(template, "package.json"));
const fromVite = createRequire(fromTemplate.resolve("vite"));
const load = (name) => import(pathToFileURL(fromVite.resolve(name)));
const { rolldown } = await load("rolldown");
const { parseAst } = await load("rolldown/parseAst");
const { ResolverFactory } = await load("rolldown/experimental");

const resolver = new ResolverFactory({ conditionNames: CONDITIONS, mainFields: MAIN_FIELDS });

function find(request, folder = template) {
  const { path, error } = resolver.sync(folder, request);
  return path ?? stop(`${request} is not found in ${folder}: ${error}`);
}

function readJson(path) {
  return JSON.parse(readFileSync(path, "utf8"));
}

function stop(message) {
  console.error(message);
  process.exit(1);
}

// ---- What there is to import.

/** What an app can import of a package by a plain name, and the file: "react", "react/jsx-runtime"… */
function specifiersOf(name) {
  const { exports } = readJson(resolve(template, "node_modules", name, "package.json"));
  // Not patterns, nor names with an ending: files, and what is for another platform (react-dom/server.node).
  const plain = Object.keys(Object(exports)).filter((key) => /^\.\/[^*.]+$/.test(key) && !LEFT_OUT[name]?.includes(key));
  const found = plain.map((key) => posix.join(name, key)).filter((specifier) => resolver.sync(template, specifier).path);
  return [name, ...found].map((specifier) => [specifier, find(specifier)]);
}

/** What a barrel exports: a name's file, and the name that it has there; no file if only the whole barrel has it. */
function piecesOf(entry) {
  const imported = new Map();
  const pieces = new Map();
  for (const statement of parseAst(readFileSync(entry, "utf8"), { lang: "js" }, entry).body) {
    const file = statement.source && find(statement.source.value, dirname(entry));
    if (statement.type === "ExportNamedDeclaration" && !statement.declaration) {
      for (const { local, exported } of statement.specifiers) {
        const there = file ? { file, name: local.name } : imported.get(local.name);
        pieces.set(exported.name, there ?? stop(`${entry}: where ${exported.name} comes from is not clear`));
      }
    } else if (statement.type === "ImportDeclaration") {
      for (const { type, local, imported: name } of statement.specifiers) {
        if (type === "ImportNamespaceSpecifier") imported.set(local.name, {});
        else imported.set(local.name, { file, name: name?.name ?? "default" });
      }
    } else if (!statement.directive) {
      stop(`${entry}: a ${statement.type} is more than a barrel has`);
    }
  }
  return pieces;
}

/** An entry's own code: the names of a CommonJS module are known only by running it. */
function facadeOf(file) {
  const { body } = parseAst(readFileSync(file, "utf8"), { lang: "js" }, file);
  const from = JSON.stringify(file);
  const isExport = ({ type }) => /^Export/.test(type);
  if (body.some((statement) => isExport(statement) || statement.type === "ImportDeclaration")) return null;
  const names = Object.keys(fromTemplate(file)).filter((name) => name !== "default" && name !== "__esModule");
  return `export { ${["default", ...names].join(", ")} } from ${from};`;
}

// ---- The two passes.

const OUTSIDE = "outside:";

/** Bundles entries (module → file) into modules; `outside` are files that are modules already, and say their licence. */
async function bundle(entries, outside = new Map()) {
  const facades = new Map();
  const input = {};
  for (const [module, file] of entries) {
    const facade = facadeOf(file);
    input[module.replace(/\.js$/, "")] = facade ? `facade:${module}` : file;
    if (facade) facades.set(`facade:${module}`, facade);
  }
  const needs = new Map(); // file → the files that it imports
  const plugin = {
    name: "instant",
    resolveId(request, importer) {
      if (facades.has(request)) return request;
      if (importer === undefined || outside.size === 0) return null;
      const module = outside.get(find(request, dirname(importer)));
      return module && { id: OUTSIDE + module, external: true };
    },
    load: (id) => facades.get(id),
    moduleParsed: ({ id, importedIds }) => void needs.set(id, importedIds),
  };
  const bundler = await rolldown({
    cwd: template,
    input,
    plugins: [plugin],
    preserveEntrySignatures: "strict",
    resolve: { conditionNames: CONDITIONS, mainFields: MAIN_FIELDS },
    transform: { define: { "process.env.NODE_ENV": JSON.stringify("production") } },
    onLog(_, { code, message }) {
      if (code !== "MODULE_LEVEL_DIRECTIVE") stop(message); // "use client" means nothing here
    },
  });
  const { output } = await bundler.generate({
    format: "es",
    minify: true,
    comments: { legal: outside.size === 0, annotation: false, jsdoc: false },
    entryFileNames: "[name].js",
    chunkFileNames: "shared/[name].js",
    paths: (id) => id.replace(OUTSIDE, "./"),
  });
  await bundler.close();
  return { chunks: output, needs };
}

/** A module's name: its package and where in it the file is. */
function moduleOf(name, entry, file) {
  const path = relative(dirname(entry), file);
  if (path.startsWith("..")) stop(`${name} exports from ${file}, which is not below its entry`);
  return `${name}/${path.slice(0, -extname(path).length)}.js`;
}

const { dependencies } = readJson(resolve(template, "package.json"));
const packages = {};
const entries = new Map(); // module → file
const barrels = [];
for (const name of Object.keys(dependencies).sort()) {
  for (const [specifier, file] of specifiersOf(name)) {
    const module = `${specifier}.js`;
    packages[specifier] = { module };
    if (!BARRELS.has(specifier)) {
      entries.set(module, file);
      continue;
    }
    const exports = {};
    for (const [exported, piece] of piecesOf(file)) {
      const own = piece.file && moduleOf(name, file, piece.file);
      if (own) entries.set(own, piece.file);
      exports[exported] = { module: own ?? module, name: own ? piece.name : exported };
    }
    packages[specifier].exports = exports;
    barrels.push({ specifier, module, file });
  }
}

const modules = {};
const imports = {};
function keep({ fileName, code, imports: needed }) {
  if (fileName in modules) stop(`two modules are called ${fileName}`);
  modules[fileName] = code;
  if (needed.length > 0) imports[fileName] = needed.map(posix.normalize);
}

const first = await bundle(entries);
first.chunks.forEach(keep);
for (const { specifier, module, file } of barrels) {
  const own = new Map(Object.values(packages[specifier].exports).map(({ module }) => [entries.get(module), module]));
  own.delete(undefined); // the whole barrel
  const needs = (piece) => first.needs.get(piece);
  const shared = new Set([...own.keys()].flatMap(needs));
  const outside = new Map([...own].filter(([piece]) => shared.has(piece)));
  for (const piece of own.keys()) {
    const other = outside.has(piece) ? undefined : needs(piece).find((needed) => !outside.has(needed));
    if (other) stop(`${piece} needs ${other}, which would be there twice: ${specifier} does not export from it`);
  }
  (await bundle(new Map([[module, file]]), outside)).chunks.forEach(keep);
}

// ---- Tailwind, as it runs in a browser.

const fromHere = createRequire(import.meta.url);
const { version } = readJson(fromHere.resolve("@tailwindcss/browser/package.json"));
const wanted = readJson(fromTemplate.resolve("tailwindcss/package.json")).version;
if (version !== wanted) stop(`@tailwindcss/browser is ${version} and the template's tailwindcss ${wanted}: make them one in ${import.meta.dirname}`);
const script = readFileSync(fromHere.resolve("@tailwindcss/browser"), "utf8");

const sorted = (object) => Object.fromEntries(Object.keys(object).sort().map((key) => [key, object[key]]));
const text = JSON.stringify({
  format: FORMAT,
  packages: sorted(packages),
  modules: sorted(modules),
  imports: sorted(imports),
  tailwind: { version, script },
});
writeFileSync(out, text);
console.error(`${out}: ${Object.keys(packages).length} packages in ${Object.keys(modules).length} modules, ${(text.length / 1e6).toFixed(1)} MB`);
process.exit(); // a package that was asked for its names may have opened something

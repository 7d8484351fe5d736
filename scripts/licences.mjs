// Every package that goes into Baton, or that builds and tests it, has a licence that lets anybody use Baton under its own.
//
// Rust: what the lock file holds (`cargo metadata`). JavaScript: what the lock files hold, without what is for another system.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "..");

/** Permissive, or (MPL-2.0) reaching no further than the files that have it. */
const FINE = new Set([
  "0BSD",
  "Apache-2.0",
  "Apache-2.0 WITH LLVM-exception",
  "BlueOak-1.0.0",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "BSL-1.0",
  "CC0-1.0",
  "CDLA-Permissive-2.0",
  "ISC",
  "MIT",
  "MIT-0",
  "MPL-2.0",
  "Python-2.0",
  "Unicode-3.0",
  "Unlicense",
  "Zlib",
]);

const LOCKS = ["web", "web/tools", "e2e", "demo", "templates/react-vite", "templates/instant", "crates/adapters/tests/js"];

/** Whether an SPDX expression can be met with fine licences alone: one of each OR, all of each AND. */
export function isFine(expression) {
  const inner = expression.replaceAll("/", " OR ").replace(/^\((.*)\)$/, "$1");
  const groups = /\(([^()]*)\)/.exec(inner);
  if (groups) return isFine(inner.replace(groups[0], isFine(groups[1]) ? "MIT" : "none"));
  return inner.split(" OR ").some((choice) => choice.split(" AND ").every((licence) => FINE.has(licence.trim())));
}

function rust() {
  // For the systems that Baton runs on: the lock file also names what others would need.
  const args = ["metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"];
  const text = execFileSync("cargo", args, { cwd: ROOT, maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "inherit"] });
  const { packages } = JSON.parse(text);
  return packages.map(({ name, version, license }) => ({ name: `${name} ${version} (Cargo.lock)`, licence: license ?? "none" }));
}

function javascript(folder) {
  const { packages } = JSON.parse(readFileSync(join(ROOT, folder, "package-lock.json"), "utf8"));
  return Object.entries(packages)
    .filter(([path]) => path !== "")
    .map(([path, { version, license }]) => ({
      name: `${path.replace(/^.*node_modules\//, "")} ${version} (${folder})`,
      licence: license ?? "none",
    }));
}

const all = [rust(), ...LOCKS.filter((folder) => existsSync(join(ROOT, folder))).map(javascript)].flat();
const bad = all.filter(({ name, licence }) => !isFine(licence));
for (const { name, licence } of bad) console.error(`${name}: ${licence}`);
for (const [expression, fine] of [
  ["MIT OR GPL-3.0", true],
  ["MIT AND GPL-3.0", false],
  ["(MIT OR Apache-2.0) AND Unicode-3.0", true],
  ["(GPL-2.0 OR LGPL-3.0) AND MIT", false],
  ["MIT/Apache-2.0", true],
  ["none", false],
]) {
  if (isFine(expression) !== fine) throw new Error(`${expression} is judged wrongly`);
}
if (bad.length > 0) {
  console.error(`${bad.length} of ${all.length} packages have a licence that is not on the list in scripts/licences.mjs`);
  process.exit(1);
}
console.log(`${all.length} packages, all with a permissive licence`);

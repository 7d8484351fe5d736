//! House rules that no compiler knows, kept by a plain test over the repository's files.
//!
//! A rule is a function from one file's text to its faults, so that each rule is tested on a bad example below. Nothing here
//! repeats what rustfmt and clippy check (rustfmt.toml, clippy.toml).

#![expect(clippy::disallowed_methods, reason = "reads the repository")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines of one Rust file: a file is one thought.
const FILE_LINES: usize = 600;
/// Lines of one function, from its `fn` to its closing brace.
const FUNCTION_LINES: usize = 70;

/// Files and functions that may be longer, each with its length and the reason. An entry only shrinks: once the code is
/// shorter, the entry has to follow.
const LONGER: &[(&str, usize, &str)] = &[];

/// What each crate may depend on within the workspace; for the pure crates also what from outside.
const ARROWS: &[(&str, &[&str])] = &[
    ("contract", &[]),
    ("engine", &["contract"]),
    ("source", &["contract"]),
    ("runtime", &["contract", "engine", "source"]),
    ("adapters", &["contract", "runtime"]),
    ("server", &["contract", "runtime", "source"]),
    ("app", &["adapters", "contract", "runtime", "server"]),
    ("sim", &["adapters", "contract", "engine", "runtime"]),
];
const PURE: &[(&str, &[&str])] = &[
    ("contract", &["memchr", "serde", "serde_json", "utoipa"]),
    ("engine", &["serde", "serde_json", "sha2"]),
    (
        "source",
        &[
            "base64",
            "bytes",
            "cssparser",
            "lol_html",
            "memchr",
            "mime_guess",
            "oxc",
            "percent-encoding",
            "serde",
            "serde_json",
            "sha2",
            "stacker",
            "thiserror",
        ],
    ),
];
/// Crates that may appear in the manifests of these rooms alone.
const OWNED: &[(&str, &[&str])] = &[
    ("anyhow", &["app"]),
    ("clap", &["app"]),
    ("landlock", &["adapters"]),
    ("object_store", &["adapters"]),
    ("redis", &["adapters"]),
    ("rusqlite", &["adapters"]),
    ("seccompiler", &["adapters"]),
    ("sqlx", &["adapters"]),
];

/// Names that say nothing about what a module holds.
const EMPTY_NAMES: &[&str] = &["common", "core", "helper", "helpers", "misc", "types", "util", "utils"];

/// Words that have no place in the repository, in two parts, so that this file does not hold them either.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    ("/wo", "rk/", "a path of one machine"),
    ("/ro", "ot/.", "a path of one machine"),
    (".libr", "ary", "a tool of one machine"),
    ("sub", "agent", "how the work was done"),
    ("helper se", "ssion", "how the work was done"),
    ("registry.np", "mjs", "a registry's host: package-lock.json is written with omit-lockfile-registry-resolved"),
    ("TO", "DO:", "something left open"),
    ("FIX", "ME", "something left open"),
];

/// Documents whose paths have to exist.
const DOCUMENTS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"];

#[test]
fn the_repository_is_tidy() {
    let root = root();
    let files = files(&root);
    let mut faults = Vec::new();
    let mut longest = Vec::new();
    for file in &files {
        let Ok(text) = fs::read_to_string(root.join(file)) else { continue };
        faults.extend(word_faults(file, &text));
        if file.ends_with(".rs") {
            faults.extend(rust_faults(file, &text));
            longest.extend(lengths(file, &text));
        }
        if let Some(name) = file.strip_prefix("crates/").and_then(|f| f.strip_suffix("/Cargo.toml")) {
            faults.extend(manifest_faults(name, &text));
        }
    }
    faults.extend(length_faults(&longest, LONGER));
    for document in DOCUMENTS {
        match fs::read_to_string(root.join(document)) {
            Ok(text) => faults.extend(document_faults(document, &text, &|path| root.join(path).exists())),
            Err(_) => faults.push(format!("{document}: is missing")),
        }
    }
    assert!(files.len() > 50, "the walk found the repository");
    assert!(faults.is_empty(), "{} faults:\n{}\n", faults.len(), faults.join("\n"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(Path::to_path_buf).unwrap_or_default()
}

/// Every file that is ours, relative to the root and sorted.
fn files(root: &Path) -> BTreeSet<String> {
    const SKIPPED: &[&str] = &[".git", ".baton", "target", "node_modules", "dist"];
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
                continue;
            } else if path.is_dir() {
                folders.push(path);
            } else if let Ok(relative) = path.strip_prefix(root) {
                found.insert(relative.to_string_lossy().into_owned());
            }
        }
    }
    found
}

fn word_faults(file: &str, text: &str) -> Vec<String> {
    let mut faults: Vec<_> = FORBIDDEN
        .iter()
        .filter(|(first, second, _)| text.contains(&format!("{first}{second}")))
        .map(|(first, second, why)| format!("{file}: says `{first}{second}`: {why}"))
        .collect();
    if file.ends_with("package-lock.json") && text.contains("\"resolved\": \"http") {
        faults.push(format!("{file}: names a registry's host: write it with omit-lockfile-registry-resolved"));
    }
    faults
}

fn rust_faults(file: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if !text.starts_with("//!") {
        faults.push(format!("{file}: does not open with `//!`: purpose, place, what it must not do"));
    }
    if text.contains(concat!("#[al", "low(")) || text.contains(concat!("#![al", "low(")) {
        faults.push(format!("{file}: allows a lint; use #[expect(lint, reason = \"…\")]"));
    }
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let declared = text.lines().filter_map(|line| {
        let line = line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
        line.strip_prefix("mod ")?.strip_suffix(" {")
    });
    for name in stem.split('/').skip(2).chain(declared).filter(|name| EMPTY_NAMES.contains(name)) {
        faults.push(format!("{file}: `{name}` says nothing about what the module holds"));
    }
    if let Some(room) = adapter_room(file) {
        for other in crate_imports(text).into_iter().filter(|other| other != room) {
            faults.push(format!("{file}: the room `{room}` imports its sibling `{other}`"));
        }
    }
    let total = matches!(file, "crates/engine/src/lib.rs" | "crates/runtime/src/lib.rs");
    if total && !text.contains("clippy::wildcard_enum_match_arm") {
        faults.push(format!("{file}: does not warn about `_` arms over our own enums"));
    }
    faults
}

/// The room of an adapter's file: the folder or file below `crates/adapters/src`, which itself belongs to none.
fn adapter_room(file: &str) -> Option<&str> {
    let inside = file.strip_prefix("crates/adapters/src/")?;
    let room = inside.split('/').next()?.trim_end_matches(".rs");
    (room != "lib").then_some(room)
}

/// First segments behind every `crate::` of a file, groups in braces included.
fn crate_imports(text: &str) -> BTreeSet<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = code.collect::<Vec<_>>().join("\n");
    let name =
        |text: &str| text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.insert(name(rest));
            continue;
        };
        let mut depth = 0;
        let mut item = 0;
        for (i, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' | ',' if depth == 0 => {
                    found.insert(name(&group[item..i]));
                    item = i + 1;
                    if c == '}' {
                        break;
                    }
                }
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    found.remove("");
    found
}

fn manifest_faults(name: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let Some((_, allowed)) = ARROWS.iter().find(|(crate_name, _)| *crate_name == name) else {
        return vec![format!("crates/{name}: is no room of the house (ARROWS in tidy.rs)")];
    };
    let rooms: Vec<_> = ARROWS.iter().map(|(room, _)| *room).collect();
    for (section, dependency) in dependencies(text) {
        // Tests may look at any room: only what is shipped has arrows.
        let shipped = section != "dev-dependencies";
        if rooms.contains(&dependency) {
            if shipped && !allowed.contains(&dependency) {
                faults.push(format!("crates/{name}: must not depend on `{dependency}`"));
            }
            continue;
        }
        let pure = PURE.iter().find(|(room, _)| *room == name);
        if shipped && pure.is_some_and(|(_, list)| !list.contains(&dependency)) {
            faults.push(format!("crates/{name}: is pure and must not depend on `{dependency}`"));
        }
        let owners = OWNED.iter().find(|(owned, _)| *owned == dependency);
        if owners.is_some_and(|(_, owners)| !owners.contains(&name)) {
            faults.push(format!("crates/{name}: `{dependency}` belongs to another room"));
        }
    }
    if !text.contains("[lints]\nworkspace = true") {
        faults.push(format!("crates/{name}: does not take the workspace's lints"));
    }
    faults
}

/// (section, name) of every dependency of a manifest, in the form in which this workspace writes them.
fn dependencies(text: &str) -> Vec<(&str, &str)> {
    let mut section = "";
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
        } else if section.ends_with("dependencies") {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            if !name.is_empty() && !name.starts_with('#') {
                found.push((section.rsplit('.').next().unwrap_or(section), name));
            }
        }
    }
    found
}

/// Length of the file under its path and of each function under `path::name`. Relies on rustfmt: a function ends at the first
/// closing brace that is indented as its `fn` is.
fn lengths(file: &str, text: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<_> = text.lines().collect();
    let mut found = vec![(file.to_owned(), lines.len(), FILE_LINES)];
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        if line.ends_with([';', '}']) {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = lines[start..].iter().position(|line| {
            let inner = line.strip_prefix(indent).unwrap_or(" ");
            inner == "}" || (inner.starts_with(')') && inner.ends_with(';'))
        });
        let length = end.map_or(1, |end| end + 1);
        found.push((format!("{file}::{name}"), length, FUNCTION_LINES));
    }
    found
}

/// The name that a line declares a function by.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    for word in ["pub ", "pub(crate) ", "pub(super) ", "default ", "const ", "async ", "unsafe ", "extern \"C\" "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    rest.strip_prefix("fn ")?.split(['(', '<']).next()
}

fn length_faults(found: &[(String, usize, usize)], longer: &[(&str, usize, &str)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (place, length, most) in found.iter().filter(|(_, length, most)| length > most) {
        match longer.iter().find(|(entry, ..)| entry == place) {
            None => faults.push(format!("{place}: {length} lines; {most} is the most, unless LONGER says why")),
            Some((_, entry, _)) if length > entry => {
                faults.push(format!("{place}: grew to {length} lines; LONGER has {entry}"))
            }
            Some(_) => {}
        }
    }
    for (entry, lines, reason) in longer {
        let now = found.iter().filter(|(place, ..)| place == entry).map(|(_, length, most)| (*length).max(*most)).max();
        if now.is_none_or(|now| now < *lines) || reason.is_empty() {
            faults.push(format!("{entry}: LONGER has {lines} lines for it; it has {now:?} now"));
        }
    }
    faults
}

fn document_faults(document: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let missing = named_paths(text).into_iter().filter(|path| !exists(path));
    missing.map(|path| format!("{document}: names `{path}`, which does not exist")).collect()
}

/// Paths that a Markdown text names: link targets, and code that begins with a folder of ours. `{a,b}` is expanded, `*` cut off.
fn named_paths(text: &str) -> BTreeSet<String> {
    const FOLDERS: &[&str] = &[".ci/", ".cargo/", "crates/", "demo/", "e2e/", "scripts/", "templates/", "web/"];
    let mut found = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        if fenced {
            continue;
        }
        let code =
            line.split('`').skip(1).step_by(2).filter(|code| FOLDERS.iter().any(|folder| code.starts_with(folder)));
        let links = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let links = links.filter(|link| !link.contains("://") && !link.starts_with('#'));
        for path in code.chain(links) {
            let path = path.split([' ', '#', ':']).next().unwrap_or_default();
            found.extend(expand(path));
        }
    }
    found
}

fn expand(path: &str) -> Vec<String> {
    let path = path.split('*').next().unwrap_or_default();
    match path.split_once('{').and_then(|(head, rest)| rest.split_once('}').map(|(group, tail)| (head, group, tail))) {
        Some((head, group, tail)) => group.split(',').map(|item| format!("{head}{item}{tail}")).collect(),
        None => vec![path.to_owned()],
    }
}

#[test]
fn each_rule_catches_its_bad_example() {
    let adapter = "crates/adapters/src/model/sse.rs";
    let rust: &[(&str, &str, &str)] = &[
        ("crates/engine/src/fold.rs", "use std::fs;\n", "does not open"),
        ("crates/engine/src/fold.rs", concat!("//! a\n#[al", "low(dead_code)]\n"), "allows a lint"),
        ("crates/server/src/utils.rs", "//! a\n", "`utils` says nothing"),
        ("crates/server/src/helpers/mod.rs", "//! a\n", "`helpers` says nothing"),
        ("crates/server/src/auth.rs", "//! a\npub(crate) mod misc {\n}\n", "`misc` says nothing"),
        (adapter, "//! a\nuse crate::store::Sqlite;\n", "sibling `store`"),
        (adapter, "//! a\nuse crate::{model::{A, B}, bus::Local};\n", "sibling `bus`"),
        (adapter, "//! a\nfn f() { crate::sandbox::run() }\n", "sibling `sandbox`"),
        ("crates/engine/src/lib.rs", "//! a\n", "`_` arms"),
    ];
    for (file, text, expected) in rust {
        let faults = rust_faults(file, text);
        assert!(faults.len() == 1 && faults[0].contains(expected), "{file} {text:?}: {faults:?}");
    }
    let fine = "//! a\nuse crate::model::{A, B};\n// see crate::store\npub mod tests {\n}\n";
    assert_eq!(rust_faults(adapter, fine), Vec::<String>::new());

    let lints = "[lints]\nworkspace = true\n";
    let manifests: &[(&str, String, &str)] = &[
        ("engine", format!("{lints}[dependencies]\ntokio.workspace = true\n"), "is pure"),
        (
            "contract",
            format!("{lints}[dependencies]\nengine = {{ path = \"../engine\" }}\n"),
            "must not depend on `engine`",
        ),
        ("server", format!("{lints}[dependencies]\nadapters.workspace = true\n"), "must not depend on `adapters`"),
        ("server", format!("{lints}[target.'cfg(unix)'.dependencies]\nrusqlite = \"1\"\n"), "another room"),
        ("extras", lints.to_owned(), "is no room"),
        ("bench", "[dependencies]\n".to_owned(), "is no room"),
        ("server", "[dependencies]\n".to_owned(), "lints"),
    ];
    for (name, text, expected) in manifests {
        let faults = manifest_faults(name, text);
        assert!(faults.len() == 1 && faults[0].contains(expected), "{name} {text:?}: {faults:?}");
    }
    let fine =
        format!("{lints}[dependencies]\ncontract.workspace = true\n[dev-dependencies]\nadapters.workspace = true\n");
    assert_eq!(manifest_faults("engine", &fine), Vec::<String>::new());

    for (first, second, _) in FORBIDDEN {
        assert_eq!(word_faults("a.md", &format!("see {first}{second} there")).len(), 1, "{first}{second}");
    }
    assert_eq!(word_faults("web/package-lock.json", "\"resolved\": \"https://example.org/a.tgz\"").len(), 1);
    assert_eq!(word_faults("a.md", "the workspace and its library"), Vec::<String>::new());
}

#[test]
fn lengths_are_counted_and_the_list_only_shrinks() {
    let body = "    a();\n".repeat(3);
    let text = format!(
        "//! a\npub async fn long(\n    a: u8,\n) -> u8 {{\n{body}}}\n\ntrait T {{\n    fn short(\n        a: u8,\n    );\n    fn one(&self) {{}}\n}}\n"
    );
    let found = lengths("f.rs", &text);
    let of = |place: &str| found.iter().find(|(p, ..)| p == place).map(|(_, length, _)| *length);
    assert_eq!((of("f.rs::long"), of("f.rs::short"), of("f.rs::one")), (Some(7), Some(3), None));
    assert_eq!(of("f.rs"), Some(text.lines().count()));

    let long = [("f.rs::g".to_owned(), 90, 70)];
    assert_eq!(length_faults(&long, &[]).len(), 1, "over the limit");
    assert_eq!(length_faults(&long, &[("f.rs::g", 80, "why")]).len(), 1, "over its entry");
    assert_eq!(length_faults(&long, &[("f.rs::g", 95, "why")]).len(), 1, "its entry has to follow");
    assert_eq!(length_faults(&long, &[("f.rs::g", 90, "")]).len(), 1, "no reason");
    assert_eq!(
        length_faults(&long, &[("f.rs::gone", 90, "why"), ("f.rs::g", 90, "why")]).len(),
        1,
        "nothing has that name"
    );
    assert_eq!(length_faults(&long, &[("f.rs::g", 90, "why")]), Vec::<String>::new());
}

#[test]
fn a_path_that_a_document_names_has_to_exist() {
    let text = "See `crates/{engine,gone}/src/*.rs`, [this](gone.md#a), [that](https://example.org/x) and `scripts/up --data DIR`.\n```\n`web/not-looked-at`\n```\n";
    let exists = |path: &str| ["crates/engine/src/", "scripts/up"].contains(&path);
    let faults = document_faults("README.md", text, &exists);
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].contains("crates/gone/src/") && faults[1].contains("gone.md"), "{faults:?}");
}

//! The page that a project's files are: the document with an import map, the styles and what else it takes to run without a build.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::address::{self, join};
use crate::closure::{Closure, Judge, Project};
use crate::html::{self, Document, Edit, Load};
use crate::kind::Kind;
use crate::packages::{Packages, hex};
use crate::problem::{Code, Problem};
use crate::reader::Reader;
use crate::resolve::{Found, resolve};
use crate::script::Fault;
use crate::settings::ENVIRONMENT;
use crate::style::Styles;
use crate::tree::Tree;

/// The document that everything begins with.
const DOCUMENT: &str = "index.html";
/// The script that tells the page around this one what became of it.
const REPORTER: &str = "/@baton/page.js";
/// Most modules that a browser is told of before it finds them itself.
const PRELOADS: usize = 300;
/// Most undeclared components that are looked for in all scripts.
const LOOKED: usize = 100;
/// What browsers declare themselves. That `<Image />` without an import is another mistake is for the browser to say.
const GLOBALS: &[&str] = &[
    "Animation",
    "Array",
    "Audio",
    "BigInt",
    "Boolean",
    "Comment",
    "Date",
    "Document",
    "Element",
    "Error",
    "Event",
    "File",
    "Function",
    "Headers",
    "History",
    "Image",
    "Intl",
    "JSON",
    "Location",
    "Lock",
    "Map",
    "Math",
    "Navigator",
    "Node",
    "Notification",
    "Number",
    "Object",
    "Option",
    "Path2D",
    "Plugin",
    "Promise",
    "Proxy",
    "Range",
    "Reflect",
    "RegExp",
    "Request",
    "Response",
    "Screen",
    "Selection",
    "Set",
    "Storage",
    "String",
    "Symbol",
    "Text",
    "URL",
    "Window",
    "Worker",
];

/// A project as one page: its HTML, and what that depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// 16 hexadecimal digits that change exactly when what is shown can change.
    pub revision: String,
    /// The document. Everything else that it loads is answered by [`crate::Reader::serve`] and [`crate::Packages::serve`], apart
    /// from `/@baton/page.js`, which is the server's.
    pub html: String,
    /// Sources for a content security policy's `script-src`, quotes included (`'sha256-…'`): the inline scripts of the page.
    pub script_hashes: Vec<String>,
    /// The files that the page is made of, each path with its SHA-256 in hexadecimal digits.
    pub files: BTreeMap<String, String>,
}

/// See [`Reader::page`].
pub(crate) fn page(reader: &Reader, tree: &dyn Tree, packages: &Packages) -> Result<Page, Vec<Problem>> {
    let mut project = reader.project(tree, Judge::Page);
    if let Some(path) = reader.settings().foreign(tree) {
        let message = format!("{path} is not the template's: only a build can show what it changes");
        project.fault(path, &Fault::unsupported(message, 0));
        return Err(project.problems);
    }
    let Some(document) = document(&mut project) else { return Err(project.problems) };
    let mut closure = Closure::new(&mut project, Some(packages));
    let edits = follow(&document, &mut closure);
    closure.finish();
    surroundings(&document.document, &mut closure);
    if closure.styles.tailwind && packages.tailwind().is_none() {
        closure
            .project
            .fault(DOCUMENT, &Fault::unsupported("its styles are written for Tailwind, which is not at hand", 0));
    }
    let (head, script_hashes) = head(&closure, packages);
    let revision = revision(&[&document.text, &head], &project.files);
    let head = format!("<script src=\"{REPORTER}\" data-revision=\"{revision}\"></script>\n{head}");
    let written = html::write(&document.text, &head, &edits);
    let html = match written {
        Ok(html) if project.problems.is_empty() => html,
        Ok(_) => return Err(project.problems),
        Err(error) => {
            project.fault(DOCUMENT, &Fault::unsupported(format!("the document cannot be rewritten: {error}"), 0));
            return Err(project.problems);
        }
    };
    Ok(Page { revision, html, script_hashes, files: project.files })
}

/// See [`Reader::check`].
pub(crate) fn check(reader: &Reader, tree: &dyn Tree, judge: Judge) -> Vec<Problem> {
    let mut project = reader.project(tree, judge);
    if let Some(document) = document(&mut project) {
        let mut closure = Closure::new(&mut project, None);
        follow(&document, &mut closure);
        closure.finish();
    }
    project.problems
}

struct Read {
    text: String,
    document: Document,
}

fn document(project: &mut Project<'_>) -> Option<Read> {
    if !project.exists(DOCUMENT) {
        let message = "there is no index.html".to_owned();
        project.fault(DOCUMENT, &Fault { code: Code::MissingImport, message, at: 0, certain: true });
    }
    let (_, text) = project.text(DOCUMENT)?;
    let text = html::filled_in(text);
    let document = Document::read(&text);
    for fault in &document.faults {
        project.fault(DOCUMENT, fault);
    }
    for mention in &document.mentions {
        if let Some(path) = join(DOCUMENT, mention) {
            project.shows(&path);
        }
    }
    Some(Read { text, document })
}

/// Follows the document's entries; what becomes of each.
fn follow(read: &Read, closure: &mut Closure<'_, '_>) -> Vec<Edit> {
    let mut edits = vec![];
    for entry in &read.document.entries {
        let specifier =
            if entry.path.starts_with(['/', '.']) { entry.path.clone() } else { format!("./{}", entry.path) };
        let wanted = join(DOCUMENT, &specifier).unwrap_or_default();
        // What lies in `public/` is loaded as it is.
        if closure.project.exists(&format!("public/{wanted}")) {
            closure.project.shows(&wanted);
            edits.push(Edit::Keep);
            continue;
        }
        edits.push(match entry.load {
            Load::Module => module(closure, &specifier, entry.at),
            Load::Style => style(closure, &wanted, entry.at),
        });
    }
    edits
}

fn module(closure: &mut Closure<'_, '_>, specifier: &str, at: u32) -> Edit {
    let tree = closure.project.tree;
    let fault = match resolve(tree, DOCUMENT, specifier) {
        Found::File(target) if matches!(Kind::of(&target.path), Kind::Script(_)) => {
            closure.enter(&target);
            let hash = tree.file(&target.path).map_or("", |leaf| leaf.sha256);
            return Edit::Source(address::module(&target.path, target.form, hash));
        }
        Found::Missing(wanted) => {
            let message = format!("the page loads {specifier}, but there is no file {wanted}");
            Fault { code: Code::MissingImport, message, at, certain: true }
        }
        Found::Unjudged(why) => Fault::unsupported(format!("the page loads {specifier}: {why}"), at),
        Found::File(_) | Found::Package(_) => {
            Fault::unsupported(format!("the page loads {specifier}, which is no script: that needs a build"), at)
        }
    };
    closure.project.fault(DOCUMENT, &fault);
    Edit::Keep
}

fn style(closure: &mut Closure<'_, '_>, wanted: &str, at: u32) -> Edit {
    if !closure.project.exists(wanted) {
        return Edit::Keep;
    }
    match Kind::of(wanted) {
        Kind::Style => {
            closure.style(wanted);
            Edit::Remove
        }
        _ => {
            let message = format!("the page loads {wanted}: only plain style sheets can be shown before the build");
            closure.project.fault(DOCUMENT, &Fault::unsupported(message, at));
            Edit::Keep
        }
    }
}

/// What can only be judged with everything at hand: components that nothing declares, and variables of the environment.
fn surroundings(document: &Document, closure: &mut Closure<'_, '_>) {
    let mut faults = vec![];
    let tree = closure.project.tree;
    let scripts = || closure.scripts.iter().map(|met| (&met.path, &met.script));
    let holds = |path: &str, text: &str| {
        tree.file(path).is_some_and(|leaf| memchr::memmem::find(leaf.content, text.as_bytes()).is_some())
    };
    let defines = |path: &str, name: &str| {
        ["window", "globalThis", "self"].iter().any(|global| holds(path, &format!("{global}.{name}")))
    };
    let anything = document.classic || scripts().any(|(path, _)| holds(path, "declare global"));
    let used = scripts().flat_map(|(path, script)| script.undeclared.iter().map(move |mention| (path, mention)));
    for (path, mention) in used.take(LOOKED).filter(|_| !anything) {
        let name = &mention.name;
        if !GLOBALS.contains(&name.as_str()) && !scripts().any(|(path, _)| defines(path, name)) {
            let message = format!("`<{name}>` is used, but nothing of that name is imported or declared");
            let fault = Fault { code: Code::MissingImport, message, at: mention.at, certain: false };
            faults.push((path.clone(), fault));
        }
    }
    if let Some(file) = ENVIRONMENT.iter().find(|file| tree.file(file).is_some()) {
        for (path, _) in scripts().filter(|(_, script)| script.environment) {
            let message = format!("import.meta.env with the variables of {file} needs a build");
            faults.push((path.clone(), Fault::unsupported(message, 0)));
        }
    }
    for (path, fault) in faults {
        closure.project.fault(&path, &fault);
    }
}

/// What comes before everything else of the project in the document, and the hashes of its inline scripts.
fn head(closure: &Closure<'_, '_>, packages: &Packages) -> (String, Vec<String>) {
    let mut imports = closure.keys.clone();
    let mut preloads = closure.early.clone();
    for (specifier, used) in &closure.packages_used {
        let names: Option<&BTreeSet<String>> = (!used.whole).then_some(&used.names);
        if let Some(vendored) = packages.vendored(specifier, names) {
            imports.insert(specifier.clone(), vendored.address);
            if used.early {
                preloads.extend(vendored.loads);
            }
        }
    }
    let map = serde_json::json!({ "imports": imports }).to_string().replace('<', "\\u003c");
    let hash = format!("'sha256-{}'", STANDARD.encode(Sha256::digest(&map)));
    let mut head = format!("<script type=\"importmap\">{map}</script>\n");
    let mut seen = BTreeSet::new();
    let mut early = String::new();
    for address in preloads.iter().filter(|address| seen.insert(*address)).take(PRELOADS) {
        early.push_str(&format!("<link rel=\"modulepreload\" href=\"{}\">\n", attribute(address)));
    }
    head.push_str(&styles(&closure.styles));
    if closure.styles.tailwind
        && let Some(address) = packages.tailwind()
    {
        // After the styles, or it compiles them twice.
        head.push_str(&format!("<script src=\"{}\"></script>\n", attribute(&address)));
    }
    (head + &early, vec![hash])
}

fn styles(styles: &Styles) -> String {
    let mut html = String::new();
    if !styles.elsewhere.is_empty() {
        html.push_str(&format!("<style>{};</style>\n", closed(&styles.elsewhere.join(";\n"))));
    }
    // Browsers look for `@import` at the start of every style before they look at its type; the semicolon keeps them from it.
    let open = if styles.tailwind { "<style type=\"text/tailwindcss\">;" } else { "<style>" };
    for sheet in styles.sheets.iter().filter(|sheet| !sheet.trim().is_empty()) {
        html.push_str(&format!("{open}{}</style>\n", closed(sheet)));
    }
    html
}

/// A style sheet that ends no element: in CSS, an escaped slash is a slash.
fn closed(css: &str) -> String {
    css.replace("</", "<\\/")
}

fn attribute(address: &str) -> String {
    address.replace('&', "&amp;").replace('"', "&quot;")
}

/// Two pages are the same if their parts are: the document and its head say what is loaded, the files what else is shown.
fn revision(parts: &[&str], files: &BTreeMap<String, String>) -> String {
    let mut hash = Sha256::new();
    let files = files.iter().flat_map(|(path, sha256)| [path.as_str(), sha256.as_str()]);
    for part in parts.iter().copied().chain(files) {
        hash.update(part);
        hash.update([0]);
    }
    hex(&hash.finalize(), 16)
}

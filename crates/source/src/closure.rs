//! Everything that a project's `index.html` imports, read once each, and every problem on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contract::event::Place;

use crate::address::{self, Form};
use crate::css::Sheet;
use crate::json::Json;
use crate::kind::Kind;
use crate::memory::{Known, Memory, Reading};
use crate::packages::Packages;
use crate::problem::{Code, Problem, place};
use crate::reader::ReaderLimits;
use crate::resolve::{Found, Target, resolve};
use crate::script::{Dialect, Fault, How, Mention, Names, Script};
use crate::settings;
use crate::style::Styles;
use crate::tree::{Leaf, Tree};

/// Most problems that are told at once.
const PROBLEMS: usize = 100;

/// What counts as a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judge {
    /// Whatever keeps a page from being shown.
    Page,
    /// What `vite build` fails at for certain.
    Build,
    /// Of that, what it fails at however it is configured.
    Syntax,
}

/// A project that is being read.
pub(crate) struct Project<'t> {
    pub tree: &'t dyn Tree,
    memory: &'t Memory,
    limits: ReaderLimits,
    verbatim: bool,
    judge: Judge,
    pub problems: Vec<Problem>,
    /// What was read, each path with its SHA-256.
    pub files: BTreeMap<String, String>,
}

impl<'t> Project<'t> {
    pub(crate) fn new(tree: &'t dyn Tree, memory: &'t Memory, limits: ReaderLimits, judge: Judge) -> Self {
        let verbatim = is_verbatim(tree, memory);
        Self { tree, memory, limits, verbatim, judge, problems: vec![], files: BTreeMap::new() }
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.tree.file(path).is_some()
    }

    pub(crate) fn fault(&mut self, path: &str, fault: &Fault) {
        let counts = match self.judge {
            Judge::Page => true,
            Judge::Build => fault.certain,
            Judge::Syntax => {
                let sure = matches!(Kind::of(path), Kind::Script(Dialect::Jsx | Dialect::Ts | Dialect::Tsx));
                fault.certain && fault.code == Code::SyntaxError && sure
            }
        };
        if !counts || self.problems.len() >= PROBLEMS {
            return;
        }
        let text = self.tree.file(path).map(|leaf| String::from_utf8_lossy(leaf.content));
        let place =
            text.map_or(Place { path: path.to_owned(), line: 1, column: 1 }, |text| place(path, &text, fault.at));
        let problem = Problem { code: fault.code, message: fault.message.clone(), place: Some(place) };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// A file that the page shows without reading it.
    pub(crate) fn shows(&mut self, path: &str) {
        for path in [format!("public/{path}"), path.to_owned()] {
            if let Some(leaf) = self.tree.file(&path) {
                self.files.insert(path, leaf.sha256.to_owned());
                return;
            }
        }
    }

    /// A file's text, if it may be read.
    pub(crate) fn text(&mut self, path: &str) -> Option<(Leaf<'t>, &'t str)> {
        let leaf = self.tree.file(path)?;
        self.files.insert(path.to_owned(), leaf.sha256.to_owned());
        if leaf.content.len() > self.limits.module_bytes {
            let message =
                format!("the file is larger than {} bytes: only a build can show it", self.limits.module_bytes);
            self.fault(path, &Fault::unsupported(message, 0));
            return None;
        }
        let Ok(text) = std::str::from_utf8(leaf.content) else {
            self.fault(path, &Fault::unsupported("the file is not text in UTF-8", 0));
            return None;
        };
        Some((leaf, text))
    }

    fn script(&mut self, path: &str, dialect: Dialect) -> Option<Arc<Script>> {
        let (leaf, text) = self.text(path)?;
        let script = script(self.memory, leaf.sha256, text, dialect, self.verbatim)?;
        for fault in &script.faults {
            self.fault(path, fault);
        }
        Some(script)
    }

    fn json(&mut self, path: &str) -> Option<Arc<Json>> {
        let (leaf, text) = self.text(path)?;
        let json = json(self.memory, leaf.sha256, text)?;
        for fault in &json.faults {
            self.fault(path, fault);
        }
        Some(json)
    }

    pub(crate) fn sheet(&mut self, path: &str) -> Option<(Arc<Sheet>, &'t str)> {
        let (leaf, text) = self.text(path)?;
        let known = self.memory.get(Reading::Sheet, leaf.sha256, || Known::Sheet(Arc::new(Sheet::read(text))));
        let Known::Sheet(sheet) = known else { return None };
        for fault in &sheet.faults {
            self.fault(path, fault);
        }
        Some((sheet, text))
    }

    /// The names that a vendored module exports; none if it cannot be said.
    fn vendored(&self, packages: &Packages, module: &str) -> Option<Arc<Names>> {
        let code = packages.module(module)?;
        let key = format!("{}/{module}", packages.id());
        let known = self.memory.get(Reading::Vendored, &key, || {
            let names = std::str::from_utf8(&code).ok().and_then(Script::names);
            Known::Names(names.map(Arc::new))
        });
        let Known::Names(names) = known else { return None };
        names
    }
}

/// Whether TypeScript's configuration keeps imports that are only used as types.
pub(crate) fn is_verbatim(tree: &dyn Tree, memory: &Memory) -> bool {
    let Some(leaf) = tree.file("tsconfig.json") else { return false };
    let known = memory.get(Reading::Configuration, leaf.sha256, || {
        Known::Verbatim(std::str::from_utf8(leaf.content).is_ok_and(settings::is_verbatim))
    });
    matches!(known, Known::Verbatim(true))
}

pub(crate) fn script(
    memory: &Memory,
    sha256: &str,
    text: &str,
    dialect: Dialect,
    verbatim: bool,
) -> Option<Arc<Script>> {
    let read = || Known::Script(Arc::new(Script::read(text, dialect, verbatim)));
    match memory.get(Reading::Script(dialect, verbatim), sha256, read) {
        Known::Script(script) => Some(script),
        _ => None,
    }
}

pub(crate) fn json(memory: &Memory, sha256: &str, text: &str) -> Option<Arc<Json>> {
    match memory.get(Reading::Json, sha256, || Known::Json(Arc::new(Json::read(text)))) {
        Known::Json(json) => Some(json),
        _ => None,
    }
}

/// What is used of a package.
#[derive(Debug, Default)]
pub(crate) struct Use {
    pub names: BTreeSet<String>,
    /// Whether any name may be used.
    pub whole: bool,
    /// Whether it is needed before the page can start.
    pub early: bool,
}

/// A script that was met.
#[derive(Debug)]
pub(crate) struct Met {
    pub path: String,
    pub script: Arc<Script>,
    /// What each of its requests leads to; none for those that are not followed.
    pub found: Vec<Option<Found>>,
}

/// Everything that the entries import.
pub(crate) struct Closure<'p, 't> {
    pub project: &'p mut Project<'t>,
    packages: Option<&'p Packages>,
    /// In the order in which they were first met.
    pub scripts: Vec<Met>,
    known: BTreeMap<String, usize>,
    jsons: BTreeMap<String, Option<Arc<Json>>>,
    /// How a browser resolves a specifier, with the address that it has to mean.
    pub keys: BTreeMap<String, String>,
    /// Addresses that are needed before the page can start.
    pub early: Vec<String>,
    pub packages_used: BTreeMap<String, Use>,
    pub styles: Styles,
    sheets: BTreeSet<String>,
    later: Vec<Target>,
    modules: usize,
}

impl<'p, 't> Closure<'p, 't> {
    /// Reads nothing yet. Without packages, imports of them are not judged and dynamic imports are not followed: whether a build
    /// keeps those depends on what uses them.
    pub(crate) fn new(project: &'p mut Project<'t>, packages: Option<&'p Packages>) -> Self {
        Self {
            project,
            packages,
            scripts: vec![],
            known: BTreeMap::new(),
            jsons: BTreeMap::new(),
            keys: BTreeMap::new(),
            early: vec![],
            packages_used: BTreeMap::new(),
            styles: Styles::default(),
            sheets: BTreeSet::new(),
            later: vec![],
            modules: 0,
        }
    }

    /// Follows an entry of the document, and everything that it imports at once.
    pub(crate) fn enter(&mut self, target: &Target) {
        self.target(target, true);
    }

    /// Follows what is imported dynamically, once all entries are in: its styles come last.
    pub(crate) fn finish(&mut self) {
        self.later.reverse();
        while let Some(target) = self.later.pop() {
            self.target(&target, false);
        }
        crate::names::judge(self);
    }

    pub(crate) fn script_at(&self, path: &str) -> Option<&Met> {
        self.scripts.get(*self.known.get(path)?)
    }

    pub(crate) fn json_at(&self, path: &str) -> Option<&Arc<Json>> {
        self.jsons.get(path)?.as_ref()
    }

    /// Whether a vendored package exports a name; none if it cannot be said.
    pub(crate) fn package_exports(&self, specifier: &str, name: &str) -> Option<bool> {
        let packages = self.packages?;
        if let Some(exports) = packages.barrel_exports(specifier, name) {
            return Some(exports);
        }
        let mut seen = BTreeSet::new();
        let mut next = vec![packages.entry(specifier)?.to_owned()];
        while let Some(module) = next.pop() {
            let names = self.project.vendored(packages, &module)?;
            if names.names.contains(name) {
                return Some(true);
            }
            seen.insert(module.clone());
            for star in names.stars.iter().filter(|_| name != "default") {
                next.extend(Some(address::join(&module, star)?).filter(|star| !seen.contains(star)));
            }
        }
        Some(false)
    }

    fn target(&mut self, target: &Target, early: bool) {
        let Some(leaf) = self.project.tree.file(&target.path) else { return };
        let address = address::module(&target.path, target.form, leaf.sha256);
        if self.keys.insert(target.key.clone(), address.clone()).is_some() {
            return;
        }
        self.modules += 1;
        if self.modules > self.project.limits.modules {
            let message =
                format!("the page has more than {} modules: only a build can show it", self.project.limits.modules);
            return self.project.fault(&target.path, &Fault::unsupported(message, 0));
        }
        match (target.form, Kind::of(&target.path)) {
            (Form::Module, Kind::Script(dialect)) => self.module(&target.path, dialect, early),
            (Form::Module, Kind::Json) => {
                let json = self.project.json(&target.path);
                self.jsons.insert(target.path.clone(), json);
            }
            (Form::Module, Kind::Style) => self.style(&target.path),
            (Form::Module | Form::Raw | Form::Url, _) => {
                self.project.files.insert(target.path.clone(), leaf.sha256.to_owned());
            }
        }
        if early && !self.early.contains(&address) {
            self.early.push(address);
        }
    }

    /// Adds a style sheet, where it is first met.
    pub(crate) fn style(&mut self, path: &str) {
        if self.sheets.insert(path.to_owned()) {
            self.styles.add(self.project, path);
        }
    }

    fn module(&mut self, path: &str, dialect: Dialect, early: bool) {
        if self.known.contains_key(path) {
            return;
        }
        let Some(script) = self.project.script(path, dialect) else { return };
        let index = self.scripts.len();
        self.known.insert(path.to_owned(), index);
        self.scripts.push(Met { path: path.to_owned(), script: script.clone(), found: vec![] });
        for mention in &script.mentions {
            self.project.shows(address::split_suffix(mention.trim_start_matches('/')).0);
        }
        for request in &script.requests {
            let found = match request.how {
                How::Dynamic if self.packages.is_none() => None,
                How::Address => self.asset(path, &request.specifier, request.at),
                How::Import | How::Dynamic => Some(self.request(path, &request.specifier, request.at)),
            };
            match &found {
                Some(Found::File(target)) if request.how == How::Import => self.target(target, early),
                Some(Found::File(target)) if request.how == How::Dynamic => self.later.push(target.clone()),
                Some(Found::Package(specifier)) => {
                    let used = self.packages_used.entry(specifier.clone()).or_default();
                    used.names.extend(request.names.iter().map(|mention: &Mention| mention.name.clone()));
                    used.whole |= request.whole;
                    used.early |= early && request.how == How::Import;
                }
                _ => {}
            }
            if let Some(met) = self.scripts.get_mut(index) {
                met.found.push(found);
            }
        }
    }

    fn request(&mut self, path: &str, specifier: &str, at: u32) -> Found {
        let found = resolve(self.project.tree, path, specifier);
        match &found {
            Found::File(_) => {}
            Found::Package(name) => {
                if self.packages.is_some_and(|packages| packages.entry(name).is_none()) {
                    let message = format!("the package `{name}` is not among those that can be shown before the build");
                    self.project.fault(path, &Fault::unsupported(message, at));
                }
            }
            Found::Missing(wanted) => {
                let message = format!("`{specifier}` is imported, but there is no file {wanted}{}", endings(wanted));
                self.project.fault(path, &Fault { code: Code::MissingImport, message, at, certain: true });
            }
            Found::Unjudged(why) => {
                self.project.fault(path, &Fault::unsupported(format!("`{specifier}` is imported: {why}"), at));
            }
        }
        found
    }

    /// A file that a module asks the address of. If there is none, a build leaves the address as it is.
    fn asset(&mut self, path: &str, specifier: &str, at: u32) -> Option<Found> {
        let file = address::split_suffix(specifier).0;
        let wanted = address::join(path, file).filter(|_| !address::is_elsewhere(specifier))?;
        if self.project.exists(&wanted) && !Kind::is_asset(&wanted) {
            let message =
                format!("the address of `{specifier}`, which is no image, font or other asset, needs a build");
            self.project.fault(path, &Fault::unsupported(message, at));
        }
        self.project.shows(&wanted);
        None
    }
}

/// What may stand behind a path that was imported without an extension.
fn endings(wanted: &str) -> &'static str {
    let name = wanted.rsplit('/').next().unwrap_or(wanted);
    if name.contains('.') {
        ""
    } else {
        " with .tsx, .ts, .jsx, .js or .json behind it, and no index file in a folder of that name"
    }
}

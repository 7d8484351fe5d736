//! Whether every name that is imported is exported by the module that it is imported from (ECMA-262, ResolveExport).

use std::collections::BTreeSet;

use crate::address::Form;
use crate::closure::{Closure, Met};
use crate::kind::Kind;
use crate::problem::Code;
use crate::resolve::Found;
use crate::script::{Export, Fault};

/// Names of a module that a message lists.
const LISTED: usize = 8;
/// Modules that are looked into for the names of one page. Modules that export all of each other could have it go on for ever; what
/// is not looked up is for the build or the browser to say.
const LOOKS: usize = 200_000;

/// A search for one name: where it has been, and how much of the page's looks is left.
struct Search<'l> {
    seen: BTreeSet<(String, String)>,
    left: &'l mut usize,
}

/// What a module exports under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    /// A binding, by the module and the name that it has there.
    Binding(String, String),
    /// Two modules that it exports all names of have one each.
    Ambiguous,
    Nothing,
    /// It cannot be said without a build.
    Unknown,
}

/// Reports every import of a name that is not exported.
pub(crate) fn judge(closure: &mut Closure<'_, '_>) {
    let (mut faults, mut left) = (vec![], LOOKS);
    for Met { path, script, found } in &closure.scripts {
        for (request, found) in script.requests.iter().zip(found) {
            let Some(found) = found else { continue };
            for mention in &request.names {
                let name = &mention.name;
                let message = match export(closure, found, name, &mut Search { seen: BTreeSet::new(), left: &mut left })
                {
                    Answer::Binding(..) | Answer::Unknown => continue,
                    Answer::Ambiguous => {
                        format!("`{name}` is exported by two of the modules that {} exports all of", label(found))
                    }
                    Answer::Nothing => {
                        format!("{} has no export named `{name}`{}", label(found), listed(closure, found))
                    }
                };
                // Of packages a build may know more: CommonJS has no fixed names.
                let certain = matches!(found, Found::File(_));
                faults.push((path.clone(), Fault { code: Code::MissingExport, message, at: mention.at, certain }));
            }
        }
    }
    for (path, fault) in faults {
        closure.project.fault(&path, &fault);
    }
}

fn export(closure: &Closure<'_, '_>, found: &Found, name: &str, search: &mut Search<'_>) -> Answer {
    let binding = |module: &str| Answer::Binding(module.to_owned(), name.to_owned());
    match found {
        Found::File(target) => match (target.form, Kind::of(&target.path)) {
            (Form::Module, Kind::Script(_)) => script_export(closure, &target.path, name, search),
            (Form::Module, Kind::Json) => match closure.json_at(&target.path) {
                None => Answer::Unknown,
                Some(json) if !json.faults.is_empty() => Answer::Unknown,
                Some(json) if name == "default" || json.names.contains(name) => binding(&target.path),
                Some(_) => Answer::Nothing,
            },
            (Form::Module, Kind::Style) => Answer::Nothing,
            _ if name == "default" => binding(&target.path),
            _ => Answer::Nothing,
        },
        Found::Package(specifier) => match closure.package_exports(specifier, name) {
            None => Answer::Unknown,
            Some(true) => binding(specifier),
            Some(false) => Answer::Nothing,
        },
        Found::Missing(_) | Found::Unjudged(_) => Answer::Unknown,
    }
}

fn script_export(closure: &Closure<'_, '_>, path: &str, name: &str, search: &mut Search<'_>) -> Answer {
    let Some(Met { script, found, .. }) = closure.script_at(path) else { return Answer::Unknown };
    if script.opaque || *search.left == 0 {
        return Answer::Unknown;
    }
    *search.left -= 1;
    let own = Answer::Binding(path.to_owned(), name.to_owned());
    match script.exports.get(name) {
        Some(Export::Own) => return own,
        Some(Export::From { request, name: there }) => {
            // A name that is passed on and missing is a fault of the module that passes it on.
            let Some(Some(found)) = found.get(*request) else { return own };
            if !search.seen.insert((path.to_owned(), name.to_owned())) {
                return own;
            }
            return match export(closure, found, there, search) {
                Answer::Nothing | Answer::Ambiguous => own,
                answer @ (Answer::Binding(..) | Answer::Unknown) => answer,
            };
        }
        None => {}
    }
    // `export *` passes on everything but the default.
    if name == "default" || !search.seen.insert((path.to_owned(), name.to_owned())) {
        return Answer::Nothing;
    }
    let mut result = Answer::Nothing;
    for star in &script.stars {
        let answer = match found.get(*star) {
            Some(Some(found)) => export(closure, found, name, search),
            Some(None) | None => Answer::Unknown,
        };
        result = match (result, answer) {
            (Answer::Ambiguous, _) | (_, Answer::Ambiguous) => return Answer::Ambiguous,
            (Answer::Nothing, answer) => answer,
            (result, Answer::Nothing) => result,
            (Answer::Unknown, _) | (_, Answer::Unknown) => Answer::Unknown,
            (one, other) if one == other => one,
            _ => Answer::Ambiguous,
        };
    }
    result
}

fn label(found: &Found) -> String {
    match found {
        Found::File(target) => target.path.clone(),
        Found::Package(specifier) => format!("`{specifier}`"),
        Found::Missing(path) => path.clone(),
        Found::Unjudged(_) => "the module".to_owned(),
    }
}

/// What a module does export, for whoever mends the import.
fn listed(closure: &Closure<'_, '_>, found: &Found) -> String {
    let Found::File(target) = found else { return String::new() };
    if target.form != Form::Module || Kind::of(&target.path) == Kind::Asset {
        return "; its address is the default export".to_owned();
    }
    let Some(Met { script, .. }) = closure.script_at(&target.path) else { return String::new() };
    let names: Vec<_> = script.exports.keys().take(LISTED).map(|name| format!("`{name}`")).collect();
    match names.len() {
        0 => "; it exports nothing".to_owned(),
        LISTED => format!("; it exports {} and more", names.join(", ")),
        _ => format!("; it exports {}", names.join(", ")),
    }
}

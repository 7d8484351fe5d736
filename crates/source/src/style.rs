//! The style sheets of a page: sheets of the project with what they import put in their place, as text for `<style>` elements.

use std::collections::BTreeSet;

use crate::address::{self, join, split_suffix};
use crate::closure::Project;
use crate::css::Piece;
use crate::problem::Code;
use crate::script::Fault;

/// How deep style sheets may import each other.
const DEPTH: usize = 20;
/// Most sheets of other hosts. A preview's policy refuses them anyway.
const ELSEWHERE: usize = 100;
/// Most bytes of style in one page: a sheet that is imported often is there often.
const BYTES: usize = 4 << 20;
/// Bytes that a piece counts for besides its text, so that putting in nothing has an end too.
const PIECE: usize = 64;

/// The styles of a page so far.
#[derive(Debug, Default)]
pub(crate) struct Styles {
    /// The text of each sheet that the page loads, in the order of the cascade.
    pub sheets: Vec<String>,
    /// Rules that import sheets of other hosts.
    pub elsewhere: Vec<String>,
    /// Whether Tailwind has to compile them.
    pub tailwind: bool,
    /// Sheets of Tailwind's that are imported by now: a second time would only repeat them.
    tailwinds: BTreeSet<String>,
    bytes: usize,
}

impl Styles {
    /// Adds a sheet of the project.
    pub(crate) fn add(&mut self, project: &mut Project<'_>, path: &str) {
        let mut text = String::new();
        self.put(project, path, &mut vec![], &mut text);
        self.sheets.push(text);
    }

    fn put(&mut self, project: &mut Project<'_>, path: &str, within: &mut Vec<String>, out: &mut String) {
        let Some((sheet, text)) = project.sheet(path) else { return };
        self.tailwind |= sheet.tailwind;
        within.push(path.to_owned());
        for piece in &sheet.pieces {
            let before = out.len();
            match piece {
                Piece::Text(range) => out.push_str(text.get(range.clone()).unwrap_or_default()),
                Piece::Url { target } => out.push_str(&url(project, path, target)),
                Piece::Tailwind { name, conditions } => {
                    if self.tailwinds.insert(name.clone()) {
                        let space = if conditions.is_empty() { "" } else { " " };
                        out.push_str(&format!("@import \"{name}\"{space}{conditions};"));
                    }
                }
                Piece::Elsewhere { rule } => {
                    if self.elsewhere.len() < ELSEWHERE && !self.elsewhere.contains(rule) {
                        self.elsewhere.push(rule.clone());
                    }
                }
                Piece::Import { target, conditions, at } => {
                    self.import(project, (path, target, *at), conditions, within, out);
                }
            }
            self.bytes += PIECE + out.len().saturating_sub(before);
            if self.bytes > BYTES {
                project.fault(
                    path,
                    &Fault::unsupported("the style sheets of the page are too large to be shown before the build", 0),
                );
                break;
            }
        }
        within.pop();
    }

    fn import(
        &mut self,
        project: &mut Project<'_>,
        (path, target, at): (&str, &str, u32),
        conditions: &str,
        within: &mut Vec<String>,
        out: &mut String,
    ) {
        let found = match find(project, path, target) {
            Ok(found) => found,
            Err(fault) => return project.fault(path, &Fault { at, ..fault }),
        };
        if within.contains(&found) || within.len() >= DEPTH {
            let message = format!("`{target}` imports itself, or too many others, one within the other");
            return project.fault(path, &Fault::unsupported(message, at));
        }
        let (open, close) = conditions_around(conditions);
        out.push_str(&open);
        self.put(project, &found, within, out);
        out.push_str(&close);
    }
}

/// The file that an `@import` names: as a path beside the sheet, with or without the extension.
fn find(project: &Project<'_>, path: &str, target: &str) -> Result<String, Fault> {
    let unsupported = |why: &str| Fault::unsupported(format!("`{target}` is imported: {why}"), 0);
    let (wanted, suffix) = split_suffix(target);
    if !suffix.is_empty() || wanted.contains(['\\', '%']) {
        return Err(unsupported("its path is written in an unusual way"));
    }
    let Some(wanted) = join(path, wanted) else { return Err(unsupported("it leads outside the project")) };
    let found = [wanted.clone(), format!("{wanted}.css")].into_iter().find(|path| project.exists(path));
    match found {
        Some(found) if found.ends_with(".css") && !found.starts_with("node_modules/") => Ok(found),
        Some(_) => Err(unsupported("only plain style sheets can be shown before the build")),
        None if target.starts_with(['.', '/']) => {
            let message = format!("`{target}` is imported, but there is no {wanted}");
            Err(Fault { code: Code::MissingImport, message, at: 0, certain: true })
        }
        None => Err(unsupported("style sheets of packages need a build")),
    }
}

/// What has to stand around a sheet that is imported with a layer, `supports()` or media (CSS Cascade 5, 2.1).
fn conditions_around(conditions: &str) -> (String, String) {
    let (mut layer, mut supports, mut rest) = (None, None, conditions.trim());
    if let Some((name, after)) = call(rest, "layer") {
        (layer, rest) = (Some(name), after);
    } else if let Some(after) =
        rest.strip_prefix("layer").filter(|after| !after.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
    {
        (layer, rest) = (Some(""), after.trim_start());
    }
    if let Some((condition, after)) = call(rest, "supports") {
        (supports, rest) = (Some(condition), after);
    }
    let media = (!rest.is_empty()).then(|| format!("@media {rest} {{"));
    let supports = supports.map(|condition| format!("@supports ({condition}) {{"));
    let layer = layer.map(|name| format!("@layer {name} {{"));
    let open: Vec<String> = [media, supports, layer].into_iter().flatten().collect();
    (open.concat(), "}".repeat(open.len()))
}

/// The argument of a function at the start of a text, and what follows.
fn call<'t>(text: &'t str, name: &str) -> Option<(&'t str, &'t str)> {
    let inner = text.strip_prefix(name)?.strip_prefix('(')?;
    let mut depth = 1usize;
    for (at, c) in inner.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((inner.get(..at)?.trim(), inner.get(at + 1..)?.trim_start()));
        }
    }
    None
}

/// A file that a sheet names, from the root of the page: the sheet's text does not stay where the sheet was.
fn url(project: &mut Project<'_>, path: &str, target: &str) -> String {
    let (file, suffix) = split_suffix(target);
    let decoded = percent_encoding::percent_decode_str(file).decode_utf8_lossy().into_owned();
    let found = join(path, &decoded).filter(|_| !file.is_empty());
    if let Some(found) = &found {
        project.shows(found);
    }
    let address = match found {
        Some(found) if !file.starts_with('/') => address::url_path(&found) + suffix,
        _ => target.to_owned(),
    };
    let mut quoted = String::from("url(\"");
    for c in address.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '<' => quoted.push_str("\\3c "),
            c if c.is_control() => quoted.push_str(&format!("\\{:x} ", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "\")"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_an_import_stand_around_it() {
        for (conditions, open, close) in [
            ("", "", ""),
            ("layer", "@layer  {", "}"),
            ("layer(a.b) print", "@media print {@layer a.b {", "}}"),
            (
                "supports(not (display: grid)) (width > 1px)",
                "@media (width > 1px) {@supports (not (display: grid)) {",
                "}}",
            ),
            ("layered", "@media layered {", "}"),
            ("theme(static)", "@media theme(static) {", "}"),
        ] {
            assert_eq!(conditions_around(conditions), (open.to_owned(), close.to_owned()), "{conditions}");
        }
    }
}

//! The document `index.html`: what it loads, and the same document with a page's head.
//!
//! Read and written by a rewriter that streams tokens as browsers do, so that what stands in comments, scripts and attributes is told
//! apart from tags. What is put in is made by us; this file must not put in text of a project unescaped.

use std::cell::{Cell, RefCell};

use lol_html::errors::RewritingError;
use lol_html::html_content::{ContentType, Element};
use lol_html::{RewriteStrSettings, element, end, rewrite_str, text};

use crate::address::{is_elsewhere, split_suffix};
use crate::script::{FAULTS, Fault, MENTIONS};

/// What was read of a document.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// What it loads, in its order.
    pub entries: Vec<Entry>,
    /// Whether it has scripts that are no modules, which may define anything.
    pub classic: bool,
    /// Other files that it names.
    pub mentions: Vec<String>,
    pub faults: Vec<Fault>,
}

/// A module or a style sheet that a document loads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub load: Load,
    /// The address as it is written, without query and fragment.
    pub path: String,
    pub at: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    Module,
    Style,
}

/// What becomes of an entry in the page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    Keep,
    Remove,
    Source(String),
}

/// What a build fills in for `%NAME%` (Vite's constants, without `.env` files).
const CONSTANTS: [(&str, &str); 5] =
    [("%MODE%", "production"), ("%BASE_URL%", "/"), ("%PROD%", "true"), ("%DEV%", "false"), ("%SSR%", "false")];
/// What in an inline style sheet only a build, or Tailwind, understands.
const COMPILED: [&str; 7] = ["@import", "@tailwind", "@apply", "@theme", "@utility", "@plugin", "@config"];

/// A document with the build's constants.
pub(crate) fn filled_in(html: &str) -> String {
    CONSTANTS.iter().fold(
        html.to_owned(),
        |html, (name, value)| {
            if html.contains(name) { html.replace(name, value) } else { html }
        },
    )
}

impl Document {
    pub(crate) fn read(html: &str) -> Self {
        let found = RefCell::new(Self::default());
        let settings = RewriteStrSettings::new()
            .with_strict(false)
            .with_enable_esi_tags(false)
            .append_element_content_handler(element!("*", |element| {
                found.borrow_mut().element(element);
                Ok(())
            }))
            .append_element_content_handler(text!("style", |chunk| {
                let compiled = COMPILED.iter().any(|rule| chunk.as_str().contains(rule));
                if compiled {
                    let at = offset(chunk.source_location().bytes().start);
                    found.borrow_mut().unsupported("an inline style sheet with rules for a build needs one", at);
                }
                Ok(())
            }));
        if let Err(error) = rewrite_str(html, settings) {
            found.borrow_mut().unsupported(&format!("the document cannot be read: {error}"), 0);
        }
        found.into_inner()
    }

    fn unsupported(&mut self, message: &str, at: u32) {
        if self.faults.len() < FAULTS {
            self.faults.push(Fault::unsupported(message, at));
        }
    }

    fn element(&mut self, element: &Element<'_, '_>) {
        let at = offset(element.source_location().bytes().start);
        if let Some(entry) = entry(element, at) {
            self.entries.push(entry);
            return;
        }
        for name in ["src", "href", "poster"] {
            if let Some(path) = element.get_attribute(name)
                && !is_elsewhere(&path)
                && self.mentions.len() < MENTIONS
            {
                self.mentions.push(split_suffix(&path).0.to_owned());
            }
        }
        match element.tag_name().as_str() {
            "script" => self.script(element, at),
            "link" if is_conditional(element) => {
                let sheet =
                    element.get_attribute("href").is_some_and(|path| !is_elsewhere(&path) && path.ends_with(".css"));
                if sheet {
                    self.unsupported("a style sheet with `media` or `disabled` needs a build", at);
                }
            }
            "base" => self.unsupported("a <base> needs a build", at),
            "meta" => {
                let name = element.get_attribute("http-equiv").unwrap_or_default();
                if name.trim().eq_ignore_ascii_case("content-security-policy") {
                    self.unsupported("a page with a policy of its own needs a build", at);
                }
            }
            _ => {}
        }
    }

    fn script(&mut self, element: &Element<'_, '_>, at: u32) {
        let kind = element.get_attribute("type").unwrap_or_default();
        match kind.trim().to_ascii_lowercase().as_str() {
            "module" if element.has_attribute("vite-ignore") => {}
            "module" if !element.has_attribute("src") => self.unsupported("an inline module script needs a build", at),
            "module" => {
                self.unsupported("a module script of another host, or with an unusual address, needs a build", at)
            }
            "importmap" => self.unsupported("a page with an import map of its own needs a build", at),
            "" | "text/javascript" | "application/javascript" => self.classic = true,
            _ => {}
        }
    }
}

/// What an element loads, if that is a file that a build would read.
fn entry(element: &Element<'_, '_>, at: u32) -> Option<Entry> {
    let attribute = |name| element.get_attribute(name).map(|value: String| value.trim().to_owned());
    let is = |name, value: &str| attribute(name).is_some_and(|found| found.eq_ignore_ascii_case(value));
    let (load, address) = match element.tag_name().as_str() {
        // Vite knows modules by this very word; so must what is shown.
        "script" if element.get_attribute("type").is_some_and(|kind| kind == "module") => {
            (Load::Module, attribute("src")?)
        }
        "link" if is("rel", "stylesheet") && !is_conditional(element) => (Load::Style, attribute("href")?),
        _ => return None,
    };
    let path = split_suffix(&address).0;
    let odd = path.is_empty() || is_elsewhere(path) || path.contains(['&', '%', '\\']);
    (!odd && !element.has_attribute("vite-ignore")).then(|| Entry { load, path: path.to_owned(), at })
}

/// Whether a style sheet counts only at times. Vite leaves such links to the browser.
fn is_conditional(element: &Element<'_, '_>) -> bool {
    element.has_attribute("media") || element.has_attribute("disabled")
}

fn offset(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The document with something at the start of its head, and with its entries edited: one edit for each, in their order.
pub(crate) fn write(html: &str, head: &str, edits: &[Edit]) -> Result<String, RewritingError> {
    let (placed, next) = (Cell::new(false), Cell::new(0));
    let settings = RewriteStrSettings::new()
        .with_strict(false)
        .with_enable_esi_tags(false)
        .append_element_content_handler(element!("*", |element| {
            let name = element.tag_name();
            if !placed.get() && name != "html" {
                placed.set(true);
                match name.as_str() {
                    "head" => element.prepend(head, ContentType::Html),
                    _ => element.before(head, ContentType::Html),
                }
            }
            if let Some(entry) = entry(element, 0) {
                match (edits.get(next.replace(next.get() + 1)), entry.load) {
                    (Some(Edit::Source(source)), Load::Module) => element.set_attribute("src", source)?,
                    (Some(Edit::Remove), _) => element.remove(),
                    (Some(Edit::Keep | Edit::Source(_)) | None, _) => {}
                }
            }
            Ok(())
        }))
        .append_document_content_handler(end!(|end| {
            if !placed.get() {
                end.append(head, ContentType::Html);
            }
            Ok(())
        }));
    rewrite_str(html, settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_document_loads_is_found_among_tags_and_nowhere_else() {
        let html = r#"<!doctype html><!-- <script type="module" src="/no.js"></script> --><html><head>
            <title>a <script type="module" src="/no.js"></title><link rel="icon" href="/i.svg"><LINK REL=stylesheet HREF=./a.css>
            <script>'<script type="module" src="/no.js">'</script><SCRIPT TYPE=module SRC='/src/a.tsx?x=1'></SCRIPT>
            <script type="module" src="https://x.test/a.js"></script><base href="/x"></head></html>"#;
        let document = Document::read(html);
        let entries: Vec<_> = document.entries.iter().map(|entry| (entry.load, entry.path.as_str())).collect();
        assert_eq!(entries, [(Load::Style, "./a.css"), (Load::Module, "/src/a.tsx")]);
        assert!(document.classic);
        assert_eq!(document.mentions, ["/i.svg", "/x"]);
        let faults: Vec<_> = document.faults.iter().map(|fault| fault.message.as_str()).collect();
        assert_eq!(
            faults,
            ["a module script of another host, or with an unusual address, needs a build", "a <base> needs a build"]
        );
    }

    #[test]
    fn a_head_comes_before_everything_that_could_need_it() {
        let edits = [Edit::Source("/m".into())];
        for (html, expected) in [
            ("<html><head><meta></head>", "<html><head>HEAD<meta></head>"),
            ("<!doctype html><title>a</title>", "<!doctype html>HEAD<title>a</title>"),
            ("<html lang=en><body>a", "<html lang=en>HEAD<body>a"),
            ("just text", "just textHEAD"),
            ("", "HEAD"),
            ("<script type=module src=a.js></script>", "HEAD<script type=module src=\"/m\"></script>"),
        ] {
            assert_eq!(write(html, "HEAD", &edits).unwrap(), expected);
        }
        let removed = write("<link rel=stylesheet href=a.css>b", "", &[Edit::Remove]);
        assert_eq!(removed.unwrap(), "b");
    }
}

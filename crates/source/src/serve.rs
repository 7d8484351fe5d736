//! Answers to a browser that has a page: one file, as what its address asks for.

use bytes::Bytes;

use crate::address::{self, Form};
use crate::closure;
use crate::json;
use crate::kind::Kind;
use crate::memory::Memory;
use crate::tree::{Leaf, Tree};

/// The media type of a module.
pub(crate) const SCRIPT: &str = "text/javascript; charset=utf-8";

/// An answer to one GET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The media type, with its charset if it is text.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
}

/// See [`crate::Reader::serve`].
pub(crate) fn serve(tree: &dyn Tree, memory: &Memory, largest: usize, path: &str, query: &str) -> Option<Served> {
    let wanted = address::project_path(path)?;
    let Some((form, hash)) = Form::parse(query) else { return asset(tree, &wanted) };
    let (path, leaf) = [wanted.clone(), format!("public/{wanted}")].into_iter().find_map(|path| {
        let leaf = tree.file(&path).filter(|leaf| address::short(leaf.sha256) == hash)?;
        Some((path, leaf))
    })?;
    let body = module(tree, memory, &path, leaf, form).filter(|_| leaf.content.len() <= largest)?;
    Some(Served { content_type: SCRIPT.to_owned(), body })
}

/// A file as it is: what lies in `public/`, and assets.
fn asset(tree: &dyn Tree, wanted: &str) -> Option<Served> {
    let public = tree.file(&format!("public/{wanted}"));
    let leaf = public.or_else(|| tree.file(wanted).filter(|_| Kind::is_asset(wanted)))?;
    let kind = mime_guess::from_path(wanted).first_or_octet_stream();
    let text = kind.type_() == mime_guess::mime::TEXT || kind.suffix() == Some(mime_guess::mime::XML);
    let content_type = if text { format!("{kind}; charset=utf-8") } else { kind.to_string() };
    Some(Served { content_type, body: Bytes::copy_from_slice(leaf.content) })
}

fn module(tree: &dyn Tree, memory: &Memory, path: &str, leaf: Leaf<'_>, form: Form) -> Option<Bytes> {
    let default = |text: &str| Bytes::from(format!("export default {};\n", json::string(text)));
    let text = || std::str::from_utf8(leaf.content).ok();
    match (form, Kind::of(path)) {
        (Form::Module, Kind::Script(dialect)) => {
            let verbatim = closure::is_verbatim(tree, memory);
            let script = closure::script(memory, leaf.sha256, text()?, dialect, verbatim)?;
            script.faults.is_empty().then(|| script.code.clone())
        }
        (Form::Module, Kind::Json) => {
            let json = closure::json(memory, leaf.sha256, text()?)?;
            json.faults.is_empty().then(|| Bytes::from(json.module(text().unwrap_or_default())))
        }
        // Its rules are in the page.
        (Form::Module, Kind::Style) => Some(Bytes::from_static(b"export {};\n")),
        (Form::Raw, _) => Some(default(&String::from_utf8_lossy(leaf.content))),
        (Form::Url, Kind::Asset) => Some(default(&address::url_path(path.strip_prefix("public/").unwrap_or(path)))),
        (Form::Module | Form::Url, _) => None,
    }
}

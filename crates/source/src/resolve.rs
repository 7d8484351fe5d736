//! From a specifier to a file, as `vite build` resolves it.

use crate::address::{self, Form};
use crate::kind::Kind;
use crate::tree::Tree;

/// What a specifier leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    File(Target),
    /// A package, or a part of one: its specifier.
    Package(String),
    /// No file answers; the path that was looked for.
    Missing(String),
    /// Only a build can say; why.
    Unjudged(String),
}

/// A file that is imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub path: String,
    pub form: Form,
    /// How a browser resolves the specifier: the key of the import map.
    pub key: String,
}

/// What is tried behind a path that no file has, in Vite's order (`resolve.extensions`).
const EXTENSIONS: [&str; 7] = [".mjs", ".js", ".mts", ".ts", ".jsx", ".tsx", ".json"];
/// TypeScript's sources of what an import names by its output.
const SOURCES: [(&str, &[&str]); 3] = [(".js", &[".ts", ".tsx"]), (".jsx", &[".tsx"]), (".mjs", &[".mts"])];

/// Resolves what the file at `importer` imports.
pub(crate) fn resolve(tree: &dyn Tree, importer: &str, specifier: &str) -> Found {
    let odd = |c: char| c.is_control() || matches!(c, '\\' | '%');
    if address::is_elsewhere(specifier) || specifier.starts_with('#') {
        return Found::Unjudged("it is neither a file of the project nor a package".into());
    }
    let relative = specifier.split('/').next().is_some_and(|first| matches!(first, "." | ".."));
    if !relative && !specifier.starts_with('/') {
        return Found::Package(specifier.to_owned());
    }
    if specifier.contains(odd) || specifier.contains("//") {
        return Found::Unjudged("its path is written in an unusual way".into());
    }
    let (path, suffix) = address::split_suffix(specifier);
    let form = match suffix {
        "" => Form::Module,
        "?raw" => Form::Raw,
        "?url" => Form::Url,
        _ => return Found::Unjudged(format!("`{suffix}` needs a build")),
    };
    let Some(wanted) = address::join(importer, path) else {
        return Found::Unjudged("it leads outside the project".into());
    };
    if wanted.split('/').next() == Some("node_modules") {
        return Found::Unjudged("it leads into the packages".into());
    }
    let public = path.starts_with('/').then(|| format!("public/{wanted}"));
    let public = public.filter(|public| Kind::is_asset(public) && tree.file(public).is_some());
    let Some(path) = public.or_else(|| find(tree, &wanted)) else {
        let package = tree.file(&format!("{wanted}/package.json")).is_some();
        return if package {
            Found::Unjudged("it is a folder with its own package.json".into())
        } else {
            Found::Missing(wanted)
        };
    };
    let key = format!("{}{suffix}", address::url_path(&wanted));
    match (form, Kind::of(&path)) {
        (Form::Raw, _) | (Form::Module, Kind::Script(_) | Kind::Json | Kind::Style) => {
            Found::File(Target { path, form, key })
        }
        (Form::Module | Form::Url, Kind::Asset) => Found::File(Target { path, form: Form::Url, key }),
        (Form::Module, Kind::Foreign(why)) => Found::Unjudged(why.to_owned()),
        (Form::Url, _) => {
            Found::Unjudged("the address of a file that is no image, font or other asset needs a build".into())
        }
    }
}

/// The file that a path without an extension, a folder or the output of TypeScript means.
fn find(tree: &dyn Tree, wanted: &str) -> Option<String> {
    let exists = |path: &String| tree.file(path).is_some();
    let exact = Some(wanted.to_owned()).filter(|path| !path.is_empty());
    let behind = |stem: &str| EXTENSIONS.map(|extension| format!("{stem}{extension}"));
    let sources = SOURCES.iter().filter_map(|(output, sources)| Some((wanted.strip_suffix(output)?, sources)));
    let sources = sources.flat_map(|(stem, sources)| sources.iter().map(move |source| format!("{stem}{source}")));
    let index = if wanted.is_empty() { "index".to_owned() } else { format!("{wanted}/index") };
    exact.into_iter().chain(behind(wanted)).chain(sources).chain(behind(&index)).find(exists)
}

//! The packages that pages may import without a build: `instant.json`, made once when a template is prepared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use oxc::syntax::identifier::is_identifier_name;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::serve::{SCRIPT, Served};

/// The only form of `instant.json` there is.
const FORMAT: u32 = 1;
/// The name of Tailwind's browser build among the modules.
const TAILWIND: &str = "tailwind.js";
/// Longest list of names in the address of a part of a barrel; for a longer one the whole barrel is loaded.
const NAMES: usize = 4_096;

/// Packages as ES modules, with Tailwind's browser build. The default has none: then only pages without dependencies are good.
/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Packages(Arc<Pack>);

#[derive(Debug, Default)]
struct Pack {
    id: String,
    packages: BTreeMap<String, Package>,
    modules: BTreeMap<String, Bytes>,
    imports: BTreeMap<String, Vec<String>>,
    /// The package of each module that is a barrel.
    barrels: BTreeMap<String, String>,
    tailwind: Option<Bytes>,
}

#[derive(Debug, Deserialize)]
struct File {
    format: u32,
    packages: BTreeMap<String, Package>,
    modules: BTreeMap<String, String>,
    #[serde(default)]
    imports: BTreeMap<String, Vec<String>>,
    tailwind: Option<Tailwind>,
}

#[derive(Debug, Deserialize)]
struct Package {
    module: String,
    #[serde(default)]
    exports: BTreeMap<String, Reexport>,
}

#[derive(Debug, Deserialize)]
struct Reexport {
    module: String,
    name: String,
}

#[derive(Debug, Deserialize)]
struct Tailwind {
    script: String,
}

/// Why `instant.json` cannot be used. Preparing the template again makes a new one.
#[derive(Debug, thiserror::Error)]
pub enum PackagesError {
    /// It is not JSON of the form that is expected.
    #[error("instant.json cannot be read: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It was made for another version of this program.
    #[error("instant.json has format {0}; this program reads format 1")]
    Format(u32),
    /// A package or an import names a module that is not there, or a name that is none.
    #[error("instant.json names {0}, which it does not hold")]
    Dangling(String),
}

impl File {
    /// What it names without holding it.
    fn dangling(&self) -> Option<String> {
        let reexports = || self.packages.values().flat_map(|package| &package.exports);
        let entries = self.packages.values().map(|package| &package.module);
        let imported = self.imports.iter().flat_map(|(module, imports)| std::iter::once(module).chain(imports));
        let mut modules = entries.chain(reexports().map(|(_, reexport)| &reexport.module)).chain(imported);
        let mut names = reexports().flat_map(|(name, reexport)| [name, &reexport.name]);
        let module =
            modules.find(|module| !self.modules.contains_key(*module)).map(|module| format!("the module {module}"));
        module.or_else(|| names.find(|name| !is_identifier_name(name)).map(|name| format!("the name {name}")))
    }
}

/// Addresses that stand for a package in a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Vendored {
    /// What the specifier means.
    pub address: String,
    /// What is loaded because of it, itself first.
    pub loads: Vec<String>,
}

impl Packages {
    /// Reads the bytes of an `instant.json`.
    ///
    /// # Errors
    /// See [`PackagesError`].
    pub fn read(json: &[u8]) -> Result<Self, PackagesError> {
        let file: File = serde_json::from_slice(json)?;
        if file.format != FORMAT {
            return Err(PackagesError::Format(file.format));
        }
        if let Some(dangling) = file.dangling() {
            return Err(PackagesError::Dangling(dangling));
        }
        let barrels = file.packages.iter().filter(|(_, package)| !package.exports.is_empty());
        let barrels = barrels.map(|(name, package)| (package.module.clone(), name.clone())).collect();
        Ok(Self(Arc::new(Pack {
            id: hex(&Sha256::digest(json), 12),
            barrels,
            packages: file.packages,
            modules: file.modules.into_iter().map(|(path, code)| (path, Bytes::from(code))).collect(),
            imports: file.imports,
            tailwind: file.tailwind.map(|tailwind| Bytes::from(tailwind.script)),
        })))
    }

    /// The first 12 hexadecimal digits of the SHA-256 of the file; part of every address below `/@baton/`. Empty if there are none.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The code of a module, such as `react.js`, or of Tailwind's browser build, `tailwind.js`.
    pub fn module(&self, path: &str) -> Option<Bytes> {
        match &self.0.tailwind {
            Some(script) if path == TAILWIND => Some(script.clone()),
            _ => self.0.modules.get(path).cloned(),
        }
    }

    /// A module that exports some names of a barrel such as `lucide-react.js`, and nothing else; none if one is not a name of it.
    pub fn barrel<'a>(&self, module: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
        let package = self.0.packages.get(self.0.barrels.get(module)?)?;
        let up = "../".repeat(module.matches('/').count());
        let mut code = String::new();
        for name in names {
            let Reexport { module, name: there } = package.exports.get(name)?;
            code.push_str(&format!("export {{ {there} as {name} }} from \"./{up}{module}\";\n"));
        }
        Some(code)
    }

    /// Answers one GET of the preview host: `path` is what follows `/@baton/<id>/`, `query` has no `?`, both percent-encoded as in the
    /// request. None if there is nothing at that address.
    pub fn serve(&self, path: &str, query: &str) -> Option<Served> {
        let module = percent_decode_str(path).decode_utf8().ok()?;
        let body = match query.strip_prefix("names=") {
            Some(names) => {
                let names = percent_decode_str(names).decode_utf8().ok()?;
                Bytes::from(self.barrel(&module, names.split(','))?)
            }
            None if query.is_empty() => self.module(&module)?,
            None => return None,
        };
        Some(Served { content_type: SCRIPT.to_owned(), body })
    }

    /// The module of a package, or of a part of one such as `react-dom/client`.
    pub(crate) fn entry(&self, specifier: &str) -> Option<&str> {
        self.0.packages.get(specifier).map(|package| package.module.as_str())
    }

    /// Whether a barrel exports a name; none if the package is of another kind.
    pub(crate) fn barrel_exports(&self, specifier: &str, name: &str) -> Option<bool> {
        let package = self.0.packages.get(specifier).filter(|package| !package.exports.is_empty())?;
        Some(package.exports.contains_key(name))
    }

    /// What stands for a package of which these names are used; no names stands for all of them.
    pub(crate) fn vendored(&self, specifier: &str, names: Option<&BTreeSet<String>>) -> Option<Vendored> {
        let package = self.0.packages.get(specifier)?;
        let list = names.map(|names| names.iter().map(String::as_str).collect::<Vec<_>>().join(","));
        let part = list.filter(|list| !list.is_empty() && list.len() <= NAMES && !package.exports.is_empty());
        let (address, roots): (_, Vec<&String>) = match (part, names) {
            (Some(list), Some(names)) => {
                let list = percent_encoding::utf8_percent_encode(&list, percent_encoding::CONTROLS);
                let address = format!("{}?names={list}", self.address(&package.module));
                (address, names.iter().filter_map(|name| Some(&package.exports.get(name)?.module)).collect())
            }
            _ => (self.address(&package.module), vec![&package.module]),
        };
        let mut loads = vec![address.clone()];
        let mut seen = BTreeSet::new();
        let mut next: Vec<&String> = roots;
        while let Some(module) = next.pop() {
            if seen.insert(module) {
                loads.push(self.address(module));
                next.extend(self.0.imports.get(module).into_iter().flatten());
            }
        }
        loads.dedup();
        Some(Vendored { address, loads })
    }

    /// The address of Tailwind's browser build.
    pub(crate) fn tailwind(&self) -> Option<String> {
        self.0.tailwind.as_ref().map(|_| self.address(TAILWIND))
    }

    fn address(&self, module: &str) -> String {
        format!("/@baton/{}{}", self.id(), crate::address::url_path(module))
    }
}

/// The first hexadecimal digits of a hash.
pub(crate) fn hex(bytes: &[u8], digits: usize) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .take(digits)
        .filter_map(|n| char::from_digit(n.into(), 16))
        .collect()
}

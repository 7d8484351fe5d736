//! Prepared templates: where they are, and what the runtime has to know of one.
//!
//! A template is prepared by `scripts/up` (its packages installed, no scripts run) and only read here. The folder's name ends
//! in the hash of its contents; a link without the hash names the one that new projects are made from.

#![expect(clippy::disallowed_methods, reason = "reads prepared templates")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use contract::{Limits, ProjectPath};
use runtime::Template;
use serde::Deserialize;

use crate::config;
use crate::data::DataDir;
use crate::exit::Refusal;

/// The template that projects are made from.
const NAME: &str = "react-vite";
/// What a build of it writes.
const OUTPUT: &str = "dist";
/// Its packages as modules for instant previews.
const INSTANT: &str = "instant.json";
/// What of the folder is not a project's: dependencies lie below the project as a layer of their own.
const NOT_SCAFFOLD: &[&str] = &["node_modules", "package-lock.json", INSTANT, OUTPUT];

/// A template that is ready to use.
pub struct Prepared {
    /// The folder, with `node_modules` in it.
    pub folder: PathBuf,
    /// What the runtime knows of it.
    pub template: Template,
}

/// Finds the template: in the folder that was asked for, or else in the data folder, in the user's own, or beside the program.
///
/// # Errors
/// If there is none, or it cannot be read.
pub fn find(asked: Option<&Path>, data: &DataDir, limits: &Limits) -> anyhow::Result<Prepared> {
    let places = places(asked, data);
    let Some(folder) = places.iter().map(|place| place.join(NAME)).find(|folder| folder.join("node_modules").is_dir())
    else {
        let looked: Vec<_> = places.iter().map(|place| format!("  {}", place.display())).collect();
        return Err(Refusal::failed(
            format!("the template {NAME} is not prepared; looked in\n{}", looked.join("\n")),
            "run scripts/up once (the first time needs a network), or name the folder with --templates DIR",
        ));
    };
    read(&folder, limits).with_context(|| format!("the template in {}", folder.display()))
}

fn places(asked: Option<&Path>, data: &DataDir) -> Vec<PathBuf> {
    if let Some(asked) = asked {
        return vec![asked.to_owned()];
    }
    let mut places = vec![data.templates()];
    if let Ok(usual) = DataDir::find(None, &config::environment) {
        places.push(usual.templates());
    }
    // A program that was built in a checkout is in target/release; tests prepare in target/templates.
    if let Ok(program) = std::env::current_exe() {
        places.extend(program.ancestors().nth(2).map(|target| target.join("templates")));
    }
    places.dedup();
    places
}

fn read(folder: &Path, limits: &Limits) -> anyhow::Result<Prepared> {
    let folder = folder.canonicalize()?;
    let name = folder.file_name().and_then(|name| name.to_str()).context("its name is not UTF-8")?.to_owned();
    let mut files = Vec::new();
    scaffold(&folder, "", limits, &mut files)?;
    files.sort_by(|(a, _), (b, _)| a.cmp(b));
    let lock = fs::read(folder.join("package-lock.json")).context("package-lock.json")?;
    let output_dir = ProjectPath::parse(OUTPUT)?;
    let packages = packages(&lock)?;
    let instant = fs::read(folder.join(INSTANT)).with_context(|| format!("{INSTANT}; scripts/up prepares it anew"))?;
    let instant = runtime::Packages::read(&instant).context(INSTANT)?;
    Ok(Prepared { folder, template: Template { name, files, packages, instant, output_dir } })
}

/// The files below a folder that every project begins with.
fn scaffold(
    folder: &Path,
    prefix: &str,
    limits: &Limits,
    files: &mut Vec<(ProjectPath, bytes::Bytes)>,
) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().with_context(|| format!("{} is not UTF-8", entry.path().display()))?;
        if prefix.is_empty() && NOT_SCAFFOLD.contains(&name) {
            continue;
        }
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            scaffold(&entry.path(), &format!("{path}/"), limits, files)?;
        } else if kind.is_file() {
            if files.len() as u64 >= limits.project_files {
                bail!("it has more than {} files", limits.project_files);
            }
            files.push((ProjectPath::parse(&path)?, fs::read(entry.path())?.into()));
        } else {
            bail!("{path} is neither a file nor a folder");
        }
    }
    Ok(())
}

/// What of a package-lock.json says which packages lie in `node_modules`.
#[derive(Deserialize)]
struct Lock {
    packages: BTreeMap<String, Locked>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Locked {
    version: Option<String>,
    #[serde(default)]
    dependencies: BTreeMap<String, String>,
    #[serde(default)]
    dev_dependencies: BTreeMap<String, String>,
}

/// Names and versions of the packages that the template asks for. What those bring along is theirs, though it lies beside them.
fn packages(lock: &[u8]) -> anyhow::Result<BTreeMap<String, String>> {
    let lock: Lock = serde_json::from_slice(lock).context("package-lock.json")?;
    let root = lock.packages.get("").context("package-lock.json names no packages")?;
    let asked = root.dependencies.keys().chain(root.dev_dependencies.keys());
    let version = |name: &String| lock.packages.get(&format!("node_modules/{name}"))?.version.clone();
    Ok(asked.filter_map(|name| Some((name.clone(), version(name)?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prepared_template_is_its_scaffold_and_its_packages() {
        let root = tempfile::tempdir().unwrap();
        let data = DataDir::find(Some(root.path()), &|_| None).unwrap();
        let folder = data.templates().join("react-vite-0123abcd");
        for (path, text) in [
            ("package.json", "{}"),
            ("src/App.tsx", "app"),
            ("node_modules/react/index.js", "no"),
            ("dist/index.html", "no"),
            ("instant.json", r#"{"format": 1, "packages": {}, "modules": {}, "imports": {}}"#),
            (
                "package-lock.json",
                r#"{"packages": {"": {"name": "app", "dependencies": {"react": "^19"}, "devDependencies": {"@a/b": "1"}},
                    "node_modules/react": {"version": "19.3.1", "license": "MIT"}, "node_modules/@a/b": {"version": "1.0.0"},
                    "node_modules/@a/b/node_modules/c": {"version": "2.0.0"}, "node_modules/other": {"version": "1.0.0"}}}"#,
            ),
        ] {
            fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
            fs::write(folder.join(path), text).unwrap();
        }
        assert!(find(Some(&data.templates()), &data, &Limits::default()).is_err(), "no link says which one counts");
        std::os::unix::fs::symlink("react-vite-0123abcd", data.templates().join(NAME)).unwrap();
        let prepared = find(Some(&data.templates()), &data, &Limits::default()).unwrap();
        assert_eq!(prepared.template.name, "react-vite-0123abcd");
        let files: Vec<_> = prepared.template.files.iter().map(|(path, _)| path.to_string()).collect();
        assert_eq!(files, ["package.json", "src/App.tsx"]);
        let packages: Vec<_> = prepared.template.packages.into_iter().collect();
        let expected =
            [("@a/b", "1.0.0"), ("react", "19.3.1")].map(|(name, version)| (name.to_owned(), version.to_owned()));
        assert_eq!(packages, expected);
    }
}

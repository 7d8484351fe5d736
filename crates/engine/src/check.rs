//! The check step: what can be seen wrong with a project without running it, and only what is surely wrong.

use contract::ProjectPath;

/// Something that is surely wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub path: String,
    /// Stable code: `missing_file`, `bad_json`, `missing_script`, `missing_entry`.
    pub code: &'static str,
    /// What to do about it.
    pub message: String,
}

/// Looks over a project. `read` gives the text of a file, or none if there is no such file or it is not text.
pub fn project<'a>(
    paths: impl Iterator<Item = &'a ProjectPath>,
    read: &dyn Fn(&str) -> Option<String>,
) -> Vec<Finding> {
    let finding = |path: &str, code, message: String| Finding { path: path.to_owned(), code, message };
    let mut findings = vec![];
    for path in paths.map(ProjectPath::as_str).filter(|p| p.ends_with(".json") && !is_commented_json(p)) {
        if let Some(Err(error)) = read(path).map(|text| serde_json::from_str::<serde_json::Value>(&text)) {
            findings.push(finding(path, "bad_json", format!("{path} is not JSON: {error}")));
        }
    }
    match read("package.json").map(|text| serde_json::from_str::<serde_json::Value>(&text)) {
        None => findings.push(finding("package.json", "missing_file", "package.json is missing".into())),
        Some(Err(_said_above)) => {}
        Some(Ok(package)) => {
            if !package.pointer("/scripts/build").is_some_and(serde_json::Value::is_string) {
                findings.push(finding(
                    "package.json",
                    "missing_script",
                    "package.json has no script named build".into(),
                ));
            }
        }
    }
    match read("index.html") {
        None => findings.push(finding("index.html", "missing_file", "index.html is missing".into())),
        Some(html) => {
            for entry in local_scripts(&html).filter(|entry| read(entry).is_none()) {
                let message = format!("index.html loads /{entry}, which does not exist");
                findings.push(finding("index.html", "missing_entry", message));
            }
        }
    }
    findings
}

/// TypeScript's and editors' configuration files may hold comments and trailing commas.
fn is_commented_json(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("tsconfig") || name.starts_with("jsconfig") || path.starts_with(".vscode/")
}

/// Paths of `<script src="/…">` in a page, without the slash.
fn local_scripts(html: &str) -> impl Iterator<Item = &str> {
    html.split("<script").skip(1).filter_map(|tag| {
        let tag = tag.split('>').next()?;
        let value = tag.split("src=").nth(1)?;
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let path = value.get(1..)?.split(quote).next()?;
        let path = path.strip_prefix("./").or_else(|| path.strip_prefix('/').filter(|p| !p.starts_with('/')))?;
        path.split(['?', '#']).next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_surely_wrong_is_found() {
        let good_html =
            r#"<script type="module" src="/src/main.tsx"></script><script src="https://x.test/a.js"></script>"#;
        let good = [
            ("package.json", r#"{"scripts":{"build":"vite build"}}"#),
            ("index.html", good_html),
            ("src/main.tsx", ""),
        ];
        type Case = (&'static [(&'static str, &'static str)], &'static [&'static str]);
        let cases: [Case; 6] = [
            (&[], &[]),
            (&[("tsconfig.json", "{ // comment\n }")], &[]),
            (&[("data.json", "{,}")], &["bad_json"]),
            (&[("package.json", "{}")], &["missing_script"]),
            (&[("package.json", "{")], &["bad_json"]),
            (&[("index.html", "<script src='./app.js'></script>")], &["missing_entry"]),
        ];
        for (changes, want) in cases {
            let mut files: std::collections::BTreeMap<&str, &str> = good.into_iter().collect();
            files.extend(changes.iter().copied());
            let paths: Vec<ProjectPath> = files.keys().map(|p| ProjectPath::parse(p).unwrap()).collect();
            let found = project(paths.iter(), &|p| files.get(p).map(|t| (*t).to_owned()));
            assert_eq!(found.iter().map(|f| f.code).collect::<Vec<_>>(), want, "{changes:?}");
        }
    }
}

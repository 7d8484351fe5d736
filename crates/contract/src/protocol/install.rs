//! The body of `<install>`: which packages to add. Names are checked for form here, because they become arguments of a package
//! manager; whether a package exists and may be installed is judged elsewhere.
//!
//! ```text
//! framework: vite-react
//! packages: zustand, @tanstack/react-query@^5.90.0
//!   - "lucide-react"
//! ```
//! Both keys may be left out. Packages stand one to a line or apart by commas, with or without a list's `-` or `*`, quotes or brackets.
//! A blank inside an item is an error, so that `npm install x` does not add three packages. One bad name refuses the whole.

use std::borrow::Cow;

/// What an install asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Install {
    pub(super) packages: Vec<String>,
    pub(super) framework: Option<String>,
}

/// Longest name that npm takes, scope and all.
const MAX_NAME_BYTES: usize = 214;
/// Longest version or range after `@`.
const MAX_VERSION_BYTES: usize = 64;
/// How much of a bad item is repeated to the model, in characters.
const SHOWN_CHARS: usize = 80;

/// Reads the body.
///
/// # Errors
/// What is wrong with it, for the model.
pub(super) fn parse(body: &str) -> Result<Install, Cow<'static, str>> {
    let mut install = Install { packages: Vec::new(), framework: None };
    for line in body.lines().map(str::trim).filter(|line| !line.starts_with("```")) {
        let line = line.strip_prefix(['-', '*']).filter(|rest| rest.starts_with([' ', '\t'])).unwrap_or(line);
        let items = match line.split_once(':') {
            Some((key, value)) if key.trim().eq_ignore_ascii_case("framework") => {
                install.framework = Some(unwrap(value)).filter(|name| !name.is_empty()).map(str::to_owned);
                continue;
            }
            Some((key, value)) if key.trim().eq_ignore_ascii_case("packages") => value,
            _ => line,
        };
        for item in items.split(',').map(unwrap).filter(|item| !item.is_empty()) {
            if !is_package(item) {
                let shown: String = item.chars().take(SHOWN_CHARS).collect();
                return Err(format!("`{shown}` is not a package name; write name, @scope/name or name@version").into());
            }
            install.packages.push(item.to_owned());
        }
    }
    if install.packages.is_empty() && install.framework.is_none() {
        return Err("no package is named; write `packages: name, @scope/name@version`".into());
    }
    Ok(install)
}

fn unwrap(item: &str) -> &str {
    item.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '[' | ']'))
}

fn is_package(spec: &str) -> bool {
    let scoped = spec.strip_prefix('@').map(|rest| rest.split_once('/'));
    let (scope, rest) = match scoped {
        Some(Some((scope, rest))) => (Some(scope), rest),
        Some(None) => return false,
        None => (None, spec),
    };
    let (name, version) = rest.split_once('@').map_or((rest, None), |(name, version)| (name, Some(version)));
    let length = spec.len() - version.map_or(0, |version| version.len() + 1);
    length <= MAX_NAME_BYTES && scope.is_none_or(is_name) && is_name(name) && version.is_none_or(is_version)
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~'))
}

fn is_version(version: &str) -> bool {
    (1..=MAX_VERSION_BYTES).contains(&version.len())
        && !version.starts_with('-')
        && version.bytes().all(|b| {
            b.is_ascii_alphanumeric()
                || matches!(b, b'.' | b'-' | b'+' | b'^' | b'~' | b'*' | b'<' | b'>' | b'=' | b'|')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packages and framework, or nothing where the body is refused.
    type Expected<'a> = Option<(&'a [&'a str], Option<&'a str>)>;

    #[test]
    fn packages_come_as_commas_or_lists_and_only_names_of_packages_pass() {
        let table: &[(&str, Expected<'_>)] = &[
            (
                "framework: vite-react\npackages: zustand, @tanstack/react-query@^5.90.0",
                Some((&["zustand", "@tanstack/react-query@^5.90.0"], Some("vite-react"))),
            ),
            (
                "\r\n  Packages:\r\n  - react@19\r\n  * \"date-fns\"\r\n  - '@dnd-kit/core'\r\n",
                Some((&["react@19", "date-fns", "@dnd-kit/core"], None)),
            ),
            ("zustand", Some((&["zustand"], None))),
            ("a,b,\nc", Some((&["a", "b", "c"], None))),
            ("packages: [\"a\", \"b@>=1.2.0\"]", Some((&["a", "b@>=1.2.0"], None))),
            (
                "```\npackages: JSONStream@latest, is.odd, socket.io\n```",
                Some((&["JSONStream@latest", "is.odd", "socket.io"], None)),
            ),
            ("framework: nextjs\npackages:", Some((&[], Some("nextjs")))),
            ("", None),
            ("packages:\nframework:", None),
            ("npm install zustand", None),
            ("packages: a --save-dev", None),
            ("-g", None),
            ("--registry=http://x", None),
            ("packages: ../x", None),
            ("packages: /x", None),
            ("https://x/y.tgz", None),
            ("git+ssh://x", None),
            ("a@npm:b", None),
            ("a@file:../b", None),
            ("@scope", None),
            ("@/x", None),
            ("@a/b/c", None),
            ("a@", None),
            ("a@-g", None),
            (".hidden", None),
            ("_x", None),
            ("a;b", None),
            ("a$(x)", None),
            ("grüße", None),
            ("dev: a", None),
        ];
        for (body, expected) in table {
            let got = parse(body).ok();
            let expected = expected.map(|(packages, framework)| Install {
                packages: packages.iter().map(|p| (*p).to_owned()).collect(),
                framework: framework.map(str::to_owned),
            });
            assert_eq!(got, expected, "{body:?}");
        }
        assert!(parse(&"a".repeat(MAX_NAME_BYTES)).is_ok() && parse(&"a".repeat(MAX_NAME_BYTES + 1)).is_err());
    }
}

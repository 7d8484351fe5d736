//! How a project is built, as far as it decides what its files mean: Vite's configuration, TypeScript's, and the build script.

use std::collections::BTreeMap;

use oxc::allocator::Allocator;
use oxc::ast::ast::{Expression, ObjectExpression, ObjectPropertyKind};
use oxc::parser::Parser;
use oxc::span::SourceType;

use crate::script::with_room;
use crate::tree::Tree;

/// Files that Vite takes its configuration from.
const VITE: [&str; 6] =
    ["vite.config.js", "vite.config.mjs", "vite.config.ts", "vite.config.cjs", "vite.config.mts", "vite.config.cts"];
/// Files that PostCSS takes its configuration from.
const POSTCSS: [&str; 9] = [
    "postcss.config.js",
    "postcss.config.mjs",
    "postcss.config.cjs",
    "postcss.config.ts",
    "postcss.config.json",
    ".postcssrc",
    ".postcssrc.json",
    ".postcssrc.js",
    ".postcssrc.yml",
];
/// Largest configuration that is read, in bytes.
const CONFIGURATION: usize = 64 << 10;
/// Files whose variables a build puts into `import.meta.env`.
pub(crate) const ENVIRONMENT: [&str; 4] = [".env", ".env.local", ".env.production", ".env.production.local"];

/// What is known about the builds of the projects: which configuration of Vite means what this crate does.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Vite's configuration files of the template, each with its SHA-256.
    vite: BTreeMap<String, String>,
}

impl Settings {
    /// The settings of projects that are made from a template: a project whose `vite.config.*` is not the template's is the
    /// build's to judge.
    pub fn of(template: &dyn Tree) -> Self {
        let file = |path: &&str| Some(((*path).to_owned(), template.file(path)?.sha256.to_owned()));
        Self { vite: VITE.iter().filter_map(file).collect() }
    }

    /// The configuration of Vite or PostCSS that makes the project's build another one than the template's.
    pub(crate) fn foreign(&self, tree: &dyn Tree) -> Option<&'static str> {
        let changed =
            |path: &&'static str| tree.file(path).map(|leaf| leaf.sha256) != self.vite.get(*path).map(String::as_str);
        VITE.into_iter().find(changed).or_else(|| POSTCSS.into_iter().find(|path| tree.file(path).is_some()))
    }
}

/// How `npm run build` treats what is imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builds {
    /// Everything that is imported is bundled, and the files are those of the project.
    Plainly,
    /// Something runs before `vite build` that may make or change files.
    Otherwise,
    /// Modules that `package.json` says have no side effects may be left out, whatever is wrong with them.
    Selectively,
}

pub(crate) fn builds(tree: &dyn Tree) -> Builds {
    let Some(package) = tree.file("package.json") else { return Builds::Otherwise };
    let Ok(package) = serde_json::from_slice::<serde_json::Value>(package.content) else { return Builds::Otherwise };
    let plain = |part: &str| {
        let mut words = part.split_whitespace();
        match words.next() {
            Some("vite") => words.eq(["build"]),
            Some("tsc") => true,
            _ => false,
        }
    };
    let script = package.pointer("/scripts/build").and_then(serde_json::Value::as_str);
    match script {
        _ if package.get("sideEffects").is_some() => Builds::Selectively,
        Some(build) if build.split("&&").all(plain) && package.pointer("/scripts/prebuild").is_none() => {
            Builds::Plainly
        }
        _ => Builds::Otherwise,
    }
}

/// Whether a `tsconfig.json` surely says `verbatimModuleSyntax` for the files in `src`: then imports stay although they are only used
/// as types, and fail. It may have comments and trailing commas, so it is read as the JavaScript that it is.
pub(crate) fn is_verbatim(tsconfig: &str) -> bool {
    let fits = tsconfig.len() <= CONFIGURATION;
    fits && with_room(tsconfig, || says_verbatim(tsconfig)).unwrap_or(false)
}

fn says_verbatim(tsconfig: &str) -> bool {
    let allocator = Allocator::default();
    let text = format!("({tsconfig}\n)");
    let Ok(Expression::ParenthesizedExpression(wrapped)) =
        Parser::new(&allocator, &text, SourceType::mjs()).parse_expression()
    else {
        return false;
    };
    let Expression::ObjectExpression(config) = &wrapped.expression else { return false };
    let option = member(config, "compilerOptions").and_then(|options| match options {
        Expression::ObjectExpression(options) => member(options, "verbatimModuleSyntax"),
        _ => None,
    });
    let covers_sources = match member(config, "include") {
        None => member(config, "files").is_none(),
        Some(Expression::ArrayExpression(list)) => list.elements.iter().any(|item| {
            matches!(item.as_expression(), Some(Expression::StringLiteral(glob)) if matches!(glob.value.as_str(), "src" | "./src" | "src/**/*"))
        }),
        Some(_) => false,
    };
    covers_sources && matches!(option, Some(Expression::BooleanLiteral(yes)) if yes.value)
}

fn member<'e, 'a>(object: &'e ObjectExpression<'a>, name: &str) -> Option<&'e Expression<'a>> {
    object.properties.iter().find_map(|property| match property {
        ObjectPropertyKind::ObjectProperty(property) if property.key.is_specific_static_name(name) => {
            Some(&property.value)
        }
        ObjectPropertyKind::ObjectProperty(_) | ObjectPropertyKind::SpreadProperty(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_stay_only_where_the_configuration_surely_says_so() {
        for (text, expected) in [
            (r#"{"compilerOptions":{"verbatimModuleSyntax":true},"include":["src"]}"#, true),
            ("{ // comment\n \"compilerOptions\": { \"verbatimModuleSyntax\": true, },\n}", true),
            (r#"{"compilerOptions":{"verbatimModuleSyntax":true},"include":["lib"]}"#, false),
            (r#"{"compilerOptions":{"verbatimModuleSyntax":true},"files":[],"references":[]}"#, false),
            (r#"{"compilerOptions":{"verbatimModuleSyntax":false}}"#, false),
            (r#"{"compilerOptions":[]}"#, false),
            ("{", false),
            ("", false),
            ("})({", false),
        ] {
            assert_eq!(is_verbatim(text), expected, "{text}");
        }
        for nested in ["[", "(", "{\"a\":", "!"] {
            for times in [1_000, 5_000, 60_000, 1_000_000] {
                assert!(!is_verbatim(&nested.repeat(times)), "{nested}");
            }
        }
    }
}

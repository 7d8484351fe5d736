//! What a transformed module imports and exports: types are gone by now, so that what is left is what a browser links.

use std::collections::{BTreeMap, BTreeSet};

use oxc::allocator::Allocator;
use oxc::ast::ast::{
    Declaration, ImportDeclaration, ImportDeclarationSpecifier, Program, Statement, StringLiteral, WithClause,
};
use oxc::parser::Parser;
use oxc::span::{GetSpan as _, SourceType};
use oxc::str::Str;

use super::{Export, Fault, How, Mention, Request, Script};

/// The names of a vendored module, and the modules whose names are its own too.
#[derive(Debug)]
pub(crate) struct Names {
    pub names: BTreeSet<String>,
    pub stars: Vec<String>,
}

/// Records what a program asks for and offers. Also mends what browsers would read in another way than a build: `import "."` means
/// the folder's index, and `with { type: "json" }` would refuse the module that JSON is served as.
pub(super) fn link<'a>(program: &mut Program<'a>, allocator: &'a Allocator, script: &mut Script) {
    let mut links = Links { allocator, script, imported: BTreeMap::new(), locals: vec![] };
    let early = links.script.requests.len();
    for statement in &mut program.body {
        links.statement(statement);
    }
    links.exports();
    // Requests that were observed before the transform are dynamic; static ones come first, as a browser fetches them.
    let requests = &mut links.script.requests;
    requests.rotate_left(early);
    let moved = |index: &mut usize| *index -= early;
    links.script.stars.iter_mut().for_each(moved);
    for export in links.script.exports.values_mut() {
        if let Export::From { request, .. } = export {
            *request -= early;
        }
    }
}

struct Links<'a, 's> {
    allocator: &'a Allocator,
    script: &'s mut Script,
    /// Local names of imports, with the request and the name there; none for a whole module.
    imported: BTreeMap<String, (usize, Option<String>)>,
    /// `export { local as exported }`.
    locals: Vec<(String, String)>,
}

impl<'a> Links<'a, '_> {
    fn statement(&mut self, statement: &mut Statement<'a>) {
        match statement {
            Statement::ImportDeclaration(import) => self.import(import),
            Statement::ExportFromDeclaration(export) => {
                let export = &mut **export;
                let request = self.request(&mut export.source, &mut export.with_clause);
                for specifier in &export.specifiers {
                    let (name, exported) = (specifier.local.name(), specifier.exported.name());
                    self.ask(request, name.as_str(), specifier.local.span().start);
                    self.export(exported.as_str(), Export::From { request, name: name.to_string() });
                }
            }
            Statement::ExportAllDeclaration(export) => {
                let export = &mut **export;
                let request = self.request(&mut export.source, &mut export.with_clause);
                if let Some(request) = self.script.requests.get_mut(request) {
                    request.whole = true;
                }
                match &export.exported {
                    Some(name) => self.export(name.name().as_str(), Export::Own),
                    None => self.script.stars.push(request),
                }
            }
            Statement::ExportNamedDeclaration(export) => {
                let pairs = export.specifiers.iter();
                self.locals.extend(pairs.map(|s| (s.local.name().to_string(), s.exported.name().to_string())));
            }
            Statement::ExportDeclaration(export) => {
                for name in declared(&export.declaration) {
                    self.export(&name, Export::Own);
                }
            }
            Statement::ExportDefaultDeclaration(_) => self.export("default", Export::Own),
            _ => {}
        }
    }

    fn import(&mut self, import: &mut ImportDeclaration<'a>) {
        if import.phase.is_some() {
            self.script.faults.push(Fault::unsupported("an import with a phase needs a build", import.span.start));
        }
        let request = self.request(&mut import.source, &mut import.with_clause);
        for specifier in import.specifiers.iter().flatten() {
            let local = specifier.local().name.to_string();
            let name = match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(named) => named.imported.name().to_string(),
                ImportDeclarationSpecifier::ImportDefaultSpecifier(_) => "default".to_owned(),
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(_) => {
                    self.script.requests[request].whole = true;
                    self.imported.insert(local, (request, None));
                    continue;
                }
            };
            self.ask(request, &name, specifier.span().start);
            self.imported.insert(local, (request, Some(name)));
        }
    }

    fn request(
        &mut self,
        source: &mut StringLiteral<'a>,
        with: &mut Option<oxc::allocator::Box<'a, WithClause<'a>>>,
    ) -> usize {
        let at = source.span.start;
        if let Some(clause) = with.take()
            && clause.with_entries.iter().any(|entry| entry.value.value.as_str() != "json")
        {
            self.script.faults.push(Fault::unsupported("import attributes need a build", clause.span.start));
        }
        let specifier = source.value.as_str();
        if let Some(index) = folder_index(specifier) {
            source.value = Str::from_str_in(&index, &self.allocator);
            source.raw = None;
        }
        let specifier = source.value.to_string();
        self.script.requests.push(Request { specifier, at, how: How::Import, names: vec![], whole: false });
        self.script.requests.len() - 1
    }

    fn ask(&mut self, request: usize, name: &str, at: u32) {
        if let Some(request) = self.script.requests.get_mut(request) {
            request.names.push(Mention { name: name.to_owned(), at });
        }
    }

    fn export(&mut self, name: &str, export: Export) {
        self.script.exports.insert(name.to_owned(), export);
    }

    /// `import { a } from "./x"; export { a }` passes a name on; any other local name is the module's own.
    fn exports(&mut self) {
        for (local, exported) in std::mem::take(&mut self.locals) {
            let export = match self.imported.get(&local) {
                Some((request, Some(name))) => Export::From { request: *request, name: name.clone() },
                Some((_, None)) | None => Export::Own,
            };
            self.export(&exported, export);
        }
    }
}

/// The specifier of the index of a folder that is named as such; none if it names something else. An import map cannot say it: a key
/// that ends with a slash is a prefix there.
fn folder_index(specifier: &str) -> Option<String> {
    let relative = specifier.starts_with('.') || specifier.starts_with('/');
    match specifier {
        _ if !relative || specifier.contains(['?', '#']) => None,
        _ if specifier.ends_with('/') => Some(format!("{specifier}index")),
        _ if specifier == "." || specifier == ".." || specifier.ends_with("/.") || specifier.ends_with("/..") => {
            Some(format!("{specifier}/index"))
        }
        _ => None,
    }
}

fn declared(declaration: &Declaration<'_>) -> Vec<String> {
    match declaration {
        Declaration::VariableDeclaration(variables) => {
            let patterns = variables.declarations.iter().map(|declarator| &declarator.id);
            patterns.flat_map(|id| id.get_binding_identifiers()).map(|name| name.name.to_string()).collect()
        }
        Declaration::FunctionDeclaration(function) => function.id.iter().map(|id| id.name.to_string()).collect(),
        Declaration::ClassDeclaration(class) => class.id.iter().map(|id| id.name.to_string()).collect(),
        _ => vec![],
    }
}

/// What a module for browsers exports, from parsing it alone.
pub(super) fn names(text: &str) -> Option<Names> {
    let allocator = Allocator::default();
    let mut parsed = Parser::new(&allocator, text, SourceType::mjs()).parse();
    if parsed.panicked || parsed.diagnostics.has_errors() {
        return None;
    }
    let mut script = Script::default();
    link(&mut parsed.program, &allocator, &mut script);
    let stars = script.stars.iter().filter_map(|request| script.requests.get(*request));
    let stars = stars.map(|request| request.specifier.clone()).collect();
    Some(Names { names: script.exports.into_keys().collect(), stars })
}

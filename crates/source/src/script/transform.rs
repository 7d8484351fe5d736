//! From a file's text to a module for browsers: parse, resolve names, strip types, turn JSX into calls, fill in the build's constants.
//! The same steps in the same order as `vite build` takes, by the same library.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use bytes::Bytes;
use oxc::allocator::Allocator;
use oxc::ast::ast::Program;
use oxc::codegen::{Codegen, CodegenOptions, CodegenReturn, CommentOptions};
use oxc::diagnostics::OxcDiagnostic;
use oxc::parser::Parser;
use oxc::semantic::{Scoping, SemanticBuilder};
use oxc::span::SourceType;
use oxc::transformer::{TransformOptions, Transformer};
use oxc::transformer_plugins::{ReplaceGlobalDefines, ReplaceGlobalDefinesConfig};

use super::{Dialect, FAULTS, Fault, Script, links, observe, origin, with_room};
use crate::problem::Code;

/// Longest message of a parser that is passed on, in characters.
const MESSAGE: usize = 300;

/// What a build puts for these expressions (Vite's `define`, for `vite build` without `.env` files).
const DEFINES: &[(&str, &str)] = &[
    ("import.meta.env.MODE", r#""production""#),
    ("import.meta.env.PROD", "true"),
    ("import.meta.env.DEV", "false"),
    ("import.meta.env.SSR", "false"),
    ("import.meta.env.BASE_URL", r#""/""#),
    ("import.meta.env", r#"({"MODE": "production", "PROD": true, "DEV": false, "SSR": false, "BASE_URL": "/"})"#),
    ("process.env.NODE_ENV", r#""production""#),
    ("global.process.env.NODE_ENV", r#""production""#),
    ("globalThis.process.env.NODE_ENV", r#""production""#),
    ("process.env", "({})"),
    ("global.process.env", "({})"),
    ("globalThis.process.env", "({})"),
];

static CONSTANTS: LazyLock<Option<ReplaceGlobalDefinesConfig>> =
    LazyLock::new(|| ReplaceGlobalDefinesConfig::new(DEFINES).ok());

/// Reads a module. Given a line and a column of its code, both from 0 and the column in UTF-16, also says which byte of the text that is.
pub(super) fn transform(
    text: &str,
    dialect: Dialect,
    verbatim: bool,
    position: Option<(u32, u32)>,
) -> (Script, Option<u32>) {
    let mut script = Script::default();
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, text, source_type(dialect)).parse();
    if parsed.panicked || parsed.diagnostics.has_errors() {
        script.opaque = true;
        script.faults = parsed.diagnostics.errors().take(FAULTS).map(|error| fault(error, Some(text))).collect();
        if script.faults.is_empty() {
            script.faults.push(Fault::unsupported("the file cannot be read without a build", 0));
        }
        return (script, None);
    }
    let common = !parsed.module_record.has_module_syntax;
    let mut program = parsed.program;
    let resolved = SemanticBuilder::new_compiler()
        .with_excess_capacity(2.0)
        .with_enum_eval(true)
        .with_check_syntax_error(true)
        .build(&program);
    let early: Vec<Fault> = resolved.diagnostics.errors().take(FAULTS).map(|error| fault(error, Some(text))).collect();
    let scoping = resolved.semantic.into_scoping();
    observe::observe(&program, &scoping, &mut script);
    if common && ["module", "exports", "require"].iter().any(|name| is_unresolved(&scoping, name)) {
        script.opaque = true;
        if script.faults.is_empty() {
            let message = "CommonJS needs a build; import and export are what a browser understands";
            script.faults.push(Fault::unsupported(message, 0));
        }
    }
    let transformed = Transformer::new(&allocator, Path::new("module.tsx"), &options(verbatim))
        .build_with_scoping(scoping, &mut program);
    if let Some(error) = transformed.diagnostics.first() {
        // A build may go on where this cannot, as with `export =`.
        script.opaque = true;
        script.faults.push(Fault { code: Code::Unsupported, certain: false, ..fault(error, Some(text)) });
    }
    fill_in(&mut program, &allocator, text);
    links::link(&mut program, &allocator, &mut script);
    let printed = print(&program, position.is_some());
    // Code may be nested more deeply than its text, so it gets room of its own.
    let late = with_room(&printed.code, || late(&printed.code, &program, early));
    script.faults.extend(late.unwrap_or_else(|fault| vec![fault]));
    let at = position.and_then(|(line, column)| {
        let map = printed.map.as_ref()?;
        let token = map.lookup_token_approx(&map.generate_lookup_table(), line, column)?;
        Some(origin::byte(text, token.get_src_line(), token.get_src_col()))
    });
    script.code = Bytes::from(printed.code);
    (script, at)
}

fn source_type(dialect: Dialect) -> SourceType {
    match dialect {
        Dialect::Js => SourceType::mjs(),
        Dialect::Jsx => SourceType::jsx(),
        Dialect::Ts => SourceType::ts(),
        Dialect::Tsx => SourceType::tsx(),
    }
}

fn options(verbatim: bool) -> TransformOptions {
    let mut options = TransformOptions::default();
    options.typescript.only_remove_type_imports = verbatim;
    options.typescript.optimize_const_enums = true;
    options.typescript.optimize_enums = true;
    options
}

fn is_unresolved(scoping: &Scoping, name: &str) -> bool {
    scoping.root_unresolved_references().keys().any(|unresolved| unresolved.as_str() == name)
}

/// Puts the build's constants into a program. Most programs have none, and then nothing is resolved again.
fn fill_in<'a>(program: &mut Program<'a>, allocator: &'a Allocator, text: &str) {
    let has = |word: &str| memchr::memmem::find(text.as_bytes(), word.as_bytes()).is_some();
    if !has("import.meta") && !has("process") {
        return;
    }
    if let Some(constants) = CONSTANTS.clone() {
        let scoping = SemanticBuilder::new().with_enum_eval(true).build(program).semantic.into_scoping();
        let _filled = ReplaceGlobalDefines::new(allocator, constants).build(scoping, program);
    }
}

fn print<'a>(program: &Program<'a>, mapped: bool) -> CodegenReturn<'a> {
    let comments = CommentOptions::disabled();
    let source_map_path = mapped.then(|| PathBuf::from("module"));
    Codegen::new()
        .with_options(CodegenOptions { comments, source_map_path, indent_width: 0, ..CodegenOptions::default() })
        .build(program)
}

/// What is wrong with a program by the rules that need names, such as two declarations of one. A bundler applies them to what is left
/// once types are gone, so they are applied to the code; where the text breaks one too, its place is the better one.
fn late(code: &str, program: &Program<'_>, early: Vec<Fault>) -> Vec<Fault> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, code, SourceType::mjs()).parse();
    let resolved = SemanticBuilder::new_compiler().with_check_syntax_error(true).build(&parsed.program);
    let errors: Vec<_> = parsed.diagnostics.errors().chain(resolved.diagnostics.errors()).take(FAULTS).collect();
    if errors.is_empty() {
        return vec![];
    }
    let source = program.source_text;
    let printed = print(program, true);
    let table = printed.map.as_ref().map(|map| map.generate_lookup_table());
    let mut early = early;
    let faults = errors.into_iter().map(|error| {
        let same = early.iter().position(|fault| fault.message.starts_with(error.message.as_ref()));
        if let Some(same) = same {
            return early.swap_remove(same);
        }
        let mut fault = fault(error, None);
        let (line, column) = origin::position(code, fault.at);
        let token = printed.map.as_ref().zip(table.as_ref());
        let token = token.and_then(|(map, table)| map.lookup_token_approx(table, line, column));
        fault.at = token.map_or(0, |token| origin::byte(source, token.get_src_line(), token.get_src_col()));
        fault
    });
    faults.collect()
}

/// A parser's words. The place is the one that it holds to be the main one, else the first; given the text, another line that it names
/// is said too.
fn fault(error: &OxcDiagnostic, text: Option<&str>) -> Fault {
    let labels = &error.labels;
    let main = labels.iter().find(|label| label.primary()).or(labels.first());
    let at = main.map_or(0, |label| label.offset());
    let mut message = error.message.to_string();
    let line = |offset| text.map(|text| origin::position(text, offset).0 + 1);
    let other = labels.iter().filter_map(|label| line(label.offset())).find(|other| Some(*other) != line(at));
    if let Some(other) = other {
        message.push_str(&format!(" (see also line {other})"));
    }
    if let Some(help) = &error.help {
        message.push_str(". ");
        message.push_str(help);
    }
    if let Some((end, _)) = message.char_indices().nth(MESSAGE) {
        message.truncate(end);
    }
    Fault { code: Code::SyntaxError, message, at, certain: true }
}

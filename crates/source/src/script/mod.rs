//! One module of JavaScript or TypeScript, alone: what it is in a browser, what it asks for, what it offers and what is wrong with it.
//!
//! Nothing here looks at another file, so that what was read is remembered by content. Positions are byte offsets; whoever reports
//! one has the text.

mod extent;
mod links;
mod observe;
mod origin;
mod transform;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;

pub(crate) use self::links::Names;
pub(crate) use self::origin::origin;
use crate::problem::Code;

/// Most faults that are kept of one file: whoever mends the first ones reads it again.
pub(crate) const FAULTS: usize = 20;
/// Most modules and assets that one module may ask for.
const REQUESTS: usize = 2_000;
/// Most texts that are looked up as files of `public/`.
pub(crate) const MENTIONS: usize = 500;

/// Which language a file is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Dialect {
    Js,
    Jsx,
    Ts,
    Tsx,
}

/// What was read of one module.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// The module for browsers; empty if it has faults.
    pub code: Bytes,
    pub requests: Vec<Request>,
    /// The names that it exports itself.
    pub exports: BTreeMap<String, Export>,
    /// Requests all of whose names it exports too, apart from `default`.
    pub stars: Vec<usize>,
    /// Whether `exports` says nothing, since the module is CommonJS or could not be read.
    pub opaque: bool,
    pub faults: Vec<Fault>,
    /// Components that nothing in the module declares.
    pub undeclared: Vec<Mention>,
    /// Absolute paths in strings, which may be files of `public/`.
    pub mentions: Vec<String>,
    /// Whether it asks for what `.env` files put into `import.meta.env`.
    pub environment: bool,
}

/// Another file that a module asks for.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub specifier: String,
    pub at: u32,
    pub how: How,
    /// The names that are imported from it.
    pub names: Vec<Mention>,
    /// Whether any name may be used, as with `import * as all`.
    pub whole: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Import,
    /// `import("./x")`, which a build drops if nothing reaches it.
    Dynamic,
    /// `new URL("./x.png", import.meta.url)`.
    Address,
}

/// What stands behind an exported name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Export {
    /// A binding of the module.
    Own,
    /// A name of the module that a request leads to.
    From { request: usize, name: String },
}

/// A name and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Mention {
    pub name: String,
    pub at: u32,
}

/// Something that is wrong with one file, or that only a build can do.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub code: Code,
    pub message: String,
    pub at: u32,
    /// Whether a build fails because of it.
    pub certain: bool,
}

impl Fault {
    pub(crate) fn unsupported(message: impl Into<String>, at: u32) -> Self {
        Self { code: Code::Unsupported, message: message.into(), at, certain: false }
    }
}

impl Script {
    /// Reads a module. `verbatim` is TypeScript's `verbatimModuleSyntax`: imports that are only used as types stay.
    pub(crate) fn read(text: &str, dialect: Dialect, verbatim: bool) -> Self {
        let read = with_room(text, || transform::transform(text, dialect, verbatim, None).0);
        let mut script = read.unwrap_or_else(|fault| Self { faults: vec![fault], opaque: true, ..Self::default() });
        if script.requests.len() > REQUESTS {
            script.faults.push(Fault::unsupported(format!("more than {REQUESTS} imports in one file"), 0));
            script.requests.truncate(REQUESTS);
            script.exports.clear();
            script.stars.clear();
            script.opaque = true;
        }
        script.faults.truncate(FAULTS);
        if !script.faults.is_empty() {
            script.code = Bytes::new();
        }
        script
    }

    /// The names that a vendored module exports, which needs no transforming. None if it cannot be read.
    pub(crate) fn names(text: &str) -> Option<Names> {
        with_room(text, || links::names(text)).ok().flatten()
    }

    /// About how much memory it takes, in bytes.
    pub(crate) fn cost(&self) -> usize {
        let names = |mentions: &[Mention]| mentions.iter().map(|mention| mention.name.len() + 32).sum::<usize>();
        let requests: usize = self.requests.iter().map(|r| r.specifier.len() + 80 + names(&r.names)).sum();
        let exports: usize = self.exports.keys().map(|name| name.len() + 96).sum();
        let mentions: usize = self.mentions.iter().map(|path| path.len() + 24).sum();
        let faults: usize = self.faults.iter().map(|fault| fault.message.len() + 48).sum();
        self.code.len() + requests + exports + mentions + faults + names(&self.undeclared) + size_of::<Self>()
    }
}

/// Does something that recurses as deep as a text can be nested, on a stack that is large enough for that text; what panics all the
/// same is a fault of that file and not the end of the program.
pub(crate) fn with_room<T>(text: &str, read: impl FnOnce() -> T) -> Result<T, Fault> {
    let Some(room) = extent::stack_bytes(text) else {
        return Err(Fault::unsupported(
            "the file is too large, or nested too deeply, to be shown before it is built",
            0,
        ));
    };
    catch_unwind(AssertUnwindSafe(|| stacker::maybe_grow(room, room, read)))
        .map_err(|_panic| Fault::unsupported("the file cannot be read without a build", 0))
}

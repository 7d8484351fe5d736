//! The door of this crate: pages, checks, single files and places, over one shared memory of what was read.

use contract::event::Place;

use crate::closure::{Judge, Project, is_verbatim};
use crate::kind::Kind;
use crate::memory::Memory;
use crate::packages::Packages;
use crate::page::{self, Page};
use crate::problem::{Problem, place};
use crate::serve::{self, Served};
use crate::settings::{Builds, Settings, builds};
use crate::tree::Tree;
use crate::{address, script};

/// Stack that a page takes, and each module of a chain of imports besides. Measured: 2 KiB at most.
const STACK: usize = 512 << 10;
const STACK_OF_MODULE: usize = 8 << 10;

/// How much a reader takes on.
#[derive(Debug, Clone, Copy)]
pub struct ReaderLimits {
    /// Bytes of what was read that are remembered.
    pub cache_bytes: usize,
    /// Largest file that is read; a larger one is [`crate::Code::Unsupported`].
    pub module_bytes: usize,
    /// Most modules of one page.
    pub modules: usize,
}

/// Reads projects, and remembers what it has read by language and content. Shared between threads; a call takes milliseconds and never
/// waits for anything but another call's look into the memory.
#[derive(Debug)]
pub struct Reader {
    limits: ReaderLimits,
    settings: Settings,
    memory: Memory,
}

impl Reader {
    /// A reader that has read nothing yet.
    pub fn new(limits: ReaderLimits, settings: Settings) -> Self {
        Self { limits, settings, memory: Memory::new(limits.cache_bytes) }
    }

    /// The project as a page.
    ///
    /// # Errors
    /// Everything that keeps it from being one: all problems of what `index.html` imports, up to a hundred.
    pub fn page(&self, tree: &dyn Tree, packages: &Packages) -> Result<Page, Vec<Problem>> {
        self.with_room(|| page::page(self, tree, packages))
    }

    /// What a build would trip over for certain: syntax errors, missing imports and missing exports in what `index.html` imports.
    /// Never [`crate::Code::Unsupported`], and nothing that `vite build` accepts. Where the project's build is not the template's,
    /// only syntax errors of TypeScript and JSX.
    pub fn check(&self, tree: &dyn Tree) -> Vec<Problem> {
        let judge = match builds(tree) {
            Builds::Selectively => return vec![],
            Builds::Plainly if self.settings.foreign(tree).is_none() => Judge::Build,
            Builds::Plainly | Builds::Otherwise => Judge::Syntax,
        };
        self.with_room(|| page::check(self, tree, judge))
    }

    /// Answers one GET of the preview host that is a file of the project: `path` and `query` as they are in the request,
    /// percent-encoded, the query without its `?`. None if that is nothing a page asks for, or if the file is another by now.
    pub fn serve(&self, tree: &dyn Tree, path: &str, query: &str) -> Option<Served> {
        serve::serve(tree, &self.memory, self.limits.module_bytes, path, query)
    }

    /// Where a position of a transformed module is in its source. `path` is that of the module's address (`/src/App.tsx`, percent-
    /// encoded), `hash` the value of its `module=`; line and column count from 1, as browsers report them.
    pub fn origin(&self, tree: &dyn Tree, path: &str, hash: &str, line: u32, column: u32) -> Option<Place> {
        let path = address::project_path(path)?;
        let leaf = tree.file(&path).filter(|leaf| address::short(leaf.sha256) == hash)?;
        let Kind::Script(dialect) = Kind::of(&path) else { return None };
        let text = std::str::from_utf8(leaf.content).ok().filter(|text| text.len() <= self.limits.module_bytes)?;
        let at = script::origin(text, dialect, is_verbatim(tree, &self.memory), line, column)?;
        Some(place(&path, text, at))
    }

    /// Does something on a stack that is large enough for modules that import each other in one long chain.
    fn with_room<T>(&self, read: impl FnOnce() -> T) -> T {
        let room = STACK + self.limits.modules * STACK_OF_MODULE;
        stacker::maybe_grow(room, room, read)
    }

    pub(crate) fn project<'t>(&'t self, tree: &'t dyn Tree, judge: Judge) -> Project<'t> {
        Project::new(tree, &self.memory, self.limits, judge)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }
}

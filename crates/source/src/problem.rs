//! What is wrong with a project, in words that a model and a person can act on, with a stable code and a place.

use std::fmt;

use contract::event::Place;

/// What kind of problem it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The text is not in the language that the file's name says.
    SyntaxError,
    /// A relative or absolute path that no file answers, or a component that nothing declares.
    MissingImport,
    /// A named import that the module does not export.
    MissingExport,
    /// Nothing is wrong, but only a real build can show it.
    Unsupported,
}

impl Code {
    /// The stable name, as events say it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SyntaxError => "syntax_error",
            Self::MissingImport => "missing_import",
            Self::MissingExport => "missing_export",
            Self::Unsupported => "unsupported",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that is wrong. Displayed as `src/App.tsx:3:7 message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What kind.
    pub code: Code,
    /// What is wrong, in a sentence. Names in it are those of the project: data, never instructions.
    pub message: String,
    /// Where, if it is somewhere.
    pub place: Option<Place>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place} ")?;
        }
        f.write_str(&self.message)
    }
}

/// The place of a byte of a file.
pub(crate) fn place(path: &str, text: &str, at: u32) -> Place {
    let bytes = text.as_bytes();
    let at = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    let before = &bytes[..at];
    let start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
    // Bytes that begin a character: a place within one is the place of it.
    let characters = before[start..].iter().filter(|byte| !matches!(byte, 0x80..=0xBF)).count();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).saturating_add(1);
    Place { path: path.to_owned(), line: count(memchr::memchr_iter(b'\n', before).count()), column: count(characters) }
}

//! The files of a project as whoever asks keeps them. It must not list them: reading follows what is imported.

/// The files of a project. The content of a path is immutable as long as a call that was given the tree goes on.
pub trait Tree {
    /// The file at a path below the project such as `src/App.tsx`, without a leading slash; none if there is no such file.
    fn file(&self, path: &str) -> Option<Leaf<'_>>;
}

/// One file.
#[derive(Debug, Clone, Copy)]
pub struct Leaf<'a> {
    /// SHA-256 of the content, in lower-case hexadecimal digits. It is believed: whoever keeps the files knows it.
    pub sha256: &'a str,
    /// What is in it.
    pub content: &'a [u8],
}

//! A file's place in a project: relative, with `/`, and nothing in it that could lead outside or surprise a shell or a browser.
//!
//! Every path that a model, a person or an upload names passes through [`ProjectPath::parse`] once; what holds the type is
//! checked. Policy (protected files, what a template owns) lives elsewhere: this file must not look at a file system.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

/// Longest path, in bytes of UTF-8.
pub const MAX_PATH_BYTES: usize = 1_024;
/// Longest name between two slashes, in bytes of UTF-8: what Linux file systems take (`NAME_MAX`).
pub const MAX_NAME_BYTES: usize = 255;

/// Why a text is not a path in a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathProblem {
    /// Nothing is named: the text is empty or only dots and slashes such as `./`.
    Empty,
    /// It begins with `/` or with a drive such as `C:`.
    Absolute,
    /// A segment is `..`.
    Parent,
    /// It holds a backslash.
    Backslash,
    /// It holds NUL or another control character.
    Control,
    /// Two slashes follow each other, or it ends with one.
    EmptySegment,
    /// It is longer than [`MAX_PATH_BYTES`], or one of its names than [`MAX_NAME_BYTES`].
    TooLong,
}

impl fmt::Display for PathProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the path is empty; name a file relative to the project, such as src/App.tsx",
            Self::Absolute => "the path is absolute; write it relative to the project, such as src/App.tsx",
            Self::Parent => "the path has a `..` segment; files outside the project cannot be named",
            Self::Backslash => "the path has a backslash; separate names with /",
            Self::Control => "the path has a control character",
            Self::EmptySegment => "the path has an empty segment (`//` or a slash at its end)",
            Self::TooLong => "the path is longer than 1,024 bytes, or one of its names than 255",
        })
    }
}

impl std::error::Error for PathProblem {}

/// A checked path: at least one name, joined by single slashes, `.` segments removed, so that equal files have equal paths.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, utoipa::ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, max_length = 1024, example = "src/App.tsx")]
pub struct ProjectPath(String);

impl ProjectPath {
    /// Checks a path and removes its `.` segments (`./src/a` is `src/a`). Nothing else is mended.
    ///
    /// # Errors
    /// The first problem found; problems that lead outside the project come before those of form.
    pub fn parse(text: &str) -> Result<Self, PathProblem> {
        if text.len() > MAX_PATH_BYTES {
            return Err(PathProblem::TooLong);
        }
        let drive = matches!(text.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
        if text.starts_with(['/', '\\']) || drive {
            return Err(PathProblem::Absolute);
        }
        let (mut named, mut dots, mut form) = (false, false, Ok(()));
        for name in text.as_bytes().split(|b| *b == b'/') {
            match name {
                b".." => return Err(PathProblem::Parent),
                b"." => dots = true,
                // The trailing slash of `./` names nothing; elsewhere an empty name is a slip.
                b"" => form = form.and(Err(if named { PathProblem::EmptySegment } else { PathProblem::Empty })),
                _ if name.len() > MAX_NAME_BYTES => form = form.and(Err(PathProblem::TooLong)),
                _ => named = true,
            }
        }
        if text.bytes().any(|b| b == b'\\' || b.is_ascii_control() || !b.is_ascii()) {
            has_only_good_characters(text)?;
        }
        form?;
        match (named, dots) {
            (false, _) => Err(PathProblem::Empty),
            (true, false) => Ok(Self(text.to_owned())),
            (true, true) => Ok(Self(text.split('/').filter(|name| *name != ".").collect::<Vec<_>>().join("/"))),
        }
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last name.
    pub fn file_name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// What follows the last dot of the file's name: `tsx` of `src/App.tsx`, nothing of `.gitignore`.
    pub fn extension(&self) -> Option<&str> {
        self.file_name().rsplit_once('.').and_then(|(stem, ext)| (!stem.is_empty() && !ext.is_empty()).then_some(ext))
    }
}

fn has_only_good_characters(text: &str) -> Result<(), PathProblem> {
    if text.contains('\\') {
        // `..\` is a way out too, on a system that this one does not run on.
        let parent = text.split(['/', '\\']).any(|name| name == "..");
        return Err(if parent { PathProblem::Parent } else { PathProblem::Backslash });
    }
    if text.contains(char::is_control) { Err(PathProblem::Control) } else { Ok(()) }
}

/// Sorted and compared as text, so that a map of paths can be asked with text.
impl Borrow<str> for ProjectPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProjectPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for ProjectPath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl AsRef<std::path::Path> for ProjectPath {
    fn as_ref(&self) -> &std::path::Path {
        self.0.as_ref()
    }
}

impl FromStr for ProjectPath {
    type Err = PathProblem;

    fn from_str(text: &str) -> Result<Self, PathProblem> {
        Self::parse(text)
    }
}

impl From<ProjectPath> for String {
    fn from(path: ProjectPath) -> Self {
        path.0
    }
}

impl<'de> Deserialize<'de> for ProjectPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&Cow::<'de, str>::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_inside_the_project_and_has_one_spelling() {
        let long = format!("src/{}", "a".repeat(MAX_NAME_BYTES + 1));
        let deep = "a/".repeat(MAX_PATH_BYTES / 2) + "b";
        let table: &[(&str, Result<&str, PathProblem>)] = &[
            ("src/App.tsx", Ok("src/App.tsx")),
            ("./src/a", Ok("src/a")),
            ("././src/./a", Ok("src/a")),
            (".env.local", Ok(".env.local")),
            ("app/[id]/page.tsx", Ok("app/[id]/page.tsx")),
            ("app/(group)/@modal/page.tsx", Ok("app/(group)/@modal/page.tsx")),
            ("docs/Grüße und 日本.md", Ok("docs/Grüße und 日本.md")),
            ("...", Ok("...")),
            ("src/..a/b..", Ok("src/..a/b..")),
            ("~/x", Ok("~/x")),
            ("", Err(PathProblem::Empty)),
            (".", Err(PathProblem::Empty)),
            ("./", Err(PathProblem::Empty)),
            ("/etc/passwd", Err(PathProblem::Absolute)),
            ("//server/share", Err(PathProblem::Absolute)),
            ("\\\\server\\share", Err(PathProblem::Absolute)),
            ("C:/x", Err(PathProblem::Absolute)),
            ("c:\\x", Err(PathProblem::Absolute)),
            ("..", Err(PathProblem::Parent)),
            ("src/../../x", Err(PathProblem::Parent)),
            ("src\\..\\x", Err(PathProblem::Parent)),
            ("src\\a", Err(PathProblem::Backslash)),
            ("a\0b", Err(PathProblem::Control)),
            ("a\nb", Err(PathProblem::Control)),
            ("a\u{7f}", Err(PathProblem::Control)),
            ("a\u{85}", Err(PathProblem::Control)),
            ("a//b", Err(PathProblem::EmptySegment)),
            ("src/", Err(PathProblem::EmptySegment)),
            (&long, Err(PathProblem::TooLong)),
            (&deep, Err(PathProblem::TooLong)),
        ];
        for (text, expected) in table {
            let got = ProjectPath::parse(text);
            assert_eq!(got.as_ref().map(ProjectPath::as_str), expected.as_ref().copied(), "{text:?}");
            if let Ok(path) = got {
                assert_eq!(ProjectPath::parse(path.as_str()).as_ref(), Ok(&path), "a checked path is its own spelling");
                let json = serde_json::to_string(&path).unwrap();
                assert_eq!(serde_json::from_str::<ProjectPath>(&json).unwrap(), path);
            }
        }
        assert!(serde_json::from_str::<ProjectPath>(r#""../x""#).is_err(), "what is read back is checked again");
    }

    #[test]
    fn an_extension_is_what_follows_the_last_dot_of_the_name() {
        for (path, expected) in [
            ("a/b.test.TSX", Some("TSX")),
            (".gitignore", None),
            ("a.b/c", None),
            ("x.", None),
            ("README.md", Some("md")),
        ] {
            assert_eq!(ProjectPath::parse(path).unwrap().extension(), expected, "{path}");
        }
    }
}

//! Joining an answer that was cut off to what the model says when it is asked to go on (E13): no byte is lost, and what the model
//! repeats of the end is left out. Text in, text out.

/// Bytes of the end that are looked at.
const TAIL_BYTES: usize = 2 * 1024;
/// Bytes that have to be repeated to count as repeated, wherever they begin …
const REPEATED_BYTES: usize = 24;
/// … or bytes that are not blank in the half line at the end, if the model begins that line again, or one before it.
const REPEATED_INK: usize = 4;

/// How an answer goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// Not yet known.
    Wait,
    /// With this, right behind the last byte.
    On(String),
    /// The file that was open is begun anew.
    Anew(String),
}

/// The seam between two answers.
pub(super) struct Seam {
    tail: String,
    in_file: bool,
    held: String,
    known: bool,
}

impl Seam {
    /// After that much was said; `in_file` tells whether it broke off within a file.
    pub(super) fn after(said: &str, in_file: bool) -> Self {
        let from = said.ceil_char_boundary(said.len().saturating_sub(TAIL_BYTES));
        Self { tail: said[from..].to_owned(), in_file, held: String::new(), known: false }
    }

    /// Takes a piece of what is said next.
    pub(super) fn take(&mut self, piece: String) -> Joined {
        if self.known {
            return Joined::On(piece);
        }
        self.held.push_str(&piece);
        if self.may_repeat_more() || self.may_open() { Joined::Wait } else { self.decide() }
    }

    /// Nothing more comes.
    pub(super) fn finish(mut self) -> Joined {
        if self.known { Joined::On(String::new()) } else { self.decide() }
    }

    fn decide(&mut self) -> Joined {
        self.known = true;
        let held = std::mem::take(&mut self.held);
        if self.in_file && opens_file(&held) == Some(true) {
            return Joined::Anew(held);
        }
        let repeated = self.repeated(&held);
        Joined::On(held[repeated..].to_owned())
    }

    /// Whether all that came so far stands in the tail, with more behind it.
    fn may_repeat_more(&self) -> bool {
        self.tail.match_indices(&self.held).any(|(at, _)| at + self.held.len() < self.tail.len())
    }

    fn may_open(&self) -> bool {
        self.in_file && opens_file(&self.held).is_none()
    }

    /// Bytes at the beginning that the tail ends with.
    fn repeated(&self, held: &str) -> usize {
        let ink = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
        let half_a_line = ink(self.tail.rsplit('\n').next().unwrap_or_default()) >= REPEATED_INK;
        let most = held.len().min(self.tail.len());
        let same = |n: &usize| held.is_char_boundary(*n) && self.tail.ends_with(&held[..*n]);
        let counts = |n: &usize| {
            let before = &self.tail[..self.tail.len() - *n];
            let is_line = before.is_empty() || before.ends_with('\n');
            (is_line && half_a_line) || (*n >= REPEATED_BYTES && ink(&held[..*n]) >= REPEATED_INK)
        };
        (1..=most).rev().filter(same).find(counts).unwrap_or(0)
    }
}

/// Whether text begins with the opening of a file; none if that is not to be seen yet.
fn opens_file(text: &str) -> Option<bool> {
    const OPENINGS: [&str; 4] = ["<file ", "<baton_file ", "<edward_file ", "[file:"];
    let text = text.trim_start().to_ascii_lowercase();
    if OPENINGS.iter().any(|opening| text.starts_with(opening)) {
        return Some(true);
    }
    (!OPENINGS.iter().any(|opening| opening.starts_with(&text))).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What comes of an answer in pieces of so many bytes.
    fn joined(said: &str, in_file: bool, next: &str, piece: usize) -> (String, bool) {
        let mut seam = Seam::after(said, in_file);
        let (mut text, mut anew) = (String::new(), false);
        let mut take = |joined| match joined {
            Joined::Wait => {}
            Joined::On(more) => text.push_str(&more),
            Joined::Anew(more) => {
                anew = true;
                text.push_str(&more);
            }
        };
        let chars: Vec<char> = next.chars().collect();
        for some in chars.chunks(piece) {
            take(seam.take(some.iter().collect()));
        }
        take(seam.finish());
        (text, anew)
    }

    #[test]
    fn what_is_repeated_is_left_out_and_what_only_looks_alike_is_kept() {
        let cases = [
            ("const a = 1;\nconst b", " = 2;\n", " = 2;\n", false),
            ("const a = 1;\nconst b", "const b = 2;\n", " = 2;\n", false),
            ("const a = 1;\nconst b", "const a = 1;\nconst b = 2;\n", " = 2;\n", false),
            ("    </li>\n    ", "    </li>\n", "    </li>\n", false),
            ("}\n", "}\n", "}\n", false),
            ("x \"", "x \"y\";", "x \"y\";", false),
            ("text = \"ü", "text = \"ü\";", "\";", false),
            (
                "<file path=\"a.ts\">\nconst a",
                "\n<file path=\"a.ts\">\nconst a = 1;\n</file>",
                "\n<file path=\"a.ts\">\nconst a = 1;\n</file>",
                true,
            ),
            ("<file path=\"a.ts\">\nif (a ", "<fileList.length) {}", "<fileList.length) {}", false),
            ("", "whole", "whole", false),
        ];
        for (said, next, want, anew) in cases {
            let in_file = said.starts_with("<file");
            for piece in 1..=next.len() {
                assert_eq!(joined(said, in_file, next, piece), (want.to_owned(), anew), "{said:?} {next:?} by {piece}");
            }
        }
    }

    proptest! {
        /// Wherever an answer is cut and however far back the model begins again, the two make the whole.
        #[test]
        fn no_byte_is_lost_or_repeated(lines in proptest::collection::vec("[a-z]{6} [a-z0-9]{10} = [a-z]{8};", 6..12), cut in 0.3..0.9f64, back in 0usize..3, piece in 1usize..40) {
            let whole = lines.join("\n");
            let cut = (whole.len() as f64 * cut) as usize;
            let said = &whole[..cut];
            // The model goes on, begins its line again, or the one before.
            let from = match back { 0 => cut, n => said.rmatch_indices('\n').nth(n - 1).map_or(0, |(at, _)| at + 1) };
            prop_assume!(back == 0 || cut - from >= REPEATED_INK);
            let (next, _) = joined(said, false, &whole[from..], piece);
            prop_assert_eq!(format!("{said}{next}"), whole);
        }
    }
}

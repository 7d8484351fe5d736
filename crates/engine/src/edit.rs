//! Patching a file, and refusing a whole-file write that is not whole. Pure text in, text out.
//!
//! A SEARCH text is looked for exactly. If it is nowhere, lines are compared without the blanks at their ends, since models get
//! indentation wrong far more often than words; what is found like that is reported, and the log holds the text that really stood there.

mod loose;

use std::ops::Range;

use contract::event::Replacement;

/// Why a patch cannot be applied. The model is told, and the file stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadEdit {
    /// Stable code: `edit_no_match` or `edit_ambiguous`.
    pub code: &'static str,
    /// What to do about it; with the lines that come nearest, if any do.
    pub reason: String,
}

/// A patch that was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The file afterwards.
    pub text: String,
    /// The replacements as they were made: each search text occurs exactly.
    pub blocks: Vec<Replacement>,
    /// Blocks that matched only without the blanks at the ends of lines, from 1.
    pub loose: Vec<usize>,
}

/// Applies replacements in order. Each text to be replaced must occur exactly once, in the text as the former ones left it.
///
/// Line ends of the file are kept: a patch written with LF applies to a file with CRLF.
pub fn apply(text: &str, blocks: &[Replacement]) -> Result<Edited, BadEdit> {
    let crlf = text.contains("\r\n");
    let mut done = Edited { text: text.to_owned(), blocks: vec![], loose: vec![] };
    for (n, block) in (1..).zip(blocks) {
        let block = Replacement { search: adapt(&block.search, crlf), replace: adapt(&block.replace, crlf) };
        let bad = |code, what: String| BadEdit { code, reason: format!("block {n}: the SEARCH text {what}") };
        if block.search.is_empty() {
            return Err(bad("edit_no_match", "is empty; write the whole file with <file> instead".into()));
        }
        let (at, exact) = match find(&done.text, &block.search) {
            Found::Once(at) => (at, block),
            Found::Often => {
                return Err(bad("edit_ambiguous", "occurs more than once; take in more lines around it".into()));
            }
            Found::Nowhere => match loose::find(&done.text, &block) {
                loose::Found::Once(at, exact) => {
                    done.loose.push(n);
                    (at, exact)
                }
                loose::Found::Often => {
                    let what = "occurs only with other indentation, and more than once; copy it exactly, with more lines around it";
                    return Err(bad("edit_ambiguous", what.into()));
                }
                loose::Found::Nowhere(nearest) => {
                    let nearest = nearest.map(|lines| format!(". The nearest lines are:\n{lines}")).unwrap_or_default();
                    let what =
                        format!("does not occur in the file; copy it exactly from the file as it is now{nearest}");
                    return Err(bad("edit_no_match", what));
                }
            },
        };
        let more = dropped(&done.text, &at, &exact.replace);
        done.text.replace_range(at.start..at.end + more, &exact.replace);
        done.blocks.push(exact);
    }
    Ok(done)
}

enum Found {
    Once(Range<usize>),
    Often,
    Nowhere,
}

fn find(text: &str, search: &str) -> Found {
    let mut found = text.match_indices(search);
    match (found.next(), found.next()) {
        (Some((at, _)), None) => Found::Once(at..at + search.len()),
        (Some(_), Some(_)) => Found::Often,
        (None, _) => Found::Nowhere,
    }
}

/// Bytes of the line break that goes with whole lines which are replaced by nothing, so that no empty line stays behind.
fn dropped(text: &str, at: &Range<usize>, replace: &str) -> usize {
    let whole_lines = at.start == 0 || text[..at.start].ends_with('\n');
    let rest = &text[at.end..];
    match (replace.is_empty() && whole_lines, rest.starts_with("\r\n"), rest.starts_with('\n')) {
        (true, true, _) => 2,
        (true, false, true) => 1,
        _ => 0,
    }
}

fn adapt(text: &str, crlf: bool) -> String {
    let lf = text.replace("\r\n", "\n");
    if crlf { lf.replace('\n', "\r\n") } else { lf }
}

/// The line of a whole-file write that stands for text the model left out, if there is one.
///
/// Only a comment that says so by itself counts: code that merely speaks of "the rest" is code.
pub fn placeholder(text: &str) -> Option<&str> {
    text.lines().map(str::trim).find(|line| {
        let Some(comment) = comment_of(line) else { return false };
        let comment = comment.to_ascii_lowercase();
        let words = comment.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let says = [
            "rest of",
            "existing code",
            "remaining code",
            "previous code",
            "other code",
            "same as before",
            "unchanged",
        ];
        let dots = comment.contains("...") || comment.contains('…');
        let keeps =
            ["unchanged", "same as before", "remains the same", "stays the same", "remains unchanged", "goes here"];
        says.iter().any(|s| words.starts_with(s) || words.starts_with(&format!("the {s}")))
            && (dots || keeps.iter().any(|k| words.ends_with(k)))
    })
}

fn comment_of(line: &str) -> Option<&str> {
    let line = line.strip_prefix('{').map_or(line, str::trim_start);
    ["//", "/*", "#", "<!--", "--"].iter().find_map(|mark| line.strip_prefix(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(search: &str, replace: &str) -> Replacement {
        Replacement { search: search.into(), replace: replace.into() }
    }

    #[test]
    fn a_block_must_match_exactly_once() {
        let cases = [
            ("a b c", vec![block("b", "x")], Ok("a x c")),
            ("a b c", vec![block("b", "x"), block("x c", "y")], Ok("a y")),
            ("a b b", vec![block("b", "x")], Err("edit_ambiguous")),
            ("a\n b\n\tb\n", vec![block("  b", "x")], Err("edit_ambiguous")),
            (" b\nx b\n", vec![block("\tb", "y")], Err("edit_ambiguous")),
            ("a b c", vec![block("d", "x")], Err("edit_no_match")),
            ("a b c", vec![block("", "x")], Err("edit_no_match")),
            ("a\r\nb\r\n", vec![block("a\nb", "c\nd")], Ok("c\r\nd\r\n")),
            ("a\nb\nc\n", vec![block("b", "")], Ok("a\nc\n")),
            ("a\nb c\n", vec![block(" c", "")], Ok("a\nb\n")),
            ("cost", vec![block("cost", "$' $& $1")], Ok("$' $& $1")),
        ];
        for (text, blocks, want) in cases {
            let got = apply(text, &blocks).map(|done| done.text);
            assert_eq!(got.as_deref().map_err(|e| e.code), want, "{text:?} {blocks:?}");
        }
    }

    #[test]
    fn left_out_code_is_seen_and_honest_code_is_not() {
        for bad in [
            "// ... rest of the code unchanged",
            "  /* rest of the file remains the same */",
            "{/* … existing code … */}",
            "# rest of code unchanged",
            "<!-- rest of the page unchanged -->",
            "// existing code goes here",
        ] {
            assert!(placeholder(bad).is_some(), "{bad}");
        }
        for good in [
            "<input placeholder=\"rest of the name\" />",
            "// the rest of the list is sorted",
            "const rest = [...items];",
            "// unchanged values are skipped",
            "// rest of the arguments",
            "<p>existing code remains unchanged</p>",
        ] {
            assert!(placeholder(good).is_none(), "{good}");
        }
    }
}

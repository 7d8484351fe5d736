//! Patching a file, and refusing a whole-file write that is not whole. Pure text in, text out.

use contract::event::Replacement;

/// Why a patch cannot be applied. The model is told, and the file stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadEdit {
    /// Stable code: `edit_no_match` or `edit_ambiguous`.
    pub code: &'static str,
    /// What to do about it.
    pub reason: String,
}

/// Applies replacements in order. Each text to be replaced must occur exactly once, in the text as the former ones left it.
///
/// Line ends of the file are kept: a patch written with LF applies to a file with CRLF.
pub fn apply(text: &str, blocks: &[Replacement]) -> Result<String, BadEdit> {
    let crlf = text.contains("\r\n");
    let mut text = text.to_owned();
    for (n, block) in (1..).zip(blocks) {
        let (search, replace) = (adapt(&block.search, crlf), adapt(&block.replace, crlf));
        let mut found = text.match_indices(&search).map(|(at, _)| at);
        let (first, second) = (found.next(), found.next());
        let bad = |code, what: &str| Err(BadEdit { code, reason: format!("block {n}: the SEARCH text {what}") });
        match (search.is_empty(), first, second) {
            (true, _, _) => return bad("edit_no_match", "is empty; write the whole file with <file> instead"),
            (_, None, _) => {
                return bad("edit_no_match", "does not occur in the file; copy it exactly from the file as it is now");
            }
            (_, Some(_), Some(_)) => {
                return bad("edit_ambiguous", "occurs more than once; take in more lines around it");
            }
            (_, Some(at), None) => {
                text.replace_range(at..at + search.len() + dropped(&text, at, &search, &replace), &replace)
            }
        }
    }
    Ok(text)
}

/// Bytes of the line break that goes with whole lines which are replaced by nothing, so that no empty line stays behind.
fn dropped(text: &str, at: usize, search: &str, replace: &str) -> usize {
    let whole_lines = at == 0 || text[..at].ends_with('\n');
    let rest = &text[at + search.len()..];
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
            ("a b c", vec![block("d", "x")], Err("edit_no_match")),
            ("a b c", vec![block("", "x")], Err("edit_no_match")),
            ("a\r\nb\r\n", vec![block("a\nb", "c\nd")], Ok("c\r\nd\r\n")),
            ("a\nb\nc\n", vec![block("b", "")], Ok("a\nc\n")),
            ("a\nb c\n", vec![block(" c", "")], Ok("a\nb\n")),
            ("cost", vec![block("cost", "$' $& $1")], Ok("$' $& $1")),
        ];
        for (text, blocks, want) in cases {
            let got = apply(text, &blocks);
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

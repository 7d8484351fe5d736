//! Looking for lines without the blanks at their ends, and for the lines that come nearest to what is not there.

use std::ops::Range;

use contract::event::Replacement;

/// Lines of a file that are compared with a SEARCH text; in a longer file only what is exact is found.
const LINES: usize = 50_000;
/// Lines of a SEARCH text that are compared; a longer one has to be exact.
const SEARCHED: usize = 500;
/// Lines that are shown as the nearest.
const SHOWN: usize = 12;
/// Characters of one of them.
const SHOWN_CHARS: usize = 200;

pub(super) enum Found {
    /// There, and the replacement as it has to be made: with the text that stands there, and with its indentation.
    Once(Range<usize>, Replacement),
    Often,
    /// The lines that come nearest, if any come near.
    Nowhere(Option<String>),
}

/// A line without its end, and where it stands.
struct Line<'a> {
    text: &'a str,
    at: Range<usize>,
}

/// Looks for the lines of a block, whatever blanks stand at their ends.
pub(super) fn find(text: &str, block: &Replacement) -> Found {
    let lines = lines(text);
    let wanted: Vec<&str> = block.search.lines().collect();
    // Blank lines at the ends of a SEARCH text say nothing.
    let from = wanted.iter().take_while(|line| line.trim().is_empty()).count();
    let to = wanted.len() - wanted.iter().rev().take_while(|line| line.trim().is_empty()).count();
    let Some(wanted) = wanted.get(from..to).filter(|wanted| !wanted.is_empty() && wanted.len() <= SEARCHED) else {
        return Found::Nowhere(None);
    };
    if lines.len() > LINES {
        return Found::Nowhere(None);
    }
    let alike = |window: &&[Line<'_>]| window.iter().zip(wanted).all(|(line, want)| line.text.trim() == want.trim());
    let mut found = lines.windows(wanted.len()).filter(alike);
    match (found.next(), found.next()) {
        (Some(window), None) => once(text, window, wanted, block),
        (Some(_), Some(_)) => Found::Often,
        (None, _) => Found::Nowhere(nearest(&lines, wanted)),
    }
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let mut at = 0;
    let whole = text.split_inclusive('\n').map(|whole| {
        let line = whole.strip_suffix('\n').unwrap_or(whole);
        let line = line.strip_suffix('\r').unwrap_or(line);
        let start = at;
        at += whole.len();
        Line { text: line, at: start..start + line.len() }
    });
    whole.collect()
}

fn once(text: &str, window: &[Line<'_>], wanted: &[&str], block: &Replacement) -> Found {
    let (Some(first), Some(last)) = (window.first(), window.last()) else { return Found::Nowhere(None) };
    let at = first.at.start..last.at.end;
    let shift = Shift::between(window, wanted);
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let moved: Vec<String> = block.replace.lines().map(|line| shift.moved(line)).collect();
    let exact = Replacement { search: text[at.clone()].to_owned(), replace: moved.join(end) };
    // Whoever reads the log finds it by that text alone.
    if text.matches(&exact.search).nth(1).is_some() { Found::Often } else { Found::Once(at, exact) }
}

/// By what the file is indented otherwise than the SEARCH text, the same on every line that is not blank.
enum Shift<'a> {
    None,
    In(&'a str),
    Out(&'a str),
}

impl<'a> Shift<'a> {
    fn between(window: &[Line<'a>], wanted: &[&'a str]) -> Self {
        let pairs = || window.iter().zip(wanted).filter(|(line, _)| !line.text.trim().is_empty());
        let Some((line, want)) = pairs().next() else { return Self::None };
        let (there, asked) = (indent(line.text), indent(want));
        let shift = match (there.strip_suffix(asked), asked.strip_suffix(there)) {
            (Some(""), _) => return Self::None,
            (Some(more), _) => Self::In(more),
            (None, Some(less)) => Self::Out(less),
            (None, None) => return Self::None,
        };
        if pairs().all(|(line, want)| indent(&shift.moved(want)) == indent(line.text)) { shift } else { Self::None }
    }

    fn moved(&self, line: &str) -> String {
        match self {
            Self::In(more) if !line.trim().is_empty() => format!("{more}{line}"),
            Self::Out(less) => line.strip_prefix(less).unwrap_or(line).to_owned(),
            Self::In(_) | Self::None => line.to_owned(),
        }
    }
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// The window in which most lines are the same, or begin or end alike; none if less than a half of it does.
fn nearest(lines: &[Line<'_>], wanted: &[&str]) -> Option<String> {
    let width = wanted.len().min(lines.len()).max(1);
    let score =
        |window: &[Line<'_>]| window.iter().zip(wanted).map(|(line, want)| likeness(line.text, want)).sum::<usize>();
    let best = lines
        .windows(width)
        .enumerate()
        .map(|(n, window)| (score(window), n))
        .max_by_key(|(score, n)| (*score, usize::MAX - n))?;
    if best.0 * 2 < wanted.len() * WHOLE {
        return None;
    }
    let cut = |line: &Line<'_>| line.text.chars().take(SHOWN_CHARS).collect::<String>();
    let shown: Vec<String> = lines[best.1..].iter().take(width.min(SHOWN)).map(cut).collect();
    Some(shown.join("\n"))
}

/// What two lines that are the same come to.
const WHOLE: usize = 100;

/// How much of the longer line the two begin or end with in common, in hundredths.
fn likeness(a: &str, b: &str) -> usize {
    let (a, b) = (a.trim().as_bytes(), b.trim().as_bytes());
    let most = a.len().max(b.len());
    if most == 0 {
        return WHOLE;
    }
    let front = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let room = a.len().min(b.len()) - front;
    let back = a.iter().rev().zip(b.iter().rev()).take(room).take_while(|(x, y)| x == y).count();
    (front + back) * WHOLE / most
}

#[cfg(test)]
mod tests {
    use super::super::apply;
    use super::*;

    fn block(search: &str, replace: &str) -> Replacement {
        Replacement { search: search.into(), replace: replace.into() }
    }

    /// What is found loosely is put where it was with the indentation that the file has, and the log has it exactly.
    #[test]
    fn blanks_at_the_ends_of_lines_do_not_matter_when_there_is_one_such_place() {
        let cases = [
            ("fn a() {\n    b();\n}\n", block("fn a() {\n  b();\n}", "x"), "x\n"),
            (
                "  if a {\n    b();\n  }\n",
                block("if a {\n  b();\n}", "if c {\n  d();\n\n}"),
                "  if c {\n    d();\n\n  }\n",
            ),
            ("a\n\tb\n", block("\t\tb", "\t\tc\n\t\td"), "a\n\tc\n\td\n"),
            ("a \nb\n", block("a\nb", "c"), "c\n"),
            ("a\r\n  b\r\nc\r\n", block("a\nb\nc\n", "x\ny"), "x\r\ny\r\n"),
            ("a\n  b\nc\n", block("\n b\n\n", ""), "a\nc\n"),
        ];
        for (text, block, want) in cases {
            let done = apply(text, std::slice::from_ref(&block))
                .unwrap_or_else(|bad| panic!("{text:?} {block:?}: {}", bad.reason));
            assert_eq!((done.text.as_str(), &done.loose[..]), (want, &[1][..]), "{text:?} {block:?}");
            let again = apply(text, &done.blocks).unwrap();
            assert_eq!((again.text, again.loose), (done.text, vec![]), "what is logged is exact");
        }
    }

    #[test]
    fn what_is_nowhere_is_told_with_the_nearest_lines_or_with_none() {
        let text = "import a from 'a';\n\nexport function List() {\n  return <ul className=\"p-4\">x</ul>;\n}\n";
        let near =
            apply(text, &[block("export function List() {\n  return <ul className=\"p-2\">x</ul>;", "y")]).unwrap_err();
        assert_eq!(near.code, "edit_no_match");
        assert!(
            near.reason.ends_with("export function List() {\n  return <ul className=\"p-4\">x</ul>;"),
            "{}",
            near.reason
        );
        let far = apply(text, &[block("something else altogether", "y")]).unwrap_err();
        assert!(!far.reason.contains("nearest"), "{}", far.reason);
    }
}

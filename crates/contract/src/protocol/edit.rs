//! The body of `<edit>`: blocks of what to search and what to put there. This file must not look at the file that is edited.
//!
//! ```text
//! <<<<<<< SEARCH
//! lines that occur once
//! =======
//! lines that stand there afterwards
//! >>>>>>> REPLACE
//! ```
//! A marker stands alone on its line; blanks round it and its letter case do not matter. A block's text is its lines as they are,
//! without the last line break, so `\r\n` stays. Between blocks only blank lines and fence lines may stand.

use crate::event::Replacement;

const SEARCH: &str = "<<<<<<< SEARCH";
const DIVIDER: &str = "=======";
const REPLACE: &str = ">>>>>>> REPLACE";

enum Place {
    Between,
    Search(usize),
    Replace { search: String, from: usize },
}

/// The blocks of an edit, in order: at least one, each with something to search.
///
/// # Errors
/// What is wrong with the body, for the model.
pub(super) fn parse(body: &str) -> Result<Vec<Replacement>, &'static str> {
    let mut blocks = Vec::new();
    let mut place = Place::Between;
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let mark = line.trim();
        let (opens, divides, closes) =
            (mark.eq_ignore_ascii_case(SEARCH), mark == DIVIDER, mark.eq_ignore_ascii_case(REPLACE));
        place = match place {
            Place::Between if opens => Place::Search(at),
            Place::Between if mark.is_empty() || mark.starts_with("```") => Place::Between,
            Place::Between => return Err("text stands outside a SEARCH/REPLACE block"),
            Place::Search(from) if divides => {
                let search = text(&body[from..start]);
                if search.is_empty() {
                    return Err("a block has nothing to search; write a whole <file> instead");
                }
                Place::Replace { search, from: at }
            }
            Place::Search(_) if opens || closes => return Err("a block has no ======= line"),
            Place::Replace { .. } if opens => return Err("a block has no >>>>>>> REPLACE line"),
            Place::Replace { search, from } if closes => {
                blocks.push(Replacement { search, replace: text(&body[from..start]) });
                Place::Between
            }
            inside @ (Place::Search(_) | Place::Replace { .. }) => inside,
        };
    }
    match place {
        Place::Between if blocks.is_empty() => Err("there is no SEARCH/REPLACE block"),
        Place::Between => Ok(blocks),
        Place::Search(_) => Err("a block has no ======= line"),
        Place::Replace { .. } => Err("a block has no >>>>>>> REPLACE line"),
    }
}

fn text(lines: &str) -> String {
    let lines = lines.strip_suffix('\n').map_or(lines, |rest| rest.strip_suffix('\r').unwrap_or(rest));
    lines.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pairs<'a> = &'a [(&'a str, &'a str)];

    #[test]
    fn blocks_keep_their_lines_and_a_bad_body_says_why() {
        let table: &[(&str, Result<Pairs<'_>, &str>)] = &[
            ("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE", Ok(&[("a", "b")])),
            (
                "\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n\n<<<<<<< SEARCH\nc\n\n=======\n>>>>>>> REPLACE\n",
                Ok(&[("a", "b"), ("c\n", "")]),
            ),
            ("<<<<<<< SEARCH\r\na\r\n b\r\n=======\r\nc\r\n>>>>>>> REPLACE\r\n", Ok(&[("a\r\n b", "c")])),
            ("```diff\n  <<<<<<< search  \n\ta \n  =======\n\tb\n  >>>>>>> Replace\n```", Ok(&[("\ta ", "\tb")])),
            (
                "<<<<<<< SEARCH\na ======= b\n=======\n=======\n====\n>>>>>>> REPLACE",
                Ok(&[("a ======= b", "=======\n====")]),
            ),
            ("", Err("there is no SEARCH/REPLACE block")),
            ("a\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE", Err("text stands outside a SEARCH/REPLACE block")),
            (
                "<<<<<<< SEARCH\n=======\nb\n>>>>>>> REPLACE",
                Err("a block has nothing to search; write a whole <file> instead"),
            ),
            ("<<<<<<< SEARCH\na\n>>>>>>> REPLACE", Err("a block has no ======= line")),
            ("<<<<<<< SEARCH\na\n", Err("a block has no ======= line")),
            ("<<<<<<< SEARCH\na\n=======\nb\n<<<<<<< SEARCH\n", Err("a block has no >>>>>>> REPLACE line")),
            ("<<<<<<< SEARCH\na\n=======\nb\n", Err("a block has no >>>>>>> REPLACE line")),
        ];
        for (body, expected) in table {
            let got = parse(body);
            let pairs: Result<Vec<_>, _> =
                got.as_ref().map(|blocks| blocks.iter().map(|b| (b.search.as_str(), b.replace.as_str())).collect());
            assert_eq!(pairs.as_deref().map_err(|e| **e), *expected, "{body:?}");
        }
    }
}

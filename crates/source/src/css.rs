//! One style sheet, alone: where it imports others, where it names files, and whether it is written for Tailwind.
//!
//! Read as tokens and not as rules: what is between the pieces is passed on as it is, whatever dialect it is.

use std::ops::Range;

use cssparser::{ParseError, Parser, ParserInput, Token};

use crate::address::is_elsewhere;
use crate::problem::Code;
use crate::script::{FAULTS, Fault};

/// How deep blocks are looked into. What lies deeper is passed on as it is.
const DEPTH: usize = 64;
/// Most pieces of one sheet that are not its own text.
const PIECES: usize = 5_000;

/// What was read of a style sheet: the text again, cut where something has to be put in.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    pub pieces: Vec<Piece>,
    /// Whether Tailwind has to compile it.
    pub tailwind: bool,
    pub faults: Vec<Fault>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Bytes of the text.
    Text(Range<usize>),
    /// A file that is named: `url(./a.png)`.
    Url { target: String },
    /// Another sheet of the project, with what follows its name: layer, `supports()` and media.
    Import { target: String, conditions: String, at: u32 },
    /// A sheet of Tailwind's, with the whole rule.
    Tailwind { name: String, conditions: String },
    /// A sheet of another host: the whole rule, which has to come before everything else.
    Elsewhere { rule: String },
}

impl Piece {
    fn cost(&self) -> usize {
        let text = match self {
            Self::Text(_) => 0,
            Self::Url { target } => target.len(),
            Self::Import { target, conditions, .. } => target.len() + conditions.len(),
            Self::Tailwind { name, conditions } => name.len() + conditions.len(),
            Self::Elsewhere { rule } => rule.len(),
        };
        size_of::<Self>() + 32 + text
    }
}

/// At-rules that only Tailwind knows.
const TAILWIND: &[&str] =
    &["tailwind", "theme", "apply", "utility", "variant", "custom-variant", "source", "reference", "plugin", "config"];
/// Functions that only Tailwind knows.
const TAILWIND_FUNCTIONS: &[&str] = &["theme", "--theme", "--alpha", "--spacing", "--value", "--modifier"];

impl Sheet {
    pub(crate) fn read(text: &str) -> Self {
        let mut input = ParserInput::new(text);
        let mut parser = Parser::new(&mut input);
        let mut reader = Reader { text, sheet: Self::default(), open: false, done: 0, others: 0 };
        reader.rules(&mut parser, 0);
        reader.text_until(text.len());
        if reader.others > PIECES {
            reader.sheet.faults.push(Fault::unsupported(format!("more than {PIECES} files in one style sheet"), 0));
        }
        reader.sheet
    }

    /// About how much memory it takes, in bytes.
    pub(crate) fn cost(&self) -> usize {
        let texts: usize = self.pieces.iter().map(Piece::cost).sum();
        texts + self.faults.len() * 128 + size_of::<Self>()
    }
}

struct Reader<'t> {
    text: &'t str,
    sheet: Sheet,
    /// Whether the text ends in a string, a comment or an address, which parsers end there in different ways.
    open: bool,
    /// Bytes of the text that are in pieces by now.
    done: usize,
    others: usize,
}

impl<'i> Reader<'i> {
    fn text_until(&mut self, end: usize) {
        if self.done < end {
            self.sheet.pieces.push(Piece::Text(self.done..end));
        }
        self.done = self.done.max(end);
    }

    /// Puts something in the place of some bytes of the text.
    fn replace(&mut self, place: Range<usize>, piece: Option<Piece>) {
        self.text_until(place.start);
        self.done = place.end;
        self.others += 1;
        if self.others <= PIECES {
            self.sheet.pieces.extend(piece);
        }
    }

    fn fault(&mut self, code: Code, message: &str, at: usize) {
        if self.sheet.faults.len() < FAULTS {
            let certain = code != Code::Unsupported && !self.open;
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            self.sheet.faults.push(Fault { code, message: message.to_owned(), at, certain });
        }
    }

    /// Everything up to the end of the block, or of the text.
    fn rules<'t>(&mut self, parser: &mut Parser<'i, 't>, depth: usize) {
        loop {
            let at = parser.position().byte_index();
            let Ok(token) = parser.next_including_whitespace_and_comments().cloned() else { return };
            let end = parser.position().byte_index() == self.text.len();
            self.open |= end
                && matches!(
                    token,
                    Token::QuotedString(_) | Token::Comment(_) | Token::UnquotedUrl(_) | Token::BadUrl(_)
                );
            match token {
                Token::UnquotedUrl(target) => self.url(at..parser.position().byte_index(), &target),
                Token::Function(name) if name.eq_ignore_ascii_case("url") => self.quoted_url(parser, at),
                Token::Function(name) => {
                    self.sheet.tailwind |= TAILWIND_FUNCTIONS.iter().any(|known| name.eq_ignore_ascii_case(known));
                    self.block(parser, depth);
                }
                Token::AtKeyword(name) => self.at_rule(parser, &name, at),
                Token::CurlyBracketBlock | Token::ParenthesisBlock | Token::SquareBracketBlock => {
                    let closed = self.block(parser, depth);
                    if !closed && token == Token::CurlyBracketBlock {
                        self.fault(Code::SyntaxError, "this `{` is never closed", at);
                    }
                }
                Token::CloseCurlyBracket => self.fault(Code::SyntaxError, "this `}` closes nothing", at),
                Token::BadString(_) => self.fault(Code::SyntaxError, "this string is never closed", at),
                _ => {}
            }
        }
    }

    /// What is in the block that was just opened; whether it is closed.
    fn block<'t>(&mut self, parser: &mut Parser<'i, 't>, depth: usize) -> bool {
        if depth >= DEPTH {
            return true;
        }
        let end: Result<usize, ParseError<'i, ()>> = parser.parse_nested_block(|inner| {
            self.rules(inner, depth + 1);
            Ok(inner.position().byte_index())
        });
        end.is_ok_and(|end| end < parser.position().byte_index())
    }

    fn quoted_url<'t>(&mut self, parser: &mut Parser<'i, 't>, at: usize) {
        let inner: Result<String, ParseError<'i, ()>> = parser.parse_nested_block(|inner| {
            let target = inner.expect_string()?.as_ref().to_owned();
            inner.expect_exhausted()?;
            Ok(target)
        });
        if let Ok(target) = inner {
            self.url(at..parser.position().byte_index(), &target);
        }
    }

    fn url(&mut self, place: Range<usize>, target: &str) {
        if !target.is_empty() && !target.starts_with('#') && !is_elsewhere(target) {
            self.replace(place, Some(Piece::Url { target: target.to_owned() }));
        }
    }

    fn at_rule<'t>(&mut self, parser: &mut Parser<'i, 't>, name: &str, at: usize) {
        let name = name.to_ascii_lowercase();
        self.sheet.tailwind |= TAILWIND.contains(&name.as_str());
        match name.as_str() {
            "import" => self.import(parser, at),
            // All sheets of a page are compiled together, so that there is nothing to refer to; and a page has one charset.
            "reference" | "charset" => {
                skip_rule(parser);
                self.replace(at..parser.position().byte_index(), None);
            }
            "plugin" | "config" => {
                self.fault(Code::Unsupported, "Tailwind's plugins and JavaScript configuration need a build", at);
            }
            _ => {}
        }
    }

    fn import<'t>(&mut self, parser: &mut Parser<'i, 't>, at: usize) {
        let target = parser.try_parse(|parser| parser.expect_url_or_string().map(|target| target.as_ref().to_owned()));
        let after = parser.position().byte_index();
        let end = skip_rule(parser);
        let Ok(target) = target else { return };
        let slice = |from: usize| self.text.get(from..end).unwrap_or_default().trim().to_owned();
        let conditions = slice(after);
        let place = at..parser.position().byte_index();
        let piece = if is_elsewhere(&target) {
            Piece::Elsewhere { rule: slice(at) }
        } else if let Some(name) = tailwind_sheet(&target) {
            self.sheet.tailwind = true;
            Piece::Tailwind { name: name.to_owned(), conditions }
        } else {
            Piece::Import { target, conditions, at: u32::try_from(at).unwrap_or(u32::MAX) }
        };
        self.replace(place, Some(piece));
    }
}

/// Skips the rest of a rule without a block, its semicolon included; the byte where the semicolon is.
fn skip_rule(parser: &mut Parser<'_, '_>) -> usize {
    loop {
        let state = parser.state();
        match parser.next_including_whitespace_and_comments() {
            Ok(Token::Semicolon) => return parser.position().byte_index() - 1,
            Ok(Token::CurlyBracketBlock | Token::CloseCurlyBracket) => {
                parser.reset(&state);
                return parser.position().byte_index();
            }
            Ok(_) => {}
            Err(_end) => return parser.position().byte_index(),
        }
    }
}

/// The sheet of Tailwind that its browser build holds under this name.
fn tailwind_sheet(target: &str) -> Option<&'static str> {
    match target.strip_suffix(".css").unwrap_or(target) {
        "tailwindcss" | "tailwindcss/index" => Some("tailwindcss"),
        "tailwindcss/theme" => Some("tailwindcss/theme"),
        "tailwindcss/preflight" => Some("tailwindcss/preflight"),
        "tailwindcss/utilities" => Some("tailwindcss/utilities"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(text: &str) -> String {
        let sheet = Sheet::read(text);
        let piece = |piece: &Piece| match piece {
            Piece::Text(range) => text[range.clone()].to_owned(),
            Piece::Url { target } => format!("<url {target}>"),
            Piece::Import { target, conditions, .. } => format!("<import {target}|{conditions}>"),
            Piece::Tailwind { name, conditions } => format!("<tailwind {name}|{conditions}>"),
            Piece::Elsewhere { rule } => format!("<elsewhere {rule}>"),
        };
        let mark = if sheet.tailwind { "T " } else { "" };
        let faults: String = sheet.faults.iter().map(|fault| format!(" !{} {}", fault.at, fault.message)).collect();
        mark.to_owned() + &sheet.pieces.iter().map(piece).collect::<String>() + &faults
    }

    #[test]
    fn a_sheet_is_cut_where_it_names_files_and_nowhere_else() {
        for (text, expected) in [
            ("a{color:red}", "a{color:red}"),
            (
                "a{background:url(./a.png) , url( 'b.png' ),url(\"c d.svg#x\")}",
                "a{background:<url ./a.png> , <url b.png>,<url c d.svg#x>}",
            ),
            (
                "/* url(x.png) @import 'a.css'; */b{content:\"url(x)\"}",
                "/* url(x.png) @import 'a.css'; */b{content:\"url(x)\"}",
            ),
            (
                "a{b:url(data:x)} c{d:url(#e)} f{g:url(https://h/i)}",
                "a{b:url(data:x)} c{d:url(#e)} f{g:url(https://h/i)}",
            ),
            ("a{b:url(/x.png)}", "a{b:<url /x.png>}"),
            ("@media (x){a{b:url(c)}}", "@media (x){a{b:<url c>}}"),
            ("@import './a.css';b{}", "<import ./a.css|>b{}"),
            (
                "@import url(a.css) layer(x) supports(display:grid) print and (a:b) ;\n",
                "<import a.css|layer(x) supports(display:grid) print and (a:b)>\n",
            ),
            ("@IMPORT \"tailwindcss\" prefix(tw);", "T <tailwind tailwindcss|prefix(tw)>"),
            ("@import 'tailwindcss/theme.css' layer(theme);", "T <tailwind tailwindcss/theme|layer(theme)>"),
            ("@import url('https://f.test/c?d;e');a{}", "<elsewhere @import url('https://f.test/c?d;e')>a{}"),
            ("@import 'a.css'", "<import a.css|>"),
            ("@import;a{}", "@import;a{}"),
            ("@charset 'utf-8';a{}", "a{}"),
            ("@reference '../i.css';a{@apply p-4;}", "T a{@apply p-4;}"),
            ("@theme{--a:b}", "T @theme{--a:b}"),
            (
                "@plugin './p.js';",
                "T @plugin './p.js'; !0 Tailwind's plugins and JavaScript configuration need a build",
            ),
            ("a{b{c:d}", "a{b{c:d} !1 this `{` is never closed"),
            ("a{}}", "a{}} !3 this `}` closes nothing"),
            ("a{b:'c\n}", "a{b:'c\n} !4 this string is never closed"),
            ("a{content:'}'} /* { */", "a{content:'}'} /* { */"),
        ] {
            assert_eq!(outline(text), expected, "{text}");
        }
    }
}

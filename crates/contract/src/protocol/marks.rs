//! Where content ends: for each place that a parser can stand in, which bytes may begin something, and what does. Nothing here changes
//! the parser; the answers depend on the bytes alone.

use memchr::{memchr, memchr_iter, memchr2};

use super::Dialect;
use super::element::{Element, Lead, lead};
use super::look::{self, Header, Look, is_blank};
use super::parser::{Line, Parser, Place, Until};

/// Something that ends the content before it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mark {
    /// The end of the place.
    End,
    Tag(Lead),
    /// A closing tag in text.
    Closing(Element),
    Header(Header),
}

/// What a look at one place found.
#[derive(Debug, Clone, Copy)]
pub(super) enum Seen {
    Content,
    /// From here on more bytes are needed.
    Unclear(usize),
    /// From, to, what.
    Found(usize, usize, Mark),
}

impl Parser {
    /// The next byte from `from` on that may begin something here.
    pub(super) fn candidate(&self, s: &[u8], from: usize) -> Option<usize> {
        let rest = &s[from..];
        let found = match (&self.place, self.dialect) {
            (Place::Text | Place::Thinking, Dialect::Fenced) => memchr2(b'<', b'[', rest),
            (Place::Text | Place::Thinking, Dialect::Tags) => memchr(b'<', rest),
            (Place::File(Until::Wrapped(fence)), _) => memchr2(b'<', fence.mark, rest),
            (Place::File(Until::Block(fence)) | Place::Skipped(Until::Block(fence)), _) => memchr(fence.mark, rest),
            // Only a closing tag matters; most `<` in code are settled here.
            (Place::File(_) | Place::Body(_) | Place::Skipped(_), _) => {
                memchr_iter(b'<', rest).find(|i| rest.get(i + 1).is_none_or(|next| *next == b'/'))
            }
        };
        found.map(|i| from + i)
    }

    /// What stands at `i`. Content before it begins at `at`.
    pub(super) fn look(&self, s: &[u8], at: usize, i: usize, at_end: bool) -> Seen {
        match &self.place {
            Place::Text | Place::Thinking if s[i] == b'[' => self.look_header(s, at, i, at_end),
            Place::Text => match lead(&s[i..], at_end) {
                Look::Yes(lead) if !lead.closing => Seen::Found(i, i + lead.len, Mark::Tag(lead)),
                Look::Yes(_) => {
                    seen(look::closing_tag(&s[i..], at_end), i, i, |(element, len)| (len, Mark::Closing(element)))
                }
                Look::No => Seen::Content,
                Look::More => Seen::Unclear(i),
            },
            Place::Thinking => self.look_thinking(s, at, i, at_end),
            Place::File(until) | Place::Skipped(until) => self.look_body(s, at, i, *until, at_end),
            Place::Body(held) => self.look_body(s, at, i, Until::Closing(held.element()), at_end),
        }
    }

    fn look_thinking(&self, s: &[u8], at: usize, i: usize, at_end: bool) -> Seen {
        let start = before_line_break(s, at, i);
        match lead(&s[i..], at_end) {
            Look::Yes(lead) if lead.closing => match look::closing_tag(&s[i..], at_end) {
                Look::Yes((Element::Thinking, len)) => Seen::Found(start, i + len, Mark::End),
                Look::Yes(_) | Look::No => Seen::Content,
                Look::More => Seen::Unclear(start),
            },
            Look::Yes(lead) if lead.element != Element::Thinking && self.line_at(s, at, i) != Line::Used => {
                Seen::Found(start, i + lead.len, Mark::Tag(lead))
            }
            Look::Yes(_) | Look::No => Seen::Content,
            Look::More => Seen::Unclear(start),
        }
    }

    fn look_body(&self, s: &[u8], at: usize, i: usize, until: Until, at_end: bool) -> Seen {
        let (Until::Wrapped(fence) | Until::Block(fence)) = until else {
            return self.look_closing(s, at, i, until, at_end);
        };
        if s[i] != fence.mark {
            return self.look_closing(s, at, i, until, at_end);
        }
        let Some(line) = self.line_start(s, at, i) else { return Seen::Content };
        let end = match until {
            Until::Block(_) => look::ends_block(&s[i..], fence, at_end),
            Until::Wrapped(_) | Until::Closing(_) => look::ends_wrapped(&s[i..], fence, at_end),
        };
        seen(end, i, before_line_break(s, at, line), |len| (len, Mark::End))
    }

    fn look_closing(&self, s: &[u8], at: usize, i: usize, until: Until, at_end: bool) -> Seen {
        let element = match until {
            Until::Closing(element) => element,
            Until::Wrapped(_) | Until::Block(_) => Element::File,
        };
        // Most closing tags in code are settled here.
        if s.get(i + 2).is_some_and(|initial| !element.may_begin_with(*initial)) {
            return Seen::Content;
        }
        let first = element.holds_code() && self.line_at(s, at, i) != Line::Used;
        let end = look::ends_body(&s[i..], element, first, at_end);
        seen(end, i, before_line_break(s, at, i), |len| (len, Mark::End))
    }

    fn look_header(&self, s: &[u8], at: usize, i: usize, at_end: bool) -> Seen {
        if self.line_at(s, at, i) == Line::Used {
            return Seen::Content;
        }
        let thinking = matches!(self.place, Place::Thinking);
        let start = if thinking { before_line_break(s, at, i) } else { i };
        match look::header(&s[i..], at_end) {
            Look::Yes(header) if header.fence.is_none() && thinking => Seen::Content,
            answer => seen(answer, i, start, |header| (header.len, Mark::Header(header))),
        }
    }

    /// How far content is settled when nothing in it may begin a mark: a line break at its end may belong to a closing tag, and blanks
    /// behind one to a fence.
    pub(super) fn settled(&self, s: &[u8], at: usize) -> usize {
        match &self.place {
            Place::Text | Place::Skipped(Until::Closing(_)) => s.len(),
            Place::Thinking | Place::Body(_) | Place::File(Until::Closing(_)) => before_open_line_break(s, at),
            Place::File(_) | Place::Skipped(_) => match self.line_start(s, at, s.len()) {
                Some(line) => before_line_break(s, at, line),
                None => before_open_line_break(s, at),
            },
        }
    }

    /// What stands before `i` on its line.
    pub(super) fn line_at(&self, s: &[u8], at: usize, i: usize) -> Line {
        let blanks = s[at..i].iter().rev().take_while(|b| is_blank(**b)).count();
        let before = match i - blanks {
            start if start == at => self.line,
            start if s[start - 1] == b'\n' => Line::Start,
            _ => Line::Used,
        };
        match before {
            Line::Start if blanks > 0 => Line::Blank,
            before => before,
        }
    }

    /// Where the line of `i` begins, if no more than the indent of a fence stands before `i` on it.
    fn line_start(&self, s: &[u8], at: usize, i: usize) -> Option<usize> {
        let blanks = s[at..i].iter().rev().take(look::MAX_INDENT + 1).take_while(|b| is_blank(**b)).count();
        let start = i - blanks;
        let begins = if start == at { self.line == Line::Start } else { s[start - 1] == b'\n' };
        (begins && blanks <= look::MAX_INDENT).then_some(start)
    }
}

/// Makes an answer about the bytes from `i` on one about the content before `start`.
fn seen<T>(answer: Look<T>, i: usize, start: usize, mark: impl FnOnce(T) -> (usize, Mark)) -> Seen {
    match answer {
        Look::Yes(found) => {
            let (len, mark) = mark(found);
            Seen::Found(start, i + len, mark)
        }
        Look::No => Seen::Content,
        Look::More => Seen::Unclear(start),
    }
}

/// `i` without the one line break before it.
fn before_line_break(s: &[u8], at: usize, i: usize) -> usize {
    match &s[at..i] {
        [.., b'\r', b'\n'] => i - 2,
        [.., b'\n'] => i - 1,
        _ => i,
    }
}

/// The end of `s` without a line break that may not be whole yet.
fn before_open_line_break(s: &[u8], at: usize) -> usize {
    match &s[at..] {
        [.., b'\r'] => s.len() - 1,
        _ => before_line_break(s, at, s.len()),
    }
}

//! Questions about the bytes at one place: does a closing tag, a fence, a `[FILE:` line stand here? Every answer is a function of the
//! bytes alone, and *more* is an answer, so that no chunking can change what is found. Each looks at a bounded number of bytes.

use memchr::memchr;

use super::element::{Element, lead};

/// Most blanks that may stand in a closing tag, and between a closing tag and what proves that it closes (contracts.md § 2).
const MAX_BLANKS: usize = 64;
/// Most blanks and line breaks between two things that belong together: a `[FILE:` line and its block, a block and what follows it,
/// elements of a sandbox.
pub(super) const MAX_GAP: usize = 256;
/// Most blanks before a fence on its line, as in CommonMark.
pub(super) const MAX_INDENT: usize = 3;
/// Longest fence, and shortest.
const FENCE: std::ops::RangeInclusive<usize> = 3..=64;
/// Longest info string behind an opening fence, with its line break.
const MAX_INFO: usize = 256;
/// Longest `[FILE: path]` line: a path of the greatest length and room for blanks.
const MAX_HEADER: usize = 2 * 1024;
const HEADER: &[u8] = b"[FILE:";

/// An answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Look<T> {
    /// It stands here.
    Yes(T),
    /// It does not, whatever follows.
    No,
    /// The bytes so far do not tell.
    More,
}

impl<T> Look<T> {
    /// The answer when the bytes are used up: nothing more comes at the end.
    pub(super) fn more(at_end: bool) -> Self {
        if at_end { Self::No } else { Self::More }
    }
}

/// A fence: which character, how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fence {
    pub(super) mark: u8,
    len: usize,
}

pub(super) fn is_blank(b: u8) -> bool {
    matches!(b, b' ' | b'\t')
}

/// How many bytes at the beginning of `s` are as `is` says, counted up to one more than `most`.
fn run(s: &[u8], most: usize, is: impl Fn(u8) -> bool) -> usize {
    s.iter().take(most + 1).take_while(|b| is(**b)).count()
}

/// A line break here: how many bytes.
pub(super) fn line_break(s: &[u8], at_end: bool) -> Look<usize> {
    match s {
        [b'\n', ..] => Look::Yes(1),
        [b'\r', b'\n', ..] => Look::Yes(2),
        [] | [b'\r'] => Look::more(at_end),
        _ => Look::No,
    }
}

/// A whole closing tag of the protocol here: its element and length.
pub(super) fn closing_tag(s: &[u8], at_end: bool) -> Look<(Element, usize)> {
    let lead = match lead(s, at_end) {
        Look::Yes(lead) if lead.closing => lead,
        Look::Yes(_) | Look::No => return Look::No,
        Look::More => return Look::More,
    };
    let blanks = run(&s[lead.len..], MAX_BLANKS, |b| b.is_ascii_whitespace());
    match s.get(lead.len + blanks) {
        _ if blanks > MAX_BLANKS => Look::No,
        Some(b'>') => Look::Yes((lead.element, lead.len + blanks + 1)),
        Some(_) => Look::No,
        None => Look::more(at_end),
    }
}

/// A closing tag that ends the body of `element` here: its length. `first` tells whether it is the first thing on its line.
pub(super) fn ends_body(s: &[u8], element: Element, first: bool, at_end: bool) -> Look<usize> {
    let len = match closing_tag(s, at_end) {
        Look::Yes((closed, len)) if closed == element => len,
        Look::Yes(_) | Look::No => return Look::No,
        Look::More => return Look::More,
    };
    if first || !element.holds_code() {
        return Look::Yes(len);
    }
    let rest = &s[len..];
    let blanks = run(rest, MAX_BLANKS, is_blank);
    match rest.get(blanks) {
        _ if blanks > MAX_BLANKS => Look::No,
        Some(b'\n' | b'\r') => Look::Yes(len),
        Some(b'<') => match lead(&rest[blanks..], at_end) {
            Look::Yes(_) => Look::Yes(len),
            Look::No => Look::No,
            Look::More => Look::More,
        },
        Some(_) => Look::No,
        None if at_end => Look::Yes(len),
        None => Look::More,
    }
}

/// An opening fence line here, up to and with its line break: the fence and the line's length.
pub(super) fn opening_fence(s: &[u8], at_end: bool) -> Look<(Fence, usize)> {
    let indent = run(s, MAX_INDENT, is_blank);
    let mark = match s.get(indent) {
        _ if indent > MAX_INDENT => return Look::No,
        Some(mark @ (b'`' | b'~')) => *mark,
        Some(_) => return Look::No,
        None => return Look::more(at_end),
    };
    let len = run(&s[indent..], *FENCE.end(), |b| b == mark);
    let info = &s[indent + len..];
    let info = &info[..info.len().min(MAX_INFO)];
    if info.is_empty() && len <= *FENCE.end() {
        return Look::more(at_end);
    }
    if !FENCE.contains(&len) {
        return Look::No;
    }
    // A backtick makes it inline code, a `<` may be the closing tag: neither stands in an info string.
    match info.iter().position(|b| matches!(b, b'\n' | b'<') || (*b == b'`' && mark == b'`')) {
        Some(end) if info[end] == b'\n' => Look::Yes((Fence { mark, len }, indent + len + end + 1)),
        Some(_) => Look::No,
        None if info.len() == MAX_INFO => Look::No,
        None => Look::more(at_end),
    }
}

/// How long a fence is that may close `fence`, here where its characters begin.
fn closing_run(s: &[u8], fence: Fence, at_end: bool) -> Look<usize> {
    let len = run(s, *FENCE.end(), |b| b == fence.mark);
    if len > *FENCE.end() || (len < fence.len && len < s.len()) {
        return Look::No;
    }
    if len == s.len() && !at_end {
        return Look::More;
    }
    if len < fence.len { Look::No } else { Look::Yes(len) }
}

/// The last line of a fence that wraps a whole file, and the file's closing tag behind it: the length of both.
pub(super) fn ends_wrapped(s: &[u8], fence: Fence, at_end: bool) -> Look<usize> {
    let len = match closing_run(s, fence, at_end) {
        Look::Yes(len) => len,
        Look::No => return Look::No,
        Look::More => return Look::More,
    };
    let gap = run(&s[len..], MAX_BLANKS, |b| b.is_ascii_whitespace());
    let tag = len + gap;
    match s.get(tag) {
        _ if gap > MAX_BLANKS => Look::No,
        Some(b'<') => match ends_body(&s[tag..], Element::File, s[len..tag].contains(&b'\n'), at_end) {
            Look::Yes(closing) => Look::Yes(tag + closing),
            Look::No => Look::No,
            Look::More => Look::More,
        },
        Some(_) => Look::No,
        None => Look::more(at_end),
    }
}

/// The fence that ends a `[FILE:` block, here where its characters begin: its length, with the blanks behind it.
pub(super) fn ends_block(s: &[u8], fence: Fence, at_end: bool) -> Look<usize> {
    let len = match closing_run(s, fence, at_end) {
        Look::Yes(len) => len,
        Look::No => return Look::No,
        Look::More => return Look::More,
    };
    let gap = run(&s[len..], MAX_GAP, |b| b.is_ascii_whitespace());
    let line = len + run(&s[len..len + gap], MAX_GAP, is_blank);
    let bare = s[line..len + gap].iter().any(|b| matches!(b, b'\n' | b'\r'));
    let after = &s[len + gap..];
    let followed = match after.first() {
        _ if gap > MAX_GAP => Look::No,
        None if at_end => Look::Yes(()),
        None => Look::More,
        Some(_) if !bare => Look::No,
        Some(b'<') => match lead(after, at_end) {
            Look::Yes(_) => Look::Yes(()),
            Look::No => Look::No,
            Look::More => Look::More,
        },
        Some(_) => begins_header(after, at_end),
    };
    match followed {
        Look::Yes(()) => Look::Yes(line),
        Look::No => Look::No,
        Look::More => Look::More,
    }
}

fn begins_header(s: &[u8], at_end: bool) -> Look<()> {
    let known = s.len().min(HEADER.len());
    if !s[..known].eq_ignore_ascii_case(&HEADER[..known]) {
        return Look::No;
    }
    if known == HEADER.len() { Look::Yes(()) } else { Look::more(at_end) }
}

/// A `[FILE: path]` line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    /// Where the path stands.
    pub(super) path: (usize, usize),
    /// Up to the block's content; without a block, the line without its line break.
    pub(super) len: usize,
    /// The fence that opens the block; none if no block follows.
    pub(super) fence: Option<Fence>,
}

/// A `[FILE: path]` line here, where it is the first thing on its line, and the fence behind it, blank lines apart.
pub(super) fn header(s: &[u8], at_end: bool) -> Look<Header> {
    match begins_header(s, at_end) {
        Look::Yes(()) => {}
        Look::No => return Look::No,
        Look::More => return Look::More,
    }
    let window = &s[..s.len().min(MAX_HEADER)];
    let end = match memchr(b'\n', window) {
        Some(end) => end,
        None if window.len() == MAX_HEADER => return Look::No,
        None if at_end => window.len(),
        None => return Look::More,
    };
    // The path may have brackets of its own: `app/[id]/page.tsx`.
    let line = s[..end].trim_ascii_end();
    let Some(path) = line[HEADER.len()..].strip_suffix(b"]") else { return Look::No };
    let from = HEADER.len() + (path.len() - path.trim_ascii_start().len());
    let path = (from, from + path.trim_ascii().len());
    let alone = Look::Yes(Header { path, len: line.len(), fence: None });
    let rest = &s[end..];
    let gap = run(rest, MAX_GAP, |b| b.is_ascii_whitespace());
    if gap > MAX_GAP {
        return alone;
    }
    match opening_fence(&rest[gap..], at_end) {
        Look::Yes((fence, len)) => Look::Yes(Header { path, len: end + gap + len, fence: Some(fence) }),
        Look::No => alone,
        Look::More => Look::More,
    }
}

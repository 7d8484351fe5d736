//! The parser: where in a response it stands, what it holds back, and one loop.
//!
//! [`Parser::run`] reads as far as the bytes allow and says how many it used. What it could not use is held, and put before the bytes
//! that come next. Every decision is a function of the bytes from one place on (`look`, `marks`, `tag`), so chunking cannot change it; the only
//! thing that chunking decides is into how many frames content is cut.

use std::borrow::Cow;

use super::action::{self, Held, Opened};
use super::element::{Element, Lead};
use super::frame::{Fault, Frame};
use super::look::{self, Fence, Header, Look};
use super::marks::{Mark, Seen};
use super::tag::{Attributes, Progress, Scan};
use super::{Dialect, MAX_BODY_BYTES, MAX_TAG_BYTES, utf8};

/// How many bytes are copied at a time behind those that are held, until the held ones are used up and reading goes on in the input.
const BRIDGE_BYTES: usize = 128;

/// A push parser for one response after the other.
#[derive(Debug)]
pub struct Parser {
    pub(super) dialect: Dialect,
    pub(super) place: Place,
    /// What of the beginning of a body is still to be dropped.
    opening: Opening,
    /// A tag whose `>` has not been seen.
    tag: Option<OpenTag>,
    in_sandbox: bool,
    /// Nothing but blanks since the last element; they are nothing if another element follows within a sandbox.
    only_blanks: bool,
    /// What stands before the next byte on its line.
    pub(super) line: Line,
    /// The byte before the next one.
    before: u8,
    /// Bytes that could not be used yet.
    held: Vec<u8>,
    /// The body of an edit, install or skill element.
    body: Vec<u8>,
}

/// The element whose content the next byte is.
#[derive(Debug)]
pub(super) enum Place {
    Text,
    Thinking,
    File(Until),
    Body(Held),
    /// The body of an element that was refused.
    Skipped(Until),
}

/// What ends a body.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    /// The element's closing tag.
    Closing(Element),
    /// The closing tag of a file, with the fence that wraps the file if it comes before.
    Wrapped(Fence),
    /// A fence.
    Block(Fence),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    Nothing,
    LineBreak,
    LineBreakAndFence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// Nothing.
    Start,
    /// Blanks.
    Blank,
    /// More than blanks.
    Used,
}

#[derive(Debug, Clone, Copy)]
struct OpenTag {
    lead: Lead,
    /// Where its `<` stands, counted from the first unused byte.
    at: usize,
    /// How many of its bytes have been read.
    read: usize,
    scan: Scan,
    /// It may as well be a word about a tag, as in `Array<File>`: it needs all its attributes to be one.
    doubtful: bool,
    /// It was refused as too long, and its bytes are no longer held.
    too_long: bool,
}

enum Step {
    /// Go on here.
    On(usize),
    /// Nothing can be done with the bytes from here on.
    Wait(usize),
}

impl Parser {
    /// A parser at the beginning of a response.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            place: Place::Text,
            opening: Opening::Nothing,
            tag: None,
            in_sandbox: false,
            only_blanks: true,
            line: Line::Start,
            before: b'\n',
            held: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Reads the next bytes of the response. Whatever can be decided leaves before this returns.
    pub fn push(&mut self, mut bytes: &[u8], sink: &mut impl FnMut(Frame<'_>)) {
        while !self.held.is_empty() && !bytes.is_empty() {
            let mut held = std::mem::take(&mut self.held);
            let before = held.len();
            let piece = bytes.len().min(BRIDGE_BYTES);
            held.extend_from_slice(&bytes[..piece]);
            let used = self.run(&held, false, sink);
            if used >= before {
                bytes = &bytes[used - before..];
                held.clear();
            } else {
                bytes = &bytes[piece..];
                held.drain(..used);
            }
            self.held = held;
        }
        if !bytes.is_empty() {
            let used = self.run(bytes, false, sink);
            self.held.extend_from_slice(&bytes[used..]);
        }
    }

    /// Ends the response: what is held back is decided, what is open is closed. The parser then stands at the beginning of the next.
    pub fn finish(&mut self, sink: &mut impl FnMut(Frame<'_>)) {
        let held = std::mem::take(&mut self.held);
        self.run(&held, true, sink);
        match std::mem::replace(&mut self.place, Place::Text) {
            Place::Text | Place::Skipped(_) => {}
            Place::Thinking => sink(Frame::ThinkingEnd),
            Place::File(_) => sink(Frame::FileEnd { complete: false }),
            Place::Body(held) => sink(Frame::Error(Fault::incomplete(held.element()))),
        }
        if self.in_sandbox {
            sink(Frame::SandboxEnd);
        }
        *self = Self::new(self.dialect);
    }

    /// How many bytes are held back at this moment; at most [`super::MAX_HELD_BYTES`].
    pub fn held_back(&self) -> usize {
        self.held.len() + self.body.len()
    }

    /// Reads `s` as far as it can and returns how many bytes it used: at the end all of them.
    fn run(&mut self, s: &[u8], at_end: bool, sink: &mut impl FnMut(Frame<'_>)) -> usize {
        let mut at = 0;
        loop {
            let step = if self.tag.is_some() {
                self.read_tag(s, at, at_end, sink)
            } else if self.opening != Opening::Nothing {
                self.read_opening(s, at, at_end)
            } else {
                self.read_content(s, at, at_end, sink)
            };
            match step {
                Step::On(next) => at = next,
                Step::Wait(next) => return next,
            }
        }
    }

    /// Drops the line break after an opening tag, and a fence that wraps a file.
    fn read_opening(&mut self, s: &[u8], at: usize, at_end: bool) -> Step {
        let mut next = match look::line_break(&s[at..], at_end) {
            Look::Yes(len) => at + len,
            Look::No => at,
            Look::More => return Step::Wait(at),
        };
        if self.opening == Opening::LineBreakAndFence {
            match look::opening_fence(&s[next..], at_end) {
                Look::Yes((fence, len)) => {
                    self.place = Place::File(Until::Wrapped(fence));
                    next += len;
                }
                Look::No => {}
                Look::More => return Step::Wait(at),
            }
        }
        // The first line of thinking is that of its tag; that of a file is its own.
        let own = next > at || !matches!(self.place, Place::Thinking);
        self.line = if own { Line::Start } else { Line::Used };
        self.opening = Opening::Nothing;
        Step::On(next)
    }

    /// Reads content up to the next mark, or to the end of what is known.
    fn read_content(&mut self, s: &[u8], at: usize, at_end: bool, sink: &mut impl FnMut(Frame<'_>)) -> Step {
        let mut from = at;
        while let Some(i) = self.candidate(s, from) {
            match self.look(s, at, i, at_end) {
                Seen::Content => from = i + 1,
                Seen::Unclear(start) => return Step::Wait(self.release(s, at, start, false, sink)),
                Seen::Found(start, end, mark) => return self.enter(s, (at, start, end), mark, sink),
            }
        }
        let end = if at_end { s.len() } else { self.settled(s, at) };
        Step::Wait(self.release(s, at, end, at_end, sink))
    }

    /// Releases the content before a mark, and does what the mark says.
    fn enter(
        &mut self,
        s: &[u8],
        (at, start, end): (usize, usize, usize),
        mark: Mark,
        sink: &mut impl FnMut(Frame<'_>),
    ) -> Step {
        if !matches!(mark, Mark::Header(Header { fence: None, .. })) {
            self.release(s, at, start, true, sink);
        }
        match mark {
            Mark::Tag(lead) => {
                let at = end - lead.len - start;
                let word = self.before.is_ascii_alphanumeric() || matches!(self.before, b'_' | b'`' | b'"' | b'\'');
                let doubtful = word || matches!(self.place, Place::Thinking);
                self.tag = Some(OpenTag { lead, at, read: lead.len, scan: Scan::new(), doubtful, too_long: false });
                return Step::On(start);
            }
            Mark::End => self.leave(sink),
            Mark::Closing(Element::Sandbox) if self.in_sandbox => {
                self.in_sandbox = false;
                sink(Frame::SandboxEnd);
            }
            Mark::Closing(_) => {}
            Mark::Header(header) => {
                let first = end - header.len;
                let written = utf8::text(&s[first + header.path.0..first + header.path.1]);
                let Some(fence) = header.fence else {
                    self.release(s, at, end, true, sink);
                    sink(Frame::Error(Fault::missing_block(&written)));
                    return Step::On(end);
                };
                self.end_thinking(sink);
                self.begin_file(action::path(Element::File, &written), Until::Block(fence), sink);
                self.opening = Opening::Nothing;
                self.line = Line::Start;
                return Step::On(end);
            }
        }
        self.after_tag();
        Step::On(end)
    }

    /// What stands next begins anew.
    fn after_tag(&mut self) {
        self.line = Line::Used;
        self.before = b'>';
        self.only_blanks = true;
    }

    /// The end of the place has been read.
    fn leave(&mut self, sink: &mut impl FnMut(Frame<'_>)) {
        match std::mem::replace(&mut self.place, Place::Text) {
            Place::Text | Place::Skipped(_) => {}
            Place::Thinking => sink(Frame::ThinkingEnd),
            Place::File(_) => sink(Frame::FileEnd { complete: true }),
            Place::Body(held) => {
                let body = std::mem::take(&mut self.body);
                sink(held.act(&body).unwrap_or_else(Frame::Error));
            }
        }
    }

    fn end_thinking(&mut self, sink: &mut impl FnMut(Frame<'_>)) {
        if matches!(self.place, Place::Thinking) {
            self.place = Place::Text;
            sink(Frame::ThinkingEnd);
        }
    }

    /// Reads the tag that is open, which begins `tag.at` bytes after `at`.
    fn read_tag(&mut self, s: &[u8], at: usize, at_end: bool, sink: &mut impl FnMut(Frame<'_>)) -> Step {
        let Some(mut tag) = self.tag.take() else { return Step::On(at) };
        if tag.too_long {
            return self.read_long_tag(tag, s, at);
        }
        let first = at + tag.at;
        let unread = first + tag.read;
        let most = s.len().min(first + MAX_TAG_BYTES);
        let thinking = matches!(self.place, Place::Thinking);
        match tag.scan.advance(&s[unread..most]) {
            Progress::Ends(len) => {
                let end = unread + len;
                let inside = utf8::text(&s[first + tag.lead.len..end - 1]);
                let attributes = Attributes::new(&inside);
                let fits = || {
                    let needs = tag.lead.element.needs();
                    tag.scan.is_well_formed() && needs.iter().all(|name| attributes.get(name).is_some())
                };
                if tag.doubtful && !fits() {
                    return self.not_a_tag(s, at, first, sink);
                }
                self.end_thinking(sink);
                self.act(tag, attributes, sink);
                Step::On(end)
            }
            Progress::Broken(len) if tag.scan.has_values() && !tag.doubtful => {
                self.refuse(tag, Fault::bad_tag(tag.lead.element), sink);
                Step::On(unread + len)
            }
            Progress::Broken(_) => self.not_a_tag(s, at, first, sink),
            Progress::Inside if most - first == MAX_TAG_BYTES && thinking => self.not_a_tag(s, at, first, sink),
            Progress::Inside if most - first == MAX_TAG_BYTES => {
                sink(Frame::Error(Fault::tag_too_long(tag.lead.element)));
                self.tag = Some(OpenTag { too_long: true, ..tag });
                Step::On(most)
            }
            Progress::Inside if at_end && thinking => self.not_a_tag(s, at, first, sink),
            Progress::Inside if at_end => {
                // Not read again: what stands in quotes that were never closed must not act either.
                self.release(s, at, s.len(), true, sink);
                if tag.scan.has_values() {
                    sink(Frame::Error(Fault::incomplete(tag.lead.element)));
                }
                Step::Wait(s.len())
            }
            Progress::Inside => {
                tag.read = most - first;
                self.tag = Some(tag);
                Step::Wait(at)
            }
        }
    }

    /// Goes on to the end of a tag that was refused, holding nothing.
    fn read_long_tag(&mut self, mut tag: OpenTag, s: &[u8], at: usize) -> Step {
        let end = match tag.scan.advance(&s[at..]) {
            Progress::Ends(len) | Progress::Broken(len) => at + len,
            Progress::Inside => {
                self.tag = Some(tag);
                return Step::Wait(s.len());
            }
        };
        self.after_tag();
        self.skip_body(tag);
        Step::On(end)
    }

    /// What looked like a tag is content: its `<` leaves, and reading goes on behind it.
    fn not_a_tag(&mut self, s: &[u8], at: usize, first: usize, sink: &mut impl FnMut(Frame<'_>)) -> Step {
        Step::On(self.release(s, at, first + 1, true, sink))
    }

    /// Does what a whole tag says.
    fn act(&mut self, tag: OpenTag, attributes: Attributes<'_>, sink: &mut impl FnMut(Frame<'_>)) {
        let needs_attributes = !tag.lead.element.needs().is_empty();
        if needs_attributes && !tag.scan.is_well_formed() {
            return self.refuse(tag, Fault::bad_tag(tag.lead.element), sink);
        }
        let empty = tag.scan.self_closing();
        self.after_tag();
        match action::open(tag.lead.element, attributes) {
            Ok(Opened::Thinking) => {
                sink(Frame::ThinkingStart);
                self.place = Place::Thinking;
                self.opening = Opening::LineBreak;
            }
            Ok(Opened::Sandbox { project, base }) => {
                if !self.in_sandbox {
                    sink(Frame::SandboxStart { project, base });
                    if empty {
                        sink(Frame::SandboxEnd);
                    }
                    self.in_sandbox = !empty;
                }
                return;
            }
            Ok(Opened::File(path)) => self.begin_file(Ok(path), Until::Closing(Element::File), sink),
            Ok(Opened::Body(held)) => {
                self.place = Place::Body(held);
                self.opening = Opening::LineBreak;
            }
            Ok(Opened::Acts(frame)) => {
                if frame == Frame::Done && std::mem::take(&mut self.in_sandbox) {
                    sink(Frame::SandboxEnd);
                }
                return sink(frame);
            }
            Err(fault) => return self.refuse(tag, fault, sink),
        }
        if empty {
            self.opening = Opening::Nothing;
            self.leave(sink);
        }
    }

    fn begin_file(
        &mut self,
        path: Result<crate::path::ProjectPath, Fault>,
        until: Until,
        sink: &mut impl FnMut(Frame<'_>),
    ) {
        match path {
            Ok(path) => {
                let markdown = path.extension().is_some_and(|extension| {
                    ["md", "mdx", "markdown"].iter().any(|known| extension.eq_ignore_ascii_case(known))
                });
                self.opening = if markdown { Opening::LineBreak } else { Opening::LineBreakAndFence };
                self.place = Place::File(until);
                sink(Frame::FileStart { path });
            }
            Err(fault) => {
                self.place = Place::Skipped(until);
                sink(Frame::Error(fault));
            }
        }
    }

    /// Tells what is wrong with an element, and reads on behind it.
    fn refuse(&mut self, tag: OpenTag, fault: Fault, sink: &mut impl FnMut(Frame<'_>)) {
        self.after_tag();
        sink(Frame::Error(fault));
        self.skip_body(tag);
    }

    /// Reads on behind the body of an element that was refused.
    fn skip_body(&mut self, tag: OpenTag) {
        if tag.lead.element.has_body() && !tag.scan.self_closing() {
            self.place = Place::Skipped(Until::Closing(tag.lead.element));
            self.opening = Opening::LineBreak;
        }
    }

    /// Whether this is the whole of what stands between two elements of a sandbox, and nothing but blanks.
    fn is_gap(&self, content: &[u8]) -> bool {
        self.in_sandbox
            && self.only_blanks
            && matches!(self.place, Place::Text)
            && content.len() <= look::MAX_GAP
            && content.iter().all(u8::is_ascii_whitespace)
    }

    /// Hands out the content from `at` to `to`, with `whole` because something else begins there. Returns where reading goes on.
    fn release(&mut self, s: &[u8], at: usize, to: usize, whole: bool, sink: &mut impl FnMut(Frame<'_>)) -> usize {
        let content = &s[at..to];
        if self.is_gap(content) {
            return if whole { to } else { at };
        }
        // A byte that is known behind the content is ASCII: no character goes across it.
        let whole = whole || to < s.len();
        let used = match self.place {
            Place::Text => utf8::decode(content, whole, |text| sink(Frame::Text { content: Cow::Borrowed(text) })),
            Place::Thinking => {
                utf8::decode(content, whole, |text| sink(Frame::ThinkingContent { content: Cow::Borrowed(text) }))
            }
            Place::File(_) => {
                utf8::decode(content, whole, |text| sink(Frame::FileContent { content: Cow::Borrowed(text) }))
            }
            Place::Body(_) => self.collect(content, sink),
            Place::Skipped(_) => content.len(),
        };
        if used > 0 {
            self.line = self.line_at(s, at, at + used);
            self.before = s[at + used - 1];
            self.only_blanks = false;
        }
        at + used
    }

    /// Adds to the body of an element that acts when it is whole.
    fn collect(&mut self, content: &[u8], sink: &mut impl FnMut(Frame<'_>)) -> usize {
        if self.body.len() + content.len() <= MAX_BODY_BYTES {
            self.body.extend_from_slice(content);
        } else if let Place::Body(held) = &self.place {
            let element = held.element();
            self.body = Vec::new();
            self.place = Place::Skipped(Until::Closing(element));
            sink(Frame::Error(Fault::body_too_long(element)));
        }
        content.len()
    }
}

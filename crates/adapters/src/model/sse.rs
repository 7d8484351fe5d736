//! Server-sent events: bytes in, events out, whatever the chunking (WHATWG HTML § 9.2).
//!
//! A push decoder without I/O. It differs from the standard in two named ways, because what it reads are answers of servers and
//! not a browser's connection: it never reconnects (`id` and `retry` are read past), and `finish` gives an event whose last line is
//! whole but whose blank line is missing, since some servers end so. It knows nothing of models.

use std::mem::take;

use thiserror::Error;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The value of `event`; empty if there was none.
    pub name: String,
    /// The lines of `data`, joined by line feeds. Bytes that are no UTF-8 became replacement characters.
    pub data: String,
}

/// The stream broke the decoder's bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("an event of the stream is longer than {limit} bytes")]
pub struct SseTooLong {
    /// The bound in bytes.
    pub limit: usize,
}

/// Decodes one stream.
#[derive(Debug)]
pub struct SseDecoder {
    limit: usize,
    /// The line that is being read, without its end.
    line: Vec<u8>,
    /// The event that is being read.
    name: String,
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was a CR, so a LF now belongs to it.
    after_cr: bool,
    /// No line has been read, so a byte order mark may still come.
    first_line: bool,
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

impl SseDecoder {
    /// A decoder of a new stream. `limit` bounds the bytes of one line and of one event's data; comments are not kept and have no bound.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            name: String::new(),
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            first_line: true,
        }
    }

    /// Takes the next bytes and hands on every event that they complete.
    ///
    /// # Errors
    /// When a line or an event passes the limit. The decoder must not be used any more.
    pub fn push(&mut self, mut bytes: &[u8], mut event: impl FnMut(SseEvent)) -> Result<(), SseTooLong> {
        while !bytes.is_empty() {
            if take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                return self.keep(bytes);
            };
            self.keep(&bytes[..end])?;
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if let Some(whole) = self.end_line()? {
                event(whole);
            }
        }
        Ok(())
    }

    /// The stream has ended. An event that misses only its blank line is given; a line that was cut off is not acted on.
    pub fn finish(mut self) -> Option<SseEvent> {
        self.dispatch()
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), SseTooLong> {
        if self.line.first() == Some(&b':') || (self.line.is_empty() && bytes.first() == Some(&b':')) {
            self.line.clear();
            self.line.push(b':');
            return Ok(());
        }
        if self.line.len() + bytes.len() > self.limit {
            return Err(SseTooLong { limit: self.limit });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<SseEvent>, SseTooLong> {
        let line = take(&mut self.line);
        let mut text = line.as_slice();
        if take(&mut self.first_line) {
            text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        }
        let event = if text.is_empty() { Ok(self.dispatch()) } else { self.field(text).map(|()| None) };
        self.line = line;
        self.line.clear();
        event
    }

    fn field(&mut self, line: &[u8]) -> Result<(), SseTooLong> {
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if self.data.len() + value.len() >= self.limit {
                    return Err(SseTooLong { limit: self.limit });
                }
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let name = take(&mut self.name);
        let data = take(&mut self.data);
        take(&mut self.has_data).then(|| SseEvent { name, data: String::from_utf8_lossy(&data).into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let mut events = Vec::new();
        let mut decoder = SseDecoder::new(1024);
        for piece in pieces {
            decoder.push(piece, |event| events.push(event)).unwrap();
        }
        events.extend(decoder.finish());
        events
    }

    fn event(name: &str, data: &str) -> SseEvent {
        SseEvent { name: name.into(), data: data.into() }
    }

    #[test]
    fn the_standards_examples_and_the_habits_of_servers() {
        let table: [(&str, Vec<SseEvent>); 12] = [
            ("data: one\n\n", vec![event("", "one")]),
            (
                "data: one\r\n\r\ndata: two\r\rdata: three\n\n",
                vec![event("", "one"), event("", "two"), event("", "three")],
            ),
            ("data: YHOO\ndata: +2\ndata: 10\n\n", vec![event("", "YHOO\n+2\n10")]),
            (": a comment\n\ndata:no blank\nid: 1\nretry: 5\n\n", vec![event("", "no blank")]),
            ("data\n\ndata\ndata\n\ndata:", vec![event("", ""), event("", "\n")]),
            ("data:  two blanks\n\n", vec![event("", " two blanks")]),
            ("\u{feff}data: after a mark\n\n", vec![event("", "after a mark")]),
            ("data: \u{feff}\n\n", vec![event("", "\u{feff}")]),
            ("event: error\ndata: {}\n\n", vec![event("error", "{}")]),
            ("event: alone\n\ndata: x\n\n", vec![event("", "x")]),
            ("data: the blank line is missing\n", vec![event("", "the blank line is missing")]),
            ("data: whole\n\ndata: cut o", vec![event("", "whole")]),
        ];
        for (text, events) in table {
            assert_eq!(decode(&[text.as_bytes()]), events, "{text:?}");
        }
    }

    #[test]
    fn a_comment_may_be_endless_and_nothing_else_may() {
        let mut decoder = SseDecoder::new(16);
        for _ in 0..100 {
            decoder.push(b": keep-alive keep-alive", |_| {}).unwrap();
        }
        decoder.push(b"\n", |_| {}).unwrap();
        assert_eq!(decoder.push(b"data: 0123456789012345", |_| {}), Err(SseTooLong { limit: 16 }));
        let mut decoder = SseDecoder::new(16);
        let lines = b"data: 01234567\n".repeat(3);
        assert_eq!(decoder.push(&lines, |_| {}), Err(SseTooLong { limit: 16 }));
    }

    proptest! {
        #[test]
        fn any_chunking_of_any_bytes_gives_the_same_events(
            lines in prop::collection::vec(("(data|event|id|:|da)", "(: ?)?", "\\PC{0,12}", "(\n|\r|\r\n|\n\n|\r\n\r\n)"), 0..20),
            cuts in prop::collection::vec(0_usize..400, 0..12),
        ) {
            let text: String = lines.into_iter().map(|(name, colon, value, end)| name + &colon + &value + &end).collect();
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(decode(&pieces), decode(&[bytes]));
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(decode(&single), decode(&[bytes]));
        }
    }
}

//! Reads an answer: bytes in, model events out, whatever the chunking and whichever server wrote it.
//!
//! The format's reader knows what events say; here is what all formats share: framing, the end and the lack of one, errors inside a
//! stream, a whole document instead of a stream, a web page, limits. Text is never trimmed: blanks and line ends are text. No I/O,
//! no time.

use std::collections::VecDeque;
use std::mem::take;

use contract::event::TokenCount;
use runtime::ports::model::{ModelError, ModelErrorKind, ModelEvent, ModelFinish};
use serde_json::Value;

use super::Secret;
use super::failure::{network, protocol, refused_within};
use super::remote::{ANSWER_WIRE_BYTES, DOCUMENT_BYTES, EVENT_BYTES};
use super::sse::{SseDecoder, SseEvent};
use super::wire::{Piece, Reader, Wire};

/// The pieces that were read.
pub(super) type Pieces = VecDeque<Result<ModelEvent, ModelError>>;

/// Reads one answer.
pub(super) struct Answer {
    wire: Wire,
    reader: Box<dyn Reader>,
    form: Form,
    key: Option<Secret>,
    wire_bytes: u64,
    usage: Option<TokenCount>,
    finish: Option<ModelFinish>,
    progress: Progress,
}

#[derive(Debug)]
enum Form {
    /// Nothing but blanks so far: the first byte that is none tells the form.
    Unknown,
    Stream(SseDecoder),
    Document(Vec<u8>),
}

/// How far the answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Progress {
    /// Nothing of the format came.
    Nothing,
    /// One came, but no text or reasoning.
    Begun,
    /// The model speaks.
    Speaking,
    /// The server named how the answer ended; its usage may follow.
    Finished,
    /// Nothing is read any more: the last piece, be it the end or an error, has been given.
    Closed,
}

impl Answer {
    pub(super) fn new(wire: Wire, key: Option<Secret>) -> Self {
        Self {
            wire,
            reader: wire.reader(),
            form: Form::Unknown,
            key,
            wire_bytes: 0,
            usage: None,
            finish: None,
            progress: Progress::Nothing,
        }
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress
    }

    /// Takes the next bytes.
    pub(super) fn push(&mut self, mut bytes: &[u8], out: &mut Pieces) {
        self.wire_bytes += bytes.len() as u64;
        if self.wire_bytes > ANSWER_WIRE_BYTES {
            return self.fail(protocol(format!("The model's answer is longer than {ANSWER_WIRE_BYTES} bytes.")), out);
        }
        if let Form::Unknown = self.form {
            let blank = |byte: &&u8| byte.is_ascii_whitespace() || "\u{feff}".as_bytes().contains(byte);
            bytes = &bytes[bytes.iter().take_while(blank).count()..];
            self.form = match bytes.first() {
                None => return,
                Some(b'{' | b'[') => Form::Document(Vec::new()),
                Some(b'<') => return self.fail(web_page(), out),
                Some(_) => Form::Stream(SseDecoder::new(EVENT_BYTES)),
            };
        }
        match &mut self.form {
            Form::Unknown => {}
            Form::Document(document) if document.len() + bytes.len() > DOCUMENT_BYTES => {
                self.fail(
                    protocol(format!("The model's answer is one document of more than {DOCUMENT_BYTES} bytes.")),
                    out,
                );
            }
            Form::Document(document) => document.extend_from_slice(bytes),
            Form::Stream(decoder) => {
                let mut frames = Vec::new();
                let pushed = decoder.push(bytes, |frame| frames.push(frame));
                for frame in frames {
                    self.frame(frame, out);
                }
                if let Err(error) = pushed {
                    self.fail(protocol(format!("The model's answer cannot be read: {error}.")), out);
                }
            }
        }
    }

    /// The body has ended as it should.
    pub(super) fn end(&mut self, out: &mut Pieces) {
        match std::mem::replace(&mut self.form, Form::Unknown) {
            Form::Unknown => {}
            Form::Stream(decoder) => {
                if let Some(frame) = decoder.finish() {
                    self.frame(frame, out);
                }
            }
            Form::Document(document) => self.document(&document, out),
        }
        match self.progress {
            Progress::Closed => {}
            Progress::Finished => self.complete(out),
            Progress::Nothing => {
                self.fail(protocol("The model's server answered without an answer of a model in it."), out)
            }
            Progress::Begun | Progress::Speaking => {
                self.fail(
                    network("The model's answer was cut off: the connection ended before the answer did.".into()),
                    out,
                );
            }
        }
    }

    /// The body has ended as it should not. An answer whose end was told is whole all the same.
    pub(super) fn broken(&mut self, error: ModelError, out: &mut Pieces) {
        match self.progress {
            Progress::Closed => {}
            Progress::Finished => self.complete(out),
            Progress::Nothing | Progress::Begun | Progress::Speaking => self.fail(error, out),
        }
    }

    fn frame(&mut self, frame: SseEvent, out: &mut Pieces) {
        let data = frame.data.trim();
        if self.progress == Progress::Closed || data.is_empty() {
            return;
        }
        if data == "[DONE]" {
            return match self.progress {
                Progress::Nothing => self.fail(protocol("The model's server ended its answer before it began."), out),
                Progress::Finished => self.complete(out),
                _ if self.wire.ends_with_done() => self.complete(out),
                // Not this format's end; the connection's will show that the answer was cut off.
                _ => {}
            };
        }
        match serde_json::from_str::<Value>(data) {
            Err(_) if frame.name == "error" => self.refuse(data, out),
            Err(_) => self.fail(protocol("The model's server sent a piece that is not JSON."), out),
            Ok(_) if frame.name == "error" => self.refuse(data, out),
            Ok(value) if is_error(&value) => self.refuse(data, out),
            Ok(value) => {
                let mut pieces = Vec::new();
                self.reader.event(&frame.name, value, &mut pieces);
                self.take(pieces, out);
            }
        }
    }

    fn document(&mut self, document: &[u8], out: &mut Pieces) {
        let text = String::from_utf8_lossy(document);
        let Ok(value) = serde_json::from_str::<Value>(&text) else {
            return self
                .fail(protocol("The model's server answered a document that is not JSON, or half of one."), out);
        };
        if is_error(&value) {
            return self.refuse(&text, out);
        }
        let mut pieces = Vec::new();
        self.reader.document(value, &mut pieces);
        self.take(pieces, out);
    }

    fn take(&mut self, pieces: Vec<Piece>, out: &mut Pieces) {
        for piece in pieces {
            match piece {
                _ if self.progress == Progress::Closed => {}
                Piece::Begun => self.progress = self.progress.max(Progress::Begun),
                Piece::Text(text) => self.say(ModelEvent::Text(text), out),
                Piece::Reasoning(text) => self.say(ModelEvent::Reasoning(text), out),
                Piece::Usage(tokens) => {
                    if self.usage.replace(tokens) != Some(tokens) {
                        out.push_back(Ok(ModelEvent::Usage(tokens)));
                    }
                }
                Piece::Finish(finish) => {
                    self.finish = Some(finish);
                    self.progress = self.progress.max(Progress::Finished);
                }
                Piece::End => self.complete(out),
                Piece::Refused(value) => self.refuse(&value.to_string(), out),
            }
        }
    }

    fn say(&mut self, piece: ModelEvent, out: &mut Pieces) {
        self.progress = self.progress.max(Progress::Speaking);
        out.push_back(Ok(piece));
    }

    fn complete(&mut self, out: &mut Pieces) {
        self.progress = Progress::Closed;
        out.push_back(Ok(ModelEvent::Finish(take(&mut self.finish).unwrap_or(ModelFinish::Stop))));
    }

    fn refuse(&mut self, body: &str, out: &mut Pieces) {
        let error = refused_within(self.wire, body, self.key.as_ref());
        self.fail(error, out);
    }

    fn fail(&mut self, error: ModelError, out: &mut Pieces) {
        if self.progress != Progress::Closed {
            self.progress = Progress::Closed;
            out.push_back(Err(error));
        }
    }
}

/// Whether an event or a document is an error in the shape that all formats share. Others know their readers.
fn is_error(value: &Value) -> bool {
    let error = value.get(0).unwrap_or(value).get("error");
    error.is_some_and(|error| !error.is_null() && *error != Value::Bool(false))
}

fn web_page() -> ModelError {
    ModelError {
        kind: ModelErrorKind::BadRequest,
        message: "The model's server answered a web page: is the base URL right? Most end with /v1.".into(),
        retry_after_ms: None,
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod transcripts;

//! Reads an answer: bytes in, model events out, whatever the chunking and whichever server wrote it.
//!
//! What servers do differently is dealt with here, and only here: reasoning as `reasoning_content` or `reasoning`, content in
//! parts, empty deltas, usage missing, early or in every frame, an end without `[DONE]`, errors inside a stream, a whole document
//! instead of a stream, a web page. Text is never trimmed: blanks and line ends are text. No I/O, no time.

use std::collections::VecDeque;
use std::mem::take;

use contract::event::TokenCount;
use runtime::ports::model::{ModelError, ModelErrorKind, ModelEvent, ModelFinish};
use serde_json::Value;

use super::super::Secret;
use super::super::sse::{SseDecoder, SseEvent};
use super::failure::{Refusal, network, protocol, refused};
use super::{ANSWER_WIRE_BYTES, DOCUMENT_BYTES, EVENT_BYTES, usage};

/// The pieces that were read.
pub(super) type Pieces = VecDeque<Result<ModelEvent, ModelError>>;

/// Reads one answer.
#[derive(Debug)]
pub(super) struct Answer {
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
    /// No frame of chat completions came.
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
    pub(super) fn new(key: Option<Secret>) -> Self {
        Self { form: Form::Unknown, key, wire_bytes: 0, usage: None, finish: None, progress: Progress::Nothing }
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
                _ => self.complete(out),
            };
        }
        let Ok(mut value) = serde_json::from_str::<Value>(data) else {
            if frame.name == "error" {
                return self.refuse(data, out);
            }
            return self.fail(protocol("The model's server sent a piece that is not JSON."), out);
        };
        if frame.name == "error" || is_error(&value) {
            return self.refuse(data, out);
        }
        self.choice(&mut value, "delta", out);
        self.count(&value, out);
    }

    fn document(&mut self, document: &[u8], out: &mut Pieces) {
        let text = String::from_utf8_lossy(document);
        let Ok(mut value) = serde_json::from_str::<Value>(&text) else {
            return self
                .fail(protocol("The model's server answered a document that is not JSON, or half of one."), out);
        };
        if is_error(&value) {
            return self.refuse(&text, out);
        }
        self.choice(&mut value, "message", out);
        self.count(&value, out);
        if self.progress > Progress::Nothing && self.progress < Progress::Closed {
            self.complete(out);
        }
    }

    /// Reads the first choice; `holder` is the field that its text is in.
    fn choice(&mut self, value: &mut Value, holder: &str, out: &mut Pieces) {
        let Some(choices) = value.get_mut("choices").and_then(Value::as_array_mut) else { return };
        self.progress = self.progress.max(Progress::Begun);
        let first = |choice: &&mut Value| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0;
        let Some(choice) = choices.iter_mut().find(first) else { return };
        if let Some(said) = choice.get_mut(holder) {
            let reasoning = ["reasoning_content", "reasoning"].into_iter().find_map(|field| text(said.get_mut(field)?));
            if let Some(reasoning) = reasoning {
                self.say(ModelEvent::Reasoning(reasoning), out);
            }
            match said.get_mut("content").map(Value::take) {
                Some(Value::String(content)) if !content.is_empty() => self.say(ModelEvent::Text(content), out),
                Some(Value::Array(parts)) => parts.into_iter().for_each(|part| self.part(part, out)),
                _ => {}
            }
            if let Some(refusal) = said.get_mut("refusal").and_then(text) {
                self.say(ModelEvent::Text(refusal), out);
            }
        }
        match choice.get("finish_reason").and_then(Value::as_str) {
            None | Some("") => {}
            Some("error") => self.refuse(r#"{"error":{"message":"the model's answer ended with an error"}}"#, out),
            Some(reason) => {
                self.finish = Some(match reason {
                    "length" | "max_tokens" => ModelFinish::Length,
                    "content_filter" => ModelFinish::ContentFilter,
                    _ => ModelFinish::Stop,
                });
                self.progress = self.progress.max(Progress::Finished);
            }
        }
    }

    /// Content in parts, as some servers send it: text, and thinking that holds text.
    fn part(&mut self, mut part: Value, out: &mut Pieces) {
        if let Some(content) = part.get_mut("text").and_then(text) {
            return self.say(ModelEvent::Text(content), out);
        }
        match part.get_mut("thinking").map(Value::take) {
            Some(Value::String(thinking)) if !thinking.is_empty() => self.say(ModelEvent::Reasoning(thinking), out),
            Some(Value::Array(thinking)) => {
                for mut piece in thinking {
                    if let Some(piece) = piece.get_mut("text").and_then(text) {
                        self.say(ModelEvent::Reasoning(piece), out);
                    }
                }
            }
            _ => {}
        }
    }

    fn say(&mut self, piece: ModelEvent, out: &mut Pieces) {
        self.progress = self.progress.max(Progress::Speaking);
        out.push_back(Ok(piece));
    }

    fn count(&mut self, value: &Value, out: &mut Pieces) {
        let Some(tokens) = value.get("usage").and_then(usage::read) else { return };
        if self.progress < Progress::Closed && self.usage.replace(tokens) != Some(tokens) {
            out.push_back(Ok(ModelEvent::Usage(tokens)));
        }
    }

    fn complete(&mut self, out: &mut Pieces) {
        self.progress = Progress::Closed;
        out.push_back(Ok(ModelEvent::Finish(take(&mut self.finish).unwrap_or(ModelFinish::Stop))));
    }

    fn refuse(&mut self, body: &str, out: &mut Pieces) {
        let error = refused(Refusal { body, ..Refusal::default() }, self.key.as_ref());
        self.fail(error, out);
    }

    fn fail(&mut self, error: ModelError, out: &mut Pieces) {
        if self.progress != Progress::Closed {
            self.progress = Progress::Closed;
            out.push_back(Err(error));
        }
    }
}

fn text(value: &mut Value) -> Option<String> {
    match value.take() {
        Value::String(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// Whether a frame or document is an error: by the vendor's `error`, by `object: error`, or by a message where choices should be.
fn is_error(value: &Value) -> bool {
    let outer = value.get(0).unwrap_or(value);
    outer.get("error").is_some_and(|error| !error.is_null())
        || outer.get("object").and_then(Value::as_str) == Some("error")
        || (outer.get("choices").is_none()
            && outer.get("usage").is_none()
            && ["message", "detail"].iter().any(|field| outer.get(field).is_some()))
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

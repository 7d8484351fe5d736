//! A plan performed over HTTP: steps in, the bytes of a stream out. The connection is the only thing that can fail here.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use contract::event::TokenCount;
use futures::stream::{self, Stream};
use runtime::ports::model::ModelFinish;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::compile::Break;
use super::ledger::{Ledger, Way};
use super::plan::Step;
use super::tongue::Voice;

/// Notes in the ledger what became of an answer: dropped before its end, the client has left.
#[derive(Debug)]
pub(super) struct Fate {
    pub(super) ledger: Ledger,
    pub(super) n: u64,
    pub(super) way: Way,
    /// The answer's place among those that are under way.
    pub(super) _place: OwnedSemaphorePermit,
}

impl Drop for Fate {
    fn drop(&mut self) {
        self.ledger.close(self.n, self.way);
    }
}

/// One stream while it is sent.
pub(super) struct Sending {
    pub(super) voice: Box<dyn Voice>,
    pub(super) steps: VecDeque<Step>,
    pub(super) wire_bytes: Option<usize>,
    pub(super) fate: Fate,
    pub(super) stop: CancellationToken,
    /// Bytes that are to be written next.
    pub(super) ready: Bytes,
    /// How the answer ends; told after the last piece, before the usage.
    pub(super) over: bool,
}

/// The bytes of `sending`. An error breaks the connection off.
pub(super) fn bytes(mut sending: Sending) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let tokens =
        sending.steps.iter().find_map(|step| if let Step::Usage(tokens) = step { Some(*tokens) } else { None });
    sending.say(|voice, out| voice.begin(tokens, out));
    stream::unfold(Some(sending), |sending| async {
        let mut sending = sending?;
        match sending.next().await {
            Some(Ok(bytes)) => Some((Ok(bytes), Some(sending))),
            Some(Err(error)) => Some((Err(error), None)),
            None => None,
        }
    })
}

impl Sending {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if !self.ready.is_empty() {
                return Some(Ok(self.write().await));
            }
            if self.over {
                return None;
            }
            let step = self.steps.pop_front()?;
            match step {
                Step::Wait(time) if self.stopped_within(Some(time)).await => return None,
                Step::Wait(_) => {}
                Step::Reasoning(text) => self.say(|voice, out| voice.reasoning(&text, out)),
                Step::Text(text) => self.say(|voice, out| voice.text(&text, out)),
                // A plan has the usage before the end, as the port has; each vendor puts it where it likes.
                Step::Usage(tokens) => match self.steps.pop_front() {
                    Some(Step::Finish(finish)) => self.end(finish, Some(tokens)),
                    // It goes wrong before it is told, except where it was at the beginning.
                    Some(other) => self.steps.push_front(other),
                    None => self.end(ModelFinish::Stop, Some(tokens)),
                },
                Step::Finish(finish) => self.end(finish, None),
                Step::Break(how) => return self.fail(how).await,
            }
        }
    }

    /// Takes what is written next: all, or a fragment, which the next one does not overtake.
    async fn write(&mut self) -> Bytes {
        let most = self.wire_bytes.unwrap_or(usize::MAX);
        if most < self.ready.len() {
            tokio::task::yield_now().await;
        }
        self.ready.split_to(most.min(self.ready.len()))
    }

    async fn fail(&mut self, how: Break) -> Option<io::Result<Bytes>> {
        self.over = true;
        self.fate.way = Way::Broken;
        match how {
            Break::Error(error) => {
                self.say(|voice, out| voice.error(&error, out));
                Some(Ok(self.write().await))
            }
            Break::Malformed => {
                self.ready = Bytes::from_static(self.voice.malformed().as_bytes());
                Some(Ok(self.write().await))
            }
            Break::Off => {
                // What was said before is on the wire when the connection goes: a pending body is flushed.
                tokio::task::yield_now().await;
                Some(Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the script breaks off here")))
            }
            Break::Stall => {
                // Until the client leaves, which drops this; that is the script's doing and not the client's.
                self.stopped_within(None).await;
                None
            }
        }
    }

    /// Waits; true if the server was stopped meanwhile.
    async fn stopped_within(&mut self, time: Option<Duration>) -> bool {
        let wait = async {
            match time {
                Some(time) => sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = wait => false,
            () = self.stop.cancelled() => {
                self.fate.way = Way::Stopped;
                self.over = true;
                true
            }
        }
    }

    fn say(&mut self, words: impl FnOnce(&mut dyn Voice, &mut String)) {
        let mut out = String::new();
        words(self.voice.as_mut(), &mut out);
        self.ready = [&self.ready, out.as_bytes()].concat().into();
    }

    fn end(&mut self, finish: ModelFinish, tokens: Option<TokenCount>) {
        self.say(|voice, out| voice.end(finish, tokens, out));
        self.over = true;
        self.fate.way = Way::Sent;
    }
}

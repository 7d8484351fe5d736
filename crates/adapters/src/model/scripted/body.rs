//! A plan performed over HTTP: steps in, the bytes of a stream out. The connection is the only thing that can fail here.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream};
use runtime::ports::model::ModelFinish;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::compile::Break;
use super::ledger::{Ledger, Way};
use super::plan::Step;
use super::wire::Head;

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
    pub(super) head: Head,
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
    // The vendor names the role first, in a frame of its own.
    sending.ready = frame(&sending.head.chunk(&json!({"role": "assistant", "content": "", "refusal": null}), None));
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
                Step::Reasoning(text) => self.say(&json!({"reasoning_content": text})),
                Step::Text(text) => self.say(&json!({"content": text})),
                // The vendor tells the end before the usage; a plan has them the other way round, as the port has.
                Step::Usage(tokens) => {
                    let finish = self.steps.pop_front();
                    self.finish(finish.as_ref());
                    if self.head.include_usage {
                        self.append(&frame(&self.head.usage(tokens)));
                    }
                    self.done();
                }
                Step::Finish(_) => {
                    self.finish(Some(&step));
                    self.done();
                }
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
            Break::Error(body) => {
                self.ready = Bytes::from(format!("data: {body}\n\n"));
                Some(Ok(self.write().await))
            }
            Break::Malformed => {
                self.ready = Bytes::from_static(b"data: {\"choices\": [{\"delta\": {\"content\": \n\n");
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

    fn say(&mut self, delta: &Value) {
        self.ready = frame(&self.head.chunk(delta, None));
    }

    fn finish(&mut self, step: Option<&Step>) {
        let finish = if let Some(Step::Finish(finish)) = step { *finish } else { ModelFinish::Stop };
        self.ready = frame(&self.head.chunk(&json!({}), Some(finish)));
    }

    fn done(&mut self) {
        self.append(b"data: [DONE]\n\n");
        self.over = true;
        self.fate.way = Way::Sent;
    }

    fn append(&mut self, more: &[u8]) {
        self.ready = [&self.ready, more].concat().into();
    }
}

fn frame(value: &Value) -> Bytes {
    Bytes::from(format!("data: {value}\n\n"))
}

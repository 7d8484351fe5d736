//! A run's events as the server streams them: in order, without gap or repeat, across restarts of the server (E21).
//!
//! Only the sequence numbers are looked at here. What was lost with a connection is asked for again with `Last-Event-ID`.

use std::collections::VecDeque;
use std::time::Duration;

use adapters::model::sse::SseDecoder;
use bytes::Bytes;
use contract::{Event, RunId};
use reqwest::{Method, Response, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout};

use super::{Client, refused};
use crate::exit::Refusal;
use crate::output;

/// Longest event that a server may send, in bytes: a stored delta and its envelope, with room for JSON's escapes.
const EVENT_BYTES: usize = 8 * 1024 * 1024;
/// How long a connection may be silent: three of the server's heartbeats.
const SILENCE: Duration = Duration::from_secs(45);
/// First pause before asking again; doubles.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest pause.
const PAUSE_MOST: Duration = Duration::from_secs(2);
/// How long a server may be gone before the reader gives up. The run does not: it is in the server's log.
const GONE_MOST: Duration = Duration::from_secs(300);

/// An event as it came.
#[derive(Debug)]
pub struct Received {
    /// Its place in the run.
    pub seq: u64,
    /// When it was made, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Its type.
    pub kind: String,
    /// What happened, if this version of `baton` knows the type.
    pub event: Option<Event>,
    /// The envelope, as the server encoded it.
    pub json: Box<RawValue>,
}

/// What of an envelope the reader needs.
#[derive(Deserialize)]
struct Place {
    seq: u64,
    from_seq: Option<u64>,
    at: u64,
    r#type: String,
}

/// Reads a run's events from a place on.
pub struct Follow<'a> {
    client: &'a Client,
    run: RunId,
    last: u64,
    connection: Option<(Response, SseDecoder)>,
    ready: VecDeque<Received>,
    ended: bool,
    /// Since when nothing works, and whether the person was told.
    gone: Option<(Instant, bool)>,
    pause: Duration,
}

impl<'a> Follow<'a> {
    /// Reads what comes after `after`.
    pub fn new(client: &'a Client, run: RunId, after: u64) -> Self {
        Self {
            client,
            run,
            last: after,
            connection: None,
            ready: VecDeque::new(),
            ended: false,
            gone: None,
            pause: PAUSE,
        }
    }

    /// The next event, or none when the run has ended and all was given. Dropping the future loses nothing.
    ///
    /// # Errors
    /// If the server refuses, speaks another language, or stays away for too long.
    pub async fn next(&mut self) -> anyhow::Result<Option<Received>> {
        loop {
            if let Some(received) = self.ready.pop_front() {
                return Ok(Some(received));
            }
            if self.ended {
                return Ok(None);
            }
            let Some((connection, _)) = &mut self.connection else {
                self.connect().await?;
                continue;
            };
            match timeout(SILENCE, connection.chunk()).await {
                Ok(Ok(Some(bytes))) => self.take(&bytes)?,
                // The end of the stream without the run's end, a broken connection, or silence: ask again.
                Ok(Ok(None) | Err(_)) | Err(_) => {
                    self.connection = None;
                    self.missing();
                }
            }
        }
    }

    async fn connect(&mut self) -> anyhow::Result<()> {
        if let Some((since, _)) = self.gone {
            if since.elapsed() > GONE_MOST {
                return Err(Refusal::failed(
                    format!("no Baton has answered at {} for {} s", self.client.address(), GONE_MOST.as_secs()),
                    format!("the run is in its log: start Baton, then `baton events {} --follow`", self.run),
                ));
            }
            sleep(self.pause).await;
            self.pause = (self.pause * 2).min(PAUSE_MOST);
        }
        let request = self.client.request(Method::GET, &format!("/v1/runs/{}/events", self.run));
        let request = request.header("Accept", "text/event-stream");
        let request = request.header("Last-Event-ID", format!("{}:{}", self.run, self.last));
        match request.send().await {
            Ok(answer) if answer.status() == StatusCode::NO_CONTENT => self.ended = true,
            Ok(answer) if answer.status().is_success() => {
                self.connection = Some((answer, SseDecoder::new(EVENT_BYTES)));
            }
            Ok(answer) if answer.status().is_server_error() => self.missing(),
            Ok(answer) => return Err(refused(answer).await),
            Err(_) => self.missing(),
        }
        Ok(())
    }

    fn missing(&mut self) {
        let (since, told) = self.gone.unwrap_or((Instant::now(), false));
        if !told && since.elapsed() > PAUSE_MOST {
            output::note("baton: the server is gone; waiting for it to come back (the run is safe in its log)");
        }
        self.gone = Some((since, told || since.elapsed() > PAUSE_MOST));
    }

    fn take(&mut self, bytes: &Bytes) -> anyhow::Result<()> {
        let mut texts = Vec::new();
        if let Some((_, decoder)) = &mut self.connection {
            decoder.push(bytes, |event| texts.push(event.data))?;
        }
        if !texts.is_empty() {
            // An answer alone proves nothing: a server that hangs up at once must not be asked in a hot loop.
            self.gone = None;
            self.pause = PAUSE;
        }
        for text in texts {
            let place: Place = serde_json::from_str(&text).map_err(|error| {
                Refusal::failed(
                    format!("{}: what is stored after event {} cannot be read: {error}", self.run, self.last),
                    super::MEND,
                )
            })?;
            let first = place.from_seq.unwrap_or(place.seq);
            if place.seq <= self.last {
                continue;
            }
            if first != self.last + 1 {
                return Err(Refusal::failed(
                    format!("{}: event {first} came after event {}: the log has a hole", self.run, self.last),
                    super::MEND,
                ));
            }
            self.last = place.seq;
            // None: a type that this client does not know.
            let event = serde_json::from_str::<Event>(&text).ok();
            self.ended |= event.as_ref().is_some_and(Event::is_terminal);
            let json = RawValue::from_string(text)?;
            self.ready.push_back(Received { seq: place.seq, at: place.at, kind: place.r#type, event, json });
        }
        Ok(())
    }
}

//! Events on the wire: `id: <stream>:<seq>`, `event: <type>`, `data: <json>`.
//!
//! A reader is pulled: the connection asks for more when it has room, so nothing gathers here for a slow client. What is ready
//! goes out in one write. An event was encoded once, when it was read; only its frame is made per reader.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::{BufMut as _, Bytes, BytesMut};
use contract::RunId;
use futures::FutureExt as _;
use futures::stream::{SelectAll, Stream, StreamExt as _, select_all, unfold};
use runtime::{EventReader, Frame, RuntimeError};
use tokio_util::sync::CancellationToken;

use crate::bounds;
use crate::connection::Cut;
use crate::reply::Answer;
use crate::serve::App;
use crate::stream;

const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Whether the client asks for events rather than for JSON.
pub fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .filter_map(|kind| kind.split(';').next())
        .any(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// The cursor with which a client comes back.
pub fn last_event_id(headers: &HeaderMap) -> Answer<Option<(RunId, u64)>> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    stream::parse(value.to_str().unwrap_or_default()).map(Some)
}

/// The events of one run; ends after its last.
pub fn one(app: &App, run: RunId, after: u64) -> Response {
    respond(app, vec![(run, after)], false)
}

/// The events of several runs, fairly mixed; ends when the client leaves.
pub fn many(app: &App, cursors: Vec<(RunId, u64)>) -> Response {
    respond(app, cursors, true)
}

fn respond(app: &App, cursors: Vec<(RunId, u64)>, lasting: bool) -> Response {
    let limits = &app.runtime.limits;
    // What one connection may hold is shared by its streams.
    let each = usize::try_from(limits.reader_page_bytes).unwrap_or(usize::MAX) / cursors.len().max(1);
    let events = |(run, after)| frames(run, app.runtime.events(run, after).merged().within(each));
    let cut = Cut::default();
    let reader = Reader {
        frames: select_all(cursors.into_iter().map(events)),
        lasting,
        heartbeat: Duration::from_millis(limits.sse_heartbeat_ms),
        patience: Duration::from_millis(limits.sse_write_ms),
        stop: app.stop.clone(),
        cut: cut.clone(),
        waiting: VecDeque::from([Bytes::from(format!("retry: {}\n\n", bounds::SSE_RETRY_MS))]),
        over: false,
        _counted: Counted::new(),
    };
    let body = unfold(reader, |mut reader| async { Some((Ok::<_, Infallible>(reader.next().await?), reader)) });
    let mut response = Response::new(Body::from_stream(body));
    response.extensions_mut().insert(cut);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, EVENT_STREAM);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // A proxy that gathers a stream before it passes it on would show nothing until the end.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// An event with what its frame begins with.
type Numbered = Result<(std::sync::Arc<str>, Frame), RuntimeError>;

/// A run's events as a stream that remembers where it is when nobody waits for it.
fn frames(run: RunId, reader: EventReader) -> Pin<Box<dyn Stream<Item = Numbered> + Send>> {
    let prefix: std::sync::Arc<str> = format!("id: {run}:").into();
    Box::pin(unfold(Some(reader), move |reader| {
        let prefix = std::sync::Arc::clone(&prefix);
        async move {
            let mut reader = reader?;
            match reader.next().await {
                Ok(frame) => frame.map(|frame| (Ok((prefix, frame)), Some(reader))),
                Err(error) => Some((Err(error), None)),
            }
        }
    }))
}

/// One client's stream.
struct Reader {
    frames: SelectAll<Pin<Box<dyn Stream<Item = Numbered> + Send>>>,
    /// Whether the connection outlives its streams.
    lasting: bool,
    heartbeat: Duration,
    /// How long a client may take nothing.
    patience: Duration,
    stop: CancellationToken,
    /// Due when the client took nothing for that long.
    cut: Cut,
    /// Pieces that are ready to be sent.
    waiting: VecDeque<Bytes>,
    over: bool,
    _counted: Counted,
}

impl Reader {
    /// The next piece to send; none at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(piece) = self.waiting.pop_front() {
            return Some(piece);
        }
        if self.over || self.stop.is_cancelled() {
            return None;
        }
        let (stop, cut, heartbeat) = (self.stop.clone(), self.cut.clone(), self.heartbeat);
        tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            () = cut.due() => return Some(self.last_words()),
            () = self.gather() => {}
            () = tokio::time::sleep(heartbeat) => return Some(HEARTBEAT),
        }
        self.waiting.pop_front()
    }

    /// Why the stream ends without the run's end. The client has to come back with its cursor.
    fn last_words(&mut self) -> Bytes {
        self.over = true;
        let ms = self.patience.as_millis();
        Bytes::from(format!(": cut off, since nothing was taken for {ms} ms; come back with the last id\n\n"))
    }

    /// Waits for an event and takes what is ready with it. Dropped while it waits, it has taken nothing.
    async fn gather(&mut self) {
        let mut batch = BytesMut::new();
        let mut next = self.frames.next().await;
        loop {
            match next {
                Some(Ok((prefix, frame))) => self.encode(&prefix, &frame, &mut batch),
                Some(Err(error)) => {
                    tracing::error!(%error, "a stream was cut off: its events cannot be read");
                    batch.put_slice(b": the events cannot be read now; come back with the last id\n\n");
                    self.over = true;
                }
                None if self.lasting => {
                    if batch.is_empty() && self.waiting.is_empty() {
                        std::future::pending::<()>().await;
                    }
                    break;
                }
                None => self.over = true,
            }
            if self.over || batch.len() >= bounds::SSE_BATCH_BYTES || !self.waiting.is_empty() {
                break;
            }
            match self.frames.next().now_or_never() {
                Some(more) => next = more,
                None => break,
            }
        }
        if !batch.is_empty() {
            self.waiting.push_back(batch.freeze());
        }
    }

    /// Adds an event to the batch, or behind it if it is large.
    fn encode(&mut self, prefix: &str, frame: &Frame, batch: &mut BytesMut) {
        batch.put_slice(prefix.as_bytes());
        batch.put_slice(frame.seq.to_string().as_bytes());
        batch.put_slice(b"\nevent: ");
        batch.put_slice(frame.kind.as_bytes());
        batch.put_slice(b"\ndata: ");
        if frame.json.len() < bounds::SSE_SHARED_BYTES {
            batch.put_slice(&frame.json);
            batch.put_slice(b"\n\n");
        } else {
            self.waiting.push_back(batch.split().freeze());
            self.waiting.push_back(frame.json.clone());
            self.waiting.push_back(Bytes::from_static(b"\n\n"));
        }
    }
}

/// Counts an open stream for as long as it lives.
struct Counted;

impl Counted {
    fn new() -> Self {
        metrics::gauge!("baton_sse_readers").increment(1.0);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        metrics::gauge!("baton_sse_readers").decrement(1.0);
    }
}

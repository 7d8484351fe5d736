//! A client of several servers: it asks the next one when one does not answer, and reads events wherever it gets them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use adapters::model::sse::SseDecoder;
use reqwest::header::RETRY_AFTER;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::view::View;

/// How long an answer may take before the next server is asked.
const ANSWER: Duration = Duration::from_secs(3);
/// Silence of a stream after which its server is given up: several of its heartbeats.
const SILENCE: Duration = Duration::from_secs(3);
/// Pause before the next server is asked; doubles while nobody is of use.
const PAUSE: Duration = Duration::from_millis(50);
/// Longest pause.
const PAUSE_MOST: Duration = Duration::from_millis(500);
/// Bytes of one event.
const EVENT_BYTES: usize = 8 * 1024 * 1024;
/// How long all servers together may be of no use.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the clients of a town had to bear.
#[derive(Default)]
pub struct Borne {
    /// Answers that did not come, or said that the server cannot now.
    pub unanswered: AtomicU64,
    /// Requests that were refused for a limit, and made again when the server said that they might be.
    pub limited: AtomicU64,
    /// Streams that broke and were taken up again.
    pub reconnects: AtomicU64,
    /// Events that were received.
    pub events: AtomicU64,
}

/// The servers, as clients know them.
pub struct Wire {
    http: Client,
    pub servers: Vec<String>,
    token: String,
    turn: AtomicUsize,
    pub borne: Borne,
}

/// What a server said: its status and its JSON.
pub type Said = (StatusCode, Value);

/// How a reader reads.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// Which server it asks first.
    pub first: usize,
    /// Whether it uses the stream of several runs.
    pub multiplexed: bool,
    /// After how many events it leaves, to come back at another server.
    pub leaves_after: Option<usize>,
}

impl Wire {
    pub fn new(servers: Vec<String>, token: String) -> Self {
        let http = Client::builder().no_proxy().connect_timeout(ANSWER).build().unwrap();
        Self { http, servers, token, turn: AtomicUsize::new(0), borne: Borne::default() }
    }

    fn request(&self, method: Method, server: usize, path: &str) -> RequestBuilder {
        let server = &self.servers[server % self.servers.len()];
        self.http.request(method, format!("{server}{path}")).bearer_auth(&self.token)
    }

    /// Asks one server once.
    pub async fn once(&self, method: Method, server: usize, path: &str, key: &str, body: &Value) -> Option<Said> {
        self.attempt(method, server, path, key, body).await.map(|(said, _)| said)
    }

    /// The same, with how long the server wants to be left alone.
    pub async fn attempt(
        &self,
        method: Method,
        server: usize,
        path: &str,
        key: &str,
        body: &Value,
    ) -> Option<(Said, Option<Duration>)> {
        let mut request = self.request(method, server, path).timeout(ANSWER);
        if !key.is_empty() {
            request = request.header("Idempotency-Key", key);
        }
        if !body.is_null() {
            request = request.json(body);
        }
        let response = request.send().await.ok()?;
        let (status, retry_after) = (response.status(), retry_after(&response));
        let body = response.bytes().await.ok()?;
        Some(((status, serde_json::from_slice(&body).unwrap_or(Value::Null)), retry_after))
    }

    /// Asks one server after the other until one answers for good: neither nothing, nor that it cannot now.
    pub async fn ask(&self, method: Method, path: &str, key: &str, body: &Value) -> Said {
        let (mut since, mut pause) = (Instant::now(), PAUSE);
        loop {
            let server = self.turn.fetch_add(1, Ordering::Relaxed);
            match self.attempt(method.clone(), server, path, key, body).await {
                Some((said, Some(rest))) if is_at_a_limit(&said) => {
                    self.borne.limited.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(rest).await;
                    // It is of use: it says when to come back.
                    (since, pause) = (Instant::now(), PAUSE);
                    continue;
                }
                Some(((status, body), _)) if !status.is_server_error() => return (status, body),
                other => {
                    assert!(since.elapsed() < PATIENCE, "{path}: nobody answers; last there was {other:?}");
                    self.borne.unanswered.fetch_add(1, Ordering::Relaxed)
                }
            };
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MOST);
        }
    }

    pub async fn get(&self, path: &str) -> Said {
        self.ask(Method::GET, path, "", &Value::Null).await
    }

    /// Sends a message until it is accepted.
    pub async fn send(&self, chat: Option<&str>, text: &str, key: &str) -> Result<Value, String> {
        let path = chat.map_or("/v1/chats".to_owned(), |chat| format!("/v1/chats/{chat}/messages"));
        match self.ask(Method::POST, &path, key, &json!({"text": text})).await {
            (StatusCode::ACCEPTED, accepted) => Ok(accepted),
            (status, said) => Err(format!("the message `{text}` was answered with {status}: {said}")),
        }
    }

    /// Puts a file into a project until that is accepted; while a run has the project, it is not.
    pub async fn put(&self, project: &str, path: &str, content: &str, key: &str) -> Result<Value, String> {
        let mut since = Instant::now();
        loop {
            let server = self.turn.fetch_add(1, Ordering::Relaxed);
            let request = self.request(Method::PUT, server, &format!("/v1/projects/{project}/files/{path}"));
            let request = request.timeout(ANSWER).header("Idempotency-Key", key).body(content.to_owned());
            if let Ok(response) = request.send().await {
                let (status, retry_after) = (response.status(), retry_after(&response));
                let said = response.json::<Value>().await.unwrap_or_default();
                match status {
                    StatusCode::ACCEPTED if said.is_object() => return Ok(said),
                    StatusCode::ACCEPTED => {}
                    _ if is_at_a_limit(&(status, said.clone())) && retry_after.is_some() => {
                        self.borne.limited.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(retry_after.unwrap_or_default()).await;
                        since = Instant::now();
                        continue;
                    }
                    StatusCode::CONFLICT if said["code"] == "project_busy" => since = Instant::now(),
                    status if status.is_server_error() => {}
                    status => return Err(format!("{path} by hand was answered with {status}: {said}")),
                }
            }
            assert!(since.elapsed() < PATIENCE, "{path} of {project}: nobody takes it");
            tokio::time::sleep(PAUSE_MOST).await;
        }
    }

    /// A file of a preview, as a browser asks for it.
    pub async fn preview(&self, server: usize, host: &str, path: &str) -> Option<(StatusCode, Vec<u8>)> {
        let request = self.request(Method::GET, server, path).timeout(ANSWER).header("Host", host);
        let response = request.send().await.ok()?;
        let status = response.status();
        Some((status, response.bytes().await.ok()?.to_vec()))
    }

    /// The bytes of a file of a project; none if it has none.
    pub async fn file(&self, project: &str, path: &str) -> Option<String> {
        let since = Instant::now();
        loop {
            let server = self.turn.fetch_add(1, Ordering::Relaxed);
            let request = self.request(Method::GET, server, &format!("/v1/projects/{project}/files/{path}"));
            match request.timeout(ANSWER).send().await {
                Ok(response) if response.status().is_success() => {
                    if let Ok(text) = response.text().await {
                        return Some(text);
                    }
                }
                Ok(response) if response.status() == StatusCode::NOT_FOUND => return None,
                Ok(_) | Err(_) => {}
            }
            assert!(since.elapsed() < PATIENCE, "{path} of {project}: nobody answers");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Reads a run's events to its end, from whichever server has them, or until `enough` says so.
    pub async fn follow(
        &self,
        run: &str,
        reading: Reading,
        mut enough: impl FnMut(&View) -> bool,
    ) -> Result<View, String> {
        let mut view = View::of(run);
        let mut server = reading.first;
        let (mut useless_since, mut pause) = (Instant::now(), PAUSE);
        while !view.ended() {
            let before = view.last();
            let over = self.read_on(&mut view, server, reading, &mut enough).await?;
            if over {
                return Ok(view);
            }
            if view.last() > before {
                useless_since = Instant::now();
                pause = PAUSE;
            }
            if useless_since.elapsed() > PATIENCE {
                return Err(format!("{run}: nothing came after event {before} for {PATIENCE:?}"));
            }
            if !view.ended() {
                self.borne.reconnects.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MOST);
            }
            server += 1;
        }
        Ok(view)
    }

    /// Reads from one server until it falls silent or ends the stream. Gives whether the reader has enough.
    async fn read_on(
        &self,
        view: &mut View,
        server: usize,
        reading: Reading,
        enough: &mut impl FnMut(&View) -> bool,
    ) -> Result<bool, String> {
        let (run, last) = (view.run().to_owned(), view.last());
        let request = match reading.multiplexed {
            true => self.request(Method::GET, server, &format!("/v1/stream?cursors={run}:{last}")),
            false => {
                let request = self.request(Method::GET, server, &format!("/v1/runs/{run}/events"));
                request.header("Last-Event-ID", format!("{run}:{last}"))
            }
        };
        let request = request.header("Accept", "text/event-stream").send();
        let Ok(Ok(mut response)) = tokio::time::timeout(ANSWER, request).await else { return Ok(false) };
        match response.status() {
            StatusCode::OK => {}
            status if status.is_server_error() => return Ok(false),
            // Such as a cursor beyond the end: something was seen that is not stored. Or a run that was accepted and is not there.
            status => {
                let said = response.text().await.unwrap_or_default();
                return Err(format!("{run}: a reader that has event {last} was answered with {status}: {said}"));
            }
        }
        let mut decoder = SseDecoder::new(EVENT_BYTES);
        let mut here = 0;
        while let Some(bytes) = chunk(&mut response).await {
            let mut came = vec![];
            decoder.push(&bytes, |event| came.push(event)).map_err(|error| format!("{run}: {error}"))?;
            for event in came {
                view.take(&event.name, &event.data)?;
                self.borne.events.fetch_add(1, Ordering::Relaxed);
                here += 1;
                if enough(view) {
                    return Ok(true);
                }
            }
            if view.ended() || reading.leaves_after.is_some_and(|most| here >= most) {
                return Ok(false);
            }
        }
        Ok(false)
    }
}

/// How long the server wants to be left alone.
fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Whether it is a refusal that names the limit that was met and its value (E1).
fn is_at_a_limit((status, said): &Said) -> bool {
    let named = said["code"].is_string() && said["limit"].is_string() && said["value"].is_u64();
    *status == StatusCode::TOO_MANY_REQUESTS && named
}

/// The next bytes of a stream; none at its end, and none when its server has died or is held up.
async fn chunk(response: &mut Response) -> Option<Vec<u8>> {
    let chunk = tokio::time::timeout(SILENCE, response.chunk()).await;
    chunk.ok()?.ok()?.map(|bytes| bytes.to_vec())
}

//! The scripted model as a server of OpenAI's chat completions, for any client of that format.
//!
//! `POST /v1/chat/completions` (streamed or whole), `GET /v1/models`, errors in the vendor's shape, and `GET /__requests`: what
//! was asked lately and what became of it. It is a tool for tests and demonstrations: no users, no quotas, nothing kept.

use std::collections::VecDeque;
use std::future::IntoFuture as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use futures::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::super::Secret;
use super::body::{self, Fate, Sending};
use super::compile::Break;
use super::expect::Asked;
use super::ledger::{Entry, Ledger, Said, Way};
use super::plan::{Outcome, Plan, Step};
use super::scripts::Scripts;
use super::vendor::VendorError;
use super::wire::{self, Head};

/// Bytes of one request's body.
pub const REQUEST_BYTES: usize = 8 * 1024 * 1024;
/// Answers that are under way at once; one more is refused as overload.
pub const ANSWERS: usize = 256;
/// How long a stop waits for connections to end.
pub const STOP_MS: u64 = 2_000;

/// How a scripted server differs from the plainest one.
#[derive(Debug, Clone, Default)]
pub struct ServeOptions {
    /// The model's name. Missing: `scripted`, and every name that is asked for is answered.
    pub model: Option<String>,
    /// The key that clients must bring. Missing: any or none.
    pub key: Option<Secret>,
    /// Where requests are noted; keep a clone to look at them.
    pub ledger: Ledger,
}

struct Server {
    scripts: Scripts,
    options: ServeOptions,
    answers: Arc<Semaphore>,
    stop: CancellationToken,
}

/// Serves until `stop`, then ends streams and lets connections close.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    scripts: Scripts,
    options: ServeOptions,
    stop: CancellationToken,
) -> io::Result<()> {
    let server = Arc::new(Server { scripts, options, answers: Arc::new(Semaphore::new(ANSWERS)), stop: stop.clone() });
    let app = Router::new()
        .route("/v1/chat/completions", post(complete))
        .route("/v1/models", get(models))
        .route("/v1/models/{*id}", get(model))
        .route("/__requests", get(requests))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .layer(DefaultBodyLimit::max(REQUEST_BYTES))
        .with_state(server);
    let listener = listener.tap_io(|connection| {
        // Without it small frames wait for each other; a connection that refuses is merely slower.
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "no TCP_NODELAY");
        }
    });
    let served = axum::serve(listener, app).with_graceful_shutdown(stop.clone().cancelled_owned()).into_future();
    let late = async {
        stop.cancelled().await;
        sleep(Duration::from_millis(STOP_MS)).await;
    };
    tokio::select! {
        served = served => served,
        () = late => Ok(()),
    }
}

async fn complete(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let has_key = headers.contains_key(AUTHORIZATION);
    let asked = server.read(&headers, body);
    let answered = asked.as_ref().map_err(Clone::clone).and_then(|asked| server.scripts.answer(asked));
    let (asked, error) = match (asked, &answered) {
        (Ok(asked), Ok(_)) => (Some(asked), None),
        (Ok(asked), Err(error)) => (Some(asked), Some(error)),
        (Err(_), answered) => (None, answered.as_ref().err()),
    };
    let told = answered.as_ref().ok();
    let n = server.options.ledger.add(Entry {
        n: 0,
        model: asked.as_ref().map(|asked| asked.model.clone()).unwrap_or_default(),
        stream: asked.as_ref().is_some_and(|asked| asked.stream),
        key: has_key,
        messages: asked.as_ref().map(|asked| asked.messages.iter().map(Said::of).collect()).unwrap_or_default(),
        script: told.map(|told| told.script.clone()),
        rule: told.map(|told| told.rule.clone()),
        turn: told.map(|told| told.turn),
        status: told.map_or_else(|| error.map_or(200, |error| error.status), |told| status_of(&told.plan)),
        problem: error.map(|error| error.message.clone()),
        way: if error.is_some() { Way::Sent } else { Way::Open },
    });
    let mut response = match (asked, answered) {
        (Some(asked), Ok(answered)) => server.perform(n, &asked, answered.plan).await,
        (_, Err(error)) => refusal(&error),
        (None, Ok(_)) => refusal(&VendorError::usual(500)),
    };
    if let Ok(id) = HeaderValue::try_from(format!("req_{n}")) {
        response.headers_mut().insert(HeaderName::from_static("x-request-id"), id);
    }
    response
}

fn status_of(plan: &Plan) -> u16 {
    match &plan.outcome {
        Outcome::Refused { status, .. } => *status,
        Outcome::Steps(_) => 200,
    }
}

impl Server {
    fn read(&self, headers: &HeaderMap, body: Result<Bytes, BytesRejection>) -> Result<Asked, VendorError> {
        let bearer = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "));
        if self.options.key.as_ref().is_some_and(|key| bearer != Some(key.expose())) {
            return Err(VendorError::usual(401));
        }
        let is_json = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|value| {
            value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
        });
        if !is_json {
            let error =
                VendorError::bad_request("unsupported_content_type", None, "The body must be application/json.");
            return Err(VendorError { status: 415, ..error });
        }
        let body = body.map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => VendorError::usual(413),
            _ => VendorError::bad_request("invalid_body", None, "The body could not be read."),
        })?;
        let asked = wire::read(&body)?;
        if self.options.model.as_ref().is_some_and(|model| *model != asked.model) {
            return Err(no_model(&asked.model));
        }
        Ok(asked)
    }

    async fn perform(self: &Arc<Self>, n: u64, asked: &Asked, plan: Plan) -> Response {
        let ledger = self.options.ledger.clone();
        let Ok(place) = Arc::clone(&self.answers).try_acquire_owned() else {
            ledger.close(n, Way::Sent);
            return refusal(&VendorError::usual(503));
        };
        let mut fate = Fate { ledger, n, way: Way::Left, _place: place };
        if !self.wait(Some(plan.first_delay)).await {
            fate.way = Way::Stopped;
            return refusal(&VendorError::usual(503));
        }
        let head = Head { id: format!("chatcmpl-{n}"), model: asked.model.clone(), include_usage: asked.include_usage };
        match plan.outcome {
            Outcome::Refused { status, retry_after, body } => {
                fate.way = Way::Sent;
                let mut response = json_response(status, body);
                if let Some(retry_after) = retry_after.and_then(|value| HeaderValue::try_from(value).ok()) {
                    response.headers_mut().insert(RETRY_AFTER, retry_after);
                }
                response
            }
            Outcome::Steps(steps) if asked.stream => {
                let sending = Sending {
                    head,
                    steps: steps.into(),
                    wire_bytes: plan.wire_bytes,
                    fate,
                    stop: self.stop.clone(),
                    ready: Bytes::new(),
                    over: false,
                };
                let body = Body::from_stream(body::bytes(sending));
                let headers = [(CONTENT_TYPE, "text/event-stream; charset=utf-8"), (CACHE_CONTROL, "no-cache")];
                (headers, body).into_response()
            }
            Outcome::Steps(steps) => self.document(&head, steps.into(), fate).await,
        }
    }

    /// The whole answer at once, after all the waiting that its stream would have had.
    async fn document(&self, head: &Head, mut steps: VecDeque<Step>, mut fate: Fate) -> Response {
        let (mut text, mut reasoning, mut tokens) = (String::new(), String::new(), None);
        while let Some(step) = steps.pop_front() {
            match step {
                Step::Wait(time) => {
                    if !self.wait(Some(time)).await {
                        fate.way = Way::Stopped;
                        return refusal(&VendorError::usual(503));
                    }
                }
                Step::Text(more) => text += &more,
                Step::Reasoning(more) => reasoning += &more,
                Step::Usage(count) => tokens = Some(count),
                Step::Finish(finish) => {
                    fate.way = Way::Sent;
                    return json_response(200, head.document(&text, &reasoning, finish, tokens).to_string());
                }
                Step::Break(how) => {
                    fate.way = Way::Broken;
                    return self.broken(how).await;
                }
            }
        }
        refusal(&VendorError::usual(500))
    }

    async fn broken(&self, how: Break) -> Response {
        const HALF: &[u8] = b"{\"id\": \"chatcmpl-0\", \"choices\": [";
        match how {
            Break::Error(body) => json_response(500, body),
            Break::Malformed => json_response(200, String::from_utf8_lossy(HALF).into_owned()),
            Break::Off => {
                let pieces = [Ok(Bytes::from_static(HALF)), Err(io::Error::from(io::ErrorKind::ConnectionAborted))];
                let headers = [(CONTENT_TYPE, "application/json")];
                (headers, Body::from_stream(stream::iter(pieces))).into_response()
            }
            Break::Stall => {
                self.wait(None).await;
                refusal(&VendorError::usual(503))
            }
        }
    }

    /// Waits; false if the server was stopped meanwhile. Without a time: until then.
    async fn wait(&self, time: Option<Duration>) -> bool {
        let wait = async {
            match time {
                Some(time) if time.is_zero() => {}
                Some(time) => sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = wait => true,
            () = self.stop.cancelled() => false,
        }
    }

    fn model_object(id: &str) -> Value {
        json!({"id": id, "object": "model", "created": 0, "owned_by": "baton-script"})
    }

    fn model_name(&self) -> &str {
        self.options.model.as_deref().unwrap_or("scripted")
    }
}

async fn models(State(server): State<Arc<Server>>) -> Response {
    let list = json!({"object": "list", "data": [Server::model_object(server.model_name())]});
    json_response(200, list.to_string())
}

async fn model(State(server): State<Arc<Server>>, Path(id): Path<String>) -> Response {
    if server.options.model.is_some() && id != server.model_name() {
        return refusal(&no_model(&id));
    }
    json_response(200, Server::model_object(&id).to_string())
}

async fn requests(State(server): State<Arc<Server>>) -> Response {
    let ledger = &server.options.ledger;
    json_response(200, json!({"count": ledger.count(), "requests": ledger.entries()}).to_string())
}

async fn unknown(method: axum::http::Method, uri: Uri) -> Response {
    let message = format!("Invalid URL ({method} {})", uri.path());
    refusal(&VendorError { status: 404, message, param: None, code: None })
}

fn no_model(name: &str) -> VendorError {
    let message = format!("The model `{name}` does not exist or you do not have access to it.");
    VendorError { message, ..VendorError::usual(404) }
}

fn refusal(error: &VendorError) -> Response {
    json_response(error.status, error.body().to_string())
}

fn json_response(status: u16, body: String) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

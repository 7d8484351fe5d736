//! The scripted model as a server, for any client of the formats that it speaks.
//!
//! `POST /v1/chat/completions`, `/v1/responses`, `/v1/messages` and `/v1beta/models/MODEL:streamGenerateContent` (or below `/v1`; or
//! whole, without `stream`), what counts tokens and describes models beside them, errors in each vendor's shape, and `GET /__requests`: what was
//! asked lately and what became of it. It is a tool for tests and demonstrations: no users, no quotas, nothing kept.

use std::collections::VecDeque;
use std::future::IntoFuture as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use futures::stream;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::super::Secret;
use super::body::{self, Fate, Sending};
use super::compile::Break;
use super::door::{
    EVENT_STREAM, Request, busy, check_reader, gemini_model_object, json_response, model_object, refusal,
};
use super::expect::Asked;
use super::ledger::{Entry, Ledger, Said, Way};
use super::plan::{Outcome, Plan, Step, prompt_tokens};
use super::scripts::Scripts;
use super::tongue::{Head, Target, Tongue, Whole};
use super::vendor::VendorError;

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

/// A request's body, or why it could not be read.
type Sent = Result<Bytes, BytesRejection>;

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
        .route("/v1/chat/completions", post(chat))
        .route("/v1/responses", post(responses))
        .route("/v1/messages", post(messages))
        .route("/v1/messages/count_tokens", post(count_messages))
        .route("/v1beta/models/{*call}", post(generate).get(gemini_model))
        .route("/v1/models", get(models))
        .route("/v1/models/{*call}", get(model).post(generate))
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

async fn chat(State(server): State<Arc<Server>>, headers: HeaderMap, uri: Uri, body: Sent) -> Response {
    server.answer(Request::new(Tongue::Chat, Target::default(), (headers, uri, body))).await
}

async fn responses(State(server): State<Arc<Server>>, headers: HeaderMap, uri: Uri, body: Sent) -> Response {
    server.answer(Request::new(Tongue::Responses, Target::default(), (headers, uri, body))).await
}

async fn messages(State(server): State<Arc<Server>>, headers: HeaderMap, uri: Uri, body: Sent) -> Response {
    server.answer(Request::new(Tongue::Messages, Target::default(), (headers, uri, body))).await
}

async fn count_messages(State(server): State<Arc<Server>>, headers: HeaderMap, uri: Uri, body: Sent) -> Response {
    server.count(&Request::new(Tongue::Messages, Target::default(), (headers, uri, body)))
}

/// `MODEL:streamGenerateContent`, `MODEL:generateContent`, `MODEL:countTokens`.
async fn generate(
    State(server): State<Arc<Server>>,
    Path(call): Path<String>,
    headers: HeaderMap,
    uri: Uri,
    body: Sent,
) -> Response {
    let (model, method) = call.rsplit_once(':').unwrap_or((&call, ""));
    let target =
        Target { model: Some(model.to_owned()), stream: method == "streamGenerateContent", ..Target::default() };
    let request = Request::new(Tongue::Generate, target, (headers, uri, body));
    match method {
        "streamGenerateContent" if !request.wants_events() => {
            let message = "A scripted model streams server-sent events alone: add ?alt=sse.";
            request.refuse(&VendorError::bad_request("INVALID_ARGUMENT", None, message))
        }
        "streamGenerateContent" | "generateContent" => server.answer(request).await,
        "countTokens" => server.count(&request),
        _ => request.refuse(&VendorError::no_model(&call)),
    }
}

fn status_of(plan: &Plan) -> u16 {
    match &plan.outcome {
        Outcome::Refused { error, .. } => error.status,
        Outcome::Steps(_) => 200,
    }
}

impl Server {
    async fn answer(self: &Arc<Self>, request: Request) -> Response {
        let asked = self.read(&request);
        let answered = asked.as_ref().map_err(Clone::clone).and_then(|asked| self.scripts.answer(asked));
        let (told, error, known) = (answered.as_ref().ok(), answered.as_ref().err(), asked.as_ref().ok());
        let n = self.options.ledger.add(Entry {
            n: 0,
            format: request.tongue.name(),
            model: known.map(|asked| asked.model.clone()).unwrap_or_default(),
            stream: known.is_some_and(|asked| asked.stream),
            key: request.has_key(),
            messages: known.map(|asked| asked.messages.iter().map(Said::of).collect()).unwrap_or_default(),
            script: told.map(|told| told.script.clone()),
            rule: told.map(|told| told.rule.clone()),
            turn: told.map(|told| told.turn),
            status: told.map_or_else(|| error.map_or(200, |error| error.status), |told| status_of(&told.plan)),
            problem: error.map(|error| error.message.clone()),
            way: if error.is_some() { Way::Sent } else { Way::Open },
        });
        let mut response = match (asked, answered) {
            (Ok(asked), Ok(answered)) => self.perform(n, request.tongue, &asked, answered.plan).await,
            (_, Err(error)) | (Err(error), Ok(_)) => request.refuse(&error),
        };
        if let Ok(id) = HeaderValue::try_from(format!("req_{n}")) {
            for name in ["x-request-id", "request-id"] {
                response.headers_mut().insert(HeaderName::from_static(name), id.clone());
            }
        }
        response
    }

    fn read(&self, request: &Request) -> Result<Asked, VendorError> {
        let asked = request.tongue.read(&request.target, request.bytes(self.options.key.as_ref())?)?;
        self.has_model(&asked.model)?;
        Ok(asked)
    }

    fn has_model(&self, name: &str) -> Result<(), VendorError> {
        match &self.options.model {
            Some(model) if model != name => Err(VendorError::no_model(name)),
            _ => Ok(()),
        }
    }

    /// How many tokens a request would have, estimated as everywhere in scripts.
    fn count(&self, request: &Request) -> Response {
        let body = request.bytes(self.options.key.as_ref());
        let asked = body.and_then(|body| request.tongue.read_count(&request.target, body));
        match asked.and_then(|asked| self.has_model(&asked.model).map(|()| asked)) {
            Ok(asked) => json_response(200, request.tongue.count(prompt_tokens(&asked)).to_string()),
            Err(error) => request.refuse(&error),
        }
    }

    async fn perform(self: &Arc<Self>, n: u64, tongue: Tongue, asked: &Asked, plan: Plan) -> Response {
        let ledger = self.options.ledger.clone();
        let Ok(place) = Arc::clone(&self.answers).try_acquire_owned() else {
            ledger.close(n, Way::Sent);
            return busy(tongue);
        };
        let mut fate = Fate { ledger, n, way: Way::Left, _place: place };
        if !self.wait(Some(plan.first_delay)).await {
            fate.way = Way::Stopped;
            return busy(tongue);
        }
        let head = Head { n, model: asked.model.clone(), include_usage: asked.include_usage };
        match plan.outcome {
            Outcome::Refused { error, retry_after, body } => {
                fate.way = Way::Sent;
                refusal(tongue, &error, retry_after.as_deref(), body, asked.stream)
            }
            Outcome::Steps(steps) if asked.stream => {
                let sending = Sending {
                    voice: tongue.voice(head),
                    steps: steps.into(),
                    wire_bytes: plan.wire_bytes,
                    fate,
                    stop: self.stop.clone(),
                    ready: Bytes::new(),
                    over: false,
                };
                let body = Body::from_stream(body::bytes(sending));
                let headers = [(CONTENT_TYPE, EVENT_STREAM), (CACHE_CONTROL, "no-cache")];
                (headers, body).into_response()
            }
            Outcome::Steps(steps) => self.document(tongue, &head, steps.into(), fate).await,
        }
    }

    /// The whole answer at once, after all the waiting that its stream would have had.
    async fn document(&self, tongue: Tongue, head: &Head, mut steps: VecDeque<Step>, mut fate: Fate) -> Response {
        let mut said = Whole::default();
        while let Some(step) = steps.pop_front() {
            match step {
                Step::Wait(time) => {
                    if !self.wait(Some(time)).await {
                        fate.way = Way::Stopped;
                        return busy(tongue);
                    }
                }
                Step::Text(more) => said.text += &more,
                Step::Reasoning(more) => said.reasoning += &more,
                Step::Usage(count) => said.tokens = Some(count),
                Step::Finish(finish) => {
                    fate.way = Way::Sent;
                    said.finish = Some(finish);
                    return json_response(200, tongue.document(head, &said).to_string());
                }
                Step::Break(how) => {
                    fate.way = Way::Broken;
                    return self.broken(tongue, how).await;
                }
            }
        }
        refusal(tongue, &VendorError::usual(500), None, None, false)
    }

    async fn broken(&self, tongue: Tongue, how: Break) -> Response {
        const HALF: &[u8] = b"{\"id\": \"chatcmpl-0\", \"choices\": [";
        match how {
            Break::Error(error) => refusal(tongue, &error, None, None, false),
            Break::Malformed => json_response(200, String::from_utf8_lossy(HALF).into_owned()),
            Break::Off => {
                let pieces = [Ok(Bytes::from_static(HALF)), Err(io::Error::from(io::ErrorKind::ConnectionAborted))];
                let headers = [(CONTENT_TYPE, "application/json")];
                (headers, Body::from_stream(stream::iter(pieces))).into_response()
            }
            Break::Stall => {
                self.wait(None).await;
                busy(tongue)
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

    fn model_name(&self) -> &str {
        self.options.model.as_deref().unwrap_or("scripted")
    }
}

async fn models(State(server): State<Arc<Server>>, headers: HeaderMap) -> Response {
    let object = model_object(&headers, server.model_name());
    let list = json!({"object": "list", "data": [object], "has_more": false, "first_id": null, "last_id": null});
    json_response(200, list.to_string())
}

async fn model(State(server): State<Arc<Server>>, Path(id): Path<String>, headers: HeaderMap, uri: Uri) -> Response {
    if headers.contains_key("x-goog-api-key") {
        return gemini_model(State(server), Path(id), headers, uri).await;
    }
    let tongue = if headers.contains_key("anthropic-version") { Tongue::Messages } else { Tongue::Chat };
    let known = check_reader(tongue, server.options.key.as_ref(), &headers, &uri).and_then(|()| server.has_model(&id));
    match known {
        Ok(()) => json_response(200, model_object(&headers, &id).to_string()),
        Err(error) => refusal(tongue, &error, None, None, false),
    }
}

async fn gemini_model(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let key = server.options.key.as_ref();
    match check_reader(Tongue::Generate, key, &headers, &uri).and_then(|()| server.has_model(&id)) {
        Ok(()) => json_response(200, gemini_model_object(&id).to_string()),
        Err(error) => refusal(Tongue::Generate, &error, None, None, false),
    }
}

async fn requests(State(server): State<Arc<Server>>) -> Response {
    let ledger = &server.options.ledger;
    json_response(200, json!({"count": ledger.count(), "requests": ledger.entries()}).to_string())
}

async fn unknown(method: axum::http::Method, uri: Uri) -> Response {
    let message = format!("Invalid URL ({method} {})", uri.path());
    let error = VendorError { status: 404, message, usual: false, param: None, code: None };
    refusal(Tongue::Chat, &error, None, None, false)
}

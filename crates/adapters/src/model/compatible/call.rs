//! One call: the request goes out, the answer comes in, silence is timed. Dropping the returned stream drops the connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use reqwest::header::{DATE, HeaderMap, HeaderName, LOCATION, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use runtime::ports::model::{ModelError, ModelErrorKind, ModelRequest, ModelStream, Speaker};
use serde::Serialize;
use tokio::time::timeout;

use super::answer::{Answer, Pieces, Progress};
use super::failure::{Refusal, causes, network, refused};
use super::{Asked, ERROR_BODY_BYTES};

/// Silence after an answer's told end, in which its usage may still come; servers that keep the connection open end here.
const AFTER_FINISH: Duration = Duration::from_secs(5);

/// The body of a request.
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// Asks; the stream is given once the server has accepted.
pub(super) async fn open(asked: Arc<Asked>, request: &ModelRequest) -> Result<ModelStream, ModelError> {
    let mut response = send(&asked, request, true).await?;
    if matches!(response.status(), StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY) {
        let error = Refused::read(response, &asked).await;
        if !error.body.contains("stream_options") && !error.body.contains("include_usage") {
            return Err(error.into_error(&asked, &request.model.name));
        }
        // Some servers know no usage in streams and say so; then it is done without.
        response = send(&asked, request, false).await?;
    }
    if !response.status().is_success() {
        return Err(Refused::read(response, &asked).await.into_error(&asked, &request.model.name));
    }
    let call = Call { response, answer: Answer::new(asked.key.clone()), pieces: VecDeque::new(), asked };
    Ok(stream::unfold(call, Call::next).boxed())
}

async fn send(asked: &Asked, request: &ModelRequest, include_usage: bool) -> Result<Response, ModelError> {
    let messages = request.messages.iter().map(|message| Message {
        role: match message.speaker {
            Speaker::System => "system",
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
        },
        content: &message.text,
    });
    let body = Body {
        model: &request.model.name,
        messages: messages.collect(),
        stream: true,
        stream_options: include_usage.then_some(StreamOptions { include_usage }),
    };
    let sent = asked.client.post(asked.address.completions()).json(&body).send();
    match timeout(asked.patience.first_byte, sent).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => Err(unreachable(asked, error)),
        Err(_) => Err(silent(asked, asked.patience.first_byte)),
    }
}

/// An answer that is no success, read as far as is needed to say why.
struct Refused {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Refused {
    async fn read(mut response: Response, asked: &Asked) -> Self {
        let (status, headers) = (response.status(), response.headers().clone());
        let mut body = Vec::new();
        // Whatever ends the body, the status is known: what came of the words must do.
        while let Ok(Ok(Some(bytes))) = timeout(asked.patience.idle, response.chunk()).await {
            let room = ERROR_BODY_BYTES - body.len();
            body.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if body.len() == ERROR_BODY_BYTES {
                break;
            }
        }
        Self { status, headers, body: String::from_utf8_lossy(&body).into_owned() }
    }

    fn into_error(self, asked: &Asked, model: &str) -> ModelError {
        let header = |name: HeaderName| self.headers.get(name).and_then(|value| value.to_str().ok());
        let mut error = refused(
            Refusal {
                status: self.status.as_u16(),
                retry_after: header(RETRY_AFTER),
                retry_after_ms: header(HeaderName::from_static("retry-after-ms")),
                date: header(DATE),
                body: &self.body,
            },
            asked.key.as_ref(),
        );
        if self.status == StatusCode::NOT_FOUND && error.kind == ModelErrorKind::BadRequest {
            error.message +=
                &format!(" Asked was {} for `{model}`; most base URLs end with /v1.", asked.address.shown());
        } else if self.status.is_redirection() && self.headers.contains_key(LOCATION) {
            error.message += " It redirects, which is not followed: use the base URL that it leads to.";
        }
        error.message = asked.without_key(&error.message);
        error
    }
}

/// A running call.
struct Call {
    response: Response,
    answer: Answer,
    pieces: Pieces,
    asked: Arc<Asked>,
}

impl Call {
    async fn next(mut self) -> Option<(<ModelStream as futures::Stream>::Item, Self)> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Some((piece, self));
            }
            let silence = match self.answer.progress() {
                Progress::Closed => return None,
                Progress::Nothing | Progress::Begun => self.asked.patience.first_byte,
                Progress::Speaking => self.asked.patience.idle,
                Progress::Finished => self.asked.patience.idle.min(AFTER_FINISH),
            };
            match timeout(silence, self.response.chunk()).await {
                Ok(Ok(Some(bytes))) => self.answer.push(&bytes, &mut self.pieces),
                Ok(Ok(None)) => self.answer.end(&mut self.pieces),
                Ok(Err(error)) => {
                    let cause = causes(&error.without_url());
                    let message = format!("The model's answer was cut off: the connection broke ({cause}).");
                    self.answer.broken(network(self.asked.without_key(&message)), &mut self.pieces);
                }
                Err(_) => self.answer.broken(silent(&self.asked, silence), &mut self.pieces),
            }
        }
    }
}

fn unreachable(asked: &Asked, error: reqwest::Error) -> ModelError {
    let (connecting, late) = (error.is_connect(), error.is_timeout());
    let cause = causes(&error.without_url());
    let host = asked.address.host();
    let message = match (connecting, late) {
        (_, true) => {
            format!("No connection to the model's server {host} within {} s.", asked.patience.connect.as_secs_f64())
        }
        (true, false) if asked.address.is_local() => {
            format!("No connection to the model's server at {} ({cause}): is it running?", asked.address.shown())
        }
        (true, false) => format!("No connection to the model's server {host} ({cause})."),
        (false, false) => format!("The connection to the model's server {host} broke before it answered ({cause})."),
    };
    network(asked.without_key(&message))
}

fn silent(asked: &Asked, silence: Duration) -> ModelError {
    let host = asked.address.host();
    network(asked.without_key(&format!("The model's server {host} said nothing for {} s.", silence.as_secs_f64())))
}

impl Asked {
    /// The last guard of every text that leaves: whatever a server or a library put into it, the key is not there.
    fn without_key(&self, text: &str) -> String {
        self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.redact(text))
    }
}

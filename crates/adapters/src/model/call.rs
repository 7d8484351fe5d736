//! One call: the request goes out, the answer comes in, silence is timed. Dropping the returned stream drops the connection.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use reqwest::header::{HeaderMap, LOCATION};
use reqwest::{Response, StatusCode, Url};
use runtime::ports::model::{ModelError, ModelErrorKind, ModelEvent, ModelRequest, ModelStream};
use tokio::time::timeout;

use super::address;
use super::answer::{Answer, Pieces, Progress};
use super::failure::{Refusal, causes, network, refused};
use super::rates;
use super::remote::{Asked, ERROR_BODY_BYTES};

/// Silence after an answer's told end, in which its usage may still come; servers that keep the connection open end here.
const AFTER_FINISH: Duration = Duration::from_secs(5);
/// How long a server may take to tell about a model.
const CONFIRMATION: Duration = Duration::from_secs(20);

/// Asks; the stream is given once the server has accepted.
pub(super) async fn open(asked: Arc<Asked>, request: &ModelRequest) -> Result<ModelStream, ModelError> {
    let mut outgoing = asked.wire.ask(request);
    let url = asked.address.below(&outgoing.path, outgoing.query);
    let mut remedies: Vec<_> = outgoing.remedies.iter().collect();
    loop {
        let sent = asked.client.post(url.clone()).json(&outgoing.body).send();
        let response = answered(&asked, asked.patience.first_byte, sent).await?;
        if response.status().is_success() {
            let pieces = rates::snapshots(&|name| header(response.headers(), name));
            let pieces = pieces.into_iter().map(|limit| Ok(ModelEvent::RateLimit(limit))).collect();
            let call = Call { response, answer: Answer::new(asked.wire, asked.key.clone()), pieces, asked };
            return Ok(stream::unfold(call, Call::next).boxed());
        }
        let error = Refused::read(response, &asked).await;
        // What a server does not know, and says so by its name, it is asked without; each such field once.
        let body = error.body.to_lowercase();
        let curable = matches!(error.status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY);
        let named = |remedy: &&super::wire::Remedy| curable && body.contains(remedy.named);
        let remedy = remedies.iter().position(|remedy| named(remedy) && remedy.apply(&mut outgoing.body));
        match remedy {
            Some(used) => drop(remedies.swap_remove(used)),
            None => return Err(error.into_error(&asked, &url, &request.model.name)),
        }
    }
}

/// Asks the server about a model, which costs nothing: is it there, does it take the key, does it have the model?
pub(super) async fn confirm(asked: &Asked, model: &str) -> Result<(), ModelError> {
    let url = asked.address.below(&asked.wire.about(model), None);
    let response = answered(asked, CONFIRMATION, asked.client.get(url.clone()).send()).await?;
    if response.status().is_success() {
        return Ok(());
    }
    Err(Refused::read(response, asked).await.into_error(asked, &url, model))
}

async fn answered(
    asked: &Asked,
    patience: Duration,
    sent: impl Future<Output = Result<Response, reqwest::Error>>,
) -> Result<Response, ModelError> {
    match timeout(patience, sent).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => Err(unreachable(asked, error)),
        Err(_) => Err(silent(asked, patience)),
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
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

    fn into_error(self, asked: &Asked, url: &Url, model: &str) -> ModelError {
        let refusal = Refusal { wire: asked.wire, status: self.status.as_u16(), body: &self.body };
        let mut error = refused(refusal, &|name| header(&self.headers, name), asked.key.as_ref());
        if self.status == StatusCode::NOT_FOUND && error.kind == ModelErrorKind::BadRequest {
            error.message +=
                &format!(" Asked was {} for `{model}`; most base URLs end with /v1.", address::shown(url.clone()));
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

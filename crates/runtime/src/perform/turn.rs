//! A turn: ask the model, parse what it says as it comes, report it piece by piece.
//!
//! Dropping the model's stream stops the call. A stream that ends without saying that it is whole is an error, and what it said
//! so far stays in the log.

use std::sync::Arc;

use contract::event::{Error, Finish};
use contract::protocol::{Dialect, Frame, Parser};
use futures::StreamExt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Report, StepRef, report};
use crate::Runtime;
use crate::ports::model::{ModelError, ModelErrorKind, ModelEvent, ModelFinish, ModelRequest};

/// A question to the model.
pub(super) struct Asked {
    /// The turn's step.
    pub(super) step: StepRef,
    /// Who is asked what.
    pub(super) question: ModelRequest,
    /// Cancelled when the turn has what it may have.
    pub(super) enough: CancellationToken,
    /// Cancelled when the run is being stopped.
    pub(super) stop: CancellationToken,
}

/// What the stream has given so far.
struct Heard {
    parser: Parser,
    /// Whether the provider's own reasoning is open; it is shown as thinking.
    reasoning: bool,
    bytes: u64,
    usage: Option<contract::event::TokenCount>,
}

/// Asks, and reports until the stream ends, fails or is stopped.
pub(super) async fn perform(runtime: Arc<Runtime>, asked: Asked, reports: mpsc::Sender<Report>) {
    let step = asked.step.clone();
    let mut heard = Heard { parser: Parser::new(Dialect::Tags), reasoning: false, bytes: 0, usage: None };
    let ended = tokio::select! {
        biased;
        () = asked.stop.cancelled() => None,
        () = asked.enough.cancelled() => Some(Ok(Finish::Limit)),
        ended = listen(&runtime, &asked, &mut heard, &reports) => Some(ended),
    };
    let last = match ended {
        None => Report::Stopped(step),
        Some(Err(error)) => Report::Events(step, vec![failure(&error).into()], None),
        Some(Ok(finish)) => {
            let mut frames = vec![];
            heard.close_reasoning(&mut frames);
            heard.parser.finish(&mut |frame| frames.push(frame.into_owned()));
            if !frames.is_empty() && !report(&reports, Report::Said(step.clone(), frames)).await {
                return;
            }
            Report::TurnEnded { step, finish, bytes: heard.bytes, usage: heard.usage }
        }
    };
    report(&reports, last).await;
}

async fn listen(
    runtime: &Runtime,
    asked: &Asked,
    heard: &mut Heard,
    reports: &mpsc::Sender<Report>,
) -> Result<Finish, ModelError> {
    let port = &runtime.ports.model;
    if !port.knows(&asked.question.model) {
        // It was admitted by a Baton that reached it.
        let message = format!("this Baton reaches no model called `{}`", asked.question.model.name);
        return Err(ModelError { kind: ModelErrorKind::Unknown, message, retry_after_ms: None });
    }
    // Never closed; waits while too many models are asked.
    let _asking = runtime.model_operations.acquire().await;
    let mut stream = port.stream(asked.question.clone()).await?;
    while let Some(event) = stream.next().await {
        let mut frames = vec![];
        match event? {
            ModelEvent::Text(text) => {
                heard.bytes += text.len() as u64;
                heard.close_reasoning(&mut frames);
                heard.parser.push(text.as_bytes(), &mut |frame| frames.push(frame.into_owned()));
            }
            ModelEvent::Reasoning(text) => {
                heard.bytes += text.len() as u64;
                if !std::mem::replace(&mut heard.reasoning, true) {
                    frames.push(Frame::ThinkingStart);
                }
                frames.push(Frame::ThinkingContent { content: text.into() });
            }
            ModelEvent::Usage(usage) => heard.usage = Some(usage),
            ModelEvent::Finish(finish) => {
                return Ok(match finish {
                    ModelFinish::Stop => Finish::Stop,
                    ModelFinish::Length => Finish::Length,
                    ModelFinish::ContentFilter => Finish::ContentFilter,
                });
            }
        }
        if !frames.is_empty() && !report(reports, Report::Said(asked.step.clone(), frames)).await {
            return Ok(Finish::Limit);
        }
        if heard.bytes > runtime.limits.response_bytes {
            return Ok(Finish::Limit);
        }
    }
    let message = "the model's stream broke off before it was whole".to_owned();
    Err(ModelError { kind: ModelErrorKind::Network, message, retry_after_ms: None })
}

impl Heard {
    fn close_reasoning(&mut self, frames: &mut Vec<Frame<'static>>) {
        if std::mem::replace(&mut self.reasoning, false) {
            frames.push(Frame::ThinkingEnd);
        }
    }
}

fn failure(error: &ModelError) -> Error {
    let action = match error.kind {
        ModelErrorKind::Auth => "Check BATON_MODEL_KEY.",
        ModelErrorKind::Quota => "Add credit at the provider, or use another model.",
        ModelErrorKind::Rate | ModelErrorKind::Overload => "Wait a little, then send the message again.",
        ModelErrorKind::Context => "Begin a new chat, or use a model with a larger window.",
        ModelErrorKind::ContentFilter => "Say it in other words, or use another model.",
        ModelErrorKind::Network => "Check that the model's server runs and BATON_MODEL_URL is right.",
        ModelErrorKind::BadRequest => "Check BATON_MODEL and BATON_MODEL_URL.",
        ModelErrorKind::Unknown => "Fork the run with a model that this Baton reaches, or start Baton with that one.",
        ModelErrorKind::Protocol => "Check that BATON_MODEL_URL is an OpenAI-compatible server.",
    };
    Error {
        code: error.kind.code().into(),
        message: error.message.clone(),
        retryable: error.kind.retryable(),
        action: action.into(),
        retry_after_ms: error.retry_after_ms,
    }
}

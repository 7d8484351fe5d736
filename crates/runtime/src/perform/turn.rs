//! A turn: ask the model, parse what it says as it comes, report it piece by piece.
//!
//! Dropping the model's stream stops the call. A stream that ends without saying that it is whole is an error, and what it said
//! so far stays in the log. An answer that reached the model's output limit is carried on within the turn: the model is shown what
//! it said, and what it says next is joined to that.

use std::sync::Arc;

use contract::event::{Error, Finish, RateLimit, Spent, TokenCount, Usage, Warning};
use contract::protocol::{Dialect, Frame, Parser};
use engine::prompt;
use futures::StreamExt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::join::{Joined, Seam};
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
    /// The text, to go on from.
    said: String,
    /// Whether it stands within a file.
    in_file: bool,
    /// Where the answer is being carried on.
    seam: Option<Seam>,
    /// Tokens of the calls before this one, and of this one.
    before: Option<TokenCount>,
    usage: Option<TokenCount>,
}

/// Asks, and reports until the stream ends, fails or is stopped.
pub(super) async fn perform(runtime: Arc<Runtime>, asked: Asked, reports: mpsc::Sender<Report>) {
    let step = asked.step.clone();
    let mut heard = Heard::new();
    let ended = tokio::select! {
        biased;
        () = asked.stop.cancelled() => None,
        () = asked.enough.cancelled() => Some(Ok(Finish::Limit)),
        ended = listen(&runtime, &asked, &mut heard, &reports) => Some(ended),
    };
    let spent = match &ended {
        Some(Ok(_)) if step.1 == 1 => Spent::Useful,
        Some(Ok(_)) => Spent::Retry,
        Some(Err(_)) | None => Spent::Lost,
    };
    let mut frames = vec![];
    if spent != Spent::Lost {
        heard.close(&mut frames);
    }
    let usage = sum(heard.before, heard.usage);
    let told = usage.map(|tokens| cost(&runtime, &asked, tokens, spent));
    let last = match ended {
        None => Report::Stopped(step.clone()),
        Some(Err(error)) => Report::Events(step.clone(), vec![failure(&error).into()], None),
        Some(Ok(finish)) => Report::TurnEnded { step: step.clone(), finish, bytes: heard.bytes, usage },
    };
    let said = (!frames.is_empty()).then(|| Report::Said(step.clone(), frames));
    let told = told.map(|usage| Report::Events(step, vec![usage.into()], None));
    for what in said.into_iter().chain(told).chain([last]) {
        if !report(&reports, what).await {
            return;
        }
    }
}

/// What a call used, and what that costs.
fn cost(runtime: &Runtime, asked: &Asked, tokens: TokenCount, spent: Spent) -> Usage {
    let model = &asked.question.model;
    let cost = runtime.facts(model).price.map(|price| price.of(&tokens));
    Usage { model: model.name.clone(), tokens, cost, spent }
}

/// Listens to the answer, and has it carried on as long as it is cut off and may be.
async fn listen(
    runtime: &Runtime,
    asked: &Asked,
    heard: &mut Heard,
    reports: &mpsc::Sender<Report>,
) -> Result<Finish, ModelError> {
    let most = runtime.limits.continuations_per_turn;
    let mut question = asked.question.clone();
    for again in 1.. {
        let finish = hear(runtime, question, heard, (&asked.step, reports)).await?;
        let room = runtime.limits.prompt_bytes.saturating_sub(bytes_of(&asked.question));
        if finish != Finish::Length || again > most || heard.said.trim().is_empty() || heard.said.len() as u64 > room {
            return Ok(finish);
        }
        let message =
            format!("The answer reached the model's output limit; the model is asked to go on ({again} of {most}).");
        let cut = Warning { code: "answer_cut_off".into(), message };
        if !report(reports, Report::Events(asked.step.clone(), vec![cut.into()], None)).await {
            break;
        }
        question = asked.question.clone();
        question.messages.extend(prompt::carry_on(&heard.said));
        heard.seam = Some(Seam::after(&heard.said, heard.in_file));
        heard.before = sum(heard.before, heard.usage.take());
    }
    Ok(Finish::Limit)
}

/// Listens to one call.
async fn hear(
    runtime: &Runtime,
    question: ModelRequest,
    heard: &mut Heard,
    (step, reports): (&StepRef, &mpsc::Sender<Report>),
) -> Result<Finish, ModelError> {
    let port = &runtime.ports.model;
    if !port.knows(&question.model) {
        // It was admitted by a Baton that reached it.
        let message = format!("this Baton reaches no model called `{}`", question.model.name);
        return Err(ModelError { kind: ModelErrorKind::Unknown, message, retry_after_ms: None });
    }
    // Never closed; waits while too many models are asked.
    let _asking = runtime.model_operations.acquire().await;
    let mut stream = port.stream(question).await?;
    while let Some(event) = stream.next().await {
        let mut frames = vec![];
        match event? {
            ModelEvent::Text(text) => {
                heard.bytes += text.len() as u64;
                heard.close_reasoning(&mut frames);
                heard.text(text, &mut frames);
            }
            ModelEvent::Reasoning(text) => {
                heard.bytes += text.len() as u64;
                if !std::mem::replace(&mut heard.reasoning, true) {
                    frames.push(Frame::ThinkingStart);
                }
                frames.push(Frame::ThinkingContent { content: text.into() });
            }
            ModelEvent::Usage(usage) => heard.usage = Some(usage),
            ModelEvent::RateLimit(left) => {
                let reset_at = left.reset_ms.map(|ms| runtime.ports.world.now_ms().saturating_add(ms));
                let told = RateLimit { scope: left.scope, limit: left.limit, remaining: left.remaining, reset_at };
                report(reports, Report::Events(step.clone(), vec![told.into()], None)).await;
            }
            ModelEvent::Finish(finish) => {
                return Ok(match finish {
                    ModelFinish::Stop => Finish::Stop,
                    ModelFinish::Length => Finish::Length,
                    ModelFinish::ContentFilter => Finish::ContentFilter,
                });
            }
        }
        if !frames.is_empty() && !report(reports, Report::Said(step.clone(), frames)).await {
            return Ok(Finish::Limit);
        }
        if heard.bytes > runtime.limits.response_bytes {
            return Ok(Finish::Limit);
        }
    }
    let message = "the model's stream broke off before it was whole".to_owned();
    Err(ModelError { kind: ModelErrorKind::Network, message, retry_after_ms: None })
}

fn bytes_of(question: &ModelRequest) -> u64 {
    question.messages.iter().map(|message| message.text.len() as u64).sum()
}

fn sum(one: Option<TokenCount>, other: Option<TokenCount>) -> Option<TokenCount> {
    let (Some(mut all), Some(more)) = (one, other) else { return one.or(other) };
    all += more;
    Some(all)
}

impl Heard {
    fn new() -> Self {
        let parser = Parser::new(Dialect::Tags);
        let (said, in_file, seam) = (String::new(), false, None);
        Self { parser, reasoning: false, bytes: 0, said, in_file, seam, before: None, usage: None }
    }

    /// A piece of text, past the seam if there is one.
    fn text(&mut self, text: String, frames: &mut Vec<Frame<'static>>) {
        let joined = match &mut self.seam {
            Some(seam) => seam.take(text),
            None => Joined::On(text),
        };
        self.joined(joined, frames);
    }

    fn joined(&mut self, joined: Joined, frames: &mut Vec<Frame<'static>>) {
        let text = match joined {
            Joined::Wait => return,
            Joined::On(text) => text,
            Joined::Anew(text) => {
                // What was open is dropped without a word, since the model writes it again.
                self.parser = Parser::new(Dialect::Tags);
                text
            }
        };
        self.said.push_str(&text);
        self.parse(|parser, mut sink| parser.push(text.as_bytes(), &mut sink), frames);
    }

    fn parse(&mut self, read: impl FnOnce(&mut Parser, &mut dyn FnMut(Frame<'_>)), frames: &mut Vec<Frame<'static>>) {
        let in_file = &mut self.in_file;
        read(&mut self.parser, &mut |frame| {
            if let Frame::FileStart { .. } = &frame {
                *in_file = true;
            } else if let Frame::FileEnd { .. } = &frame {
                *in_file = false;
            }
            frames.push(frame.into_owned());
        });
    }

    /// Nothing more is said.
    fn close(&mut self, frames: &mut Vec<Frame<'static>>) {
        self.close_reasoning(frames);
        if let Some(seam) = self.seam.take() {
            self.joined(seam.finish(), frames);
        }
        self.parse(|parser, mut sink| parser.finish(&mut sink), frames);
    }

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
        ModelErrorKind::Protocol => "Check that BATON_MODEL_URL and BATON_MODEL_PROVIDER belong together.",
    };
    Error {
        code: error.kind.code().into(),
        message: error.message.clone(),
        retryable: error.kind.retryable(),
        action: action.into(),
        retry_after_ms: error.retry_after_ms,
    }
}

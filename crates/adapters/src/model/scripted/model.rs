//! The scripted model in process: a plan performed on tokio's clock, so that tests can pause it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use contract::Limits;
use contract::event::ModelRef;
use futures::StreamExt as _;
use futures::stream;
use runtime::ports::model::{Model, ModelError, ModelEvent, ModelRequest, ModelStream};
use tokio::time::sleep;

use super::super::Patience;
use super::super::failure::{Refusal, network, protocol, refused};
use super::super::wire::Wire;
use super::compile::Break;
use super::expect::Asked;
use super::plan::{Outcome, Step};
use super::scripts::Scripts;
use super::tongue::Tongue;
use super::vendor::VendorError;

/// A model that scripts perform. It keeps the limits on silence that a client of a local server keeps.
#[derive(Debug, Clone)]
pub struct ScriptedModel {
    scripts: Arc<Scripts>,
    reference: ModelRef,
    patience: Patience,
}

impl ScriptedModel {
    /// A model of these scripts under this name, with the default limits.
    pub fn new(scripts: Scripts, reference: ModelRef) -> Self {
        Self { scripts: Arc::new(scripts), reference, patience: Patience::local(&Limits::default()) }
    }

    /// The same model with other limits; those named `model_…` matter here.
    #[must_use]
    pub fn with_limits(self, limits: &Limits) -> Self {
        Self { patience: Patience::local(limits), ..self }
    }
}

#[async_trait]
impl Model for ScriptedModel {
    fn reference(&self) -> ModelRef {
        self.reference.clone()
    }

    fn named(&self, name: &str) -> Option<ModelRef> {
        (name == self.reference.name).then(|| self.reference.clone())
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let asked = Asked { model: request.model.name, stream: true, include_usage: true, messages: request.messages };
        let answered = self.scripts.answer(&asked).map_err(|error| refuse(&error, None, None))?;
        let plan = answered.plan;
        within(self.patience.first_byte, plan.first_delay).await?;
        match plan.outcome {
            Outcome::Refused { error, retry_after, body } => {
                Err(refuse(&error, retry_after.as_deref(), body.as_deref()))
            }
            Outcome::Steps(steps) => {
                let performance =
                    Performance { steps: steps.into(), silence: self.patience.first_byte, idle: self.patience.idle };
                Ok(stream::unfold(performance, Performance::next).boxed())
            }
        }
    }
}

struct Performance {
    steps: VecDeque<Step>,
    /// How long the next silence may be.
    silence: Duration,
    idle: Duration,
}

impl Performance {
    async fn next(mut self) -> Option<(Result<ModelEvent, ModelError>, Self)> {
        while let Some(step) = self.steps.pop_front() {
            let piece = match step {
                Step::Wait(time) => match within(self.silence, time).await {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
                Step::Reasoning(text) => Ok(ModelEvent::Reasoning(text)),
                Step::Text(text) => Ok(ModelEvent::Text(text)),
                Step::Usage(tokens) => Ok(ModelEvent::Usage(tokens)),
                Step::Finish(finish) => Ok(ModelEvent::Finish(finish)),
                Step::Break(Break::Error(error)) => Err(refuse(&VendorError { status: 0, ..error }, None, None)),
                Step::Break(Break::Off) => Err(network("The model's answer was cut off.".into())),
                Step::Break(Break::Malformed) => Err(protocol("The model sent a piece that is not JSON.")),
                Step::Break(Break::Stall) => Err(silent_for(self.silence).await),
            };
            self.silence = self.idle;
            if piece.is_err() {
                self.steps.clear();
            }
            return Some((piece, self));
        }
        None
    }
}

/// Waits, but not longer than a client would.
async fn within(silence: Duration, time: Duration) -> Result<(), ModelError> {
    if time >= silence {
        return Err(silent_for(silence).await);
    }
    if !time.is_zero() {
        sleep(time).await;
    }
    Ok(())
}

async fn silent_for(silence: Duration) -> ModelError {
    sleep(silence).await;
    network(format!("The model said nothing for {} s.", silence.as_secs_f64()))
}

/// The error that a client of chat completions would see.
fn refuse(error: &VendorError, retry_after: Option<&str>, body: Option<&str>) -> ModelError {
    let told = Tongue::Chat.refusal(error, retry_after, true);
    let refusal = Refusal { wire: Wire::Chat, status: told.status, body: body.unwrap_or(&told.body) };
    refused(refusal, &|name| retry_after.filter(|_| name == "retry-after"), None)
}

//! The model as a process on the stage reaches it: the question passes the gate, and so does each piece of the answer.

use std::sync::Arc;

use async_trait::async_trait;
use contract::event::ModelRef;
use futures::StreamExt as _;
use futures::stream;
use runtime::ports::Model;
use runtime::ports::model::{ModelError, ModelErrorKind, ModelRequest, ModelStream};

use super::gate::{self, Gate, WHY};

/// A model behind a gate.
pub(super) struct StagedModel {
    pub(super) model: Arc<dyn Model>,
    pub(super) gate: Arc<Gate>,
}

fn broken() -> ModelError {
    ModelError { kind: ModelErrorKind::Network, message: WHY.into(), retry_after_ms: None }
}

#[async_trait]
impl Model for StagedModel {
    fn reference(&self) -> ModelRef {
        self.model.reference()
    }

    fn named(&self, name: &str) -> Option<ModelRef> {
        self.model.named(name)
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let troubles = self.gate.begin("ask").await;
        if gate::failure(&troubles).is_some() {
            return Err(broken());
        }
        tokio::time::sleep(gate::late(&troubles)).await;
        if troubles.contains(&super::Trouble::Repeat) {
            // The model has heard the question, and nobody its answer.
            drop(self.model.stream(request.clone()).await);
        }
        let answer = self.model.stream(request).await;
        self.gate.finish(&troubles).await;
        if gate::is_lost(&troubles) {
            return Err(broken());
        }
        Ok(stream::unfold(Some((answer?, self.gate.clone())), hear).boxed())
    }
}

type Heard = (ModelStream, Arc<Gate>);

/// The next piece; nothing after a failure.
async fn hear(state: Option<Heard>) -> Option<(<ModelStream as futures::Stream>::Item, Option<Heard>)> {
    let (mut answer, gate) = state?;
    let troubles = gate.begin("hear").await;
    if gate::failure(&troubles).is_some() {
        return Some((Err(broken()), None));
    }
    tokio::time::sleep(gate::late(&troubles)).await;
    let piece = answer.next().await?;
    gate.finish(&troubles).await;
    match gate::is_lost(&troubles) {
        true => Some((Err(broken()), None)),
        false => Some((piece, Some((answer, gate)))),
    }
}

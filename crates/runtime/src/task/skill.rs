//! Skills that a worker performs itself. The registry, and skills that need a sandbox, are not here yet.

use contract::event::{Error, StepState, StepStatus, Work};

use super::Task;
use crate::perform::{Report, StepRef};

/// Gives back what it was given.
const ECHO: &str = "echo";

impl Task {
    /// Performs a skill and reports how it ended.
    pub(super) fn skill(&mut self, step: StepRef) {
        let planned = self.state.session.as_ref().and_then(|session| match &session.work {
            Work::Graph { steps } => steps.iter().find(|planned| planned.id == step.0),
            Work::Message | Work::Change { .. } => None,
        });
        let event = match planned {
            Some(planned) if planned.skill == ECHO => {
                let (id, output) = (step.0.clone(), Some(planned.inputs.clone()));
                StepState { id, state: StepStatus::Completed, attempt: step.1, reason: None, output }.into()
            }
            Some(_) | None => {
                let name = planned.map_or("", |planned| planned.skill.as_str());
                let error = Error {
                    code: "unknown_skill".into(),
                    message: format!("There is no skill called `{name}`."),
                    retryable: false,
                    action: format!("Use one that there is: {ECHO}."),
                    retry_after_ms: None,
                };
                error.into()
            }
        };
        self.own.push(Report::Events(step, vec![event], None));
    }
}

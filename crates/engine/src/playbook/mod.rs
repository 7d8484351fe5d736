//! Playbooks decide which steps come next, and that is all that they do. Everything that happens to a step is written once,
//! in `step`.

pub mod app;
pub mod graph;

use contract::Limits;
use contract::event::Work;

use crate::state::{RunState, Step};
use crate::step::Decision;

/// The first steps of a run.
pub(crate) fn begin(limits: &Limits, state: &RunState, d: &mut Decision) {
    match work(state) {
        Work::Message | Work::Change { .. } => app::begin(state, d),
        Work::Graph { steps } => graph::begin(limits, steps, d),
    }
}

/// A step was completed.
pub(crate) fn next(limits: &Limits, state: &RunState, step: &Step, d: &mut Decision) {
    match work(state) {
        Work::Message | Work::Change { .. } => app::next(limits, state, step, d),
        Work::Graph { .. } => graph::next(state, d),
    }
}

/// A step failed for good.
pub(crate) fn failed(limits: &Limits, state: &RunState, step: &Step, d: &mut Decision) {
    match work(state) {
        Work::Message | Work::Change { .. } => app::failed(limits, state, step, d),
        Work::Graph { .. } => graph::failed(state, step, d),
    }
}

/// What the run is to do.
pub(crate) fn work(state: &RunState) -> &Work {
    state.session.as_ref().map_or(&Work::Message, |session| &session.work)
}

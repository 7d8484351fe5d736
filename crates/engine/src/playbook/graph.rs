//! Steps that are all known when the run begins: each starts when the steps that it depends on are completed, and the run ends with
//! the last. A graph that could never end is refused before anything of it runs (D2).

use std::collections::{BTreeMap, BTreeSet};

use contract::event::{PlannedStep, RunCompleted, RunFailed, StepAdded, StepKind, StepStatus, StopReason};
use contract::{Limits, StepId};

use crate::state::{RunState, Step};
use crate::step::Decision;

/// Adds the steps, if they can all be performed.
pub(super) fn begin(limits: &Limits, steps: &[PlannedStep], d: &mut Decision) {
    if let Err(why) = check(limits, steps) {
        let action = "Mend the plan and send it again: nothing of it was performed.".into();
        return d.say(RunFailed { code: "bad_graph".into(), message: why, action });
    }
    if steps.is_empty() {
        return finish(0, d);
    }
    for step in steps {
        let (id, depends_on) = (step.id.clone(), step.depends_on.clone());
        d.say(StepAdded { id, kind: StepKind::Skill, title: step.skill.clone(), depends_on, critical: true });
    }
}

/// A step was completed. The ones that waited for it have been started by then.
pub(super) fn next(state: &RunState, d: &mut Decision) {
    if state.steps.iter().all(|step| step.status == StepStatus::Completed) {
        finish(state.steps.len(), d);
    }
}

/// A step failed for good, and with it the run.
pub(super) fn failed(state: &RunState, step: &Step, d: &mut Decision) {
    for other in state.steps.iter().filter(|other| matches!(other.status, StepStatus::Pending | StepStatus::Running)) {
        d.set(other, StepStatus::Skipped, other.attempt, Some(format!("{} failed", step.id)));
    }
    let reason = step.reason.as_deref().unwrap_or_default();
    let (code, action) = match &step.fault {
        Some(fault) => (fault.code.clone(), fault.action.clone()),
        None => ("step_failed".to_owned(), "Look at the events of the step, then start the graph again.".to_owned()),
    };
    d.say(RunFailed { code, message: format!("The step {} failed: {reason}", step.id), action });
}

fn finish(steps: usize, d: &mut Decision) {
    d.say(RunCompleted { stop_reason: StopReason::Done, result: format!("All steps are completed: {steps}.") });
}

/// Whether every step can be reached. The reason names the step, and of a circle all of it.
fn check(limits: &Limits, steps: &[PlannedStep]) -> Result<(), String> {
    if steps.len() as u64 > limits.graph_steps {
        return Err(format!("the graph has {} steps, and {} are the most", steps.len(), limits.graph_steps));
    }
    let mut waiting: BTreeMap<&StepId, BTreeSet<&StepId>> = BTreeMap::new();
    for step in steps {
        if waiting.insert(&step.id, step.depends_on.iter().collect()).is_some() {
            return Err(format!("two steps are called {}", step.id));
        }
    }
    for step in steps {
        if let Some(unknown) = step.depends_on.iter().find(|dependency| !waiting.contains_key(dependency)) {
            return Err(format!("the step {} depends on {unknown}, which is no step", step.id));
        }
    }
    let mut dependents: BTreeMap<&StepId, Vec<&StepId>> = BTreeMap::new();
    for (step, dependencies) in &waiting {
        dependencies.iter().for_each(|dependency| dependents.entry(dependency).or_default().push(step));
    }
    let mut ready: Vec<&StepId> = waiting.iter().filter(|(_, on)| on.is_empty()).map(|(step, _)| *step).collect();
    while let Some(step) = ready.pop() {
        waiting.remove(step);
        for dependent in dependents.get(step).into_iter().flatten() {
            if let Some(on) = waiting.get_mut(dependent)
                && on.remove(step)
                && on.is_empty()
            {
                ready.push(dependent);
            }
        }
    }
    match circle(&waiting) {
        Some(circle) => Err(format!("the steps wait for one another: {circle}")),
        None => Ok(()),
    }
}

/// A circle among steps of which each waits for another of them.
fn circle(waiting: &BTreeMap<&StepId, BTreeSet<&StepId>>) -> Option<String> {
    let (mut step, _) = waiting.first_key_value()?;
    let mut path: Vec<&StepId> = vec![];
    while !path.contains(step) {
        path.push(step);
        step = waiting.get(step)?.first()?;
    }
    let from = path.iter().position(|seen| seen == step)?;
    let names = path[from..].iter().chain([step]).map(|step| step.as_str());
    Some(names.collect::<Vec<_>>().join(" → "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(steps: &[(&str, &[&str])]) -> Vec<PlannedStep> {
        let step = |(id, on): &(&str, &[&str])| PlannedStep {
            id: StepId::new(*id),
            skill: "echo".into(),
            inputs: serde_json::Value::Null,
            depends_on: on.iter().map(|id| StepId::new(*id)).collect(),
        };
        steps.iter().map(step).collect()
    }

    /// D2: what could never end is refused, with the reason.
    #[test]
    fn a_graph_that_could_never_end_is_refused() {
        type Steps<'a> = &'a [(&'a str, &'a [&'a str])];
        let cases: [(Steps<'_>, Result<(), &str>); 7] = [
            (&[], Ok(())),
            (&[("a", &[]), ("b", &["a"]), ("c", &["a", "b", "a"])], Ok(())),
            (&[("b", &["a"]), ("a", &[])], Ok(())),
            (&[("a", &["a"])], Err("the steps wait for one another: a → a")),
            (
                &[("x", &["b"]), ("a", &["c"]), ("b", &["a"]), ("c", &["b"])],
                Err("the steps wait for one another: a → c → b → a"),
            ),
            (&[("a", &["z"])], Err("the step a depends on z, which is no step")),
            (&[("a", &[]), ("a", &[])], Err("two steps are called a")),
        ];
        for (steps, expected) in cases {
            assert_eq!(check(&Limits::default(), &plan(steps)), expected.map_err(str::to_owned), "{steps:?}");
        }
        let many: Vec<_> = (0..3).map(|n| format!("s{n}")).collect();
        let many: Vec<(&str, &[&str])> = many.iter().map(|id| (id.as_str(), &[][..])).collect();
        assert!(check(&Limits { graph_steps: 2, ..Limits::default() }, &plan(&many)).is_err());
    }
}

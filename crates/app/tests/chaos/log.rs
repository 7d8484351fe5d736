//! What a run's log tells, read by rules of its own: what was done and how often, and what may not stand there.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::load::{Kind, Run, label_of};
use crate::view::{ENDS, View};
use crate::witness::Append;

/// A run that a worker took.
#[derive(Debug, Clone)]
pub struct Started {
    pub seq: u64,
    pub worker: String,
    pub epoch: u64,
}

/// What became of commands, by what they write into the ledger.
#[derive(Debug, Clone, Copy, Default)]
pub struct Done {
    /// How often one was begun.
    pub started: u32,
    /// How often one has succeeded.
    pub succeeded: u32,
    /// How often one was cut off, so that nobody knows what it did.
    pub interrupted: u32,
}

/// What a log tells.
#[derive(Debug, Default)]
pub struct Told {
    pub starts: Vec<Started>,
    pub commands: BTreeMap<String, Done>,
    /// How often each turn was begun.
    pub turns: BTreeMap<u32, u32>,
    /// Results that a later attempt took over.
    pub replayed: u32,
    pub faults: Vec<String>,
}

/// A call of a tool as it stands in the log.
#[derive(Debug)]
struct Call {
    attempt: u64,
    /// Step, input, and which of the attempt's calls with that input it is.
    key: (String, String, usize),
    label: Option<String>,
    starts: u32,
    results: Vec<Value>,
}

/// Reads a whole log.
pub fn read(run: &Run, log: &View) -> Told {
    let mut told = Told::default();
    let mut calls: BTreeMap<String, Call> = BTreeMap::new();
    let mut order = vec![];
    let mut completed: Vec<String> = vec![];
    let mut faults = vec![];
    for event in &log.events {
        let (step, call) = (event.text("step_id").to_owned(), event.text("call_id").to_owned());
        match event.kind() {
            "run_started" => told.starts.push(Started {
                seq: event.seq,
                worker: event.text("worker").to_owned(),
                epoch: event.json["epoch"].as_u64().unwrap_or_default(),
            }),
            "turn_started" => {
                let turn = u32::try_from(event.json["turn"].as_u64().unwrap_or_default()).unwrap();
                *told.turns.entry(turn).or_default() += 1;
            }
            "step_state" => match event.text("state") {
                "completed" => completed.push(step),
                "running" if completed.contains(&step) => {
                    faults.push(format!("{step} runs again after it was completed"))
                }
                _ => {}
            },
            "tool_requested" => {
                let attempt = event.json["attempt"].as_u64().unwrap_or_default();
                let input = event.json["input"].to_string();
                let alike = |known: &&Call| known.attempt == attempt && known.key.0 == step && known.key.1 == input;
                let nth = calls.values().filter(alike).count();
                let key = (step, input, nth);
                let label = event.json["input"]["args"][1].as_str().and_then(label_of);
                order.push(call.clone());
                if calls.insert(call.clone(), Call { attempt, key, label, starts: 0, results: vec![] }).is_some() {
                    faults.push(format!("{call} is asked for twice"));
                }
            }
            "tool_started" | "tool_finished" => match calls.get_mut(&call) {
                Some(known) if event.kind() == "tool_started" => known.starts += 1,
                Some(known) => known.results.push(event.json.clone()),
                None => faults.push(format!("{call} was never asked for")),
            },
            _ => {}
        }
    }
    let calls: Vec<_> = order.iter().filter_map(|id| calls.get(id).map(|call| (id.as_str(), call))).collect();
    check_calls(&calls, &mut told, &mut faults);
    check_order(log, &mut faults);
    check_epochs(&told.starts, &mut faults);
    check_end(run, log, &mut faults);
    told.faults = faults.into_iter().map(|fault| format!("{} ({}): {fault}", run.id, run.request())).collect();
    told
}

fn check_calls(calls: &[(&str, &Call)], told: &mut Told, faults: &mut Vec<String>) {
    let mut recorded: BTreeMap<&(String, String, usize), &Value> = BTreeMap::new();
    for (id, call) in calls {
        let [result] = &call.results[..] else {
            faults.push(format!("{id} has {} results", call.results.len()));
            continue;
        };
        let (status, replayed) = (result["status"].as_str().unwrap_or_default(), result["replayed"] == true);
        if call.starts != u32::from(!replayed && !matches!(status, "cancelled" | "refused") || call.starts > 0) {
            faults.push(format!("{id} was begun {} times and has {result}", call.starts));
        }
        match recorded.get(&call.key) {
            // Acknowledged work is not done again: the record is taken over as it is.
            Some(first) => {
                let same = ["status", "output", "exit_code", "error"].iter().all(|field| first[field] == result[field]);
                if !replayed || call.starts > 0 || !same {
                    faults.push(format!("{id} has the key of a call that had succeeded, and is {result}"));
                }
            }
            None if replayed => faults.push(format!("{id} takes over a result that there is not")),
            None => {}
        }
        told.replayed += u32::from(replayed);
        if status == "succeeded" && !replayed {
            recorded.insert(&call.key, result);
        }
        if let Some(label) = &call.label {
            let done = told.commands.entry(label.clone()).or_default();
            done.started += call.starts;
            done.succeeded += u32::from(status == "succeeded" && !replayed);
            done.interrupted += u32::from(status == "interrupted");
            if !matches!(status, "succeeded" | "interrupted" | "cancelled") {
                faults.push(format!("{id} ended as {result}"));
            }
        }
    }
}

fn check_order(log: &View, faults: &mut Vec<String>) {
    let mut last = 0;
    for event in &log.events {
        if event.first() != last + 1 || event.seq < event.first() {
            faults.push(format!("its log has a gap: after event {last} comes {}", event.json));
        }
        last = event.seq;
    }
    let kinds: Vec<_> = log.events.iter().map(|event| event.kind()).collect();
    if kinds.get(..2) != Some(&["run_queued", "session"]) {
        faults.push(format!("its log begins with {:?}", kinds.get(..2)));
    }
    let ends: Vec<_> = kinds.iter().enumerate().filter(|(_, kind)| ENDS.contains(kind)).map(|(at, _)| at).collect();
    if ends != [kinds.len() - 1] {
        faults.push(format!("its log of {} events ends at {ends:?}", kinds.len()));
    }
}

fn check_epochs(starts: &[Started], faults: &mut Vec<String>) {
    if let Some(pair) = starts.windows(2).find(|pair| pair[0].epoch >= pair[1].epoch) {
        faults.push(format!("an epoch does not rise: {pair:?}"));
    }
}

/// Every run ends as its script says, whatever died meanwhile, and publishes once.
fn check_end(run: &Run, log: &View, faults: &mut Vec<String>) {
    let Some(end) = log.events.last() else { return };
    let good = match run.kind {
        Kind::Stop | Kind::Hang => end.kind() == "run_cancelled",
        Kind::Page | Kind::Edit | Kind::Steps | Kind::Long | Kind::Broken | Kind::Unlucky | Kind::Ask | Kind::Hand => {
            end.kind() == "run_completed" && end.text("stop_reason") == "done"
        }
    };
    if !good {
        faults.push(format!("it ended with {}", end.json));
    }
    let published = log.events.iter().filter(|event| event.kind() == "version_created").count();
    let once = match run.kind {
        Kind::Page | Kind::Edit | Kind::Steps | Kind::Broken | Kind::Unlucky | Kind::Hand => published == 1,
        Kind::Long | Kind::Ask | Kind::Stop | Kind::Hang => published <= 1,
    };
    if !once {
        faults.push(format!("it published {published} versions"));
    }
}

/// Whether each part of the log was appended under the epoch of the claim that it belongs to, as the database noted.
pub fn check_appends(run: &Run, told: &Told, log: &View, appends: &[Append]) -> Vec<String> {
    let (mut faults, last) = (vec![], log.last());
    // A run that was stopped before it began ends without having been started.
    let never_began = |append: &Append| told.starts.is_empty() && append.first > 2 && log.has("cancel_requested");
    let epoch_at = |seq: u64| told.starts.iter().rev().find(|start| start.seq <= seq).map_or(0, |start| start.epoch);
    let mut next = 1;
    for append in appends {
        if append.first != next {
            faults.push(format!("the database noted an append from {} where {next} is the next", append.first));
        }
        next = append.last + 1;
        // A worker's first events stand before its start: what it found in the inbox, and the template's files.
        let own = told.starts.iter().find(|start| (append.first..=append.last).contains(&start.seq));
        let expected = own.map_or_else(|| epoch_at(append.first), |start| start.epoch);
        if append.epoch != expected && !never_began(append) {
            faults.push(format!(
                "events {} to {} are of epoch {expected} and were appended while the run was claimed under {}",
                append.first, append.last, append.epoch
            ));
        }
    }
    if next != last + 1 {
        faults.push(format!("the database noted appends up to {}, and the log ends at {last}", next - 1));
    }
    faults.into_iter().map(|fault| format!("{} ({}): {fault}", run.id, run.request())).collect()
}

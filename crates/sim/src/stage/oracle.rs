//! What must hold when everything is over, and what of it must not depend on what went wrong on the way.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::api::RunView;
use contract::event::{Event, PreviewKind, ToolInput, ToolStatus};
use contract::{ProjectId, RunId};
use runtime::ports::sandbox::ExecEnd;
use runtime::ports::store::{NewEvent, StoredEvent};
use runtime::{Project, Runtime};
use serde_json::Value;

use super::admission;
use super::gate::WHY;
use super::person::{Told, USER};
use super::sandbox::Executed;

/// What a rehearsal leaves behind, as far as it must not depend on what went wrong on the way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Each run's terminal event and why, in the order in which they were accepted.
    pub ends: Vec<String>,
    /// Each project's files: path and hash.
    pub files: Vec<Hashes>,
    /// What each project's preview shows: path and hash.
    pub preview: Vec<Hashes>,
    /// Who said what, in each chat.
    pub talk: Vec<Vec<String>>,
    /// What each run's row says of it: status, why it stopped, code, builds, versions.
    pub rows: Vec<String>,
    /// Each run's calls of tools, as the last attempt made them: key, input, how it ended, what it printed.
    pub calls: Vec<Vec<String>>,
}

type Hashes = BTreeMap<String, String>;

/// All that was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) outcome: Outcome,
    /// All events, run after run, as readers get them.
    pub(super) log: Vec<String>,
    /// Whether a model was told that a call was interrupted or failed for no fault of its own.
    pub(super) told: bool,
    /// Whether a command changed files that could not be taken into the project, and the log says so.
    pub(super) unrecorded: bool,
    /// What does not hold.
    pub(super) faults: Vec<String>,
}

/// A run and everything that is stored of it.
struct Record {
    view: RunView,
    stored: Vec<StoredEvent>,
    events: Vec<NewEvent>,
}

/// Looks at everything through a process on which nothing goes wrong.
pub(super) async fn inspect(
    runtime: &Arc<Runtime>,
    told: &BTreeMap<RunId, Told>,
    executed: &[Executed],
    died: bool,
) -> Result<Found, String> {
    let mut found = Found::default();
    let store = runtime.ports.store.as_ref();
    let mut views = store.runs(USER, None, None, 1_000).await.map_err(text)?.items;
    views.reverse();
    let mut records = vec![];
    for view in views {
        let mut stored = vec![];
        loop {
            let page = store.read_after(view.id, stored.len() as u64, 512).await.map_err(text)?;
            if page.is_empty() {
                break;
            }
            stored.extend(page);
        }
        let (_, events) = runtime::replay(store, view.id).await.map_err(text)?;
        records.push(Record { view, stored, events });
    }
    for record in &records {
        log_holds(record, &mut found);
        told_what_is_stored(record, told.get(&record.view.id), &mut found);
        rows_hold(runtime, record, &mut found).await?;
        redraw(runtime, record, &records, &mut found).await?;
    }
    once(&records, executed, died, &mut found);
    nothing_is_left(runtime, &records, &mut found).await?;
    look(runtime, &records, &mut found).await?;
    Ok(found)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn of(event: &StoredEvent) -> Value {
    serde_json::from_slice(&event.payload).unwrap_or_default()
}

/// The log has no gaps, one end, and epochs that only grow.
fn log_holds(record: &Record, found: &mut Found) {
    let run = record.view.id;
    let seqs = record.stored.iter().map(|event| event.head.seq);
    if seqs.ne(1..=record.stored.len() as u64) {
        found.faults.push(format!("the log of {run} has gaps"));
    }
    let terminal = |event: &&NewEvent| event.event.is_terminal();
    let ends = record.events.iter().filter(terminal).count();
    if ends != 1 || !record.events.last().is_some_and(|last| terminal(&last)) {
        found.faults.push(format!("{run} has {ends} ends, or goes on after one"));
    }
    let epochs = record.events.iter().filter_map(|entry| match &entry.event {
        Event::RunStarted(started) => Some(started.epoch),
        _ => None,
    });
    if !epochs.clone().zip(epochs.skip(1)).all(|(a, b)| a < b) {
        found.faults.push(format!("the epochs of {run} do not grow"));
    }
    let stopped = record.events.iter().position(|entry| matches!(entry.event, Event::CancelRequested(_)));
    let published = record.events.iter().rposition(|entry| matches!(entry.event, Event::VersionCreated(_)));
    if stopped.zip(published).is_some_and(|(stopped, published)| stopped < published) {
        found.faults.push(format!("{run} published after it was told to stop"));
    }
    let why = |event: &Value| {
        let why = event.get("stop_reason").or(event.get("code")).and_then(Value::as_str).unwrap_or_default();
        why.to_owned()
    };
    let end = record.stored.last().map(|last| format!("{} {}", last.kind, why(&of(last)))).unwrap_or_default();
    found.outcome.ends.push(end.trim().to_owned());
    let interrupted = record.events.iter().any(|entry| match &entry.event {
        Event::ToolFinished(done) => {
            done.status == ToolStatus::Interrupted || done.error.as_ref().is_some_and(|error| error.contains(WHY))
        }
        _ => false,
    });
    found.told |= interrupted;
    let unrecorded = |entry: &NewEvent| matches!(&entry.event, Event::Warning(w) if w.code == "changes_not_recorded");
    found.unrecorded |= record.events.iter().any(unrecorded);
}

/// A person was told what is stored, all of it and in that order (promise 3).
fn told_what_is_stored(record: &Record, told: Option<&Told>, found: &mut Found) {
    let run = record.view.id;
    let log: Vec<String> =
        record.stored.iter().map(|event| event.head.encode(&String::from_utf8_lossy(&event.payload))).collect();
    if let Some(told) = told
        && !told.frames.iter().map(|frame| frame.json.as_ref()).eq(log.iter().map(String::as_bytes))
    {
        found.faults.push(format!("what was told of {run} is not its log"));
    }
    found.log.extend(log);
}

/// The rows are what the log says, and so are the files, the versions and the snapshot (E22, N5).
async fn rows_hold(runtime: &Arc<Runtime>, record: &Record, found: &mut Found) -> Result<(), String> {
    let Record { view, events, .. } = record;
    let store = runtime.ports.store.as_ref();
    let verified = runtime.verify(USER, view.id).await.map_err(text)?;
    found.faults.extend(verified.differences.into_iter().map(|difference| format!("{}: {difference}", view.id)));
    if verified.events != events.len() as u64 {
        found.faults.push(format!("{} has {} events, and {} were verified", view.id, events.len(), verified.events));
    }
    let (state, _) = runtime::replay(store, view.id).await.map_err(text)?;
    let mut calls: BTreeMap<String, String> = BTreeMap::new();
    for call in &state.calls {
        let key = engine::tools::key(&state, call);
        let (status, output) = call.result.as_ref().map(|r| (r.status, r.output.clone())).unzip();
        let input = serde_json::to_string(&call.input).map_err(text)?;
        // What there is to be listed depends on how far the answer has come meanwhile.
        let lists = matches!(&call.input, ToolInput::Command { command, .. } if command == "ls");
        let output = output.filter(|_| !lists);
        calls.insert(key.clone(), format!("{key} {input} {status:?} {output:?}"));
    }
    // A build is told by its step, since every attempt is one.
    let drawn = store.drawn(view.id).await.map_err(text)?;
    let builds: BTreeMap<&str, String> = drawn
        .builds
        .iter()
        .map(|build| (build.build_id.split('.').next().unwrap_or_default(), format!("{:?}", build.status)))
        .collect();
    let row = format!(
        "{:?} {:?} {:?} {builds:?}, {} versions",
        view.status,
        view.stop_reason,
        view.code,
        drawn.versions.len()
    );
    found.outcome.rows.push(row);
    found.outcome.calls.push(calls.into_values().collect());
    Ok(())
}

/// Draws every instant page again from the log up to its event: it is a projection, so it is the page that was shown (N7).
async fn redraw(runtime: &Arc<Runtime>, record: &Record, records: &[Record], found: &mut Found) -> Result<(), String> {
    let objects = runtime.ports.objects.as_ref();
    let shows = |entry: &NewEvent| match &entry.event {
        Event::PreviewUrl(preview) if preview.kind == PreviewKind::Instant => preview.revision.clone(),
        _ => None,
    };
    if !record.events.iter().any(|entry| shows(entry).is_some()) {
        return Ok(());
    }
    let mut files = Project::default();
    let of_project = records.iter().take_while(|other| other.view.id != record.view.id);
    for earlier in of_project.filter(|other| other.view.project_id == record.view.project_id) {
        for entry in &earlier.events {
            files.replay(objects, &entry.event).await.map_err(text)?;
        }
    }
    for (n, entry) in record.events.iter().enumerate() {
        files.replay(objects, &entry.event).await.map_err(text)?;
        if let Some(revision) = shows(entry) {
            let drawn = runtime.page(files.clone()).await.map_err(text)?.map(|page| page.revision);
            if drawn.as_ref().ok() != Some(&revision) {
                let fault =
                    format!("event {} of {} shows {revision}, and its files are {drawn:?}", n + 1, record.view.id);
                found.faults.push(fault);
            }
        }
    }
    Ok(())
}

/// Calls that the log says were made ran exactly once each, and nothing else ran (promise 2). Builds are left out: they are no keyed
/// effect, since what they write is a function of the files.
fn once(records: &[Record], executed: &[Executed], died: bool, found: &mut Found) {
    let is_build = |line: &str| line.starts_with("node ") || line.starts_with("npm ");
    let mut ran: BTreeMap<(ProjectId, &str), (usize, usize)> = BTreeMap::new();
    for one in executed {
        if one.end.is_none() && !died {
            found.faults.push(format!("`{}` was left running", one.line));
        }
        if !is_build(&one.line) {
            let (begun, finished) = ran.entry((one.project, &one.line)).or_default();
            *begun += 1;
            *finished += usize::from(matches!(one.end, Some(ExecEnd::Exited(_) | ExecEnd::TimedOut)));
        }
    }
    let lines =
        records.iter().flat_map(|record| calls_made(record).into_keys().map(|line| (record.view.project_id, line)));
    let lines: Vec<(ProjectId, String)> = lines.collect();
    for (project, line) in ran.keys().map(|(project, line)| (*project, (*line).to_owned())).chain(lines) {
        let (begun, finished) = ran.get(&(project, line.as_str())).copied().unwrap_or_default();
        let (mut known, mut unknown) = (0, 0);
        for record in records.iter().filter(|record| record.view.project_id == project) {
            let (k, u) = calls_made(record).get(&line).copied().unwrap_or_default();
            (known, unknown) = (known + k, unknown + u);
        }
        if finished < known || begun > known + unknown {
            let fault = format!(
                "`{line}` began {begun} times and ended {finished} times; of its calls {known} have results and {unknown} were \
                 given up"
            );
            if !found.faults.contains(&fault) {
                found.faults.push(fault);
            }
        }
    }
}

/// Of each command: how many calls of it have a result, and how many began and have none that is known.
fn calls_made(record: &Record) -> BTreeMap<String, (usize, usize)> {
    let mut lines = BTreeMap::new();
    let mut made: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut started = vec![];
    // What a fork has taken along comes before its first worker, and was done elsewhere.
    let own = record.events.iter().skip_while(|entry| !matches!(entry.event, Event::RunStarted(_)));
    for entry in own {
        match &entry.event {
            Event::ToolRequested(call) => {
                if let ToolInput::Command { command, args } = &call.input {
                    let line = std::iter::once(command).chain(args).cloned().collect::<Vec<_>>().join(" ");
                    lines.insert(call.call_id.clone(), line);
                }
            }
            Event::ToolStarted(call) => started.push(call.call_id.clone()),
            Event::ToolFinished(done) if !done.replayed && started.contains(&done.call_id) => {
                let Some(line) = lines.get(&done.call_id) else { continue };
                let (known, unknown) = made.entry(line.clone()).or_default();
                match done.exit_code.is_some() || done.status == ToolStatus::TimedOut {
                    true => *known += 1,
                    false => *unknown += 1,
                }
            }
            _ => {}
        }
    }
    made
}

/// Nobody holds anything any more: no claim, no row in an inbox, and no slot of a user, a chat or the server.
async fn nothing_is_left(runtime: &Arc<Runtime>, records: &[Record], found: &mut Found) -> Result<(), String> {
    let store = runtime.ports.store.as_ref();
    for record in records {
        if !store.inbox(record.view.id).await.map_err(text)?.is_empty() {
            found.faults.push(format!("the inbox of {} is not empty", record.view.id));
        }
    }
    let claims = store.claim("whoever", 1_000, u64::MAX / 4, 1).await.map_err(text)?;
    if !claims.is_empty() {
        found.faults.push(format!("{claims:?} can still be claimed"));
    }
    let Some(last) = records.last().map(|record| &record.view) else { return Ok(()) };
    // Accepted where one is the most, if the counters are what they were at the beginning.
    let one = [("active_runs_per_chat", 1), ("active_runs_per_user", 1), ("active_runs_global", 1)];
    let work = contract::event::Work::Message;
    let probe = admission::in_chat(runtime, last.chat_id, last.project_id, "is anything left?", work);
    let probe = runtime::ports::store::Admission { most_active: one, alone: true, ..probe };
    if let Err(error) = store.admit(probe).await {
        found.faults.push(format!("something is left: {error}"));
    }
    Ok(())
}

/// Files, previews and chats, the ones that began first in front.
async fn look(runtime: &Arc<Runtime>, records: &[Record], found: &mut Found) -> Result<(), String> {
    let store = runtime.ports.store.as_ref();
    let mut seen: Vec<ProjectId> = vec![];
    for view in records.iter().map(|record| &record.view) {
        if seen.contains(&view.project_id) {
            continue;
        }
        seen.push(view.project_id);
        let files = runtime.files(USER, view.project_id).await.map_err(text)?.ok_or("the project is gone")?;
        found.outcome.files.push(files.files.into_iter().map(|f| (f.path.to_string(), f.sha256)).collect());
        let row = store.project(view.project_id).await.map_err(text)?.ok_or("the project is gone")?;
        let published = runtime.published(&row.slug).await.map_err(text)?;
        let shown = published
            .map(|(_, manifest)| manifest.files.iter().map(|(p, e)| (p.to_string(), e.sha256.clone())).collect());
        found.outcome.preview.push(shown.unwrap_or_default());
        let chat = store.chat(USER, view.chat_id).await.map_err(text)?.ok_or("the chat is gone")?;
        let mut said = vec![];
        for message in &chat.messages {
            let Some(record) = records.iter().find(|record| record.view.id == message.run_id) else { continue };
            // A version is named by an id, which is another one each time.
            let words = message.text.split_inclusive([' ', '(']).map(|word| match word.starts_with("ver_") {
                true => "a version",
                false => word,
            });
            said.push(format!("{:?}: {}", message.role, words.collect::<String>()));
            if message.role == contract::api::Role::Assistant {
                let (state, _) = runtime::replay(store, record.view.id).await.map_err(text)?;
                if state.prose() != message.text {
                    found.faults.push(format!("the answer of {} is not what its log says", record.view.id));
                }
            }
        }
        found.outcome.talk.push(said);
    }
    Ok(())
}

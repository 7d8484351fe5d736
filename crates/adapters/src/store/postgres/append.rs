//! The log: appending to many runs under their fences in one statement, and reading it.

use contract::event::Head;
use contract::{ProjectId, RunId, StepId};
use runtime::ports::store::{
    Append, AppendError, Claim, Entry, InboxItem, RowChange, Snapshot, StoreError, StoreFault, StoredEvent,
};
use sqlx::postgres::PgRow;

use super::super::alike::PAGE_BYTES;
use super::column::{Key, bits, count, get, int, small, uint};
use super::failure::json;
use super::links::{Ask, Links};
use super::rows::Rows;

/// A project that is nobody's: what publishes to several is refused as what publishes to another's.
const NO_PROJECT: Key = Key(u128::MAX);

/// Events, in columns.
#[derive(Default)]
pub(super) struct Events<'a> {
    runs: Vec<Key>,
    seq: Vec<i64>,
    at: Vec<i64>,
    attempt: Vec<Option<i64>>,
    step: Vec<Option<&'a str>>,
    kind: Vec<&'a str>,
    payload: Vec<&'a str>,
}

impl<'a> Events<'a> {
    /// Adds events to a run's, the first of them after `after`.
    pub(super) fn add(&mut self, run: RunId, after: i64, events: impl IntoIterator<Item = &'a Entry>) {
        for (place, event) in (1..).zip(events) {
            let (step, attempt) =
                event.step.as_ref().map(|(step, attempt)| (step.as_str(), i64::from(*attempt))).unzip();
            self.runs.push(Key(run.bits()));
            // Of a writer that believes anything: the statement refuses it.
            self.seq.push(after.saturating_add(place));
            self.at.push(int(event.at));
            self.attempt.push(attempt);
            self.step.push(step);
            self.kind.push(event.kind);
            self.payload.push(&event.payload);
        }
    }

    /// The values of events whose run and place are told otherwise.
    pub(super) fn bind_bare(self, ask: Ask<'a>) -> Ask<'a> {
        ask.bind(self.at).bind(self.attempt).bind(self.step).bind(self.kind).bind(self.payload)
    }

    fn bind(mut self, ask: Ask<'a>) -> Ask<'a> {
        let (runs, seq) = (std::mem::take(&mut self.runs), std::mem::take(&mut self.seq));
        self.bind_bare(ask.bind(runs).bind(seq))
    }
}

/// Where the log ends with an append.
pub(super) fn upto(append: &Append) -> i64 {
    int(append.after).saturating_add(count(append.events.len()))
}

/// The statement that makes appends, at most one of each run.
pub(super) fn appends<'a>(appends: impl IntoIterator<Item = &'a Append>) -> Result<Ask<'a>, StoreError> {
    let (mut runs, mut epochs, mut afters, mut ends, mut projects) = (vec![], vec![], vec![], vec![], vec![]);
    let (mut events, mut rows) = (Events::default(), Rows::default());
    let (mut consumed_of, mut consumed, mut ended) = (vec![], vec![], vec![]);
    for append in appends {
        let run = Key(append.claim.run_id.bits());
        runs.push(run);
        epochs.push(int(append.claim.epoch));
        afters.push(int(append.after));
        ends.push(upto(append));
        projects.push(published(append));
        events.add(append.claim.run_id, int(append.after), &append.events);
        rows.add(append.claim.run_id, upto(append), &append.rows)?;
        consumed_of.extend(append.consumed.iter().map(|_| run));
        consumed.extend(append.consumed.iter().map(|number| int(*number)));
        if append.ends {
            ended.push(run);
        }
    }
    let orphans = (!ended.is_empty()).then(|| json(&InboxItem::parent_ended())).transpose()?;
    let ask = sqlx::query(
        "SELECT run, refusal, log_end FROM baton_append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
         $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31)",
    );
    let ask = events.bind(ask.bind(runs).bind(epochs).bind(afters).bind(ends).bind(projects));
    Ok(rows.bind(ask.bind(consumed_of).bind(consumed).bind(ended).bind(orphans)))
}

/// The project that an append publishes to, if it does.
fn published(append: &Append) -> Option<Key> {
    let projects = append.rows.iter().filter_map(|row| match row {
        RowChange::Publish(version) => Some(Key(ProjectId::bits(version.project_id))),
        RowChange::Run { .. }
        | RowChange::Progress { .. }
        | RowChange::Answered { .. }
        | RowChange::AssistantText { .. }
        | RowChange::AssistantReset { .. }
        | RowChange::ToolRequested { .. }
        | RowChange::ToolFinished { .. }
        | RowChange::Build { .. }
        | RowChange::BuildShown { .. } => None,
    });
    projects.reduce(|one, other| if one == other { one } else { NO_PROJECT })
}

/// The run of a refusal, and why it was refused.
pub(super) fn refusal(row: &PgRow) -> Result<(RunId, AppendError), StoreError> {
    let why = match get::<i32>(row, 1)? {
        1 => AppendError::Fenced,
        2 => AppendError::Conflict { at: uint(row, 2)? },
        _ => StoreError::new(StoreFault::Refused, "a run can publish to its own project alone").into(),
    };
    Ok((RunId::from_bits(bits(row, 0)?), why))
}

/// Keeps a newer snapshot of a run, if the claim is the latest.
pub(super) async fn put_snapshot(links: &Links, claim: Claim, snapshot: &Snapshot) -> Result<(), StoreError> {
    let ask = || {
        sqlx::query(
            "INSERT INTO snapshots AS s (run_id, seq, body) SELECT c.run_id, $3, $4 FROM claims c
             WHERE c.run_id = $1 AND c.epoch = $2 AND c.worker IS NOT NULL
             ON CONFLICT (run_id) DO UPDATE SET seq = excluded.seq, body = excluded.body WHERE excluded.seq > s.seq",
        )
        .bind(Key(claim.run_id.bits()))
        .bind(int(claim.epoch))
        .bind(int(snapshot.seq))
        .bind(&snapshot.body[..])
    };
    links.write(ask).await.map(drop)
}

/// The newest snapshot of a run.
pub(super) async fn snapshot(links: &Links, run: RunId) -> Result<Option<Snapshot>, StoreError> {
    let ask = || sqlx::query("SELECT seq, body FROM snapshots WHERE run_id = $1").bind(Key(run.bits()));
    let rows = links.read(ask).await?;
    rows.first().map(|row| Ok(Snapshot { seq: uint(row, 0)?, body: get::<Vec<u8>>(row, 1)?.into() })).transpose()
}

/// Events of a run after a place, in order.
pub(super) async fn read_after(
    links: &Links,
    run: RunId,
    after: u64,
    most: usize,
) -> Result<Vec<StoredEvent>, StoreError> {
    let ask = || {
        sqlx::query(
            "SELECT seq, at, step_id, attempt, kind, payload FROM (
                 SELECT *, sum(octet_length(payload)) OVER (ORDER BY seq) - octet_length(payload) AS before FROM (
                     SELECT seq, at, step_id, attempt, kind, payload FROM events WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3
                 ) page
             ) measured WHERE before < $4 ORDER BY seq",
        )
        .bind(Key(run.bits()))
        .bind(int(after))
        .bind(count(most))
        .bind(count(PAGE_BYTES))
    };
    links.read(ask).await?.iter().map(|row| event(run, row)).collect()
}

fn event(run: RunId, row: &PgRow) -> Result<StoredEvent, StoreError> {
    let step: Option<&str> = get(row, 2)?;
    let head = Head {
        run_id: run,
        seq: uint(row, 0)?,
        from_seq: None,
        at: uint(row, 1)?,
        attempt: step.map(|_| small(row, 3)).transpose()?,
        step_id: step.map(StepId::new),
    };
    let payload = get::<&str>(row, 5)?;
    Ok(StoredEvent { head, kind: get(row, 4)?, payload: payload.to_owned().into() })
}

//! Many runs on one connection: browsers allow six a host, and a tab needs them for other things.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use contract::api::RunView;
use contract::{Envelope, RunId};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::guard::Caller;
use crate::reply::{Answer, Code, Query, Refusal};
use crate::schema::Refusals;
use crate::serve::App;
use crate::{runs, sse};

/// Which runs, from where.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CursorsQuery {
    /// `<run>:<seq>` for each run, separated by commas: the last event that the client has, or 0.
    cursors: String,
}

/// Events of several runs. A run that ends sends its last event; the connection stays, so that the client decides when it changes.
///
/// Each event is `id: <run>:<seq>`, `event: <type>`, `data: <Envelope>`. A client comes back with its cursors in the query:
/// `Last-Event-ID` could name but one of them, and is not looked at.
#[utoipa::path(get, path = "/v1/stream", tag = "runs", operation_id = "stream", params(CursorsQuery),
    responses(
        (status = 200, description = "Events.", body = Envelope, content_type = "text/event-stream"),
        Refusals))]
pub async fn follow(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<CursorsQuery>,
) -> Answer<Response> {
    let most = app.runtime.limits.sse_streams;
    let mut cursors = Vec::new();
    let mut seen = BTreeSet::new();
    for cursor in query.cursors.split(',') {
        if cursors.len() as u64 == most {
            let detail = format!("One connection carries {most} streams.");
            return Err(Refusal::at_limit(Code::TooManyStreams, detail, "sse_streams", most));
        }
        let (run, after) = parse(cursor)?;
        if !seen.insert(run) {
            return Err(Refusal::new(Code::BadCursor, format!("{run} is named twice.")));
        }
        cursors.push((run, after));
    }
    for (run, after) in &cursors {
        check(&app, caller, *run, *after).await?;
    }
    Ok(sse::many(&app, cursors))
}

/// The run, if it is the caller's and the cursor is not beyond its end.
pub async fn check(app: &App, caller: Caller, run: RunId, after: u64) -> Answer<RunView> {
    let view = runs::find(app, caller, run).await?;
    if after > view.last_seq {
        let detail = format!("The cursor {after} is beyond the end of {run}, which is at {}.", view.last_seq);
        return Err(Refusal::new(Code::BadCursor, detail));
    }
    Ok(view)
}

/// A cursor: `<run>:<seq>`.
pub fn parse(cursor: &str) -> Answer<(RunId, u64)> {
    let parsed = cursor.split_once(':').and_then(|(run, seq)| Some((run.parse().ok()?, number(seq)?)));
    parsed.ok_or_else(|| Refusal::new(Code::BadCursor, "A cursor is `<run>:<seq>`."))
}

/// Digits and nothing else: `str::parse` would take a sign as well.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

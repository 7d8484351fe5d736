//! For whoever looks after the server: is it alive, can it work, how is it doing.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::bounds;
use crate::guard;
use crate::reply::{Answer, Code, Refusal};
use crate::schema::Refusals;
use crate::serve::App;

/// Whether the server answers at all.
#[utoipa::path(get, path = "/healthz", tag = "operations", operation_id = "healthz", security(()),
    responses((status = 200, description = "Alive.", body = String, content_type = "text/plain")))]
pub async fn alive() -> &'static str {
    "alive\n"
}

/// Whether the server can work: its store answers. If not, the answer says what is missing. Without the bus it works too, and what
/// other processes do is seen later; then the answer says so.
#[utoipa::path(get, path = "/readyz", tag = "operations", operation_id = "readyz", security(()),
    responses((status = 200, description = "Ready.", body = String, content_type = "text/plain"), Refusals))]
pub async fn ready(State(app): State<Arc<App>>) -> Answer<String> {
    let ports = &app.runtime.ports;
    let question = async {
        let owner = app.owner().await?;
        ports.store.runs(owner, None, None, 1).await
    };
    let missing = |what: &str| Refusal::new(Code::NotReady, format!("Missing: the store, which {what}."));
    match tokio::time::timeout(bounds::READY_TIME, question).await {
        Ok(Ok(_)) if app.stop.is_cancelled() => Err(Refusal::new(Code::NotReady, "The server is stopping.")),
        Ok(Ok(_)) => Ok(match ports.bus.trouble() {
            None => "ready\n".to_owned(),
            // In a word: whoever asks need not be known.
            Some(_) => "ready, but slow to hear of other processes: the bus is away\n".to_owned(),
        }),
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready");
            Err(missing("fails"))
        }
        Err(_) => Err(missing("does not answer")),
    }
}

/// What was measured, in Prometheus' text format.
///
/// A server that listens on this machine alone shows it to whoever is on it, since it holds counts and times by route and nothing
/// of what people wrote; any other asks for the owner's token.
#[utoipa::path(get, path = "/metrics", tag = "operations", operation_id = "metrics",
    responses((status = 200, description = "Measurements.", body = String, content_type = "text/plain"), Refusals))]
pub async fn measured(State(app): State<Arc<App>>, request: Request) -> Answer<Response> {
    if !app.metrics_are_open {
        guard::authenticate(&app, request.method(), request.headers()).await?;
    }
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], app.metrics.render()).into_response())
}

//! What is seen of a request: a span, two measurements and an id that the client gets too.
//!
//! Never the query, a header or a body: those can hold what people wrote, or what opens the door.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::reply::{Code, Refusal};
use crate::serve::App;

/// Names the request in the log; a report of a fault should hold it.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What a request was for: a route's template, or the name of a door. Never a path, of which there are too many.
#[derive(Debug, Clone)]
pub struct Route(Arc<str>);

impl Route {
    /// The name of something that has no template.
    pub fn named(name: &'static str) -> Self {
        Self(name.into())
    }
}

/// Tells [`requests`] which template matched. Belongs round the routes, where the template is known.
pub async fn template(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|path| Route(path.as_str().into()));
    let mut response = next.run(request).await;
    response.extensions_mut().insert(route.unwrap_or_else(|| Route::named("ui")));
    response
}

/// Sees every request. Belongs round everything.
pub async fn requests(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = format!("{:032x}", app.runtime.ports.world.random());
    let method = known(request.method());
    let span =
        tracing::info_span!("request", %id, method, route = tracing::field::Empty, status = tracing::field::Empty);
    let mut response = next.run(request).instrument(span.clone()).await;
    let status = response.status().as_u16();
    let route = response.extensions().get::<Route>().map_or_else(|| "none".into(), |route| Arc::clone(&route.0));
    span.record("route", &*route).record("status", status);
    let seconds = begun.elapsed().as_secs_f64();
    let labels = [("method", method.to_owned()), ("route", route.to_string()), ("status", status.to_string())];
    metrics::counter!("baton_http_requests_total", &labels).increment(1);
    metrics::histogram!("baton_http_request_seconds", &labels).record(seconds);
    span.in_scope(|| match status {
        500.. => tracing::warn!(duration_ms = seconds * 1e3, "answered"),
        _ => tracing::debug!(duration_ms = seconds * 1e3, "answered"),
    });
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// The answer to a request whose handler panicked. What it said is in the log, not here.
pub fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    Refusal::new(Code::Internal, "Baton made a mistake while it answered.").into_response()
}

/// The methods that there are; a client can invent more, and each would be a series of its own.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "OTHER",
    }
}

//! The whole API on one screen. A route's path and shape stand at its handler; a test keeps the comments here true.
//!
//! Nothing is decided here but who may pass: `guarded` routes know their caller, `open` ones do not ask.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use tower::ServiceExt as _;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::guard::Door;
use crate::reply::{BodyLimit, Code, Refusal};
use crate::serve::App;
use crate::{bundles, chats, edits, guard, health, observe, preview, projects, runs, session, stream, system, ui};

type Routes = OpenApiRouter<Arc<App>>;

/// What anybody may ask.
pub fn open() -> Routes {
    Routes::new()
        .routes(routes!(health::alive)) // GET /healthz
        .routes(routes!(health::ready)) // GET /readyz
        .routes(routes!(health::measured)) // GET /metrics (this machine, or the owner's token)
        .routes(routes!(session::begin)) // POST /v1/session
        .routes(routes!(system::document)) // GET /v1/openapi.json
}

/// What only a known caller may ask.
pub fn guarded() -> Routes {
    Routes::new()
        .routes(routes!(chats::list, chats::create)) // GET POST /v1/chats
        .routes(routes!(chats::show)) // GET /v1/chats/{id}
        .routes(routes!(chats::send)) // POST /v1/chats/{id}/messages
        .routes(routes!(runs::list)) // GET /v1/runs
        .routes(routes!(runs::show)) // GET /v1/runs/{id}
        .routes(routes!(runs::events)) // GET /v1/runs/{id}/events
        .routes(routes!(runs::graph)) // GET /v1/runs/{id}/graph
        .routes(routes!(runs::cancel)) // POST /v1/runs/{id}/cancel
        .routes(routes!(runs::retry)) // POST /v1/runs/{id}/retry
        .routes(routes!(runs::fork)) // POST /v1/runs/{id}/fork
        .routes(routes!(runs::verify)) // GET /v1/runs/{id}/verify
        .routes(routes!(runs::report)) // POST /v1/runs/{id}/preview-problems
        .routes(routes!(bundles::export)) // GET /v1/runs/{id}/bundle
        .routes(routes!(bundles::import)) // POST /v1/bundles
        .routes(routes!(projects::files)) // GET /v1/projects/{id}/files
        .routes(routes!(projects::file, edits::put, edits::delete)) // GET PUT DELETE /v1/projects/{id}/files/{*path}
        .routes(routes!(edits::upload)) // POST /v1/projects/{id}/uploads
        .routes(routes!(projects::versions)) // GET /v1/projects/{id}/versions
        .routes(routes!(edits::restore)) // POST /v1/projects/{id}/versions/{version}/restore
        .routes(routes!(stream::follow)) // GET /v1/stream
        .routes(routes!(system::show)) // GET /v1/system
        .routes(routes!(session::end)) // DELETE /v1/session
        .routes(routes!(session::issue)) // POST /v1/session/codes
}

/// Everything behind one port: the app and the previews, told apart by Host.
pub fn whole(app: Arc<App>) -> Router {
    let doors = Doors { app: self::app(Arc::clone(&app)), shared: Arc::clone(&app) };
    Router::new()
        .fallback(enter)
        .with_state(doors)
        .layer(CatchPanicLayer::custom(observe::panicked))
        .layer(from_fn_with_state(app, observe::requests))
}

/// The app's own host: API, operations and UI.
fn app(app: Arc<App>) -> Router {
    let body_bytes = app.runtime.limits.body_bytes;
    let guarded = guarded().route_layer(from_fn_with_state(Arc::clone(&app), guard::sign_in));
    let (routes, _) = open().merge(guarded).split_for_parts();
    routes
        .method_not_allowed_fallback(|| async {
            Refusal::new(Code::MethodNotAllowed, "This path does not have this method.")
        })
        .fallback(ui::serve)
        .layer(from_fn(observe::template))
        .layer(from_fn_with_state(Arc::clone(&app), guard::origin))
        .layer(from_fn(guard::seal))
        .layer(Extension(BodyLimit(body_bytes)))
        .layer(DefaultBodyLimit::max(usize::try_from(body_bytes).unwrap_or(usize::MAX)))
        .with_state(app)
}

/// The two things behind the port.
#[derive(Clone)]
struct Doors {
    app: Router,
    shared: Arc<App>,
}

async fn enter(State(doors): State<Doors>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    match doors.shared.hosts.door(&parts) {
        Some(Door::App) => doors.app.oneshot(Request::from_parts(parts, body)).await.into_response(),
        Some(Door::Preview(slug)) => preview::serve(&doors.shared, &slug, &parts).await,
        None => {
            Refusal::new(Code::Misdirected, "This server does not answer to the Host of this request.").into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn the_comments_of_this_screen_are_the_paths_of_the_document() {
        let written: BTreeSet<String> = include_str!("router.rs")
            .lines()
            .filter_map(|line| line.trim().strip_prefix(".routes(routes!(")?.split_once("// "))
            .flat_map(|(_, comment)| {
                let words: Vec<&str> = comment.split(' ').take_while(|word| !word.starts_with('(')).collect();
                let (path, methods) = words.split_last().map(|(path, methods)| (*path, methods.to_vec())).unwrap();
                methods.into_iter().map(move |method| format!("{method} {path}")).collect::<Vec<_>>()
            })
            .collect();
        let document = super::open().merge(super::guarded()).into_openapi();
        let paths = serde_json::to_value(&document.paths).unwrap();
        let routed: BTreeSet<String> = paths
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, item)| {
                item.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
            })
            .collect();
        assert_eq!(written, routed);
    }
}

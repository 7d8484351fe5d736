//! What this server is and how it is spoken to.

use std::sync::{Arc, LazyLock};

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use contract::api::{SandboxFeature, SandboxView, SystemView};
use contract::event::Provider;
use runtime::ports::sandbox::{IsolationFeature, IsolationLevel, IsolationReport};

use crate::schema::{self, Refusals};
use crate::serve::App;

/// The document does not change while a server runs.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| serde_json::to_string(&schema::openapi()).unwrap_or_default());

/// What this server is and can do.
#[utoipa::path(get, path = "/v1/system", tag = "system", operation_id = "get_system",
    responses((status = 200, description = "The server.", body = SystemView), Refusals))]
pub async fn show(State(app): State<Arc<App>>) -> Json<SystemView> {
    let model = app.runtime.model();
    Json(SystemView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        demo: model.provider == Provider::Demo,
        model,
        sandbox: isolation(app.runtime.ports.sandbox.report()),
        template: app.runtime.template.name.clone(),
    })
}

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "system", operation_id = "get_openapi", security(()),
    responses((status = 200, description = "OpenAPI 3.1.", body = serde_json::Value), Refusals))]
pub async fn document() -> Response {
    let mut response = DOCUMENT.as_str().into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The isolation that was verified, as clients see it.
fn isolation(report: &IsolationReport) -> SandboxView {
    let level = match report.level {
        IsolationLevel::Full => "full",
        IsolationLevel::Soft => "soft",
        IsolationLevel::Refused => "refused",
        IsolationLevel::Elsewhere => "elsewhere",
    };
    let feature = |seen: &IsolationFeature| SandboxFeature {
        name: seen.feature.clone(),
        in_force: seen.in_force,
        detail: seen.detail.clone(),
    };
    SandboxView {
        level: level.to_owned(),
        features: report.features.iter().map(feature).collect(),
        remedy: (!report.remedy.is_empty()).then(|| report.remedy.join("\n")),
    }
}

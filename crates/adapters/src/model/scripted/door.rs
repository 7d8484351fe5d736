//! What comes in at the scripted server, and what it answers when it does not perform: requests as they arrive, keys, errors, models.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::super::Secret;
use super::tongue::{Target, Tongue};
use super::vendor::VendorError;

/// What a stream is.
pub(super) const EVENT_STREAM: &str = "text/event-stream; charset=utf-8";

/// What axum hands over of a request.
pub(super) type Arrived = (HeaderMap, Uri, Result<Bytes, BytesRejection>);

/// A request as it came.
pub(super) struct Request {
    pub(super) tongue: Tongue,
    pub(super) target: Target,
    headers: HeaderMap,
    uri: Uri,
    body: Result<Bytes, BytesRejection>,
}

impl Request {
    pub(super) fn new(tongue: Tongue, target: Target, (headers, uri, body): Arrived) -> Self {
        let target = Target { samples: tongue.samples(&headers), ..target };
        Self { tongue, target, headers, uri, body }
    }

    /// `:streamGenerateContent` without `alt=sse` gives an array, which nobody needs.
    pub(super) fn wants_events(&self) -> bool {
        self.uri.query().unwrap_or_default().split('&').any(|pair| pair == "alt=sse")
    }

    pub(super) fn refuse(&self, error: &VendorError) -> Response {
        refusal(self.tongue, error, None, None, self.target.stream)
    }

    /// Whether any key came with it.
    pub(super) fn has_key(&self) -> bool {
        self.key().is_some() || self.headers.contains_key(AUTHORIZATION)
    }

    fn key(&self) -> Option<&str> {
        self.tongue.key(&self.headers, self.uri.query().unwrap_or_default())
    }

    /// The body, if headers and key are as they should be.
    pub(super) fn bytes(&self, wanted: Option<&Secret>) -> Result<&Bytes, VendorError> {
        self.tongue.check_headers(&self.headers, self.key().is_some())?;
        if wanted.is_some_and(|key| self.key() != Some(key.expose())) {
            return Err(VendorError::usual(401));
        }
        let is_json = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|value| {
            value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
        });
        if !is_json {
            let error =
                VendorError::bad_request("unsupported_content_type", None, "The body must be application/json.");
            return Err(VendorError { status: 415, ..error });
        }
        self.body.as_ref().map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => VendorError::usual(413),
            _ => VendorError::bad_request("invalid_body", None, "The body could not be read."),
        })
    }
}

/// A model as the asking client knows it: Anthropic's names its version.
pub(super) fn model_object(headers: &HeaderMap, id: &str) -> Value {
    if headers.contains_key("anthropic-version") {
        return json!({"id": id, "type": "model", "display_name": id, "created_at": "1970-01-01T00:00:00Z"});
    }
    json!({"id": id, "object": "model", "created": 0, "owned_by": "baton-script"})
}

/// The same for Gemini's client.
pub(super) fn gemini_model_object(id: &str) -> Value {
    json!({"name": format!("models/{id}"), "version": "1", "displayName": id,
        "supportedGenerationMethods": ["generateContent", "countTokens"]})
}

/// Checks the key of whoever asks about models. Without one anybody may.
pub(super) fn check_reader(
    tongue: Tongue,
    wanted: Option<&Secret>,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<(), VendorError> {
    let key = tongue.key(headers, uri.query().unwrap_or_default());
    match (wanted, key) {
        (Some(wanted), Some(key)) if key != wanted.expose() => Err(VendorError::usual(401)),
        _ => Ok(()),
    }
}

/// The server has too much to do, or is about to stop.
pub(super) fn busy(tongue: Tongue) -> Response {
    refusal(tongue, &VendorError::usual(503), None, None, false)
}

/// An error, with the wait and the body that a script says.
pub(super) fn refusal(
    tongue: Tongue,
    error: &VendorError,
    wait: Option<&str>,
    body: Option<String>,
    streamed: bool,
) -> Response {
    let told = tongue.refusal(error, wait, streamed);
    let names_wait = told.names_wait && body.is_none();
    let status = if body.is_some() { error.status } else { told.status };
    let mut response = json_response(status, body.unwrap_or(told.body));
    if streamed && status == 200 {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    }
    if let Some(wait) = wait.filter(|_| !names_wait).and_then(|wait| HeaderValue::try_from(wait).ok()) {
        response.headers_mut().insert(RETRY_AFTER, wait);
    }
    response
}

pub(super) fn json_response(status: u16, body: String) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

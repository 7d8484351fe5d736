//! Errors in the vendor's shape, as scripts and the server answer them: `{"error": {message, type, param, code}}`.

use serde_json::{Value, json};

/// An error body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VendorError {
    /// The HTTP status that it is sent with.
    pub(super) status: u16,
    /// The sentence.
    pub(super) message: String,
    /// The field of the request that it is about.
    pub(super) param: Option<String>,
    /// The stable code.
    pub(super) code: Option<String>,
}

impl VendorError {
    /// A request that the server does not accept.
    pub(super) fn bad_request(code: &str, param: Option<&str>, message: impl Into<String>) -> Self {
        Self { status: 400, message: message.into(), param: param.map(str::to_owned), code: Some(code.to_owned()) }
    }

    /// What a status usually says.
    pub(super) fn usual(status: u16) -> Self {
        let (code, message) = match status {
            401 => ("invalid_api_key", "Incorrect API key provided."),
            402 => ("insufficient_quota", "You have no credit left."),
            403 => ("permission_denied", "You are not allowed to use this model."),
            404 => ("model_not_found", "The model does not exist or you do not have access to it."),
            413 => ("request_too_large", "The request is too large."),
            429 => ("rate_limit_exceeded", "Rate limit reached for requests."),
            503 => ("overloaded", "The engine is currently overloaded, please try again later."),
            500..=599 => ("server_error", "The server had an error while processing your request."),
            _ => ("invalid_request", "The request is not valid."),
        };
        Self { status, message: message.to_owned(), param: None, code: Some(code.to_owned()) }
    }

    /// The body.
    pub(super) fn body(&self) -> Value {
        let kind = match self.status {
            429 => "requests",
            500..=599 => "server_error",
            _ => "invalid_request_error",
        };
        json!({"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}})
    }
}

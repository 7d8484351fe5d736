//! Answers that are not a success: problem details (RFC 9457), each with a stable code and what the person can do.
//!
//! The extractors here stand in for axum's own, so that a rejection is a [`Refusal`] too. No other file makes an error's status.

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contract::problem::Problem;
use runtime::ports::store::{AdmitError, StoreError, StoreFault};
use runtime::{MessageError, RuntimeError};
use serde::de::DeserializeOwned;

use crate::bounds;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $status:ident, $code:literal, $action:literal;)*) => {
        /// Every reason for which this server refuses a request.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// All of them, in the order in which a request meets them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The HTTP status.
            pub fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }

            /// The stable code.
            pub fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// What the person can do.
            pub fn action(self) -> &'static str {
                match self { $(Self::$name => $action,)* }
            }
        }
    };
}

codes! {
    /// The Host is none of ours.
    Misdirected = MISDIRECTED_REQUEST, "misdirected", "Open the address that `baton up` printed.";
    /// The Origin is none of ours.
    BadOrigin = FORBIDDEN, "bad_origin", "Send the request from Baton's own page, or with the owner's token and no Origin header.";
    /// No route has this path.
    NoSuchRoute = NOT_FOUND, "no_such_route", "See /v1/openapi.json for the paths that exist.";
    /// The path exists, the method does not.
    MethodNotAllowed = METHOD_NOT_ALLOWED, "method_not_allowed", "See /v1/openapi.json for the methods of this path.";
    /// Nobody is signed in.
    Unauthenticated = UNAUTHORIZED, "unauthenticated", "Open the link that `baton up` prints, or send `Authorization: Bearer` with the token that `baton token` prints.";
    /// The owner's token is needed; a browser's session does not do.
    OwnerTokenNeeded = FORBIDDEN, "owner_token_needed", "Send `Authorization: Bearer` with the token that `baton token` prints.";
    /// A sign-in code that is unknown, used or too old.
    DeadLink = UNAUTHORIZED, "bad_code", "Ask for a new link: a link works once, within a minute. `baton up` prints one.";
    /// The path's parameters do not parse.
    BadPath = BAD_REQUEST, "bad_path", "Check the id in the path.";
    /// The query does not parse.
    BadQuery = BAD_REQUEST, "bad_query", "Check the query's names and values.";
    /// The page is too large.
    BadLimit = BAD_REQUEST, "bad_limit", "Ask for a smaller page and go on with `cursor`.";
    /// The cursor belongs to another stream or list, or is beyond the end.
    BadCursor = BAD_REQUEST, "bad_cursor", "Start again without a cursor, or from one that this stream gave.";
    /// One connection asks for too many streams.
    TooManyStreams = BAD_REQUEST, "too_many_streams", "Follow fewer runs on one connection.";
    /// The body is not what it should be.
    BadBody = BAD_REQUEST, "bad_body", "Send the JSON that /v1/openapi.json describes.";
    /// The body is not declared as JSON.
    BadMediaType = UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "Send `Content-Type: application/json`.";
    /// The body is too large.
    BodyTooLarge = PAYLOAD_TOO_LARGE, "body_too_large", "Send less.";
    /// The body did not arrive in time.
    BodyTooSlow = REQUEST_TIMEOUT, "body_too_slow", "Send the request again.";
    /// The message is blank.
    MessageEmpty = BAD_REQUEST, "message_empty", "Write what should be built or changed.";
    /// The message is too long.
    MessageTooLarge = PAYLOAD_TOO_LARGE, "message_too_large", "Shorten the message, or split it into several.";
    /// The idempotency key is no key.
    BadIdempotencyKey = BAD_REQUEST, "bad_idempotency_key", "Send an `Idempotency-Key` of 1 to 255 printable ASCII characters.";
    /// The idempotency key was used for something else.
    IdempotencyKeyReused = UNPROCESSABLE_ENTITY, "idempotency_key_reused", "Use a new `Idempotency-Key` for a new message.";
    /// The chat is at work already.
    ChatBusy = TOO_MANY_REQUESTS, "chat_busy", "Wait until the chat's run has ended, or stop it.";
    /// The user has too many runs at work.
    UserBusy = TOO_MANY_REQUESTS, "user_busy", "Wait until one of your runs has ended, or stop one.";
    /// The server has too many runs at work.
    ServerBusy = TOO_MANY_REQUESTS, "server_busy", "Try again in a moment.";
    /// The user has no such chat.
    NoSuchChat = NOT_FOUND, "no_such_chat", "List the chats with GET /v1/chats.";
    /// The user has no such run.
    NoSuchRun = NOT_FOUND, "no_such_run", "List the runs with GET /v1/runs.";
    /// The run has ended.
    RunIsOver = CONFLICT, "run_is_over", "Send a message: it begins another run.";
    /// A revision that no page has.
    NoSuchPage = BAD_REQUEST, "no_such_page", "Send the `revision` of a `preview_url` event.";
    /// As many reports wait for the run as may.
    TooManyReports = TOO_MANY_REQUESTS, "too_many_reports", "Nothing has to be done: the run is told of earlier ones.";
    /// The user has no such project.
    NoSuchProject = NOT_FOUND, "no_such_project", "A chat names its project: GET /v1/chats.";
    /// The project has no such file.
    NoSuchFile = NOT_FOUND, "no_such_file", "List the files with GET /v1/projects/{id}/files.";
    /// Something failed that the runtime needs.
    RuntimeFailed = SERVICE_UNAVAILABLE, "runtime_failed", "Try again; if it goes on, look at the server's log.";
    /// A fault of ours.
    Internal = INTERNAL_SERVER_ERROR, "internal", "Try again, and report it with the X-Request-Id of this answer.";
    /// The server cannot work yet, or no more.
    NotReady = SERVICE_UNAVAILABLE, "not_ready", "Wait a moment; if it goes on, look at the server's log.";
}

/// A request that was refused. Boxed, so that the way of success carries no weight of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal(Box<Problem>);

/// What every handler gives.
pub type Answer<T> = Result<T, Refusal>;

impl Refusal {
    /// A refusal with what happened, in plain language and without secrets.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let status = code.status();
        Self(Box::new(Problem {
            r#type: format!("about:blank#{}", code.code()),
            title: status.canonical_reason().unwrap_or_default().to_owned(),
            status: status.as_u16(),
            code: code.code().to_owned(),
            detail: detail.into(),
            action: code.action().to_owned(),
            limit: None,
            value: None,
        }))
    }

    /// A refusal at a limit of the limits table.
    pub fn at_limit(code: Code, detail: impl Into<String>, limit: &str, value: u64) -> Self {
        let mut refusal = Self::new(code, detail);
        refusal.0.limit = Some(limit.to_owned());
        refusal.0.value = Some(value);
        refusal
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(&*self.0)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(bounds::RETRY_AFTER_SECONDS));
        }
        response
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let of_ours = |code, detail: &str| {
            tracing::error!(%error, code = error.code(), "the store failed a request");
            let mut refusal = Self::new(code, detail);
            error.code().clone_into(&mut refusal.0.code);
            error.action().clone_into(&mut refusal.0.action);
            refusal.0.r#type = format!("about:blank#{}", error.code());
            refusal
        };
        match error.fault {
            StoreFault::BadCursor => Self::new(Code::BadCursor, "This cursor is not one that the list gave."),
            StoreFault::Refused => of_ours(Code::Internal, "Baton asked its store for something that contradicts it."),
            StoreFault::Full | StoreFault::Unavailable | StoreFault::Damaged | StoreFault::Stopped => {
                of_ours(Code::RuntimeFailed, "Baton's store did not answer this request.")
            }
        }
    }
}

impl From<RuntimeError> for Refusal {
    fn from(error: RuntimeError) -> Self {
        tracing::error!(%error, "the runtime failed a request");
        Self::new(Code::RuntimeFailed, "Something that Baton needs for this request failed.")
    }
}

impl From<MessageError> for Refusal {
    fn from(error: MessageError) -> Self {
        match error {
            MessageError::Empty => Self::new(Code::MessageEmpty, "The message is blank."),
            MessageError::TooLong { bytes, most } => {
                let detail = format!("The message has {bytes} bytes, and {most} is the most.");
                Self::at_limit(Code::MessageTooLarge, detail, "message_bytes", most)
            }
            MessageError::Admit(error) => error.into(),
        }
    }
}

impl From<AdmitError> for Refusal {
    fn from(error: AdmitError) -> Self {
        match error {
            AdmitError::Limit { limit, value } => {
                let (code, whose) = match limit {
                    "active_runs_per_chat" => (Code::ChatBusy, "This chat has"),
                    "active_runs_per_user" => (Code::UserBusy, "You have"),
                    _ => (Code::ServerBusy, "This server has"),
                };
                Self::at_limit(code, format!("{whose} as many active runs as are allowed: {value}."), limit, value)
            }
            AdmitError::NoSuchChat => Self::new(Code::NoSuchChat, "You have no chat with this id."),
            AdmitError::KeyReused => {
                Self::new(Code::IdempotencyKeyReused, "This Idempotency-Key was used for another message.")
            }
            AdmitError::Store(error) => error.into(),
        }
    }
}

impl From<PathRejection> for Refusal {
    fn from(rejection: PathRejection) -> Self {
        Self::new(Code::BadPath, rejection.body_text())
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(Code::BadQuery, rejection.body_text())
    }
}

/// The parameters of a path.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(Refusal))]
pub struct Path<T>(pub T);

/// The query.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(Refusal))]
pub struct Query<T>(pub T);

/// A JSON body that arrives whole, in time and within `body_bytes`.
pub struct Body<T>(pub T);

/// The value of `body_bytes` that is in force, known to [`Body`] through the request's extensions.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimit(pub u64);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let most = request.extensions().get().map_or(0, |BodyLimit(most)| *most);
        let body = axum::Json::<T>::from_request(request, state);
        match tokio::time::timeout(bounds::BODY_TIME, body).await {
            Ok(Ok(axum::Json(body))) => Ok(Self(body)),
            Ok(Err(rejection)) => Err(unreadable(&rejection, most)),
            Err(_) => Err(Refusal::new(Code::BodyTooSlow, "The body of the request did not arrive in time.")),
        }
    }
}

fn unreadable(rejection: &JsonRejection, most: u64) -> Refusal {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            Refusal::at_limit(Code::BodyTooLarge, format!("The body is larger than {most} bytes."), "body_bytes", most)
        }
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Refusal::new(Code::BadMediaType, rejection.body_text()),
        _ => Refusal::new(Code::BadBody, rejection.body_text()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_is_unique_stable_in_form_and_says_what_to_do() {
        let codes: BTreeSet<_> = Code::ALL.iter().map(|code| code.code()).collect();
        assert_eq!(codes.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!(code.code().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{code:?}");
            assert!(code.status().is_client_error() || code.status().is_server_error(), "{code:?}");
            assert!(code.action().ends_with('.') && code.status().canonical_reason().is_some(), "{code:?}");
        }
    }
}

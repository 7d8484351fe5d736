//! Answers that are not a success: problem details (RFC 9457), each with a stable code and what the person can do.
//!
//! The extractors here stand in for axum's own, so that a rejection is a [`Refusal`] too. No other file makes an error's status.

use axum::body::Body as Stream;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use contract::problem::Problem;
use futures::StreamExt as _;
use runtime::ports::store::{AdmitError, StoreError, StoreFault};
use runtime::{ChangeError, ExportError, ForkError, ImportError, MessageError, RetryError, RuntimeError, VerifyError};
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
    IdempotencyKeyReused = CONFLICT, "idempotency_key_reused", "Use a new `Idempotency-Key` for a new request.";
    /// The chat is at work already.
    ChatBusy = TOO_MANY_REQUESTS, "chat_busy", "Wait until the chat's run has ended, or stop it.";
    /// The user has too many runs at work.
    UserBusy = TOO_MANY_REQUESTS, "user_busy", "Wait until one of your runs has ended, or stop one.";
    /// The server has too many runs at work.
    ServerBusy = TOO_MANY_REQUESTS, "server_busy", "Try again in a moment.";
    /// Another run has the project (promise 7).
    ProjectBusy = CONFLICT, "project_busy", "Wait until that run has ended, or stop it.";
    /// The run that should start this one goes on no more.
    ParentOver = CONFLICT, "parent_over", "Start it from a run that is active.";
    /// Nothing of the kind can be done while the run goes on.
    RunIsActive = CONFLICT, "run_is_active", "Wait until the run has ended, or stop it.";
    /// No step with that id has begun.
    UnknownStep = BAD_REQUEST, "unknown_step", "Name one of the steps that have begun: GET /v1/runs/{id}/graph.";
    /// This Baton reaches no such model.
    UnknownModel = BAD_REQUEST, "unknown_model", "Name a model that this Baton reaches, or leave it out: GET /v1/system names the usual one.";
    /// What a run needs is not stored here any more.
    BytesGone = CONFLICT, "bytes_gone", "It was imported without. Export it with its files where it was performed, or begin there.";
    /// A run's log is too large to be taken along.
    RunTooLarge = PAYLOAD_TOO_LARGE, "run_too_large", "Raise the limit that is named, in the settings.";
    /// What was sent is no bundle of a run.
    BadBundle = BAD_REQUEST, "bad_bundle", "Send a file that `baton export` wrote, as it is.";
    /// A bundle of another version.
    UnknownBundleVersion = BAD_REQUEST, "unknown_bundle_version", "Import it with the Baton that is named in it, or a newer one.";
    /// The bundle passes a limit.
    BundleTooLarge = PAYLOAD_TOO_LARGE, "bundle_too_large", "Export it without files (`--no-files`), or raise the limit that is named.";
    /// The project has no such version.
    NoSuchVersion = NOT_FOUND, "no_such_version", "List the versions with GET /v1/projects/{id}/versions.";
    /// The files are like that already.
    NothingToChange = CONFLICT, "nothing_to_change", "Nothing has to be done.";
    /// An upload names a file twice.
    FileTwice = BAD_REQUEST, "file_twice", "Name each file once.";
    /// A folder that belongs to tools.
    ProtectedPath = BAD_REQUEST, "protected_path", "Choose another path: node_modules, .git and dist belong to tools.";
    /// A file where a folder is, or below a file.
    PathConflict = CONFLICT, "path_conflict", "Choose another path, or delete what is in the way first.";
    /// The file is not the one that `If-Match` names.
    FileChanged = PRECONDITION_FAILED, "file_changed", "Read the file again, and make the change in what it is now.";
    /// `If-Match` names no file's hash.
    BadIfMatch = BAD_REQUEST, "bad_if_match", "Send `If-Match: \"<SHA-256>\"`, as GET of the file gave it in `ETag`, or `*`.";
    /// The project would pass a limit.
    ProjectTooLarge = PAYLOAD_TOO_LARGE, "project_too_large", "Delete files that are not needed first.";
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
            run_id: None,
        }))
    }

    /// The user has no such run.
    pub fn no_such_run() -> Self {
        Self::new(Code::NoSuchRun, "You have no run with this id.")
    }

    /// The user has no such chat.
    pub fn no_such_chat() -> Self {
        Self::new(Code::NoSuchChat, "You have no chat with this id.")
    }

    /// The user has no such project.
    pub fn no_such_project() -> Self {
        Self::new(Code::NoSuchProject, "You have no project with this id.")
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
            AdmitError::NoSuchChat => Self::no_such_chat(),
            AdmitError::KeyReused => {
                Self::new(Code::IdempotencyKeyReused, "This Idempotency-Key was used for another request.")
            }
            AdmitError::ProjectBusy { run } => {
                let mut refusal = Self::new(Code::ProjectBusy, format!("The run {run} is at work on this project."));
                refusal.0.run_id = Some(run);
                refusal
            }
            AdmitError::ParentOver => Self::new(Code::ParentOver, "The run that should start this one has ended."),
            AdmitError::Store(error) => error.into(),
        }
    }
}

/// A run was imported without its files.
fn files_gone(path: &str) -> Refusal {
    Refusal::new(Code::BytesGone, format!("What `{path}` holds is not stored here, and the run stands on it."))
}

impl From<RetryError> for Refusal {
    fn from(error: RetryError) -> Self {
        match error {
            RetryError::NoSuchRun => Self::no_such_run(),
            RetryError::Active => Self::new(Code::RunIsActive, "The run has not ended."),
            RetryError::BytesGone { path } => files_gone(&path),
            RetryError::Change(error) => error.into(),
            RetryError::Admit(error) => error.into(),
            RetryError::Runtime(error) => error.into(),
        }
    }
}

impl From<ForkError> for Refusal {
    fn from(error: ForkError) -> Self {
        match error {
            ForkError::NoSuchRun => Self::no_such_run(),
            ForkError::UnknownStep { step, begun } => {
                let begun: Vec<_> = begun.iter().map(|step| step.as_str()).collect();
                let there = if begun.is_empty() { "none has".to_owned() } else { begun.join(", ") };
                Self::new(Code::UnknownStep, format!("No step `{step}` has begun. These have: {there}."))
            }
            ForkError::UnknownModel { name } => {
                Self::new(Code::UnknownModel, format!("This Baton reaches no model called `{name}`."))
            }
            ForkError::BytesGone { path } => files_gone(&path),
            ForkError::BuildGone => Self::new(Code::BytesGone, "What the run built is not stored here."),
            ForkError::TooLong { most } => {
                let detail = format!("The log up to that step is larger than {most} bytes.");
                Self::at_limit(Code::RunTooLarge, detail, "bundle_bytes", most)
            }
            ForkError::Admit(error) => error.into(),
            ForkError::Runtime(error) => error.into(),
        }
    }
}

impl From<VerifyError> for Refusal {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::NoSuchRun => Self::no_such_run(),
            VerifyError::Active => Self::new(Code::RunIsActive, "The run has not ended."),
            VerifyError::Store(error) => error.into(),
        }
    }
}

impl From<ExportError> for Refusal {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::NoSuchRun => Self::no_such_run(),
            ExportError::TooLarge { limit, value } => {
                Self::at_limit(Code::RunTooLarge, format!("The run's log is larger than {value}."), limit, value)
            }
            ExportError::Runtime(error) => error.into(),
        }
    }
}

impl From<ImportError> for Refusal {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Bad(reason) => Self::new(Code::BadBundle, format!("This is no bundle of a run: {reason}.")),
            ImportError::Version { found } => {
                Self::new(Code::UnknownBundleVersion, format!("This Baton does not read version {found} of bundles."))
            }
            ImportError::TooLarge { limit, value } => {
                Self::at_limit(Code::BundleTooLarge, format!("The bundle passes {limit}: {value}."), limit, value)
            }
            ImportError::Admit(error) => error.into(),
            ImportError::Runtime(error) => error.into(),
        }
    }
}

impl From<ChangeError> for Refusal {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::NoSuchProject => Self::no_such_project(),
            ChangeError::NoSuchVersion => Self::new(Code::NoSuchVersion, "The project has no version with this id."),
            ChangeError::NoSuchFile(path) => Self::new(Code::NoSuchFile, format!("The project has no file `{path}`.")),
            ChangeError::Nothing => Self::new(Code::NothingToChange, "The project's files are like that already."),
            ChangeError::Twice(path) => Self::new(Code::FileTwice, format!("`{path}` is named twice.")),
            ChangeError::Protected(path) => {
                Self::new(Code::ProtectedPath, format!("`{path}` is in a folder that belongs to tools."))
            }
            ChangeError::Conflict(path) => {
                let detail = format!("A folder has the name of `{path}`, or a file that of a folder on the way.");
                Self::new(Code::PathConflict, detail)
            }
            ChangeError::Other(path) => Self::new(Code::FileChanged, format!("`{path}` is another one by now.")),
            ChangeError::BytesGone(path) => {
                Self::new(Code::BytesGone, format!("What `{path}` was to become is not stored here."))
            }
            ChangeError::TooMuch { limit, value } => {
                Self::at_limit(Code::ProjectTooLarge, format!("{limit} would be passed: {value}."), limit, value)
            }
            ChangeError::Admit(error) => error.into(),
            ChangeError::Runtime(error) => error.into(),
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

/// A body that may be larger than `body_bytes`: whole, in time and within a limit of its own.
pub async fn whole(body: Stream, limit: &str, most: u64) -> Answer<Bytes> {
    let too_large =
        || Refusal::at_limit(Code::BodyTooLarge, format!("The body is larger than {most} bytes."), limit, most);
    let reading = async {
        let mut pieces = body.into_data_stream();
        let mut whole = BytesMut::new();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| Refusal::new(Code::BadBody, "The body of the request broke off."))?;
            if (whole.len() + piece.len()) as u64 > most {
                return Err(too_large());
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    };
    match tokio::time::timeout(bounds::LARGE_BODY_TIME, reading).await {
        Ok(read) => read,
        Err(_) => Err(Refusal::new(Code::BodyTooSlow, "The body of the request did not arrive in time.")),
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

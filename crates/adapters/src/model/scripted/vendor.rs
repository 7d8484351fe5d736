//! Errors as scripts and the server mean them, in OpenAI's words: status, code, field, sentence. How each format writes them is said
//! in `tongue`.

/// An error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VendorError {
    /// The HTTP status that OpenAI sends it with.
    pub(super) status: u16,
    /// The sentence.
    pub(super) message: String,
    /// Whether the sentence is what the status usually says, which a format may say in its own words.
    pub(super) usual: bool,
    /// The field of the request that it is about.
    pub(super) param: Option<String>,
    /// The stable code.
    pub(super) code: Option<String>,
}

/// What an error is about, in whichever format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Matter {
    /// The key.
    Key,
    /// What the account has left.
    Quota,
    /// What the key may do.
    Permission,
    /// Something that is not there.
    Missing,
    /// A request of too many bytes.
    Large,
    /// Too many requests.
    Rate,
    /// A prompt of too many tokens.
    Context,
    /// What the provider does not let pass.
    Content,
    /// Too much to do.
    Overload,
    /// The server itself.
    Broken,
    /// The request.
    Request,
}

impl VendorError {
    /// A request that the server does not accept.
    pub(super) fn bad_request(code: &str, param: Option<&str>, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status: 400, message, usual: false, param: param.map(str::to_owned), code: Some(code.to_owned()) }
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
        Self { status, message: message.to_owned(), usual: true, param: None, code: Some(code.to_owned()) }
    }

    /// A model that is not there.
    pub(super) fn no_model(name: &str) -> Self {
        let message = format!("The model `{name}` does not exist or you do not have access to it.");
        Self { message, usual: false, ..Self::usual(404) }
    }

    /// What it is about: by its code, or else by its status.
    pub(super) fn matter(&self) -> Matter {
        match (self.code.as_deref().unwrap_or_default(), self.status) {
            ("insufficient_quota", _) | (_, 402) => Matter::Quota,
            ("context_length_exceeded", _) => Matter::Context,
            ("content_filter", _) => Matter::Content,
            ("rate_limit_exceeded", _) | (_, 429) => Matter::Rate,
            (_, 401) => Matter::Key,
            (_, 403) => Matter::Permission,
            (_, 404) => Matter::Missing,
            (_, 413) => Matter::Large,
            (_, 503 | 529) => Matter::Overload,
            (_, 500..=599) => Matter::Broken,
            _ => Matter::Request,
        }
    }

    /// The sentence, or a format's own for what is usual.
    pub(super) fn words<'a>(&'a self, own: &'a str) -> &'a str {
        if self.usual && !own.is_empty() { own } else { &self.message }
    }
}

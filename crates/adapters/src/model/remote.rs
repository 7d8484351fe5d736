//! A model behind a server: OpenAI's, Anthropic's, Google's, or any that speaks OpenAI's chat completions (LM Studio, Ollama, vLLM,
//! OpenRouter, …).
//!
//! The base URL is used as it is given, and the format's path is added. One call is one request: no retries (the run decides), no
//! redirects (a prompt and a key go where they were sent, nowhere else); only a field that a server says not to know is left out in a
//! second one. Dropping the stream closes the connection, by which the server knows to stop. The formats are in `wire`, the call in
//! `call`; nothing here differs by vendor.

use std::sync::Arc;

use async_trait::async_trait;
use contract::Limits;
use contract::event::{ModelRef, Provider};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use runtime::ports::model::{Model, ModelError, ModelRequest, ModelStream};
use thiserror::Error;

use super::address::Address;
use super::wire::Wire;
use super::{Patience, Secret, call, failure};

/// Bytes of one event of a stream, and of one of its lines.
pub const EVENT_BYTES: usize = 1024 * 1024;
/// Bytes of one answer on the wire, framing included. It bounds a server that never stops; what a run may hold is bounded by the run.
pub const ANSWER_WIRE_BYTES: u64 = 512 * 1024 * 1024;
/// Bytes of an answer that comes as one JSON document instead of a stream.
pub const DOCUMENT_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of an error's body that are read.
pub const ERROR_BODY_BYTES: usize = 64 * 1024;
/// Bytes of a model's name: longer ones are no names.
pub const NAME_BYTES: usize = 256;
/// Idle connections that are kept for the next call.
pub const IDLE_CONNECTIONS: usize = 8;

/// Which model, where.
#[derive(Debug, Clone)]
pub struct RemoteConfig {
    /// Whose format the server speaks.
    pub provider: Provider,
    /// Such as `https://api.openai.com/v1` or `http://127.0.0.1:1234/v1`. The format's path is added, nothing else.
    pub base_url: String,
    /// The key, if the server wants one.
    pub key: Option<Secret>,
    /// The model's name on that server.
    pub model: String,
    /// The limits in force; those named `model_…` matter here.
    pub limits: Limits,
}

/// A configuration that cannot work. The texts say what to change and never hold a key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Not a base URL.
    #[error("the model's base URL cannot be used: {0}")]
    Address(String),
    /// The demo is no server.
    #[error("the demo is behind no server")]
    Demo,
    /// No name.
    #[error("the model has no name: set it, for example with BATON_MODEL")]
    NoModel,
    /// The HTTP client could not be made, for want of certificates in the first place.
    #[error("no HTTP client for the model could be made: {0}; are the system's root certificates installed?")]
    Client(String),
}

impl ConfigError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Address(_) => "model_url_invalid",
            Self::Demo => "model_provider_invalid",
            Self::NoModel => "model_name_missing",
            Self::Client(_) => "model_client_failed",
        }
    }
}

/// See the module.
pub struct Remote {
    provider: Provider,
    asked: Arc<Asked>,
}

/// What every call of this model shares.
pub(super) struct Asked {
    pub(super) wire: Wire,
    pub(super) client: reqwest::Client,
    pub(super) address: Address,
    pub(super) model: String,
    pub(super) key: Option<Secret>,
    pub(super) patience: Patience,
}

/// The base URL of a vendor's own server; none where there is no vendor.
pub fn own_base_url(provider: Provider) -> Option<&'static str> {
    match provider {
        Provider::Openai => Some("https://api.openai.com/v1"),
        Provider::Anthropic => Some("https://api.anthropic.com/v1"),
        Provider::Gemini => Some("https://generativelanguage.googleapis.com/v1beta"),
        Provider::Compatible | Provider::Demo => None,
    }
}

impl Remote {
    /// A model. Nothing is sent yet.
    ///
    /// # Errors
    /// When the configuration cannot work, whatever the server.
    pub fn new(config: RemoteConfig) -> Result<Self, ConfigError> {
        let provider = config.provider;
        let wire = Wire::of(provider).ok_or(ConfigError::Demo)?;
        let address = Address::parse(&config.base_url).map_err(ConfigError::Address)?;
        let model = config.model.trim().to_owned();
        if model.is_empty() {
            return Err(ConfigError::NoModel);
        }
        let limits = &config.limits;
        let patience = if address.is_local() { Patience::local(limits) } else { Patience::remote(limits) };
        let client = client(wire, &address, config.key.as_ref(), patience)
            .map_err(|error| ConfigError::Client(failure::causes(&error.without_url())))?;
        if config.key.is_some() && !address.is_encrypted() && !address.is_local() {
            tracing::warn!(
                host = address.host(),
                "the model's key is sent without encryption: the base URL is not https"
            );
        }
        Ok(Self { provider, asked: Arc::new(Asked { wire, client, address, model, key: config.key, patience }) })
    }

    /// Asks the server about the usual model, which costs nothing: whether it is there, takes the key and has the model. A server of
    /// chat completions tells only that it is there: it need not know of one model.
    ///
    /// # Errors
    /// What the server refuses, or that it does not answer.
    pub async fn confirm(&self) -> Result<(), ModelError> {
        call::confirm(&self.asked, &self.asked.model).await
    }
}

/// The client of one model: its own, so that its connections, headers and limits are nobody else's.
fn client(
    wire: Wire,
    address: &Address,
    key: Option<&Secret>,
    patience: Patience,
) -> Result<reqwest::Client, reqwest::Error> {
    install_cryptography();
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("baton/", env!("CARGO_PKG_VERSION"))));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
    if let Some((name, value)) = wire.header() {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if let Some((name, value)) = key.map(|key| wire.key_header(key))
        && let Ok(mut value) = HeaderValue::try_from(value)
    {
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
    }
    let mut builder = reqwest::Client::builder()
        .default_headers(headers)
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(patience.connect)
        .pool_max_idle_per_host(IDLE_CONNECTIONS);
    if address.is_local() {
        // A proxy of the environment leads outward; what is local is not there.
        builder = builder.no_proxy();
    }
    if !address.is_encrypted() {
        // The system's certificates are not needed, so a machine without them can use a local model.
        builder = builder.tls_certs_only([]);
    }
    builder.build()
}

/// Once a process; whoever comes later finds it done.
fn install_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Losing a race is fine: then another thread has installed one.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
}

#[async_trait]
impl Model for Remote {
    fn reference(&self) -> ModelRef {
        ModelRef { provider: self.provider, name: self.asked.model.clone() }
    }

    /// Which models the server has is the server's to say, and some do not: any name can be asked for.
    fn named(&self, name: &str) -> Option<ModelRef> {
        let is_name =
            !name.is_empty() && name.len() <= NAME_BYTES && name.trim() == name && !name.contains(char::is_control);
        is_name.then(|| ModelRef { provider: self.provider, name: name.to_owned() })
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        call::open(Arc::clone(&self.asked), &request).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn configured(base_url: &str, model: &str) -> Result<Remote, ConfigError> {
        let key = Secret::new("sk-1");
        Remote::new(RemoteConfig {
            provider: Provider::Compatible,
            base_url: base_url.into(),
            key,
            model: model.into(),
            limits: Limits::default(),
        })
    }

    #[test]
    fn a_local_server_gets_more_time_for_its_first_byte() {
        for (base_url, seconds) in [("http://127.0.0.1:1234/v1", 600), ("http://example.org/v1", 120)] {
            let patience = configured(base_url, "m").unwrap().asked.patience;
            let expected = Patience {
                connect: Duration::from_secs(10),
                first_byte: Duration::from_secs(seconds),
                idle: Duration::from_secs(60),
            };
            assert_eq!(patience, expected, "{base_url}");
        }
    }

    #[test]
    fn any_name_can_be_asked_for_and_nothing_else() {
        let model = configured("http://127.0.0.1:1234/v1", "m").unwrap();
        assert!(model.knows(&model.reference()) && model.named("qwen3-coder:30b").is_some());
        for none in ["", " m", "a\nb", "x".repeat(NAME_BYTES + 1).as_str()] {
            assert_eq!(model.named(none), None, "{none:?}");
        }
        assert!(!model.knows(&ModelRef { provider: Provider::Demo, name: "m".into() }), "another provider's");
    }

    #[test]
    fn a_configuration_that_cannot_work_is_refused_before_anything_is_sent() {
        let code = |base_url: &str, model: &str| configured(base_url, model).err().unwrap().code();
        assert_eq!(code("api.openai.com/v1", "m"), "model_url_invalid");
        assert_eq!(code("http://127.0.0.1:1234/v1", " "), "model_name_missing");
        // No panic for want of a provider of cryptography; an error only where this machine has no certificates.
        let encrypted = configured("https://api.openai.com/v1", "m");
        assert!(
            encrypted.map_or_else(|error| error.code() == "model_client_failed", |model| model.reference().name == "m")
        );
    }
}

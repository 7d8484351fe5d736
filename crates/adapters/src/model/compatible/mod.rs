//! A model behind any server that speaks OpenAI's chat completions: OpenAI itself, LM Studio, Ollama, vLLM, OpenRouter, ….
//!
//! `POST {base_url}/chat/completions`, streamed. The base URL is used as it is given: most servers' ends with `/v1`, and nothing
//! is added to one that does not. One call is one request: no retries (the run decides), no redirects (a prompt and a key go
//! where they were sent, nowhere else). Dropping the stream closes the connection, by which the server knows to stop.
//! `answer` reads what comes, `failure` names what went wrong, `address` knows base URLs; none of them does I/O.

mod address;
mod answer;
mod call;
pub(crate) mod failure;
mod usage;

use std::sync::Arc;

use async_trait::async_trait;
use contract::Limits;
use contract::event::{ModelRef, Provider};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use runtime::ports::model::{Model, ModelError, ModelRequest, ModelStream};
use thiserror::Error;

use self::address::Address;
use super::{Patience, Secret};

/// Bytes of one event of a stream, and of one of its lines.
pub const EVENT_BYTES: usize = 1024 * 1024;
/// Bytes of one answer on the wire, framing included. It bounds a server that never stops; what a run may hold is bounded by the run.
pub const ANSWER_WIRE_BYTES: u64 = 512 * 1024 * 1024;
/// Bytes of an answer that comes as one JSON document instead of a stream.
pub const DOCUMENT_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of an error's body that are read.
pub const ERROR_BODY_BYTES: usize = 64 * 1024;
/// Characters of a server's words that an error repeats.
pub const ERROR_TEXT_CHARS: usize = 400;
/// Bytes of a model's name: longer ones are no names.
pub const NAME_BYTES: usize = 256;
/// Idle connections that are kept for the next call.
pub const IDLE_CONNECTIONS: usize = 8;

/// Which model, where.
#[derive(Debug, Clone)]
pub struct CompatibleConfig {
    /// Such as `https://api.openai.com/v1` or `http://127.0.0.1:1234/v1`. `/chat/completions` is added, nothing else.
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
            Self::NoModel => "model_name_missing",
            Self::Client(_) => "model_client_failed",
        }
    }
}

/// See the module.
pub struct Compatible {
    asked: Arc<Asked>,
}

/// What every call of this model shares.
struct Asked {
    client: reqwest::Client,
    address: Address,
    model: String,
    key: Option<Secret>,
    patience: Patience,
}

impl Compatible {
    /// A model. Nothing is sent yet.
    ///
    /// # Errors
    /// When the configuration cannot work, whatever the server.
    pub fn new(config: CompatibleConfig) -> Result<Self, ConfigError> {
        let address = Address::parse(&config.base_url).map_err(ConfigError::Address)?;
        let model = config.model.trim().to_owned();
        if model.is_empty() {
            return Err(ConfigError::NoModel);
        }
        let limits = &config.limits;
        let patience = if address.is_local() { Patience::local(limits) } else { Patience::remote(limits) };
        let client = client(&address, config.key.as_ref(), patience)
            .map_err(|error| ConfigError::Client(failure::causes(&error.without_url())))?;
        if config.key.is_some() && !address.is_encrypted() && !address.is_local() {
            tracing::warn!(
                host = address.host(),
                "the model's key is sent without encryption: the base URL is not https"
            );
        }
        Ok(Self { asked: Arc::new(Asked { client, address, model, key: config.key, patience }) })
    }
}

/// The client of one model: its own, so that its connections, headers and limits are nobody else's.
fn client(address: &Address, key: Option<&Secret>, patience: Patience) -> Result<reqwest::Client, reqwest::Error> {
    install_cryptography();
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("baton/", env!("CARGO_PKG_VERSION"))));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
    if let Some(mut value) = key.and_then(|key| HeaderValue::try_from(format!("Bearer {}", key.expose())).ok()) {
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
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
impl Model for Compatible {
    fn reference(&self) -> ModelRef {
        ModelRef { provider: Provider::Compatible, name: self.asked.model.clone() }
    }

    /// Which models the server has is the server's to say, and some do not: any name can be asked for.
    fn named(&self, name: &str) -> Option<ModelRef> {
        let is_name =
            !name.is_empty() && name.len() <= NAME_BYTES && name.trim() == name && !name.contains(char::is_control);
        is_name.then(|| ModelRef { provider: Provider::Compatible, name: name.to_owned() })
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        call::open(Arc::clone(&self.asked), &request).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn configured(base_url: &str, model: &str) -> Result<Compatible, ConfigError> {
        let key = Secret::new("sk-1");
        Compatible::new(CompatibleConfig {
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

//! The client side of the HTTP API, for every command that talks to a running server.
//!
//! It knows addresses, the owner's token and problem details; what a run's events mean is `show`'s to say.

mod advice;
mod follow;
mod start;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use clap::Args;
use contract::problem::Problem;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config;
use crate::data::DataDir;
use crate::exit::{Exit, Refusal};

pub use follow::Follow;
pub use start::ensure_server;

/// What to do about a log that is damaged.
pub const MEND: &str =
    "`baton check` looks at everything that is stored; what is damaged comes back from a backup (docs/operating.md)";

/// How long a connection may take. A server is on this machine or near it.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may take that is not a stream.
const ANSWER: Duration = Duration::from_secs(30);
/// The same for what has a large body: a server takes a minute for that (`LARGE_BODY_TIME`), and then it has to store it.
const LARGE_ANSWER: Duration = Duration::from_secs(180);

/// What every command that talks to a server takes.
#[derive(Debug, Clone, Args)]
pub struct ClientArgs {
    /// Address of the server [default: the one that runs on the data folder, or http://127.0.0.1:7420]
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Data folder, which holds the owner's token [default: $XDG_DATA_HOME/baton or ~/.local/share/baton]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Print JSON, one value a line
    #[arg(long)]
    pub json: bool,
}

impl ClientArgs {
    /// The data folder that was meant.
    ///
    /// # Errors
    /// If there is none; see [`DataDir::find`].
    pub fn data(&self) -> anyhow::Result<DataDir> {
        DataDir::find(self.data.as_deref(), &config::environment)
    }
}

/// A server, with the owner's token for it.
pub struct Client {
    http: reqwest::Client,
    data: DataDir,
    /// The address that was asked for. Without one, the note in the data folder counts, and it changes with a restart.
    asked: Option<String>,
    /// What the note said last: while a server starts again there is none, and the usual address may be another folder's server.
    noted: Mutex<Option<String>>,
    authorization: HeaderValue,
}

impl Client {
    /// Reads address and token. Talks to nobody yet.
    ///
    /// # Errors
    /// If there is no token, or the address is none.
    pub fn new(args: &ClientArgs) -> anyhow::Result<Self> {
        let data = args.data()?;
        let asked = args.server.as_deref().map(config::server_address).transpose()?;
        let mut authorization = HeaderValue::from_str(&format!("Bearer {}", config::owner_token(&data)?))
            .context("the owner's token is no header value")?;
        authorization.set_sensitive(true);
        Ok(Self { http: http()?, data, asked, noted: Mutex::default(), authorization })
    }

    /// The server's address now, without a slash at the end.
    pub fn address(&self) -> String {
        if let Some(asked) = &self.asked {
            return asked.clone();
        }
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = self.data.running() {
            *noted = Some(running.url);
        }
        noted.clone().unwrap_or_else(|| address_of(&self.data))
    }

    /// Asks for a value.
    ///
    /// # Errors
    /// If nobody answers, or the answer is a refusal.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let answer = self.send(self.request(Method::GET, path).timeout(ANSWER)).await?;
        answer.json().await.with_context(|| format!("the answer to GET {path} is not what this version of baton knows"))
    }

    /// Asks for bytes as they are.
    ///
    /// # Errors
    /// If nobody answers, or the answer is a refusal.
    pub async fn get_bytes(&self, path: &str) -> anyhow::Result<Bytes> {
        let answer = self.send(self.request(Method::GET, path).timeout(ANSWER)).await?;
        answer.bytes().await.with_context(|| format!("the answer to GET {path} broke off"))
    }

    /// Sends JSON as it is, which may be large, and gives the answer's value.
    ///
    /// # Errors
    /// If nobody answers, or the answer is a refusal.
    pub async fn post_bytes<T: DeserializeOwned>(
        &self,
        path: &str,
        json: Vec<u8>,
        headers: HeaderMap,
    ) -> anyhow::Result<T> {
        let request = self.request(Method::POST, path).header(CONTENT_TYPE, "application/json").headers(headers);
        let answer = self.send(request.body(json).timeout(LARGE_ANSWER)).await?;
        answer
            .json()
            .await
            .with_context(|| format!("the answer to POST {path} is not what this version of baton knows"))
    }

    /// Sends a value and gives the answer's.
    ///
    /// # Errors
    /// If nobody answers, or the answer is a refusal.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        headers: HeaderMap,
    ) -> anyhow::Result<T> {
        let request = self.request(Method::POST, path).json(body).headers(headers).timeout(ANSWER);
        let answer = self.send(request).await?;
        answer
            .json()
            .await
            .with_context(|| format!("the answer to POST {path} is not what this version of baton knows"))
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.address())).header(AUTHORIZATION, self.authorization.clone())
    }

    async fn send(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        let answer = request.send().await.map_err(|error| self.unreachable(&error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        Err(refused(answer).await)
    }

    fn unreachable(&self, error: &reqwest::Error) -> anyhow::Error {
        let address = self.address();
        if error.is_connect() {
            Refusal::failed(
                format!("no Baton answers at {address}"),
                "start one with `baton up`, or name another with --server URL",
            )
        } else if error.is_timeout() {
            Refusal::failed(
                format!("Baton at {address} did not answer in time"),
                "look at what it prints, then try again",
            )
        } else {
            // Without the address, which may be long, and never with a header.
            Refusal::failed(format!("talking to {address} failed: {}", root_cause(error)), "try again")
        }
    }
}

/// Whether a server answers at this address.
pub async fn is_alive(http: &reqwest::Client, address: &str) -> bool {
    let answer = http.get(format!("{address}/healthz")).timeout(Duration::from_secs(2)).send().await;
    match answer {
        // Other programs have such a path, too.
        Ok(answer) if answer.status().is_success() => answer.text().await.is_ok_and(|text| text == "alive\n"),
        Ok(_) | Err(_) => false,
    }
}

/// Whether a server at this address takes requests.
pub async fn is_ready(http: &reqwest::Client, address: &str) -> bool {
    let answer = http.get(format!("{address}/readyz")).timeout(Duration::from_secs(2)).send().await;
    answer.is_ok_and(|answer| answer.status().is_success())
}

/// The address of the server of a data folder: what its note says, or the usual one.
pub fn address_of(data: &DataDir) -> String {
    data.running().map_or_else(|| format!("http://127.0.0.1:{}", config::PORT), |running| running.url)
}

/// A client that goes straight to the server: a proxy of the environment has no business between the two.
///
/// # Errors
/// If TLS cannot be set up.
pub fn http() -> anyhow::Result<reqwest::Client> {
    Ok(reqwest::Client::builder().connect_timeout(CONNECT).no_proxy().build()?)
}

async fn refused(answer: Response) -> anyhow::Error {
    let status = answer.status();
    match answer.json::<Problem>().await {
        Ok(problem) => {
            let exit = if advice::is_busy(status, &problem) { Exit::Limit } else { Exit::Failed };
            let limit =
                problem.limit.as_deref().zip(problem.value).map(|(limit, value)| format!(" ({limit} = {value})"));
            let what = format!("{}{} [{}]", problem.detail, limit.unwrap_or_default(), problem.code);
            Refusal { exit, what, action: advice::of(&problem) }.into()
        }
        Err(_) => {
            Refusal::failed(format!("the server answered {status}"), "is this the address of a Baton? see --server")
        }
    }
}

fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

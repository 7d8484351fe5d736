//! Who may: the Host that a request names, the Origin that it comes from, and the token or session that it shows.
//!
//! Host first (a page elsewhere that points its own name at this machine gets 421), Origin on everything that could change
//! something, then the credentials, which each guarded route has by construction. No secret is kept or logged, only hashes.

use std::fmt;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header, request::Parts, uri::Authority};
use axum::middleware::Next;
use axum::response::Response;
use contract::UserId;
use sha2::{Digest as _, Sha256};

use crate::reply::{Answer, Code, Refusal};
use crate::serve::App;

/// Name of the cookie that a signed-in browser shows.
pub const COOKIE: &str = "baton_session";
/// The origin check's other half: what browsers say where they leave `Origin` out.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// The owner's token, kept as its hash alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OwnerToken([u8; 32]);

impl OwnerToken {
    /// Takes the token as it stands in the data folder.
    pub fn new(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Whether `candidate` is the token. The time that this takes tells nothing: hashes are compared, all bytes of them.
    fn is(&self, candidate: &str) -> bool {
        let other: [u8; 32] = Sha256::digest(candidate.as_bytes()).into();
        self.0.iter().zip(other).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
    }
}

impl fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerToken(…)")
    }
}

/// SHA-256 in hexadecimal, as sessions are stored.
pub fn sha256_hex(text: impl AsRef<[u8]>) -> String {
    Sha256::digest(text.as_ref()).iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = fmt::Write::write_fmt(&mut hex, format_args!("{byte:02x}"));
        hex
    })
}

/// Which of the two doors a request came to. They share a port and nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Door {
    /// The API and the UI.
    App,
    /// The preview with this slug.
    Preview(String),
}

/// The names that this server answers to.
#[derive(Debug, Clone)]
pub struct Hosts {
    /// The port that clients connect to.
    pub port: u16,
    /// What follows `<slug>.` in a preview's host.
    pub preview_suffix: String,
    /// The port in the addresses of previews: this one's, unless several servers share one address.
    pub preview_port: u16,
    /// Whether other servers of this Baton may be on this machine, whose pages show the previews of this one.
    pub among_others: bool,
}

impl Hosts {
    /// Names of the app itself.
    const APP: [&'static str; 3] = ["127.0.0.1", "localhost", "[::1]"];

    /// The app's origins.
    pub fn origins(&self) -> [String; 3] {
        Self::APP.map(|host| format!("http://{host}:{}", self.port))
    }

    /// Pages that may show a preview in a frame, as sources of a policy. Its grammar has no IPv6 addresses; browsers complain of one and
    /// ignore it.
    pub fn framers(&self) -> String {
        let [ip, name, _] = self.origins();
        match self.among_others {
            false => format!("{ip} {name}"),
            // Which ports they have is not known here. Generated pages have other hosts.
            true => format!("http://{}:* http://{}:*", Self::APP[0], Self::APP[1]),
        }
    }

    /// Tells the door by the Host; none if it is missing, doubled or not ours.
    pub fn door(&self, parts: &Parts) -> Option<Door> {
        let named = match parts.uri.authority() {
            // An absolute request target stands above the Host header (RFC 9112 § 3.2.2).
            Some(authority) => authority.clone(),
            None => {
                let mut hosts = parts.headers.get_all(header::HOST).iter();
                match (hosts.next(), hosts.next()) {
                    (Some(host), None) => Authority::try_from(host.as_bytes()).ok()?,
                    _ => return None,
                }
            }
        };
        let port = named.port_u16().unwrap_or(80);
        if named.as_str().contains('@') || (port != self.port && port != self.preview_port) {
            return None;
        }
        let host = named.host().to_ascii_lowercase();
        if Self::APP.contains(&host.as_str()) {
            return (port == self.port).then_some(Door::App);
        }
        let slug = host.strip_suffix(&self.preview_suffix)?.strip_suffix('.')?;
        is_label(slug).then(|| Door::Preview(slug.to_owned()))
    }
}

/// A DNS label, in lower case.
fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Who asks, and how they showed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The user whose rows they may see.
    pub user: UserId,
    /// How.
    pub by: Proof,
}

/// How a caller showed who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// With the owner's token.
    Token,
    /// With the cookie of a session.
    Session,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        parts.extensions.get().copied().ok_or_else(|| Refusal::new(Code::Unauthenticated, "Nobody is signed in."))
    }
}

/// Lets a request through whose Origin is ours, or that no browser page sent. For every method that may change something.
pub async fn origin(State(app): State<Arc<App>>, request: Request, next: Next) -> Answer<Response> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        check_origin(&app.hosts, request.headers())?;
    }
    Ok(next.run(request).await)
}

fn check_origin(hosts: &Hosts, headers: &HeaderMap) -> Answer<()> {
    let refused = || Refusal::new(Code::BadOrigin, "This request comes from a page that is not Baton's own.");
    let mut origins = headers.get_all(header::ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (Some(origin), None) if hosts.origins().iter().any(|ours| ours.as_bytes() == origin.as_bytes()) => Ok(()),
        (None, _) => match headers.get(SEC_FETCH_SITE) {
            // Not a browser. A session is a browser's, so `sign_in` refuses it without an Origin.
            None => Ok(()),
            Some(site) if site == "same-origin" => Ok(()),
            Some(_) => Err(refused()),
        },
        _ => Err(refused()),
    }
}

/// Tells browsers to take every answer of the app for what it says it is, to show it to no other page, and to keep none that does
/// not say otherwise.
pub async fn seal(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Finds out who asks, for every guarded route; refuses who is nobody.
pub async fn sign_in(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Answer<Response> {
    let caller = authenticate(&app, request.method(), request.headers()).await?;
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// Finds out who asks.
pub async fn authenticate(app: &App, method: &Method, headers: &HeaderMap) -> Answer<Caller> {
    let nobody = |why: &str| Refusal::new(Code::Unauthenticated, why);
    if let Some(authorization) = headers.get(header::AUTHORIZATION) {
        let token = authorization.to_str().ok().and_then(|text| text.split_once(' '));
        return match token {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") && app.owner_token.is(token.trim()) => {
                Ok(Caller { user: app.owner().await?, by: Proof::Token })
            }
            _ => Err(nobody("The token is not the owner's.")),
        };
    }
    let Some(session) = cookie(headers) else {
        return Err(nobody("This request shows neither a token nor a session."));
    };
    let safe = method == Method::GET || method == Method::HEAD;
    if !safe && !headers.contains_key(header::ORIGIN) && !headers.contains_key(SEC_FETCH_SITE) {
        return Err(Refusal::new(Code::BadOrigin, "A session may change something only from Baton's own page."));
    }
    let now = app.runtime.ports.world.now_ms();
    match app.runtime.ports.store.session(&sha256_hex(session), now).await? {
        Some(user) => Ok(Caller { user, by: Proof::Session }),
        None => Err(nobody("The session has ended.")),
    }
}

/// The session that a browser shows.
pub fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == COOKIE)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_opens_one_door_or_none() {
        let hosts = Hosts { port: 7420, preview_suffix: "localhost".into(), preview_port: 7420, among_others: false };
        let preview = |slug: &str| Some(Door::Preview(slug.into()));
        for (host, door) in [
            ("127.0.0.1:7420", Some(Door::App)),
            ("localhost:7420", Some(Door::App)),
            ("LOCALHOST:7420", Some(Door::App)),
            ("[::1]:7420", Some(Door::App)),
            ("todo-x1.localhost:7420", preview("todo-x1")),
            ("Todo-X1.localhost:7420", preview("todo-x1")),
            ("127.0.0.1", None),
            ("127.0.0.1:7421", None),
            ("127.0.0.2:7420", None),
            ("localhost.:7420", None),
            ("a.b.localhost:7420", None),
            (".localhost:7420", None),
            ("-a.localhost:7420", None),
            ("a_b.localhost:7420", None),
            ("xlocalhost:7420", None),
            ("evil.example:7420", None),
            ("localhost:7420.evil.example", None),
            ("user@localhost:7420", None),
            ("", None),
        ] {
            let (parts, ()) = axum::http::Request::builder().header(header::HOST, host).body(()).unwrap().into_parts();
            assert_eq!(hosts.door(&parts), door, "{host}");
        }
        // One of several servers, which share one address for previews.
        let second = Hosts { port: 7421, among_others: true, ..hosts.clone() };
        for (host, door) in [
            ("localhost:7421", Some(Door::App)),
            ("localhost:7420", None),
            ("todo-x1.localhost:7420", preview("todo-x1")),
            ("todo-x1.localhost:7421", preview("todo-x1")),
            ("todo-x1.localhost:7422", None),
        ] {
            let (parts, ()) = axum::http::Request::builder().header(header::HOST, host).body(()).unwrap().into_parts();
            assert_eq!(second.door(&parts), door, "{host}");
        }
        assert_eq!(hosts.framers(), "http://127.0.0.1:7420 http://localhost:7420");
        assert_eq!(second.framers(), "http://127.0.0.1:* http://localhost:*");
        let bare = Hosts { port: 80, ..hosts };
        let (parts, ()) =
            axum::http::Request::builder().header(header::HOST, "localhost").body(()).unwrap().into_parts();
        assert_eq!(bare.door(&parts), Some(Door::App), "the port that a browser leaves out");
    }

    #[test]
    fn a_token_is_compared_by_its_hash_and_never_shown() {
        let token = OwnerToken::new("0123");
        assert!(token.is("0123") && !token.is("0124") && !token.is(""));
        assert_eq!(format!("{token:?}"), "OwnerToken(…)");
        assert_eq!(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}

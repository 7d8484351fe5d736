//! Signing a browser in: a link with a one-use code, exchanged for a cookie that no script can read.
//!
//! Codes live in memory: they last a minute, and a restart costs a new link. Sessions are rows, as hashes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contract::api::{SessionCode, SessionLink};
use runtime::ports::World;

use crate::bounds;
use crate::guard::{COOKIE, Caller, Proof, cookie, sha256_hex};
use crate::reply::{Answer, Body, Code, Refusal};
use crate::schema::Refusals;
use crate::serve::App;

/// The codes that can still be used: their hashes, each with the end of its time on the monotonic clock.
#[derive(Default)]
pub struct Codes(Mutex<VecDeque<(String, u64)>>);

impl Codes {
    /// Makes a code for `lasts_ms`.
    pub fn issue(&self, world: &dyn World, lasts_ms: u64) -> String {
        let code = format!("{:032x}", world.random());
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while codes.len() >= bounds::SESSION_CODES {
            codes.pop_front();
        }
        codes.push_back((sha256_hex(&code), world.monotonic_ms().saturating_add(lasts_ms)));
        code
    }

    /// Uses a code up. Whether it was one whose time was not over.
    pub fn redeem(&self, world: &dyn World, code: &str) -> bool {
        let (now, hash) = (world.monotonic_ms(), sha256_hex(code));
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|(_, until)| now < *until);
        let found = codes.iter().position(|(known, _)| *known == hash);
        found.and_then(|at| codes.remove(at)).is_some()
    }
}

/// Exchanges a one-use code for a session.
#[utoipa::path(post, path = "/v1/session", tag = "session", operation_id = "begin_session", security(()),
    request_body = SessionCode,
    responses((status = 204, description = "Signed in.", headers(("Set-Cookie" = String, description = "The session."))), Refusals))]
pub async fn begin(State(app): State<Arc<App>>, Body(SessionCode { code }): Body<SessionCode>) -> Answer<Response> {
    let world = &*app.runtime.ports.world;
    if !app.codes.redeem(world, &code) {
        return Err(Refusal::new(Code::DeadLink, "This code is unknown, was used, or is too old."));
    }
    let owner = app.owner().await?;
    let token = format!("{:032x}{:032x}", world.random(), world.random());
    let lasts_ms = app.runtime.limits.session_ms;
    let until = world.now_ms().saturating_add(lasts_ms);
    app.runtime.ports.store.put_session(&sha256_hex(&token), owner, until).await?;
    Ok(with_cookie(&token, lasts_ms / 1_000))
}

/// Signs the browser out.
#[utoipa::path(delete, path = "/v1/session", tag = "session", operation_id = "end_session",
    responses((status = 204, description = "Signed out."), Refusals))]
pub async fn end(State(app): State<Arc<App>>, caller: Caller, headers: HeaderMap) -> Answer<Response> {
    if let (Proof::Session, Some(token)) = (caller.by, cookie(&headers)) {
        // A session that lasts until the beginning of time has ended.
        app.runtime.ports.store.put_session(&sha256_hex(token), caller.user, 0).await?;
    }
    Ok(with_cookie("", 0))
}

/// Makes a link that signs a browser in: once, within a minute. For the owner's token alone.
#[utoipa::path(post, path = "/v1/session/codes", tag = "session", operation_id = "issue_session_code",
    security(("owner_token" = [])),
    responses((status = 200, description = "The link.", body = SessionLink), Refusals))]
pub async fn issue(State(app): State<Arc<App>>, caller: Caller) -> Answer<Json<SessionLink>> {
    if caller.by != Proof::Token {
        return Err(Refusal::new(Code::OwnerTokenNeeded, "A browser's session cannot make further links."));
    }
    let code = app.codes.issue(&*app.runtime.ports.world, app.runtime.limits.session_code_ms);
    let url = format!("http://127.0.0.1:{}/#code={code}", app.hosts.port);
    Ok(Json(SessionLink { url }))
}

/// 204 with the cookie. It has no `Secure`, since the app's hosts are this machine and speak plain HTTP.
fn with_cookie(token: &str, seconds: u64) -> Response {
    let cookie = format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}");
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Ok(mut value) = HeaderValue::from_str(&cookie) {
        value.set_sensitive(true);
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Default)]
    struct Clock {
        ms: AtomicU64,
        dice: AtomicU64,
    }

    impl World for Clock {
        fn now_ms(&self) -> u64 {
            self.ms.load(Ordering::Relaxed)
        }

        fn random(&self) -> u128 {
            self.dice.fetch_add(1, Ordering::Relaxed).into()
        }

        fn monotonic_ms(&self) -> u64 {
            self.now_ms()
        }
    }

    #[test]
    fn a_code_works_once_within_its_time_and_only_the_latest_are_kept() {
        let (world, codes) = (Clock::default(), Codes::default());
        let code = codes.issue(&world, 60_000);
        assert!(!codes.redeem(&world, "another"));
        assert!(codes.redeem(&world, &code));
        assert!(!codes.redeem(&world, &code), "once");

        let (in_time, too_late) = (codes.issue(&world, 60_000), codes.issue(&world, 60_000));
        world.ms.store(59_999, Ordering::Relaxed);
        assert!(codes.redeem(&world, &in_time));
        world.ms.store(60_000, Ordering::Relaxed);
        assert!(!codes.redeem(&world, &too_late), "within a minute");

        let many: Vec<_> = (0..=bounds::SESSION_CODES).map(|_| codes.issue(&world, 60_000)).collect();
        assert!(!codes.redeem(&world, &many[0]), "the oldest made room");
        assert!(many[1..].iter().all(|code| codes.redeem(&world, code)));
    }
}

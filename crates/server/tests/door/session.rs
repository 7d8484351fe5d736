//! Signing a browser in, and out.

use crate::house::wire::{Answer, Ask};
use crate::house::{House, TOKEN};
use serde_json::json;

async fn browser(house: &House, method: &str, target: &str, cookie: Option<&str>, body: &str) -> Answer {
    let mut headers = vec![("Host", house.host()), ("Content-Type", "application/json".into())];
    headers.push(("Origin", format!("http://{}", house.host())));
    headers.extend(cookie.map(|cookie| ("Cookie", cookie.to_owned())));
    house.raw(&Ask { method, target, headers, body: body.as_bytes() }).await
}

async fn code(house: &House) -> String {
    let link = house.ask("POST", "/v1/session/codes", None).await;
    assert_eq!(link.status, 200, "{}", link.text());
    let url = link.json()["url"].as_str().unwrap().to_owned();
    url.strip_prefix(&format!("http://127.0.0.1:{}/#code=", house.port)).unwrap().to_owned()
}

#[tokio::test]
async fn a_code_becomes_a_session_once_and_a_session_ends_when_told_or_when_its_time_is_over() {
    let house = House::open().await;
    let body = json!({ "code": code(&house).await }).to_string();
    let signed_in = browser(&house, "POST", "/v1/session", None, &body).await;
    assert_eq!(signed_in.status, 204, "{}", signed_in.text());
    let set = signed_in.header("set-cookie").unwrap();
    let (cookie, rules) = set.split_once("; ").unwrap();
    assert_eq!(rules, "HttpOnly; SameSite=Strict; Path=/; Max-Age=2592000");
    assert_eq!(cookie.strip_prefix("baton_session=").unwrap().len(), 64, "256 bits");
    assert_eq!(browser(&house, "POST", "/v1/session", None, &body).await.code(), "bad_code", "once");

    assert_eq!(browser(&house, "GET", "/v1/chats", Some(cookie), "").await.status, 200);
    let further = browser(&house, "POST", "/v1/session/codes", Some(cookie), "").await;
    assert_eq!(further.code(), "owner_token_needed");
    let headers = vec![("Host", house.host()), ("Cookie", cookie.to_owned())];
    let without_origin = house.raw(&Ask { method: "DELETE", target: "/v1/session", headers, body: b"" }).await;
    assert_eq!(without_origin.code(), "bad_origin", "a session changes things only from a page of ours");

    let signed_out = browser(&house, "DELETE", "/v1/session", Some(cookie), "").await;
    assert_eq!(signed_out.status, 204);
    assert!(signed_out.header("set-cookie").unwrap().ends_with("Max-Age=0"));
    assert_eq!(browser(&house, "GET", "/v1/chats", Some(cookie), "").await.code(), "unauthenticated");

    let body = json!({ "code": code(&house).await }).to_string();
    let again = browser(&house, "POST", "/v1/session", None, &body).await;
    let cookie = again.header("set-cookie").unwrap().split_once(';').unwrap().0.to_owned();
    house.world.pass(house.runtime.limits.session_ms + 1);
    assert_eq!(browser(&house, "GET", "/v1/chats", Some(&cookie), "").await.code(), "unauthenticated");
}

#[tokio::test]
async fn a_code_is_worth_nothing_after_its_minute() {
    let house = House::open().await;
    let body = json!({ "code": code(&house).await }).to_string();
    house.world.pass(60_000);
    assert_eq!(browser(&house, "POST", "/v1/session", None, &body).await.code(), "bad_code");
    let headers = vec![("Host", house.host()), ("Authorization", format!("Bearer {TOKEN}"))];
    let ask = Ask { method: "DELETE", target: "/v1/session", headers, body: b"" };
    assert_eq!(house.raw(&ask).await.status, 204, "a program that has no session has none to end");
}

//! Who may, and what everybody else is told: one table over real HTTP.

use crate::house::wire::Ask;
use crate::house::{House, TOKEN};
use serde_json::json;

/// Method, target, headers, body; then status and code.
type Row<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, u16, &'a str);

const JSON: (&str, &str) = ("Content-Type", "application/json");
const OWNER: (&str, &str) = ("Authorization", "Bearer {token}");
const HELLO: &str = r#"{"text":"a to-do list"}"#;

/// Asks as each row says. `{host}`, `{port}` and `{token}` stand for those of the house, and a row has our Host unless it says
/// otherwise.
async fn check(house: &House, rows: &[Row<'_>]) {
    let fill = |text: &str| {
        let text = text.replace("{host}", &house.host()).replace("{port}", &house.port.to_string());
        text.replace("{token}", TOKEN)
    };
    for (method, target, headers, body, status, code) in rows {
        let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, fill(value))).collect();
        if !headers.iter().any(|(name, _)| *name == "Host") {
            headers.push(("Host", house.host()));
        }
        let answer = house.raw(&Ask { method, target, headers, body: body.as_bytes() }).await;
        assert_eq!(answer.status, *status, "{method} {target}: {}", answer.text());
        assert!(answer.header("x-request-id").is_some(), "{method} {target}");
        assert_eq!(answer.header("x-content-type-options").is_some(), *status != 421, "{method} {target}");
        if *status >= 400 {
            assert_eq!(answer.code(), *code, "{method} {target}");
        }
    }
}

#[tokio::test]
async fn a_host_that_is_not_ours_is_misdirected() {
    let house = House::open().await;
    let rows: &[Row<'_>] = &[
        ("GET", "/healthz", &[], "", 200, ""),
        ("GET", "/healthz", &[("Host", "localhost:{port}")], "", 200, ""),
        ("GET", "/healthz", &[("Host", "[::1]:{port}")], "", 200, ""),
        ("GET", "/healthz", &[("Host", "evil.example")], "", 421, "misdirected"),
        ("GET", "/healthz", &[("Host", "evil.example:{port}")], "", 421, "misdirected"),
        ("GET", "/healthz", &[("Host", "127.0.0.1:1")], "", 421, "misdirected"),
        ("GET", "/healthz", &[("Host", "")], "", 421, "misdirected"),
        ("GET", "/healthz", &[("Host", "{host}"), ("Host", "{host}")], "", 421, "misdirected"),
        ("GET", "http://evil.example/healthz", &[], "", 421, "misdirected"),
    ];
    check(&house, rows).await;
}

#[tokio::test]
async fn who_shows_nothing_or_the_wrong_thing_is_nobody() {
    let house = House::open().await;
    let run = "/v1/runs/run_00000000000000000000000000";
    let rows: &[Row<'_>] = &[
        ("GET", "/v1/chats", &[], "", 401, "unauthenticated"),
        ("GET", "/v1/chats", &[OWNER], "", 200, ""),
        ("GET", "/v1/chats", &[("Authorization", "bearer x")], "", 401, "unauthenticated"),
        ("GET", "/v1/chats", &[("Authorization", "{token}")], "", 401, "unauthenticated"),
        ("GET", "/v1/chats", &[("Authorization", "Bearer {token}0")], "", 401, "unauthenticated"),
        ("GET", "/v1/chats", &[("Cookie", "a=b; baton_session={token}")], "", 401, "unauthenticated"),
        ("GET", run, &[], "", 401, "unauthenticated"),
        ("DELETE", "/v1/session", &[], "", 401, "unauthenticated"),
        ("POST", "/v1/session", &[JSON], r#"{"code":"guess"}"#, 401, "bad_code"),
        ("GET", "/v1/openapi.json", &[], "", 200, ""),
    ];
    check(&house, rows).await;
}

#[tokio::test]
async fn a_page_elsewhere_changes_nothing() {
    let house = House::open().await;
    let evil = ("Origin", "http://evil.example");
    let preview = ("Origin", "http://todo.localhost:{port}");
    let rows: &[Row<'_>] = &[
        ("POST", "/v1/chats", &[OWNER, JSON], HELLO, 202, ""),
        ("POST", "/v1/chats", &[OWNER, JSON, ("Origin", "http://{host}")], HELLO, 202, ""),
        ("POST", "/v1/chats", &[OWNER, JSON, ("Origin", "http://localhost:{port}")], HELLO, 202, ""),
        ("POST", "/v1/chats", &[OWNER, JSON, evil], HELLO, 403, "bad_origin"),
        ("POST", "/v1/chats", &[OWNER, JSON, preview], HELLO, 403, "bad_origin"),
        ("POST", "/v1/chats", &[OWNER, JSON, ("Origin", "http://{host}"), evil], HELLO, 403, "bad_origin"),
        ("POST", "/v1/chats", &[OWNER, JSON, ("Origin", "null")], HELLO, 403, "bad_origin"),
        ("POST", "/v1/chats", &[OWNER, JSON, ("Sec-Fetch-Site", "cross-site")], HELLO, 403, "bad_origin"),
        ("POST", "/v1/chats", &[OWNER, JSON, ("Sec-Fetch-Site", "same-origin")], HELLO, 202, ""),
        ("POST", "/v1/session", &[JSON, evil], r#"{"code":"a"}"#, 403, "bad_origin"),
        ("DELETE", "/nothing", &[evil], "", 403, "bad_origin"),
        ("OPTIONS", "/v1/chats", &[evil], "", 403, "bad_origin"),
        ("GET", "/v1/chats", &[OWNER, evil], "", 200, ""),
    ];
    check(&house, rows).await;
}

#[tokio::test]
async fn what_does_not_exist_or_does_not_parse_is_a_problem_with_a_code() {
    let house = House::open().await;
    let rows: &[Row<'_>] = &[
        ("GET", "/v1/nothing", &[OWNER], "", 404, "no_such_route"),
        ("GET", "/v1", &[], "", 404, "no_such_route"),
        ("PUT", "/v1/chats", &[OWNER], "", 405, "method_not_allowed"),
        ("POST", "/", &[], "", 405, "method_not_allowed"),
        ("GET", "/v1/runs/nonsense", &[OWNER], "", 400, "bad_path"),
        ("GET", "/v1/runs/run_00000000000000000000000000", &[OWNER], "", 404, "no_such_run"),
        ("GET", "/v1/runs/run_00000000000000000000000000/events", &[OWNER], "", 404, "no_such_run"),
        ("GET", "/v1/runs/run_00000000000000000000000000/graph", &[OWNER], "", 404, "no_such_run"),
        ("POST", "/v1/runs/run_00000000000000000000000000/cancel", &[OWNER], "", 404, "no_such_run"),
        ("GET", "/v1/chats/chat_00000000000000000000000000", &[OWNER], "", 404, "no_such_chat"),
        ("POST", "/v1/chats/chat_00000000000000000000000000/messages", &[OWNER, JSON], HELLO, 404, "no_such_chat"),
        ("GET", "/v1/projects/prj_00000000000000000000000000/files", &[OWNER], "", 404, "no_such_project"),
        ("GET", "/v1/projects/prj_00000000000000000000000000/versions", &[OWNER], "", 404, "no_such_project"),
        ("GET", "/v1/projects/prj_00000000000000000000000000/files/a.txt", &[OWNER], "", 404, "no_such_file"),
        ("GET", "/v1/chats?limit=0", &[OWNER], "", 400, "bad_limit"),
        ("GET", "/v1/chats?limit=101", &[OWNER], "", 400, "bad_limit"),
        ("GET", "/v1/chats?limit=x", &[OWNER], "", 400, "bad_query"),
        ("GET", "/v1/chats?lmit=3", &[OWNER], "", 400, "bad_query"),
        ("GET", "/v1/chats?cursor=x", &[OWNER], "", 400, "bad_cursor"),
        ("GET", "/v1/runs?cursor=x", &[OWNER], "", 400, "bad_cursor"),
        ("GET", "/v1/stream?cursors=x", &[OWNER], "", 400, "bad_cursor"),
        ("GET", "/v1/stream", &[OWNER], "", 400, "bad_query"),
    ];
    check(&house, rows).await;
}

#[tokio::test]
async fn a_body_that_is_wrong_is_a_problem_with_a_code() {
    let house = House::open().await;
    let long_message = json!({ "text": "x".repeat(33 * 1024) }).to_string();
    let large_body = format!("\"{}\"", "x".repeat(1024 * 1024));
    let rows: &[Row<'_>] = &[
        ("POST", "/v1/chats", &[OWNER, JSON], "", 400, "bad_body"),
        ("POST", "/v1/chats", &[OWNER, JSON], "{", 400, "bad_body"),
        ("POST", "/v1/chats", &[OWNER, JSON], r#"{"text":1}"#, 400, "bad_body"),
        ("POST", "/v1/chats", &[OWNER, JSON], r#"{"text":"a","more":1}"#, 400, "bad_body"),
        ("POST", "/v1/chats", &[OWNER], HELLO, 415, "unsupported_media_type"),
        ("POST", "/v1/chats", &[OWNER, JSON], r#"{"text":" \n"}"#, 400, "message_empty"),
        ("POST", "/v1/chats", &[OWNER, JSON], &long_message, 413, "message_too_large"),
        ("POST", "/v1/chats", &[OWNER, JSON], &large_body, 413, "body_too_large"),
        ("POST", "/v1/chats", &[OWNER, JSON, ("Idempotency-Key", "")], HELLO, 400, "bad_idempotency_key"),
    ];
    check(&house, rows).await;
}

#[tokio::test]
async fn a_path_leads_nowhere_but_where_it_says() {
    let house = House::open().await;
    let rows: &[Row<'_>] = &[
        ("GET", "/..%2f..%2fetc/passwd", &[], "", 404, "no_such_route"),
        ("GET", "/../../etc/passwd", &[], "", 404, "no_such_route"),
        ("GET", "/a%00b", &[], "", 404, "no_such_route"),
        ("GET", "//etc/passwd", &[], "", 404, "no_such_route"),
        ("GET", "/a\\..\\b", &[], "", 404, "no_such_route"),
        ("GET", "/%ff", &[], "", 404, "no_such_route"),
        ("GET", "/v1/projects/prj_00000000000000000000000000/files/..%2f..%2fa", &[OWNER], "", 400, "bad_path"),
        ("GET", "/v1/projects/prj_00000000000000000000000000/files/../../a", &[OWNER], "", 400, "bad_path"),
        ("GET", "/v1/projects/prj_00000000000000000000000000/files/a%00b", &[OWNER], "", 400, "bad_path"),
        ("GET", "/v1/projects/prj_00000000000000000000000000/files//etc/a", &[OWNER], "", 400, "bad_path"),
        ("GET", "/v1/projects/prj_00000000000000000000000000/files/a%5c..%5cb", &[OWNER], "", 400, "bad_path"),
        ("GET", "/v1/projects/prj_00000000000000000000000000/files/%ff", &[OWNER], "", 400, "bad_path"),
    ];
    check(&house, rows).await;
}

#[tokio::test]
async fn a_refusal_at_a_limit_names_it_and_says_when_to_come_back() {
    // E1
    let house = House::open().await;
    let accepted = house.ask("POST", "/v1/chats", Some(json!({ "text": "a to-do list" }))).await;
    assert_eq!(accepted.status, 202);
    let accepted = accepted.json();
    let messages = format!("/v1/chats/{}/messages", accepted["chat_id"].as_str().unwrap());
    let refused = house.ask("POST", &messages, Some(json!({ "text": "make it dark" }))).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "chat_busy"));
    assert_eq!((&refused.json()["limit"], &refused.json()["value"]), (&json!("active_runs_per_chat"), &json!(1)));
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
    let too_many = house.ask("GET", "/v1/chats?limit=1000", None).await;
    assert_eq!((&too_many.json()["limit"], &too_many.json()["value"]), (&json!("page_items"), &json!(100)));
    let unauthenticated =
        house.raw(&Ask { method: "GET", target: "/v1/runs", headers: vec![("Host", house.host())], body: b"" }).await;
    assert_eq!(unauthenticated.header("www-authenticate"), Some("Bearer"));
}

#[tokio::test]
async fn a_repeated_message_gives_the_first_answer() {
    let house = House::open().await;
    let send = async |text: &str| {
        let body = json!({ "text": text }).to_string();
        let headers = vec![
            ("Host", house.host()),
            ("Authorization", format!("Bearer {TOKEN}")),
            ("Content-Type", "application/json".into()),
            ("Idempotency-Key", "k1".into()),
        ];
        house.raw(&Ask { method: "POST", target: "/v1/chats", headers, body: body.as_bytes() }).await
    };
    let (first, again, other) = (send("a to-do list").await, send("a to-do list").await, send("a kanban board").await);
    assert_eq!((first.status, again.status), (202, 202));
    assert_eq!(first.body, again.body);
    assert_eq!(
        first.header("location"),
        Some(format!("/v1/runs/{}", first.json()["run_id"].as_str().unwrap()).as_str())
    );
    assert_eq!((other.status, other.code().as_str()), (409, "idempotency_key_reused"));
}

#[tokio::test(start_paused = true)]
async fn a_slow_sender_holds_nothing_for_long() {
    let house = House::open().await;
    let mut half = crate::house::wire::Connection::open(house.port).await;
    half.send(b"GET /healthz HTTP/1.1\r\nHost: ").await;
    let mut rest = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut half.stream, &mut rest).await.unwrap();
    assert_eq!(rest, b"", "the connection is closed without an answer");

    let mut body = crate::house::wire::Connection::open(house.port).await;
    let head = format!("POST /v1/session HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n", house.host());
    body.send(format!("{head}Content-Length: 20\r\n\r\n{{").as_bytes()).await;
    assert_eq!(body.whole().await.code(), "body_too_slow");
}

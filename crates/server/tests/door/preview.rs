//! What a preview's host serves, and what it does not.

use crate::house::House;
use crate::house::wire::{Answer, Ask};

const BUILD: &[(&str, &[u8])] = &[
    ("index.html", b"<!doctype html><title>To-do</title>"),
    ("assets/index-B7x_9aQ2.js", b"run()"),
    ("assets/logo-vertical.svg", b"<svg/>"),
    ("docs/index.html", b"<!doctype html><title>Docs</title>"),
    ("favicon.ico", b"icon"),
    ("notes.txt", b"caf\xc3\xa9"),
];
const PAGE: (&str, &str) = ("Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8");
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

async fn get(house: &House, host: &str, method: &str, target: &str, more: &[(&str, &str)]) -> Answer {
    let mut headers = vec![("Host", format!("{host}:{}", house.port))];
    headers.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
    house.raw(&Ask { method, target, headers, body: b"" }).await
}

#[tokio::test]
async fn a_published_build_is_served_as_browsers_need_it() {
    // E20
    let house = House::open().await;
    let mut log = house.log().await;
    let slug = log.publish(BUILD).await;
    let host = format!("{slug}.localhost");
    let html = "text/html; charset=utf-8";
    let index = std::str::from_utf8(BUILD[0].1).unwrap();
    // target, headers; status, type, caching, body
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], u16, &'a str, &'a str, Option<&'a str>);
    let script = ("Sec-Fetch-Mode", "cors");
    let rows: &[Row<'_>] = &[
        ("/", &[PAGE], 200, html, "no-cache", Some(index)),
        ("/?a=b", &[], 200, html, "no-cache", Some(index)),
        ("/index.html", &[PAGE], 200, html, "no-cache", Some(index)),
        ("/assets/index-B7x_9aQ2.js", &[], 200, "text/javascript; charset=utf-8", IMMUTABLE, Some("run()")),
        ("/assets/logo-vertical.svg", &[], 200, "image/svg+xml; charset=utf-8", "no-cache", Some("<svg/>")),
        ("/notes.txt", &[], 200, "text/plain; charset=utf-8", "no-cache", Some("café")),
        ("/favicon.ico", &[], 200, "image/x-icon", "no-cache", Some("icon")),
        ("/docs/", &[PAGE], 200, html, "no-cache", Some("<!doctype html><title>Docs</title>")),
        ("/docs%2Findex.html", &[PAGE], 200, html, "no-cache", Some("<!doctype html><title>Docs</title>")),
        // an app that routes by itself
        ("/lists/3", &[PAGE], 200, html, "no-cache", Some(index)),
        ("/lists/3/", &[PAGE], 200, html, "no-cache", Some(index)),
        ("/lists/3", &[], 200, html, "no-cache", Some(index)),
        ("/lists/3", &[("Accept", "application/json")], 404, html, "no-store", None),
        ("/api/items", &[("Accept", "*/*"), script], 404, html, "no-store", None),
        ("/assets/gone-B7x_9aQ2.js", &[PAGE], 404, html, "no-store", None),
        // nothing of the app's own
        ("/healthz", &[("Accept", "application/json")], 404, html, "no-store", None),
        ("/metrics", &[("Accept", "application/json")], 404, html, "no-store", None),
        ("/v1/openapi.json", &[PAGE], 404, html, "no-store", None),
        ("/v1/chats", &[("Accept", "application/json")], 404, html, "no-store", None),
        // nowhere else
        ("/..%2findex.html", &[PAGE], 404, html, "no-store", None),
        ("/../index.html", &[PAGE], 404, html, "no-store", None),
        ("/docs/..%2f..%2fetc/passwd", &[PAGE], 404, html, "no-store", None),
        ("/notes.txt%00.html", &[PAGE], 404, html, "no-store", None),
        ("//notes.txt", &[PAGE], 404, html, "no-store", None),
        ("/docs\\index.html", &[PAGE], 404, html, "no-store", None),
        ("/%ff", &[PAGE], 404, html, "no-store", None),
    ];
    for (target, headers, status, kind, cache, body) in rows {
        let answer = get(&house, &host, "GET", target, headers).await;
        assert_eq!(answer.status, *status, "{target}: {}", answer.text());
        assert_eq!(answer.header("content-type"), Some(*kind), "{target}");
        assert_eq!(answer.header("cache-control"), Some(*cache), "{target}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{target}");
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"), "{target}");
        assert_eq!(answer.header("set-cookie"), None, "{target}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'self'") && policy.contains("connect-src 'self'"), "{policy}");
        assert!(policy.contains(&format!("frame-ancestors http://127.0.0.1:{0} http://localhost:{0}", house.port)));
        if let Some(body) = body {
            assert_eq!(answer.text(), *body, "{target}");
        }
    }
}

#[tokio::test]
async fn what_a_browser_has_is_not_sent_again_and_a_head_has_no_body() {
    let house = House::open().await;
    let slug = house.log().await.publish(BUILD).await;
    let host = format!("{slug}.localhost");
    let first = get(&house, &host, "GET", "/", &[]).await;
    let etag = first.header("etag").unwrap();
    assert_eq!(etag.len(), 66, "a SHA-256 in quotes");
    for known in [etag, &format!("\"other\", {etag}"), &format!("W/{etag}"), "*"] {
        let again = get(&house, &host, "GET", "/", &[("If-None-Match", known)]).await;
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(etag)), "{known}");
    }
    let changed = get(&house, &host, "GET", "/", &[("If-None-Match", "\"other\"")]).await;
    assert_eq!(changed.status, 200);
    let head = get(&house, &host, "HEAD", "/", &[]).await;
    assert_eq!((head.status, head.header("content-length")), (200, first.header("content-length")));
    let posted = get(&house, &host, "POST", "/", &[]).await;
    assert_eq!((posted.status, posted.header("allow")), (405, Some("GET, HEAD")));
}

#[tokio::test]
async fn a_preview_has_its_own_host_and_shows_what_was_published_last() {
    let house = House::open().await;
    let mut log = house.log().await;
    let nothing = get(&house, "never-built.localhost", "GET", "/", &[PAGE]).await;
    assert_eq!((nothing.status, nothing.header("content-type")), (404, Some("text/html; charset=utf-8")));

    let slug = log.publish(&[("index.html", b"one")]).await;
    let host = format!("{slug}.localhost");
    let one = get(&house, &host, "GET", "/", &[]).await;
    log.publish(&[("index.html", b"two")]).await;
    let two = get(&house, &host, "GET", "/", &[("If-None-Match", one.header("etag").unwrap())]).await;
    assert_eq!((one.text().as_str(), two.text().as_str()), ("one", "two"));

    let detail = house.ask("GET", &format!("/v1/chats/{}", log.accepted.chat_id), None).await.json();
    assert_eq!(detail["preview"]["host"], format!("{host}:{}", house.port));
    assert_eq!(detail["preview"]["url"], format!("http://{host}:{}/", house.port));
    let on_the_app = get(&house, "127.0.0.1", "GET", "/assets/index-B7x_9aQ2.js", &[]).await;
    assert_eq!(on_the_app.status, 404, "no preview on the app's host");
}

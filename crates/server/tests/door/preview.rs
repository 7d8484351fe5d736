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
/// What every page begins with.
const SCRIPT: &str = "<script src=\"/@baton/page.js\"></script>";
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
    let with_script = |page: &[u8]| std::str::from_utf8(page).unwrap().replace("<title>", &format!("{SCRIPT}<title>"));
    let [index, docs] = [0, 3].map(|n| with_script(BUILD[n].1));
    let [index, docs] = [index.as_str(), docs.as_str()];
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
        ("/docs/", &[PAGE], 200, html, "no-cache", Some(docs)),
        ("/docs%2Findex.html", &[PAGE], 200, html, "no-cache", Some(docs)),
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
    assert_eq!(etag.len(), 66 + 17, "a SHA-256 and that of the script, in quotes");
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
    assert_eq!([one.text(), two.text()], ["one", "two"].map(|page| format!("{page}{SCRIPT}")));

    let detail = house.ask("GET", &format!("/v1/chats/{}", log.accepted.chat_id), None).await.json();
    assert_eq!(detail["preview"]["host"], format!("{host}:{}", house.port));
    assert_eq!(detail["preview"]["url"], format!("http://{host}:{}/", house.port));
    let on_the_app = get(&house, "127.0.0.1", "GET", "/assets/index-B7x_9aQ2.js", &[]).await;
    assert_eq!(on_the_app.status, 404, "no preview on the app's host");
}

/// N7: the page is a projection of the log, every module is named by its hash, and what is half done is not shown.
#[tokio::test]
async fn the_files_are_shown_as_they_are_before_anything_is_built() {
    let house = House::open().await;
    let mut log = house.log().await;
    let slug = log.slug().await;
    let host = format!("{slug}.localhost");
    assert_eq!(get(&house, &host, "GET", "/", &[PAGE]).await.status, 404, "nothing is there yet");
    log.files(&[
        ("index.html", "<!doctype html><title>x</title><div id=app></div><script type=module src=/src/main.ts></script>"),
        ("src/main.ts", "import { word } from './word';\nconst where: string = 'app';\ndocument.getElementById(where)!.textContent = word;\n"),
        ("src/word.ts", "export const word = 'here';\n"),
        (".env", "SECRET=1"),
        ("public/robots.txt", "all"),
    ])
    .await;
    let asked = get(&house, &host, "GET", "/?instant=0123456789abcdef", &[PAGE]).await;
    assert_eq!(asked.status, 404, "the log does not say yet that it is one");
    log.shows_instantly().await;
    for target in ["/?instant=0123456789abcdef", "/"] {
        let page = get(&house, &host, "GET", target, &[PAGE]).await;
        assert_eq!((page.status, page.header("cache-control")), (200, Some("no-store")), "{target}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("script-src 'self' 'sha256-"), "the import map is allowed by its hash: {policy}");
        assert!(page.text().contains("/@baton/page.js") && page.text().contains("importmap"), "{}", page.text());
    }
    let page = get(&house, &host, "GET", "/?instant=0123456789abcdef", &[PAGE]).await.text();
    let module = |name: &str| {
        let from = page.find(&format!("/src/{name}?module=")).unwrap_or_else(|| panic!("{name} in {page}"));
        page[from..].split('"').next().unwrap().to_owned()
    };
    let [main, word] = ["main.ts", "word.ts"].map(module);
    let script = Some("text/javascript; charset=utf-8");
    for (target, code) in [(&main, "textContent"), (&word, "here")] {
        let answer = get(&house, &host, "GET", target, &[]).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, script), "{target}");
        assert_eq!(answer.header("cache-control"), Some("public, max-age=600"), "{target}");
        assert!(answer.text().contains(code) && !answer.text().contains(": string"), "{}", answer.text());
    }
    let public = get(&house, &host, "GET", "/robots.txt", &[]).await;
    assert_eq!((public.status, public.text().as_str()), (200, "all"));
    for target in ["/package.json", "/src/word.ts", "/src/word.ts?module=0000000000000000", "/@baton/x/react.js"] {
        assert_eq!(get(&house, &host, "GET", target, &[]).await.status, 404, "{target}");
    }
    let hidden = get(&house, &host, "GET", "/.env", &[]).await.text();
    assert_eq!(hidden, page, "a path without an extension is the app's to route");
    let script = get(&house, &host, "GET", "/@baton/page.js", &[]).await;
    assert_eq!((script.status, script.header("cache-control")), (200, Some("no-cache")));

    log.files(&[("src/word.ts", "export const word = ;\n")]).await;
    assert_eq!(
        get(&house, &host, "GET", "/?instant=0123456789abcdef", &[PAGE]).await.text(),
        page,
        "the last good page stays"
    );
    assert_eq!(get(&house, &host, "GET", &word, &[]).await.status, 200);

    let own = get(&house, &host, "GET", "/?url=https://x&raw=1", &[PAGE]).await;
    assert_eq!((own.status, own.text()), (200, page.clone()), "an app may have queries of its own");

    log.publish(&[("index.html", b"built")]).await;
    assert_eq!(get(&house, &host, "GET", "/robots.txt", &[]).await.status, 404, "only what was built");
    for target in ["/?instant=0123456789abcdef", "/"] {
        assert_eq!(get(&house, &host, "GET", target, &[PAGE]).await.text(), format!("built{SCRIPT}"), "{target}");
    }
    assert_eq!(
        get(&house, &host, "GET", &word, &[]).await.status,
        200,
        "a page that was loading just before still can"
    );
}

/// N7, E20: what a browser says of an instant page goes to its run, as data and bounded.
#[tokio::test]
async fn an_exception_of_a_page_goes_to_the_inbox_of_its_run() {
    let house = House::open().await;
    let mut log = house.log().await;
    let path = format!("/v1/runs/{}/preview-problems", log.run());
    let report = |message: &str| {
        let at = serde_json::json!({ "url": "http://x/a?module=1", "line": 1, "column": 2 });
        serde_json::json!({ "revision": "0123456789abcdef", "blank": true, "message": message, "at": at })
    };
    let code = async |path: &str, body: serde_json::Value| {
        let answer = house.ask("POST", path, Some(body)).await;
        let code =
            if answer.status == 204 { "taken".into() } else { answer.json()["code"].as_str().unwrap().to_owned() };
        (answer.status, code)
    };
    assert_eq!(code(&path, report("x is not defined")).await, (204, "taken".into()));
    assert_eq!(code(&path, serde_json::json!({ "message": 3 })).await, (400, "bad_body".into()));
    let mut nowhere = report("x");
    nowhere["revision"] = "r".into();
    assert_eq!(code(&path, nowhere).await, (400, "no_such_page".into()));
    let other = format!("/v1/runs/{}/preview-problems", contract::RunId::from_bits(1));
    assert_eq!(code(&other, report("x")).await, (404, "no_such_run".into()));
    let most = house.runtime.limits.preview_reports;
    for n in 1..most {
        assert_eq!(code(&path, report(&format!("problem {n}"))).await.0, 204);
    }
    assert_eq!(code(&path, report("one more")).await, (429, "too_many_reports".into()));
    let inbox = house.runtime.ports.store.inbox(log.run()).await.unwrap();
    assert_eq!(inbox.len() as u64, most);
    log.finish().await;
    assert_eq!(code(&path, report("x")).await, (409, "run_is_over".into()));
}

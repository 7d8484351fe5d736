//! The scripted model: what scripts may say, how its server treats requests, what it notes of them, and its clock in process.
#![expect(clippy::unwrap_used, reason = "a test; clippy sees tests only where `#[test]` stands")]

use std::time::Duration;

use adapters::model::scripted::{Entry, LEDGER_ENTRIES, Ledger, Script, ServeOptions, Way, serve};
use adapters::model::{ScriptedModel, Scripts, Secret};
use contract::Limits;
use contract::event::{ModelRef, Provider};
use futures::StreamExt as _;
use proptest::prelude::*;
use reqwest::{Client, Response};
use runtime::ports::model::{Model, ModelErrorKind, ModelEvent, ModelRequest, PromptMessage, Speaker};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// Long enough for a slow machine; nothing waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(20);

fn rules(rules: &str) -> Scripts {
    Scripts::read([("test.yaml", format!("name: test\nrules:\n{rules}").as_str())]).unwrap()
}

fn in_process(scripts: Scripts) -> ScriptedModel {
    ScriptedModel::new(scripts, ModelRef { provider: Provider::Demo, name: "scripted".into() })
}

/// Serves while `client` runs, then stops; both have to end.
async fn with_server(scripts: Scripts, options: ServeOptions, client: impl AsyncFnOnce(&Client, &str)) {
    // The client of this test is not the product's, so it needs its own provider of cryptography, which is never used.
    drop(rustls::crypto::ring::default_provider().install_default());
    let http = Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let server = serve(listener, scripts, options, stop.clone());
    let client = async {
        client(&http, &url).await;
        stop.cancel();
    };
    let (served, ()) = timeout(PATIENCE, async { tokio::join!(server, client) }).await.unwrap();
    served.unwrap();
}

async fn post(http: &Client, url: &str, body: &Value) -> Response {
    http.post(format!("{url}/v1/chat/completions")).json(body).send().await.unwrap()
}

fn ask(text: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": text}]})
}

fn ask_streamed(text: &str) -> Value {
    json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": text}]})
}

#[test]
fn a_script_that_cannot_be_meant_is_refused_with_its_place() {
    let rule = |rest: &str| format!("name: a\nrules:\n  - name: first\n    respond: x\n  - name: two\n    {rest}\n");
    let table = [
        ("name: a\nrules: []\n".to_owned(), "rules"),
        ("rules: [{name: a, respond: x}]".to_owned(), "name"),
        (rule("respond: x\n    delay: 3"), "delay"),
        (rule("respond: {text: x}"), "a text, or a list of parts"),
        (rule("respond: ['x']"), "expected mapping"),
        (rule("when: {turn: 0}\n    respond: x"), "rule 2 `two`, when, turn: the first turn is 1"),
        (rule("when: {turn: 1, turn_from: 2}\n    respond: x"), "either"),
        (rule("when: {request: '('}\n    respond: x"), "rule 2 `two`, when, request: regex parse error"),
        (rule("when: {requests: x}\n    respond: x"), "requests"),
        (rule("finish: stop"), "nothing to answer"),
        (rule("respond: x\n    finish: done"), "done"),
        (rule("respond: 'a @@titel@@'"), "rule 2 `two`, respond, part 1, text: `@@titel@@` is no placeholder"),
        (rule("when: {request: '(?P<name>x)'}\n    respond: '@@request.nam@@'"), "`@@request.nam@@` is no placeholder"),
        (rule("respond: [{file: a.ts, content: '@@request.name_json@@'}]"), "part 1, content: `@@request.name_json@@`"),
        (rule("respond: [{file: a.ts}]"), "exactly one"),
        (rule("respond: [{file: 'a\".ts', content: x}]"), "a path"),
        (rule("respond: [{file: a.ts, content: '</FILE>'}]"), "cannot be written"),
        (rule("respond: [{pause_ms: 999999999}]"), "at most"),
        (rule("respond: x\n    pace: {chunk: 0}"), "at least 1"),
        (rule("respond: x\n    usage: {input: 1, cached: 2, output: 3}"), "a part of"),
        (rule("respond: x\n    fault: {}"), "exactly one of `status`"),
        (rule("respond: x\n    fault: {status: 200}"), "from 400 to 599"),
        (rule("respond: x\n    fault: {status: 429, break_after: 1}"), "exactly one of `status`"),
        (rule("respond: x\n    fault: {break_after: 1, retry_after: '2'}"), "go with `status`"),
        (rule("respond: x\n    expect: {contains: ['[']}"), "rule 2 `two`, expect, contains: regex parse error"),
        ("{\"name\": \"a\", \"rules\": [{\"name\": \"b\", \"respond\": \"x\", \"wehn\": {}}]}".to_owned(), "wehn"),
    ];
    for (text, words) in table {
        let error = Script::read("a.yaml", &text).unwrap_err();
        assert!(error.to_string().starts_with("a.yaml") && error.to_string().contains(words), "{text}\n{error}");
    }
    let json = r#"{"name": "a", "rules": [{"name": "b", "respond": "\ud83d\ude80"}]}"#;
    assert_eq!(Script::read("a.json", json).unwrap().name(), "a");
}

#[tokio::test]
async fn a_request_that_is_not_well_formed_gets_the_vendors_error() {
    let message = |role: &str, content: &str| json!({"role": role, "content": content});
    let messages = |messages: Value| json!({"model": "m", "messages": messages});
    let (user, model) = (message("user", "x"), message("assistant", "y"));
    let table = [
        (json!([]), "invalid_type", "body"),
        (json!({"messages": [user]}), "missing_required_parameter", "model"),
        (json!({"model": 3, "messages": [user]}), "invalid_type", "model"),
        (json!({"model": "m"}), "missing_required_parameter", "messages"),
        (messages(json!("x")), "invalid_type", "messages"),
        (messages(json!([])), "empty_array", "messages"),
        (messages(json!(["x"])), "invalid_type", "messages[0]"),
        (messages(json!([message("robot", "x")])), "invalid_value", "messages[0].role"),
        (messages(json!([{"role": "user"}])), "invalid_type", "messages[0].content"),
        (
            messages(json!([{"role": "user", "content": [{"type": "image_url"}]}])),
            "invalid_value",
            "messages[0].content",
        ),
        (messages(json!([{"role": "user", "content": "x", "text": "y"}])), "unknown_parameter", "messages[0].text"),
        (messages(json!([message("user", " \n")])), "invalid_conversation", "messages[0]"),
        (messages(json!([model])), "invalid_conversation", "messages[0]"),
        (messages(json!([user, user])), "invalid_conversation", "messages[1]"),
        (messages(json!([user, model])), "invalid_conversation", "messages[1]"),
        (messages(json!([user, model, message("system", "x"), user])), "invalid_conversation", "messages[2]"),
        (json!({"model": "m", "messages": [user], "strem": true}), "unknown_parameter", "strem"),
        (json!({"model": "m", "messages": [user], "temperature": "hot"}), "invalid_type", "temperature"),
        (json!({"model": "m", "messages": [user], "stream": 1}), "invalid_type", "stream"),
        (json!({"model": "m", "messages": [user], "n": 2}), "unsupported_value", "n"),
        (json!({"model": "m", "messages": [user], "stream_options": {}}), "invalid_value", "stream_options"),
    ];
    let ledger = Ledger::default();
    let options = ServeOptions { ledger: ledger.clone(), ..ServeOptions::default() };
    with_server(rules("  - { name: any, respond: well }\n"), options, async |http, url| {
        for (body, code, param) in table {
            let response = post(http, url, &body).await;
            assert_eq!(response.status(), 400, "{body}");
            let error = response.json::<Value>().await.unwrap()["error"].take();
            assert_eq!((&error["code"], &error["param"]), (&json!(code), &json!(param)), "{body} {error}");
            assert_eq!(error["type"], "invalid_request_error");
        }
        let completions = format!("{url}/v1/chat/completions");
        let plain = http.post(&completions).body("{}").send().await.unwrap();
        let broken = http.post(&completions).header("content-type", "application/json").body("{").send().await.unwrap();
        let large = http.post(&completions).header("content-type", "application/json").body(vec![b' '; 9 << 20]).send().await;
        let gone = http.get(format!("{url}/v2/models")).send().await.unwrap();
        let wrong_method = http.get(&completions).send().await.unwrap();
        assert_eq!((plain.status().as_u16(), broken.status().as_u16()), (415, 400));
        assert_eq!((gone.status().as_u16(), wrong_method.status().as_u16()), (404, 404));
        assert!(large.is_err() || large.is_ok_and(|large| large.status() == 413));
        assert!(gone.json::<Value>().await.unwrap()["error"]["message"].as_str().unwrap().contains("GET /v2/models"));
        let developer = json!({"model": "m", "temperature": 0.5, "messages": [message("developer", "x"), {"role": "user",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]});
        assert_eq!(post(http, url, &developer).await.status(), 200);
        assert_eq!(ledger.entries().last().unwrap().messages[1].text, "ab");
    })
    .await;
}

#[tokio::test]
async fn keys_models_and_expectations_are_checked_and_no_key_is_kept() {
    let key = Secret::new("sk-scripted-1");
    let ledger = Ledger::default();
    let options = ServeOptions { model: Some("m".into()), key, ledger: ledger.clone() };
    let scripts =
        rules("  - { name: any, respond: well, expect: { stream: false, lacks: [secret], messages_at_most: 1 } }\n");
    with_server(scripts, options, async |http, url| {
        let send = async |key: &str, path: &str, body: &Value| {
            let request = http.post(format!("{url}/v1/{path}")).header("authorization", format!("Bearer {key}"));
            let response = request.json(body).send().await.unwrap();
            (response.status().as_u16(), response.json::<Value>().await.unwrap())
        };
        let path = "chat/completions";
        assert_eq!(post(http, url, &ask("x")).await.status(), 401);
        let (status, wrong) = send("sk-other-2", path, &ask("x")).await;
        assert_eq!((status, &wrong["error"]["code"]), (401, &json!("invalid_api_key")));
        let mut other = ask("x");
        other["model"] = json!("other");
        let (status, unknown) = send("sk-scripted-1", path, &other).await;
        assert_eq!((status, &unknown["error"]["code"]), (404, &json!("model_not_found")));
        for body in [ask("my secret"), ask_streamed("x")] {
            let (status, violation) = send("sk-scripted-1", path, &body).await;
            let error = &violation["error"];
            assert_eq!((status, &error["code"]), (400, &json!("expectation_violated")));
            assert!(error["message"].as_str().unwrap().contains("script `test`, rule `any`"), "{error}");
        }
        let (status, well) = send("sk-scripted-1", path, &ask("x")).await;
        assert_eq!((status, &well["choices"][0]["message"]["content"]), (200, &json!("well")));
        let models = http.get(format!("{url}/v1/models")).send().await.unwrap().json::<Value>().await.unwrap();
        assert_eq!(models["data"][0]["id"], "m");
        assert_eq!(http.get(format!("{url}/v1/models/m")).send().await.unwrap().status(), 200);
        assert_eq!(http.get(format!("{url}/v1/models/a/b")).send().await.unwrap().status(), 404);
        let requests = http.get(format!("{url}/__requests")).send().await.unwrap().text().await.unwrap();
        assert!(!requests.contains("sk-") && requests.contains("my secret"), "{requests}");
        let statuses: Vec<u16> = ledger.entries().iter().map(|entry| entry.status).collect();
        assert_eq!(statuses, [401, 401, 404, 400, 400, 200]);
    })
    .await;
}

#[tokio::test]
async fn what_became_of_an_answer_is_noted_and_a_stop_ends_what_stalls() {
    let scripts = rules(
        "  - { name: stall, when: { request: stall }, respond: abc, fault: { stall_after: 1 } }
  - { name: break, when: { request: break }, respond: abc, fault: { break_after: 1 } }
  - { name: late, when: { request: late }, respond: abc, pace: { first_delay_ms: 600000 } }
  - { name: any, respond: abc }\n",
    );
    let ledger = Ledger::default();
    let options = ServeOptions { ledger: ledger.clone(), ..ServeOptions::default() };
    with_server(scripts, options, async |http, url| {
        let became = async |rule: &'static str, way: Way| {
            let fits = |entry: &Entry| entry.rule.as_deref() == Some(rule) && entry.way == way;
            timeout(PATIENCE, ledger.until(fits)).await.unwrap()
        };
        assert!(post(http, url, &ask_streamed("any")).await.text().await.unwrap().ends_with("data: [DONE]\n\n"));
        became("any", Way::Sent).await;
        assert!(post(http, url, &ask_streamed("break")).await.text().await.is_err());
        became("break", Way::Broken).await;
        // The client leaves in the middle of a stream, and before an answer.
        let mut stalled = post(http, url, &ask_streamed("stall")).await;
        assert!(stalled.chunk().await.unwrap().is_some());
        drop(stalled);
        became("stall", Way::Broken).await;
        let late = timeout(Duration::from_millis(50), post(http, url, &ask_streamed("late"))).await;
        assert!(late.is_err());
        became("late", Way::Left).await;
        for n in 0..LEDGER_ENTRIES {
            post(http, url, &ask(&format!("any {n}"))).await;
        }
        assert_eq!((ledger.entries().len(), ledger.count()), (LEDGER_ENTRIES, LEDGER_ENTRIES as u64 + 4));
        // Left open: the server's stop has to end it.
        let open = post(http, url, &ask_streamed("stall")).await;
        std::mem::forget(open);
    })
    .await;
}

fn request(text: &str) -> ModelRequest {
    let model = ModelRef { provider: Provider::Demo, name: "scripted".into() };
    ModelRequest::new(model, vec![PromptMessage::new(Speaker::User, text)])
}

#[tokio::test(start_paused = true)]
async fn in_process_delays_are_kept_on_a_clock_that_can_be_paused() {
    let scripts = rules(
        "  - name: slow
    pace: { chunk: 2, delay_ms: 1000, first_delay_ms: 5000 }
    respond: [{ text: abcd }, { pause_ms: 7000 }, { text: e }]\n",
    );
    let model = in_process(scripts);
    let start = Instant::now();
    let mut stream = model.stream(request("x")).await.unwrap();
    let mut seen = Vec::new();
    while let Some(piece) = stream.next().await {
        if let ModelEvent::Text(text) = piece.unwrap() {
            seen.push((text, start.elapsed().as_secs()));
        }
    }
    assert_eq!(seen, [("ab".into(), 5), ("cd".into(), 6), ("e".into(), 14)]);
}

#[tokio::test(start_paused = true)]
async fn in_process_silence_has_the_limits_of_a_local_server() {
    let scripts = rules(
        "  - { name: late, when: { request: late }, respond: abc, pace: { first_delay_ms: 3600000 } }
  - { name: stall, respond: abc, fault: { stall_after: 2 } }\n",
    );
    let model = in_process(scripts).with_limits(&Limits { model_idle_ms: 60_000, ..Limits::default() });
    let start = Instant::now();
    let late = model.stream(request("late")).await.err().unwrap();
    assert_eq!((late.kind, start.elapsed().as_secs()), (ModelErrorKind::Network, 600));
    let pieces: Vec<_> = model.stream(request("stall")).await.unwrap().collect().await;
    assert!(
        matches!(&pieces[..], [Ok(ModelEvent::Text(text)), Err(error)] if text == "ab" && error.kind == ModelErrorKind::Network)
    );
    assert_eq!(start.elapsed().as_secs(), 660);
}

proptest! {
    /// What a person typed reaches an answer only as words, wherever a script puts it (lessons.md, "Output").
    #[test]
    fn a_hostile_request_cannot_break_out_of_a_file(request_text in "(\\PC|[\"'`\\\\<>/{}$@\n\r\t]|</file>|@@title@@|\\*/){1,200}") {
        let scripts = rules("  - { name: any, respond: [{ file: a.js, content: '/* @@words@@ */ t = @@title_json@@;' }], omit_usage: true }\n");
        let model = in_process(scripts);
        let fence = "`".repeat(request_text.len() + 3);
        let prompt = format!("# Request\n{fence}\n{request_text}\n{fence}\n");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let pieces: Vec<_> = runtime.block_on(async { model.stream(request(&prompt)).await.unwrap().collect().await });
        let text: String = pieces.into_iter().filter_map(|piece| match piece.unwrap() {
            ModelEvent::Text(text) => Some(text),
            _ => None,
        }).collect();
        let inner = text.strip_prefix("<file path=\"a.js\">\n/* ").and_then(|text| text.strip_suffix("\";\n</file>\n")).unwrap();
        let (words, title) = inner.split_once(" */ t = \"").unwrap();
        let harmless = |text: &str| text.chars().all(|char| char.is_alphanumeric() || char == ' ');
        prop_assert!(harmless(words) && harmless(title), "{text}");
    }
}

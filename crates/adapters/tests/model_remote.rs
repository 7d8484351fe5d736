//! The client of models against servers that are written byte by byte: what it sends, how long it waits, what it gives up.
#![expect(clippy::unwrap_used, reason = "a test; clippy sees tests only where `#[test]` stands")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use adapters::model::{Remote, RemoteConfig, Secret};
use contract::Limits;
use contract::event::{ModelRef, Provider};
use futures::StreamExt as _;
use runtime::ports::model::{
    Effort, Model, ModelError, ModelErrorKind, ModelEvent, ModelFinish, ModelRequest, PromptMessage, RateLimit,
    RateScope, Speaker,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

const KEY: &str = "sk-test-0123456789";

/// Long enough for a slow machine; nothing waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(20);

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    (listener, url)
}

fn model_of(provider: Provider, base_url: &str, limits: Limits) -> Remote {
    let config =
        RemoteConfig { provider, base_url: base_url.into(), key: Secret::new(KEY), model: "m-1".into(), limits };
    Remote::new(config).unwrap()
}

fn model_with(base_url: &str, limits: Limits) -> Remote {
    model_of(Provider::Compatible, base_url, limits)
}

fn model(base_url: &str) -> Remote {
    model_with(base_url, Limits::default())
}

fn question() -> ModelRequest {
    let model = ModelRef { provider: Provider::Compatible, name: "m-1".into() };
    let messages = vec![PromptMessage::new(Speaker::System, "be good"), PromptMessage::new(Speaker::User, "hi\n")];
    ModelRequest::new(model, messages)
}

/// Asks and gives all pieces.
async fn ask(model: &Remote) -> Result<Vec<ModelEvent>, ModelError> {
    timeout(PATIENCE, async { model.stream(question()).await?.collect::<Vec<_>>().await.into_iter().collect() })
        .await
        .unwrap()
}

/// Reads one request, head and body.
async fn read_request(connection: &mut TcpStream) -> (String, Value) {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse::<usize>().unwrap();
            if body.len() >= length {
                return (head, serde_json::from_str(body).unwrap());
            }
        }
        if connection.read_buf(&mut bytes).await.unwrap() == 0 {
            panic!("the client left in the middle of its request: {text}");
        }
    }
}

/// Takes one request, answers these bytes, and closes.
async fn answer(listener: &TcpListener, bytes: &str) -> (String, Value) {
    let (mut connection, _) = listener.accept().await.unwrap();
    let request = read_request(&mut connection).await;
    connection.write_all(bytes.as_bytes()).await.unwrap();
    connection.shutdown().await.unwrap();
    request
}

/// A response that ends when the connection does.
fn response(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n{body}")
}

const STREAM: &str = "content-type: text/event-stream\r\n";
const DELTA: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
const END: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

#[tokio::test]
async fn a_request_is_what_the_vendor_documents() {
    let (listener, url) = listen().await;
    let model = model(&url);
    let reply = response("200 OK", STREAM, &format!("{DELTA}{END}"));
    let ((head, body), pieces) = tokio::join!(answer(&listener, &reply), ask(&model));
    assert_eq!(pieces.unwrap(), [ModelEvent::Text("a".into()), ModelEvent::Finish(ModelFinish::Stop)]);
    assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{head}");
    for line in [&format!("authorization: bearer {KEY}"), "content-type: application/json"] {
        assert!(head.lines().any(|sent| sent == line), "{line} is not in {head}");
    }
    let messages = json!([{"role": "system", "content": "be good"}, {"role": "user", "content": "hi\n"}]);
    let expected =
        json!({"model": "m-1", "stream": true, "stream_options": {"include_usage": true}, "messages": messages});
    assert_eq!(body, expected);
}

#[tokio::test]
async fn a_server_without_usage_in_streams_is_asked_without() {
    let (listener, url) = listen().await;
    let model = model(&url);
    let refusal =
        response("422 Unprocessable Entity", "", r#"{"detail":[{"loc":["body","stream_options"],"msg":"extra"}]}"#);
    let reply = response("200 OK", STREAM, &format!("{DELTA}{END}"));
    let server = async {
        answer(&listener, &refusal).await;
        answer(&listener, &reply).await.1
    };
    let (body, pieces) = tokio::join!(server, ask(&model));
    assert_eq!((body.get("stream_options"), pieces.unwrap().len()), (None, 2));
}

/// Plays `bytes`, then keeps the connection open until the client leaves; gives whether it did.
async fn answer_and_stall(listener: &TcpListener, bytes: &str) -> bool {
    let (mut connection, _) = listener.accept().await.unwrap();
    read_request(&mut connection).await;
    connection.write_all(bytes.as_bytes()).await.unwrap();
    let left = timeout(PATIENCE, connection.read(&mut [0; 16])).await.unwrap();
    matches!(left, Ok(0) | Err(_))
}

#[tokio::test]
async fn silence_has_a_limit_before_the_first_piece_and_another_after_it() {
    let limits = Limits { model_first_byte_local_ms: 90, model_idle_ms: 40, ..Limits::default() };
    let head = response("200 OK", STREAM, "");
    let table = [
        (String::new(), "nothing for 0.09 s"),
        (head.clone(), "nothing for 0.09 s"),
        (format!("{head}: alive\n\ndata: {{\"choices\":[]}}\n\n"), "nothing for 0.09 s"),
        (format!("{head}{DELTA}"), "nothing for 0.04 s"),
    ];
    for (bytes, words) in table {
        let (listener, url) = listen().await;
        let model = model_with(&url, limits.clone());
        let (left, pieces) = tokio::join!(answer_and_stall(&listener, &bytes), ask(&model));
        let error = pieces.unwrap_err();
        assert_eq!((left, error.kind), (true, ModelErrorKind::Network), "{bytes}");
        assert!(error.message.contains(words), "{bytes}: {}", error.message);
    }
}

#[tokio::test]
async fn an_answer_whose_end_was_told_is_whole_though_the_connection_stays() {
    let (listener, url) = listen().await;
    let model = model_with(&url, Limits { model_idle_ms: 40, ..Limits::default() });
    let told = format!("{DELTA}data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"length\"}}]}}\n\n");
    let reply = response("200 OK", STREAM, &told);
    let (_, pieces) = tokio::join!(answer_and_stall(&listener, &reply), ask(&model));
    assert_eq!(pieces.unwrap(), [ModelEvent::Text("a".into()), ModelEvent::Finish(ModelFinish::Length)]);
}

#[tokio::test]
async fn connecting_has_its_own_limit() {
    // A listener that accepts nobody, its queue full: the next connection attempt gets no answer.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    while let Ok(connection) = timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
        queue.push(connection.unwrap());
    }
    let model = model_with(&format!("http://{address}/v1"), Limits { model_connect_ms: 50, ..Limits::default() });
    let error = ask(&model).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Network);
    assert!(error.message.contains("within 0.05 s"), "{}", error.message);
}

#[tokio::test]
async fn where_nothing_listens_the_error_asks_whether_the_server_runs() {
    let (listener, url) = listen().await;
    drop(listener);
    let error = ask(&model(&url)).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Network);
    assert!(error.message.contains(&url) && error.message.contains("is it running?"), "{}", error.message);
}

#[tokio::test]
async fn dropping_a_call_closes_its_connection() {
    let (listener, url) = listen().await;
    let model = model(&url);
    let head = response("200 OK", STREAM, DELTA);
    let client = async {
        let mut stream = model.stream(question()).await.unwrap();
        let first = stream.next().await.unwrap().unwrap();
        assert_eq!(first, ModelEvent::Text("a".into()));
    };
    let (left, ()) = tokio::join!(answer_and_stall(&listener, &head), client);
    assert!(left, "in the middle of the stream");
    let client = async { assert!(timeout(Duration::from_millis(50), model.stream(question())).await.is_err()) };
    let (left, ()) = tokio::join!(answer_and_stall(&listener, ""), client);
    assert!(left, "before the answer began");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (listener, url) = listen().await;
    let (other, other_url) = listen().await;
    let model = model(&url);
    let reply = response("307 Temporary Redirect", &format!("location: {other_url}/chat/completions?k={KEY}\r\n"), "");
    let (_, pieces) = tokio::join!(answer(&listener, &reply), ask(&model));
    let error = pieces.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::BadRequest);
    assert!(error.message.contains("redirects") && !error.message.contains(KEY), "{}", error.message);
    assert!(timeout(Duration::from_millis(20), other.accept()).await.is_err(), "the key went elsewhere");
}

const EVERY: [Provider; 4] = [Provider::Openai, Provider::Anthropic, Provider::Gemini, Provider::Compatible];

/// Everything that was logged while it is held, whatever the level.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Logged {
    fn begin() -> (Self, tracing::subscriber::DefaultGuard) {
        let logged = Self::default();
        let writer = logged.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter("trace")
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (logged, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

/// E2: whatever a server does with the key, nothing that a failing call produces holds it: no error, no log of any level.
#[tokio::test]
async fn a_server_that_echoes_the_key_does_not_get_it_into_an_error_or_a_log() {
    let echo = format!("Authorization: Bearer {KEY}");
    let began = |provider| match provider {
        Provider::Openai => "data: {\"type\":\"response.created\"}\n\n",
        Provider::Anthropic => "data: {\"type\":\"message_start\"}\n\n",
        Provider::Gemini => "data: {\"candidates\":[]}\n\n",
        Provider::Compatible | Provider::Demo => DELTA,
    };
    let (logged, _guard) = Logged::begin();
    for provider in EVERY {
        let began = began(provider);
        let within = |data: String| response("200 OK", STREAM, &format!("{began}{data}"));
        let table = [
            response("401 Unauthorized", "", &format!(r#"{{"error":{{"message":"{echo}"}}}}"#)),
            response("404 Not Found", "", &echo),
            response("500 Internal Server Error", "", &format!("{}{KEY}", "x".repeat(390))),
            response(&format!("500 {KEY}"), &format!("x-key: {KEY}\r\n"), &echo),
            within(format!("event: error\ndata: {echo}\n\n")),
            within(format!("data: {{\"error\":\"{echo}\"}}\n\n")),
            within(format!("data: {{\"type\":\"error\",\"error\":{{\"type\":\"{KEY}\",\"message\":\"{echo}\"}}}}\n\n")),
            within(format!(
                "data: {{\"type\":\"response.failed\",\"response\":{{\"error\":{{\"message\":\"{echo}\"}}}}}}\n\n"
            )),
            within(format!("data: {{\"promptFeedback\":{{\"blockReason\":\"{KEY}\"}}}}\n\n")),
            within(format!("data: {echo}\n\n")),
            format!("HTTP/1.1 {KEY}\r\n{echo}\r\n\r\n"),
        ];
        for reply in table {
            let (listener, url) = listen().await;
            let model = model_of(provider, &url, Limits::default());
            let (_, pieces) = tokio::join!(answer(&listener, &reply), ask(&model));
            let error = pieces.unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains(KEY) && !shown.contains("sk-test"), "{provider:?}: {shown}");
        }
        // Nor where nobody answers, or where what is configured cannot work.
        let (listener, url) = listen().await;
        drop(listener);
        let error = ask(&model_of(provider, &url, Limits::default())).await.unwrap_err();
        assert!(!format!("{error:?}").contains("sk-test"));
    }
    let logged = logged.text();
    assert!(logged.contains("reqwest") || logged.contains("hyper"), "the libraries' logs are looked at too");
    assert!(!logged.contains(KEY) && !logged.contains("sk-test"), "{logged}");
}

#[tokio::test]
async fn each_vendor_is_asked_at_its_address_with_its_headers() {
    let table = [
        (Provider::Openai, "post /v1/responses http/1.1", format!("authorization: bearer {KEY}")),
        (Provider::Anthropic, "post /v1/messages http/1.1", format!("x-api-key: {KEY}")),
        (
            Provider::Gemini,
            "post /v1/models/m-1:streamgeneratecontent?alt=sse http/1.1",
            format!("x-goog-api-key: {KEY}"),
        ),
        (Provider::Compatible, "post /v1/chat/completions http/1.1", format!("authorization: bearer {KEY}")),
    ];
    for (provider, line, key) in table {
        let (listener, url) = listen().await;
        let model = model_of(provider, &url, Limits::default());
        let reply = response("500 Internal Server Error", "", "");
        let ((head, _), _) = tokio::join!(answer(&listener, &reply), ask(&model));
        assert_eq!(head.lines().next(), Some(line));
        assert_eq!(head.matches(KEY).count(), 1, "{head}");
        assert!(head.lines().any(|sent| sent == key), "{head}");
        assert_eq!(head.contains("anthropic-version: 2026-10-21"), provider == Provider::Anthropic, "{head}");
    }
}

/// A field that a model does not know costs a second request, not the run.
#[tokio::test]
async fn what_a_model_does_not_know_it_is_asked_without() {
    let (listener, url) = listen().await;
    let model = model_of(Provider::Openai, &url, Limits::default());
    let refusal = |param: &str| {
        let body = json!({"error": {"message": format!("Unsupported parameter: '{param}'"), "param": param}});
        response("400 Bad Request", "", &body.to_string())
    };
    let mut request = question();
    request.options.temperature = Some(0.0);
    request.options.effort = Some(Effort::Low);
    let server = async {
        answer(&listener, &refusal("temperature")).await;
        let (_, second) = answer(&listener, &refusal("reasoning.summary")).await;
        let (_, third) = answer(&listener, &refusal("reasoning.effort")).await;
        let (_, fourth) = answer(&listener, &refusal("temperature")).await;
        (second, third, fourth)
    };
    let asked = async { tokio::join!(server, model.stream(request)) };
    let ((second, third, fourth), error) = timeout(PATIENCE, asked).await.unwrap();
    assert_eq!((second.get("temperature"), &second["reasoning"]["summary"]), (None, &json!("auto")));
    assert_eq!(third["reasoning"], json!({"effort": "low"}));
    assert_eq!(fourth.get("reasoning"), None);
    assert_eq!(error.err().unwrap().kind, ModelErrorKind::BadRequest, "and no more than once for each");
    assert!(timeout(Duration::from_millis(20), listener.accept()).await.is_err(), "nobody asks again");
}

/// E23: what the headers tell of limits comes before the answer.
#[tokio::test]
async fn what_is_left_of_a_limit_is_told_first() {
    let (listener, url) = listen().await;
    let model = model(&url);
    let headers =
        "x-ratelimit-limit-requests: 60\r\nx-ratelimit-remaining-requests: 59\r\nx-ratelimit-reset-requests: 1s\r\n";
    let reply = response("200 OK", &format!("{STREAM}{headers}"), &format!("{DELTA}{END}"));
    let (_, pieces) = tokio::join!(answer(&listener, &reply), ask(&model));
    let limit = RateLimit { scope: RateScope::Requests, limit: Some(60), remaining: Some(59), reset_ms: Some(1_000) };
    assert_eq!(pieces.unwrap()[0], ModelEvent::RateLimit(limit));
}

/// E2: a cheap call tells whether the key is one.
#[tokio::test]
async fn a_key_is_confirmed_without_asking_the_model_anything() {
    let table = [
        (Provider::Openai, "get /v1/models/m-1 "),
        (Provider::Anthropic, "get /v1/models/m-1 "),
        (Provider::Gemini, "get /v1/models/m-1 "),
        (Provider::Compatible, "get /v1/models "),
    ];
    for (provider, line) in table {
        for (status, expected) in [("200 OK", None), ("401 Unauthorized", Some(ModelErrorKind::Auth))] {
            let (listener, url) = listen().await;
            let model = model_of(provider, &url, Limits::default());
            let server = async {
                let (mut connection, _) = listener.accept().await.unwrap();
                let mut head = vec![0; 4096];
                let read = connection.read(&mut head).await.unwrap();
                connection.write_all(response(status, "", "{}").as_bytes()).await.unwrap();
                connection.shutdown().await.unwrap();
                String::from_utf8_lossy(&head[..read]).to_ascii_lowercase()
            };
            let (head, confirmed) = tokio::join!(server, model.confirm());
            assert!(head.starts_with(line) && head.contains(KEY), "{head}");
            assert_eq!(confirmed.err().map(|error| error.kind), expected, "{provider:?}");
        }
    }
}

#[tokio::test]
async fn errors_come_with_their_kind_and_the_time_to_wait() {
    let date = "date: Tue, 15 Nov 1994 08:12:31 GMT\r\nretry-after: Tue, 15 Nov 1994 08:12:34 GMT\r\n";
    let table = [
        ("429 Too Many Requests", "retry-after: 7\r\n", ModelErrorKind::Rate, Some(7_000)),
        ("503 Service Unavailable", date, ModelErrorKind::Overload, Some(3_000)),
        ("404 Not Found", "", ModelErrorKind::BadRequest, None),
    ];
    for (status, headers, kind, retry_after_ms) in table {
        let (listener, url) = listen().await;
        let model = model(&url);
        let reply = response(status, headers, "<h1>no</h1>");
        let (_, pieces) = tokio::join!(answer(&listener, &reply), ask(&model));
        let error = pieces.unwrap_err();
        assert_eq!((error.kind, error.retry_after_ms), (kind, retry_after_ms), "{}", error.message);
    }
}

#[tokio::test]
async fn an_error_whose_body_never_ends_is_read_to_its_limit() {
    let (listener, url) = listen().await;
    let model = model(&url);
    let reply = response("500 Internal Server Error", "", "x");
    let server = async {
        let (mut connection, _) = listener.accept().await.unwrap();
        read_request(&mut connection).await;
        connection.write_all(reply.as_bytes()).await.unwrap();
        while connection.write_all(&[b'x'; 4096]).await.is_ok() {}
    };
    let ((), pieces) = tokio::join!(server, ask(&model));
    assert_eq!(pieces.unwrap_err().kind, ModelErrorKind::Overload);
}

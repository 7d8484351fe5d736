//! The OpenAI-compatible client against servers that are written byte by byte: what it sends, how long it waits, what it gives up.
#![expect(clippy::unwrap_used, reason = "a test; clippy sees tests only where `#[test]` stands")]

use std::time::Duration;

use adapters::model::{Compatible, CompatibleConfig, Secret};
use contract::Limits;
use contract::event::{ModelRef, Provider};
use futures::StreamExt as _;
use runtime::ports::model::{
    Model, ModelError, ModelErrorKind, ModelEvent, ModelFinish, ModelRequest, PromptMessage, Speaker,
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

fn model_with(base_url: &str, limits: Limits) -> Compatible {
    let config = CompatibleConfig { base_url: base_url.into(), key: Secret::new(KEY), model: "m-1".into(), limits };
    Compatible::new(config).unwrap()
}

fn model(base_url: &str) -> Compatible {
    model_with(base_url, Limits::default())
}

fn question() -> ModelRequest {
    let message = |speaker, text: &str| PromptMessage { speaker, text: text.into() };
    let model = ModelRef { provider: Provider::Compatible, name: "m-1".into() };
    ModelRequest { model, messages: vec![message(Speaker::System, "be good"), message(Speaker::User, "hi\n")] }
}

/// Asks and gives all pieces.
async fn ask(model: &Compatible) -> Result<Vec<ModelEvent>, ModelError> {
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

#[tokio::test]
async fn a_server_that_echoes_the_key_does_not_get_it_into_an_error() {
    let echo = format!("Authorization: Bearer {KEY}");
    let table = [
        response("401 Unauthorized", "", &format!(r#"{{"error":{{"message":"{echo}"}}}}"#)),
        response("404 Not Found", "", &echo),
        response("500 Internal Server Error", "", &format!("{}{KEY}", "x".repeat(390))),
        response(&format!("500 {KEY}"), &format!("x-key: {KEY}\r\n"), &echo),
        response("200 OK", STREAM, &format!("{DELTA}event: error\ndata: {echo}\n\n")),
        response("200 OK", STREAM, &format!("{DELTA}data: {{\"error\":\"{echo}\"}}\n\n")),
        response("200 OK", STREAM, &format!("{DELTA}data: {echo}\n\n")),
        format!("HTTP/1.1 {KEY}\r\n{echo}\r\n\r\n"),
    ];
    for reply in table {
        let (listener, url) = listen().await;
        let model = model(&url);
        let (_, pieces) = tokio::join!(answer(&listener, &reply), ask(&model));
        let error = pieces.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(KEY) && !shown.contains("sk-test"), "{shown}");
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

//! Answers of servers of chat completions, as recorded or as their sources write them, in every chunking; and what is no answer.

use super::*;

/// An answer in short: `T` text, `R` reasoning, `U` usage, `F` finish, `E` error.
fn short(pieces: Pieces) -> Vec<String> {
    let short = |piece: Result<ModelEvent, ModelError>| match piece {
        Ok(ModelEvent::Text(text)) => format!("T {text}"),
        Ok(ModelEvent::Reasoning(text)) => format!("R {text}"),
        Ok(ModelEvent::Usage(TokenCount { input, cached, output, reasoning })) => {
            format!("U {input} {cached} {output} {reasoning}")
        }
        Ok(ModelEvent::RateLimit(limit)) => format!("L {limit:?}"),
        Ok(ModelEvent::Finish(finish)) => format!("F {finish:?}"),
        Err(error) => format!("E {:?}", error.kind),
    };
    pieces.into_iter().map(short).collect()
}

fn read(wire: Wire, pieces: &[&[u8]]) -> Vec<String> {
    let mut out = Pieces::new();
    let mut answer = Answer::new(wire, None);
    for piece in pieces {
        answer.push(piece, &mut out);
    }
    answer.end(&mut out);
    short(out)
}

pub(super) fn read_in_every_chunking(format: Wire, wire: &str) -> Vec<String> {
    let bytes = wire.as_bytes();
    let whole = read(format, &[bytes]);
    assert_eq!(read(format, &bytes.chunks(1).collect::<Vec<_>>()), whole, "byte by byte: {wire}");
    for cut in 0..=bytes.len() {
        let (before, after) = bytes.split_at(cut);
        assert_eq!(read(format, &[before, after]), whole, "cut at {cut}: {wire}");
    }
    whole
}

const OPENAI: &str = concat!(
    r#"data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}],"usage":null}"#,
    "\n\n",
    r#"data: {"id":"c1","choices":[{"index":0,"delta":{"content":"  \n"},"finish_reason":null}],"usage":null}"#,
    "\n\n",
    r#"data: {"id":"c1","choices":[{"index":0,"delta":{"content":"Grüße \ud83d\ude80"},"finish_reason":null}],"usage":null}"#,
    "\n\n",
    r#"data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}"#,
    "\n\n",
    r#"data: {"id":"c1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":3}}}"#,
    "\n\ndata: [DONE]\n\n",
);

const OPENROUTER: &str = concat!(
    ": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n",
    r#"data: {"provider":"X","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm"}]},"finish_reason":null,"native_finish_reason":null}]}"#,
    "\n\n",
    r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"ok"},"finish_reason":null}]}"#,
    "\n\n",
    r#"data: {"error":{"code":429,"message":"Provider returned error","metadata":{"raw":"slow down","provider_name":"X"}},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}"#,
    "\n\ndata: [DONE]\n\n",
);

const VLLM_WITHOUT_DONE: &str = concat!(
    "\u{feff}\r\n",
    r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"a","content":null},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":5,"total_tokens":6,"completion_tokens":1}}"#,
    "\r\n\r\n",
    r#"data: {"choices":[{"index":0,"delta":{"content":"b","tool_calls":[]},"finish_reason":"length","stop_reason":null}],"usage":{"prompt_tokens":5,"total_tokens":7,"completion_tokens":2}}"#,
    "\r\n\r\n",
);

const PARTS: &str = concat!(
    r#"data: {"choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}}]}"#,
    "\n\n",
    r#"data: {"choices":[{"index":1,"delta":{"content":"another choice"}},{"index":0,"delta":{"content":[{"type":"text","text":"ok"},{"type":"image"}]}}]}"#,
    "\n\n",
    r#"data: {"choices":[{"index":0,"delta":{"refusal":"no"},"finish_reason":""}]}"#,
    "\n\ndata: [DONE]",
    "\n",
);

const DOCUMENT: &str = r#"

  {"id":"c2","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":" all\n","reasoning":"hm"},
   "finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#;

#[test]
fn real_servers_are_understood_in_every_chunking() {
    let table: [(&str, &[&str]); 10] = [
        (OPENAI, &["T   \n", "T Grüße 🚀", "U 9 4 7 3", "F Stop"]),
        (OPENROUTER, &["R hm", "T ok", "E Rate"]),
        (VLLM_WITHOUT_DONE, &["R a", "U 5 0 1 0", "T b", "U 5 0 2 0", "F Length"]),
        (PARTS, &["R hm", "T ok", "T no", "F Stop"]),
        (DOCUMENT, &["R hm", "T  all\n", "U 1 0 2 0", "F Stop"]),
        (r#"{"error":{"message":"no such model","type":"invalid_request_error","code":404}}"#, &["E BadRequest"]),
        (r#"[{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED"}}]"#, &["E Rate"]),
        ("event: error\ndata: {\"message\": \"the context window is full\"}\n\n", &["E Context"]),
        ("data: {\"object\":\"error\",\"message\":\"x\",\"code\":400}\n\n", &["E BadRequest"]),
        ("<!doctype html><p>data: no</p>", &["E BadRequest"]),
    ];
    for (wire, expected) in table {
        assert_eq!(read_in_every_chunking(Wire::Chat, wire), expected, "{wire}");
    }
}

#[test]
fn what_is_cut_off_or_is_no_answer_is_an_error_and_never_an_end() {
    let delta = r#"data: {"choices":[{"delta":{"content":"a"}}]}"#;
    let table: [(String, &[&str]); 9] = [
        (String::new(), &["E Protocol"]),
        (" \n\n".into(), &["E Protocol"]),
        (": only comments\n\n".into(), &["E Protocol"]),
        ("data: [DONE]\n\n".into(), &["E Protocol"]),
        (format!("{delta}\n\n"), &["T a", "E Network"]),
        (format!("{delta}\n\ndata: {{\"choices\":[{{\"delta\":{{\"content\":\"b"), &["T a", "E Network"]),
        (format!("{delta}\n\ndata: {{\"choices\":\n\n{delta}\n\n"), &["T a", "E Protocol"]),
        (r#"{"choices":[{"message":{"content":"a"#.into(), &["E Protocol"]),
        (format!("data: {}\n\n{delta}\n\n", "x".repeat(EVENT_BYTES)), &["E Protocol"]),
    ];
    for (wire, expected) in table {
        let read = if wire.len() < 1000 {
            read_in_every_chunking(Wire::Chat, &wire)
        } else {
            read(Wire::Chat, &[wire.as_bytes()])
        };
        assert_eq!(read, expected, "{:.100}", wire);
    }
}

#[test]
fn a_break_after_the_told_end_loses_nothing_and_one_before_is_an_error() {
    let said = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    let told = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    for (wire, expected) in [(said.to_owned(), ["T a", "E Network"]), (format!("{said}{told}"), ["T a", "F Stop"])] {
        let mut out = Pieces::new();
        let mut answer = Answer::new(Wire::Chat, None);
        answer.push(wire.as_bytes(), &mut out);
        answer.broken(network("gone".into()), &mut out);
        answer.push(said.as_bytes(), &mut out);
        assert_eq!(short(out), expected);
    }
}

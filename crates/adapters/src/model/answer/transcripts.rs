//! Transcripts of the three other formats, written after the vendors' documentation (the event types of their references and of
//! their official clients), in every chunking (E6, E23).

use super::super::wire::Wire;
use super::tests::read_in_every_chunking;

fn named(events: &[&str]) -> String {
    let lines = events.iter().map(|event| {
        let name = event.split('"').nth(3).unwrap();
        format!("event: {name}\ndata: {event}\n\n")
    });
    lines.collect()
}

fn nameless(events: &[&str]) -> String {
    events.iter().map(|event| format!("data: {event}\r\n\r\n")).collect()
}

fn hold(wire: Wire, table: &[(&str, String, &[&str])]) {
    for (what, transcript, expected) in table {
        assert_eq!(read_in_every_chunking(wire, transcript), *expected, "{what}");
    }
}

const CREATED: &str = r#"{"type":"response.created","response":{"id":"resp_1","object":"response","status":"in_progress","error":null,"output":[],"usage":null},"sequence_number":0}"#;
const IN_PROGRESS: &str =
    r#"{"type":"response.in_progress","response":{"id":"resp_1","status":"in_progress"},"sequence_number":1}"#;
const ITEM: &str = r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]},"sequence_number":2}"#;
const TEXT_1: &str = r#"{"type":"response.output_text.delta","item_id":"m","output_index":1,"content_index":0,"delta":" \n","logprobs":[],"sequence_number":9}"#;
const TEXT_2: &str = r#"{"type":"response.output_text.delta","item_id":"m","output_index":1,"content_index":0,"delta":"Gr\u00fc\u00dfe 🚀","logprobs":[],"sequence_number":10}"#;
const USAGE: &str = r#""usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":16}"#;

#[test]
fn responses_are_understood_in_every_chunking() {
    let completed = format!(
        r#"{{"type":"response.completed","response":{{"id":"resp_1","status":"completed","output":[{{"type":"message","content":[{{"type":"output_text","text":"not again"}}]}}],{USAGE}}},"sequence_number":14}}"#
    );
    let incomplete = |reason: &str| {
        format!(
            r#"{{"type":"response.incomplete","response":{{"status":"incomplete","incomplete_details":{{"reason":"{reason}"}},{USAGE}}}}}"#
        )
    };
    let summary = [
        r#"{"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""},"sequence_number":3}"#,
        r#"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"**One**","sequence_number":4}"#,
        r#"{"type":"response.reasoning_summary_text.done","item_id":"rs_1","output_index":0,"summary_index":0,"text":"**One**","sequence_number":5}"#,
        r#"{"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":1,"part":{"type":"summary_text","text":""},"sequence_number":6}"#,
        r#"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":1,"delta":"Two","sequence_number":7}"#,
        r#"{"type":"response.some_event.of_next_year","delta":"not text","obfuscation":"x"}"#,
    ];
    let [whole, cut, filtered] = [completed, incomplete("max_output_tokens"), incomplete("content_filter")]
        .map(|end| named(&[&[CREATED, IN_PROGRESS, ITEM][..], &summary, &[TEXT_1, TEXT_2, end.as_str()]].concat()));
    let said = ["R **One**", "R \n\n", "R Two", "T  \n", "T Grüße 🚀", "U 9 4 7 3"];
    let with = |end| [&said[..], &[end]].concat();
    let failed = r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow down"},"usage":null}}"#;
    let error = r#"{"type":"error","code":"server_error","message":"x","param":null,"sequence_number":3}"#;
    let refusal =
        r#"{"type":"response.refusal.delta","item_id":"m","output_index":0,"content_index":0,"delta":"I cannot."}"#;
    hold(
        Wire::Responses,
        &[
            ("whole", whole, &with("F Stop")),
            ("cut by its limit", cut, &with("F Length")),
            ("filtered", filtered, &with("F ContentFilter")),
            ("failed", named(&[CREATED, TEXT_1, failed]), &["T  \n", "E Rate"]),
            ("an error event", named(&[CREATED, TEXT_1, error]), &["T  \n", "E Overload"]),
            ("without its end", named(&[CREATED, TEXT_1]), &["T  \n", "E Network"]),
            (
                "without its end, whatever stands there",
                named(&[CREATED, TEXT_1]) + "data: [DONE]\n\n",
                &["T  \n", "E Network"],
            ),
            ("cut off before it spoke", named(&[CREATED]), &["E Network"]),
            ("a refusal is text", named(&[CREATED, refusal]), &["T I cannot.", "E Network"]),
            (
                "one document",
                format!(
                    r#"{{"object":"response","status":"completed","error":null,"output":[{{"type":"reasoning","summary":[{{"type":"summary_text","text":"hm"}}]}},{{"type":"message","content":[{{"type":"output_text","text":" a"}}]}}],{USAGE}}}"#
                ),
                &["R hm", "T  a", "U 9 4 7 3", "F Stop"],
            ),
            ("no response", r#"{"ok":true}"#.into(), &["E Protocol"]),
        ],
    );
}

const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":100,"cache_creation_input_tokens":50,"cache_read_input_tokens":400,"output_tokens":1}}}"#;
const TEXT_START: &str = r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#;
const BLANKS: &str = r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"\n  "}}"#;
const HELLO: &str =
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Gr\u00fc\u00dfe 🚀"}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

#[test]
fn messages_are_understood_in_every_chunking() {
    let end = |reason: &str| {
        format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{{"output_tokens":15,"output_tokens_details":{{"thinking_tokens":6}}}}}}"#
        )
    };
    let all = |reason: &str| {
        named(&[
            START,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me see."}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            TEXT_START,
            BLANKS,
            HELLO,
            r#"{"type":"content_block_stop","index":1}"#,
            r#"{"type":"an_event_of_next_year","text":"not text"}"#,
            &end(reason),
            STOP,
        ])
    };
    let said = ["U 550 400 1 0", "R Let me see.", "T \n  ", "T Grüße 🚀", "U 550 400 15 6"];
    let with = |end| [&said[..], &[end]].concat();
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    hold(
        Wire::Messages,
        &[
            ("whole", all("end_turn"), &with("F Stop")),
            ("at a stop sequence", all("stop_sequence"), &with("F Stop")),
            ("cut by its limit", all("max_tokens"), &with("F Length")),
            ("cut by the window", all("model_context_window_exceeded"), &with("F Length")),
            ("refused", all("refusal"), &with("F ContentFilter")),
            (
                "overloaded in the middle",
                named(&[START, TEXT_START, BLANKS, overloaded]),
                &["U 550 400 1 0", "T \n  ", "E Overload"],
            ),
            ("without its end", named(&[START, TEXT_START, BLANKS]), &["U 550 400 1 0", "T \n  ", "E Network"]),
            ("cut off before it spoke", named(&[START]), &["U 550 400 1 0", "E Network"]),
            (
                "one document",
                r#"{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"text","text":" a"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}"#.into(),
                &["R hm", "T  a", "U 3 0 2 0", "F Stop"],
            ),
            ("no message", r#"{"ok":true}"#.into(), &["E Protocol"]),
        ],
    );
}

const THOUGHT: &str = r#"{"candidates":[{"content":{"parts":[{"text":"Let me see.","thought":true}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":10,"totalTokenCount":15,"thoughtsTokenCount":5},"modelVersion":"m","responseId":"r"}"#;
const PART: &str = r#"{"candidates":[{"content":{"parts":[{"text":"\n  "},{"text":"Gr\u00fc\u00dfe 🚀"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":10,"totalTokenCount":15,"thoughtsTokenCount":5}}"#;

#[test]
fn generated_content_is_understood_in_every_chunking() {
    let end = |reason: &str| {
        format!(
            r#"{{"candidates":[{{"content":{{"parts":[{{"text":"","thoughtSignature":"x"}}],"role":"model"}},"finishReason":"{reason}","index":0}}],"usageMetadata":{{"promptTokenCount":10,"cachedContentTokenCount":8,"candidatesTokenCount":4,"thoughtsTokenCount":5,"totalTokenCount":19}}}}"#
        )
    };
    let said = ["R Let me see.", "U 10 0 5 5", "T \n  ", "T Grüße 🚀", "U 10 8 9 5"];
    let all = |reason: &str| nameless(&[THOUGHT, PART, &end(reason)]);
    let with = |end| [&said[..], &[end]].concat();
    let blocked = r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":8,"totalTokenCount":8},"modelVersion":"m"}"#;
    let exhausted = r#"{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED"}}"#;
    hold(
        Wire::Generate,
        &[
            ("whole", all("STOP"), &with("F Stop")),
            ("cut by its limit", all("MAX_TOKENS"), &with("F Length")),
            ("unsafe", all("SAFETY"), &with("F ContentFilter")),
            ("recited", all("RECITATION"), &with("F ContentFilter")),
            ("for a reason of its own", all("OTHER"), &with("E Overload")),
            ("a blocked prompt", nameless(&[blocked]), &["E ContentFilter"]),
            ("an error in the middle", nameless(&[PART, exhausted]), &["T \n  ", "T Grüße 🚀", "U 10 0 5 5", "E Rate"]),
            ("without its end", nameless(&[PART]), &["T \n  ", "T Grüße 🚀", "U 10 0 5 5", "E Network"]),
            ("one document", end("STOP"), &["U 10 8 9 5", "F Stop"]),
            ("one document that was blocked", blocked.into(), &["E ContentFilter"]),
            ("no content", r#"{"ok":true}"#.into(), &["E Protocol"]),
        ],
    );
}

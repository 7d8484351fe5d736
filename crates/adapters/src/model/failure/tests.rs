//! Errors as real servers word them, and what of their words may be shown.

use ModelErrorKind::{Auth, BadRequest, ContentFilter, Context, Overload, Protocol, Quota, Rate};
use proptest::prelude::*;

use super::*;

/// Status (0: within a stream), body, kind.
const ERRORS: &[(u16, &str, ModelErrorKind)] = &[
    (
        401,
        r#"{"error":{"message":"Incorrect API key provided: sk-x.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
        Auth,
    ),
    (403, r#"{"error":{"message":"Country not supported","code":"unsupported_country_region_territory"}}"#, Auth),
    (
        403,
        r#"{"error":{"code":403,"message":"Your input was flagged","metadata":{"reasons":["violence"]}}}"#,
        ContentFilter,
    ),
    (
        429,
        r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        Quota,
    ),
    (402, r#"{"error":{"message":"Insufficient credits","code":402}}"#, Quota),
    (429, r#"{"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded"}}"#, Rate),
    (429, "", Rate),
    (
        400,
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#,
        Context,
    ),
    (
        400,
        r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}"#,
        Context,
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
        Context,
    ),
    (
        400,
        r#"{"error":"Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"}"#,
        Context,
    ),
    (413, "<html><h1>413 Request Entity Too Large</h1>", Context),
    (400, r#"{"error":{"message":"The response was filtered","code":"content_filter"}}"#, ContentFilter),
    (404, r#"{"error":{"message":"model \"llama9\" not found, try pulling it first","type":"api_error"}}"#, BadRequest),
    (422, r#"{"detail":[{"loc":["body","model"],"msg":"field required","type":"value_error.missing"}]}"#, BadRequest),
    (302, "", BadRequest),
    (500, r#"{"error":{"message":"The server had an error","type":"server_error"}}"#, Overload),
    (503, "no healthy upstream", Overload),
    (529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Overload),
    (0, r#"{"error":{"code":"rate_limit_exceeded","message":"x"}}"#, Rate),
    (0, r#"{"error":"something"}"#, Overload),
    (700, "", Protocol),
];

#[test]
fn errors_of_real_servers_are_told_apart() {
    for &(status, body, kind) in ERRORS {
        let error = refused(Refusal { wire: Wire::Chat, status, body }, &|_| None, None);
        assert_eq!(error.kind, kind, "{status} {body}");
        assert!(
            error.message.ends_with(|end: char| !end.is_whitespace()) && !error.message.contains('<'),
            "{}",
            error.message
        );
    }
}

#[test]
fn a_message_says_what_the_server_said() {
    let message = |status, body: &str| refused(Refusal { wire: Wire::Chat, status, body }, &|_| None, None).message;
    assert_eq!(message(429, ""), "The model's server gets too many requests (429).");
    assert_eq!(
        message(422, r#"{"detail":[{"msg":"field required"},{"msg":"x"}]}"#),
        "The model's server does not accept the request (422). It said: field required; x"
    );
    assert_eq!(
        message(0, r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"a\n\tb"}}}"#),
        "The model's server is overloaded or broken (502). It said: Provider returned error (a b)"
    );
    assert!(message(500, &"x".repeat(100_000)).chars().count() < ERROR_TEXT_CHARS + 100);
}

/// Errors as each vendor documents them.
const VENDORS: &[(Wire, u16, &str, ModelErrorKind, Option<u64>)] = &[
    (
        Wire::Responses,
        0,
        r#"{"id":"resp_1","object":"response","status":"failed","error":{"code":"rate_limit_exceeded","message":"Slow down"}}"#,
        Rate,
        None,
    ),
    (
        Wire::Responses,
        0,
        r#"{"type":"error","code":"server_error","message":"x","param":null,"sequence_number":3}"#,
        Overload,
        None,
    ),
    (Wire::Responses, 0, r#"{"status":"failed","error":{"code":"invalid_prompt","message":"x"}}"#, ContentFilter, None),
    (Wire::Responses, 0, r#"{"status":"failed","error":{"code":"image_too_large","message":"x"}}"#, BadRequest, None),
    (
        Wire::Messages,
        401,
        r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"},"request_id":"r"}"#,
        Auth,
        None,
    ),
    (Wire::Messages, 403, r#"{"type":"error","error":{"type":"permission_error","message":"x"}}"#, Auth, None),
    (Wire::Messages, 402, r#"{"type":"error","error":{"type":"billing_error","message":"x"}}"#, Quota, None),
    (
        Wire::Messages,
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
        Quota,
        None,
    ),
    (
        Wire::Messages,
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}"#,
        Context,
        None,
    ),
    (Wire::Messages, 413, r#"{"type":"error","error":{"type":"request_too_large","message":"x"}}"#, Context, None),
    (
        Wire::Messages,
        404,
        r#"{"type":"error","error":{"type":"not_found_error","message":"model: x"}}"#,
        BadRequest,
        None,
    ),
    (Wire::Messages, 429, r#"{"type":"error","error":{"type":"rate_limit_error","message":"x"}}"#, Rate, None),
    (
        Wire::Messages,
        429,
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"x","details":{"error_code":"enforced_spend_limit_reached"}}}"#,
        Quota,
        None,
    ),
    (
        Wire::Messages,
        529,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        Overload,
        None,
    ),
    (
        Wire::Messages,
        0,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        Overload,
        None,
    ),
    (Wire::Messages, 500, r#"{"type":"error","error":{"type":"api_error","message":"x"}}"#, Overload, None),
    (
        Wire::Generate,
        400,
        r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}"#,
        Auth,
        None,
    ),
    (
        Wire::Generate,
        429,
        r#"{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},{"retryDelay":"22.5s"}]}}"#,
        Rate,
        Some(22_500),
    ),
    (
        Wire::Generate,
        429,
        r#"{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"retryDelay":"22s"}]}}"#,
        Quota,
        Some(22_000),
    ),
    (
        Wire::Generate,
        400,
        r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
        Context,
        None,
    ),
    (Wire::Generate, 403, r#"{"error":{"code":403,"message":"x","status":"PERMISSION_DENIED"}}"#, Auth, None),
    (Wire::Generate, 404, r#"{"error":{"code":404,"message":"x","status":"NOT_FOUND"}}"#, BadRequest, None),
    (Wire::Generate, 503, r#"[{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}]"#, Overload, None),
];

#[test]
fn errors_of_each_vendor_are_told_by_their_codes() {
    for &(wire, status, body, kind, retry_after_ms) in VENDORS {
        let error = refused(Refusal { wire, status, body }, &|_| None, None);
        assert_eq!((error.kind, error.retry_after_ms), (kind, retry_after_ms), "{status} {body}");
    }
}

proptest! {
    /// A hostile or careless server echoes the key, in any shape and place, with anything round it.
    #[test]
    fn no_message_holds_the_key(
        key in "sk-[A-Za-z0-9/\"\\\\_-]{1,40}",
        before in "\\PC{0,500}",
        after in "\\PC{0,20}",
        hidden in 0_usize..10,
        shape in 0_usize..6,
    ) {
        let secret = Secret::new(&key).unwrap();
        // The key with something invisible in it, which a careless display drops.
        let echoed = if hidden < key.len() { format!("{}\u{1}{}", &key[..hidden], &key[hidden..]) } else { key.clone() };
        let text = serde_json::Value::String(format!("{before}{echoed}{after}"));
        let body = match shape {
            0 => format!(r#"{{"error":{{"message":{text}}}}}"#),
            1 => format!(r#"{{"error":{text}}}"#),
            2 => format!(r#"{{"detail":[{{"msg":{text}}}]}}"#),
            3 => format!(r#"{{"error":{{"message":"x","metadata":{{"raw":{text}}}}}}}"#),
            4 => format!("{before}{echoed}{after}"),
            _ => text.to_string(),
        };
        let message = refused(Refusal { wire: Wire::Chat, status: 401, body: &body }, &|_| None, Some(&secret)).message;
        prop_assert!(!message.contains(&key), "{message}");
    }
}

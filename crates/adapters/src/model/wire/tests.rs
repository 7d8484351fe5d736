//! What is sent, field by field, as each vendor documents it (E2, E6).

use contract::event::{ModelRef, Provider};
use runtime::ports::model::{Effort, ImageFormat, ModelOptions, Schema};
use serde_json::json;

use super::*;

fn question(model: &str, options: ModelOptions) -> ModelRequest {
    let image = Image { format: ImageFormat::Png, bytes: [1, 2, 3].into() };
    let messages = vec![
        PromptMessage::new(Speaker::System, "be good").stable(),
        PromptMessage::new(Speaker::User, "what is this?").with_images(vec![image]).stable(),
        PromptMessage::new(Speaker::Assistant, "a dot"),
        PromptMessage::new(Speaker::User, "sure?\n"),
    ];
    let model = ModelRef { provider: Provider::Compatible, name: model.into() };
    ModelRequest { model, messages, options }
}

fn all_options() -> ModelOptions {
    ModelOptions {
        max_output_tokens: Some(64),
        temperature: Some(0.5),
        schema: Some(Schema { name: "answer".into(), schema: json!({"type": "object"}) }),
        effort: Some(Effort::Low),
    }
}

#[test]
fn a_chat_completion_is_asked_for() {
    let sent = Wire::Chat.ask(&question("m", all_options()));
    assert_eq!(sent.path.join("/"), "chat/completions");
    let expected = json!({
        "model": "m", "stream": true, "stream_options": {"include_usage": true},
        "max_tokens": 64, "temperature": 0.5, "reasoning_effort": "low",
        "response_format": {"type": "json_schema",
            "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": true}},
        "messages": [
            {"role": "system", "content": "be good"},
            {"role": "user", "content": [
                {"type": "text", "text": "what is this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQID"}}]},
            {"role": "assistant", "content": "a dot"},
            {"role": "user", "content": "sure?\n"}],
    });
    assert_eq!(sent.body, expected);
}

#[test]
fn a_response_is_asked_for_and_not_kept() {
    let sent = Wire::Responses.ask(&question("m", all_options()));
    assert_eq!(sent.path.join("/"), "responses");
    let expected = json!({
        "model": "m", "stream": true, "store": false, "instructions": "be good",
        "max_output_tokens": 64, "temperature": 0.5, "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}, "strict": true}},
        "input": [
            {"role": "user", "content": [
                {"type": "input_text", "text": "what is this?"},
                {"type": "input_image", "image_url": "data:image/png;base64,AQID"}]},
            {"role": "assistant", "content": "a dot"},
            {"role": "user", "content": "sure?\n"}],
    });
    assert_eq!(sent.body, expected);
}

#[test]
fn a_message_is_asked_for_with_marks_where_beginnings_end() {
    let sent = Wire::Messages.ask(&question("m", all_options()));
    assert_eq!(sent.path.join("/"), "messages");
    let mark = json!({"type": "ephemeral"});
    let expected = json!({
        "model": "m", "stream": true, "max_tokens": 64,
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        "system": [{"type": "text", "text": "be good", "cache_control": mark}],
        "messages": [
            {"role": "user", "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AQID"}},
                {"type": "text", "text": "what is this?", "cache_control": mark}]},
            {"role": "assistant", "content": [{"type": "text", "text": "a dot"}]},
            {"role": "user", "content": [{"type": "text", "text": "sure?\n"}]}],
    });
    assert_eq!(sent.body, expected);
    let plain = Wire::Messages.ask(&question("m", ModelOptions { temperature: Some(1.0), ..ModelOptions::default() }));
    assert_eq!(plain.body["max_tokens"], messages::OUTPUT_TOKENS);
    for none in ["temperature", "thinking", "output_config"] {
        assert_eq!(plain.body.get(none), None, "{none}");
    }
}

#[test]
fn of_too_many_marks_the_latest_stay() {
    let said = |n: usize| {
        let speaker = if n.is_multiple_of(2) { Speaker::User } else { Speaker::Assistant };
        PromptMessage::new(speaker, n.to_string()).stable()
    };
    let mut request = question("m", ModelOptions::default());
    request.messages =
        [PromptMessage::new(Speaker::System, "s").stable()].into_iter().chain((0..7).map(said)).collect();
    let body = Wire::Messages.ask(&request).body;
    let marked: Vec<bool> = std::iter::once(&body["system"][0])
        .chain(body["messages"].as_array().unwrap().iter().map(|message| &message["content"][0]))
        .map(|block| block.get("cache_control").is_some())
        .collect();
    assert_eq!(marked, [false, false, false, false, true, true, true, true]);
}

#[test]
fn content_is_asked_for_by_the_models_address() {
    let sent = Wire::Generate.ask(&question("models/gemini-3-pro", all_options()));
    assert_eq!(sent.path.join("/"), "models/gemini-3-pro:streamGenerateContent");
    assert_eq!(sent.query, Some(("alt", "sse")));
    let expected = json!({
        "systemInstruction": {"parts": [{"text": "be good"}]},
        "generationConfig": {"maxOutputTokens": 64, "temperature": 0.5,
            "thinkingConfig": {"thinkingLevel": "low", "includeThoughts": true},
            "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}},
        "contents": [
            {"role": "user", "parts": [
                {"inlineData": {"mimeType": "image/png", "data": "AQID"}}, {"text": "what is this?"}]},
            {"role": "model", "parts": [{"text": "a dot"}]},
            {"role": "user", "parts": [{"text": "sure?\n"}]}],
    });
    assert_eq!(sent.body, expected);
    let older = Wire::Generate.ask(&question("gemini-2.5-flash", all_options()));
    assert_eq!(older.body["generationConfig"]["thinkingConfig"]["thinkingBudget"], 1_024);
    let plain = Wire::Generate.ask(&question("m", ModelOptions::default()));
    assert_eq!(plain.body.get("generationConfig"), None);
}

#[test]
fn every_remedy_finds_its_field_and_leaves_the_rest() {
    for wire in [Wire::Chat, Wire::Responses, Wire::Messages, Wire::Generate] {
        let sent = wire.ask(&question("m", all_options()));
        for remedy in sent.remedies {
            let (mut body, before) = (sent.body.clone(), sent.body.clone());
            assert!(remedy.apply(&mut body) && body != before, "{wire:?} {remedy:?}");
            assert!(!remedy.apply(&mut body), "{wire:?} {remedy:?} is done once");
            for kept in ["model", "messages", "input", "contents"] {
                assert_eq!(body.get(kept), before.get(kept), "{wire:?} {remedy:?}");
            }
        }
    }
}

#[test]
fn each_vendor_gets_the_key_where_it_looks_for_it() {
    let key = Secret::new("sk-1").unwrap();
    let table = [
        (Wire::Chat, ("authorization", "Bearer sk-1"), None),
        (Wire::Responses, ("authorization", "Bearer sk-1"), None),
        (Wire::Messages, ("x-api-key", "sk-1"), Some(("anthropic-version", "2026-10-21"))),
        (Wire::Generate, ("x-goog-api-key", "sk-1"), None),
    ];
    for (wire, (name, value), header) in table {
        assert_eq!(wire.key_header(&key), (name, value.to_owned()));
        assert_eq!(wire.header(), header);
        // A key never stands in an address.
        assert!(!format!("{:?}", wire.ask(&question("m", all_options()))).contains("sk-1"));
    }
}

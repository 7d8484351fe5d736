//! Token counts as the formats report them, in Baton's words: `input` with what came from the cache, `output` with reasoning.
//! Numbers that are missing are zero; none is invented.

use contract::event::TokenCount;
use serde_json::Value;

/// `usage` of chat completions. None if it counts nothing.
pub(super) fn chat(usage: &Value) -> Option<TokenCount> {
    let count = counter(usage);
    let input = count("/prompt_tokens");
    let output = count("/completion_tokens");
    if input.is_none() && output.is_none() {
        return None;
    }
    let (input, output) = (input.unwrap_or(0), output.unwrap_or(0));
    let cached =
        count("/prompt_tokens_details/cached_tokens").or_else(|| count("/prompt_cache_hit_tokens")).unwrap_or(0);
    let reasoning = count("/completion_tokens_details/reasoning_tokens").unwrap_or(0);
    // OpenAI counts reasoning within the completion. Some servers count it beside, which their total shows.
    let beside = reasoning > output || (reasoning > 0 && count("/total_tokens") == Some(input + output + reasoning));
    let output = if beside { output + reasoning } else { output };
    Some(TokenCount { input, cached: cached.min(input), output, reasoning })
}

/// `usage` of responses: the cache within the input, reasoning within the output.
pub(super) fn responses(usage: &Value) -> Option<TokenCount> {
    let count = counter(usage);
    let (input, output) = (count("/input_tokens")?, count("/output_tokens").unwrap_or(0));
    Some(TokenCount {
        input,
        cached: count("/input_tokens_details/cached_tokens").unwrap_or(0).min(input),
        output,
        reasoning: count("/output_tokens_details/reasoning_tokens").unwrap_or(0).min(output),
    })
}

/// `usage` of messages. What was read from the cache and what was written to it stand beside the input there, so they are added. A
/// later event repeats some of the fields only: `before` has what they were.
pub(super) fn messages(usage: &Value, before: &mut Value) -> Option<TokenCount> {
    if let (Some(known), Some(new)) = (before.as_object_mut(), usage.as_object()) {
        known.extend(
            new.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.clone(), value.clone())),
        );
    } else if usage.is_object() {
        *before = usage.clone();
    }
    let count = counter(before);
    let fresh = count("/input_tokens")?;
    let cached = count("/cache_read_input_tokens").unwrap_or(0);
    let written = count("/cache_creation_input_tokens").unwrap_or(0);
    let output = count("/output_tokens").unwrap_or(0);
    Some(TokenCount {
        input: fresh + cached + written,
        cached,
        output,
        reasoning: count("/output_tokens_details/thinking_tokens").unwrap_or(0).min(output),
    })
}

/// `usageMetadata` of content generation: the cache within the prompt, thoughts beside the candidates.
pub(super) fn generate(usage: &Value) -> Option<TokenCount> {
    let count = counter(usage);
    let prompt = count("/promptTokenCount")?;
    let input = prompt + count("/toolUsePromptTokenCount").unwrap_or(0);
    let reasoning = count("/thoughtsTokenCount").unwrap_or(0);
    Some(TokenCount {
        input,
        cached: count("/cachedContentTokenCount").unwrap_or(0).min(input),
        output: count("/candidatesTokenCount").unwrap_or(0) + reasoning,
        reasoning,
    })
}

fn counter(usage: &Value) -> impl Fn(&str) -> Option<u64> {
    |pointer| usage.pointer(pointer).and_then(whole_number)
}

fn whole_number(value: &Value) -> Option<u64> {
    /// More tokens than any call has; keeps sums far from overflow, whatever a server claims.
    const MOST: f64 = 1e12;
    value.as_f64().filter(|number| (0.0..=MOST).contains(number)).map(|number| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked above")]
        let number = number as u64;
        number
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn count(input: u64, cached: u64, output: u64, reasoning: u64) -> Option<TokenCount> {
        Some(TokenCount { input, cached, output, reasoning })
    }

    #[test]
    fn usage_of_real_servers_of_chat_completions() {
        // E23
        let table = [
            (json!({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}), count(10, 0, 4, 0)),
            (
                json!({"prompt_tokens": 10, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8},
                    "completion_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 19}),
                count(10, 8, 9, 5),
            ),
            (
                json!({"prompt_tokens": 10, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 5},
                    "total_tokens": 24}),
                count(10, 0, 14, 5),
            ),
            (json!({"prompt_tokens": 10, "prompt_cache_hit_tokens": 7, "completion_tokens": 1}), count(10, 7, 1, 0)),
            (
                json!({"prompt_tokens": 10, "prompt_tokens_details": null, "completion_tokens": null}),
                count(10, 0, 0, 0),
            ),
            (json!({"prompt_tokens": 3.0, "completion_tokens": -1}), count(3, 0, 0, 0)),
            (json!({"prompt_tokens": 1e300, "completion_tokens": "many"}), None),
            (json!({}), None),
            (json!(null), None),
        ];
        for (usage, expected) in table {
            assert_eq!(chat(&usage), expected, "{usage}");
        }
    }

    #[test]
    fn each_vendor_means_something_else_by_input_and_output() {
        // E23
        let usage = json!({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 9,
            "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 19});
        assert_eq!(responses(&usage), count(10, 8, 9, 5));
        let usage = json!({"promptTokenCount": 10, "cachedContentTokenCount": 8, "toolUsePromptTokenCount": 2,
            "candidatesTokenCount": 4, "thoughtsTokenCount": 5, "totalTokenCount": 21});
        assert_eq!(generate(&usage), count(12, 8, 9, 5));
        let mut before = Value::Null;
        let start = json!({"input_tokens": 100, "cache_creation_input_tokens": 50, "cache_read_input_tokens": 400, "output_tokens": 1});
        assert_eq!(messages(&start, &mut before), count(550, 400, 1, 0));
        let end = json!({"output_tokens": 9, "input_tokens": null, "output_tokens_details": {"thinking_tokens": 5}});
        assert_eq!(messages(&end, &mut before), count(550, 400, 9, 5));
        for nothing in [json!(null), json!({}), json!("many")] {
            assert_eq!((responses(&nothing), generate(&nothing)), (None, None));
            assert_eq!(messages(&nothing, &mut Value::Null), None);
        }
    }
}

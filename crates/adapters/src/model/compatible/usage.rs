//! Usage as servers report it, in Baton's words. Numbers that are missing are zero; none is invented.

use contract::event::TokenCount;
use serde_json::Value;

/// Reads a `usage` object. None if it counts nothing.
pub(super) fn read(usage: &Value) -> Option<TokenCount> {
    let count = |pointer: &str| usage.pointer(pointer).and_then(whole_number);
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

    #[test]
    fn usage_of_real_servers() {
        let count = |input, cached, output, reasoning| Some(TokenCount { input, cached, output, reasoning });
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
            assert_eq!(read(&usage), expected, "{usage}");
        }
    }
}

//! What headers tell about limits: how long to wait, and what is still allowed. Pure: it reads no clock, and times of day are read
//! against the server's own `Date`, so that ours does not matter.

use std::time::{Duration, UNIX_EPOCH};

use runtime::ports::model::{RateLimit, RateScope};

/// The longest wait that a server can ask for.
pub(super) const RETRY_AFTER_MOST: Duration = Duration::from_secs(24 * 3600);

/// A header's value by its name in lower case.
pub(super) type Header<'a> = dyn Fn(&str) -> Option<&'a str> + 'a;

/// How long to wait: `retry-after-ms`, or `Retry-After` as seconds or as an HTTP date.
pub(super) fn retry_after_ms(header: &Header<'_>) -> Option<u64> {
    let exact = header("retry-after-ms").and_then(|ms| ms.trim().parse::<f64>().ok()).map(|ms| ms / 1000.0);
    let after = || header("retry-after").map(str::trim);
    let seconds = || after()?.parse::<f64>().ok();
    let date = || {
        let until = httpdate::parse_http_date(after()?).ok()?;
        let now = httpdate::parse_http_date(header("date")?.trim()).ok()?;
        Some(until.duration_since(now).unwrap_or_default().as_secs_f64())
    };
    wait_ms(exact.or_else(seconds).or_else(date)?)
}

/// Seconds to wait, within reason, in milliseconds.
fn wait_ms(seconds: f64) -> Option<u64> {
    let seconds = (!seconds.is_nan()).then(|| seconds.clamp(0.0, RETRY_AFTER_MOST.as_secs_f64()))?;
    u64::try_from(Duration::from_secs_f64(seconds).as_millis()).ok()
}

/// A duration as Google and OpenAI write it: `22s`, `10.689s`, `6m0s`, `17ms`. In milliseconds.
pub(super) fn span_ms(text: &str) -> Option<u64> {
    let mut seconds = 0.0;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.find(|char: char| !char.is_ascii_digit() && char != '.')?;
        let (number, after) = rest.split_at(digits);
        let unit = &after[..after.find(|char: char| !char.is_ascii_lowercase()).unwrap_or(after.len())];
        seconds += number.parse::<f64>().ok()?
            * match unit {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3_600.0,
                "d" => 86_400.0,
                _ => return None,
            };
        rest = &after[unit.len()..];
    }
    if text.trim().is_empty() { None } else { wait_ms(seconds) }
}

const SCOPES: [(RateScope, &str); 4] = [
    (RateScope::Requests, "requests"),
    (RateScope::Tokens, "tokens"),
    (RateScope::InputTokens, "input-tokens"),
    (RateScope::OutputTokens, "output-tokens"),
];

/// What is still allowed: `x-ratelimit-{limit,remaining,reset}-SCOPE`, as OpenAI and others have it, and
/// `anthropic-ratelimit-SCOPE-{limit,remaining,reset}`.
pub(super) fn snapshots(header: &Header<'_>) -> Vec<RateLimit> {
    let now = header("date").and_then(|date| httpdate::parse_http_date(date.trim()).ok());
    let now_s = now.and_then(|now| now.duration_since(UNIX_EPOCH).ok()).map(|now| now.as_secs());
    let read = |(scope, name): (RateScope, &str)| {
        let any = |field: &str| {
            header(&format!("x-ratelimit-{field}-{name}"))
                .or_else(|| header(&format!("anthropic-ratelimit-{name}-{field}")))
        };
        let number = |field: &str| any(field)?.trim().parse::<u64>().ok();
        let reset = any("reset").map(str::trim);
        let until_ms = |text: &str| instant_s(text)?.checked_sub(now_s?).map(|seconds| seconds * 1_000);
        let limit = RateLimit {
            scope,
            limit: number("limit"),
            remaining: number("remaining"),
            reset_ms: reset.and_then(|text| span_ms(text).or_else(|| until_ms(text))),
        };
        (limit.limit.is_some() || limit.remaining.is_some()).then_some(limit)
    };
    SCOPES.into_iter().filter_map(read).collect()
}

/// The seconds since 1970 of an instant such as `2026-11-21T10:00:00Z` or `2026-11-21T10:00:00.5Z` (RFC 3339 in UTC).
fn instant_s(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, by: char| -> Option<[i64; 3]> {
        let parts: Vec<i64> = text.split(by).map(|part| part.parse().ok()).collect::<Option<_>>()?;
        parts.try_into().ok()
    };
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time.split('.').next()?, ':')?;
    let in_range = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    if !in_range {
        return None;
    }
    // Days since 1970, with years that begin in March, so that a leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468;
    u64::try_from(days * 86_400 + hour * 3_600 + minute * 60 + second).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from<'a>(headers: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<&'a str> + 'a {
        |name| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    #[test]
    fn waiting_times_are_read_in_seconds_in_milliseconds_and_as_dates_of_the_servers_own_clock() {
        let date = ("date", "Tue, 15 Nov 1994 08:12:31 GMT");
        let after = |value| ("retry-after", value);
        type Row<'a> = (&'a [(&'a str, &'a str)], Option<u64>);
        let table: [Row<'_>; 11] = [
            (&[after("2")], Some(2_000)),
            (&[after(" 0.5 ")], Some(500)),
            (&[after("2"), ("retry-after-ms", "1500")], Some(1_500)),
            (&[after("Tue, 15 Nov 1994 08:12:41 GMT"), date], Some(10_000)),
            (&[after("Tue, 15 Nov 1994 08:00:00 GMT"), date], Some(0)),
            (&[after("Tue, 15 Nov 1994 08:12:41 GMT")], None),
            (&[after("-5")], Some(0)),
            (&[after("1e300")], Some(24 * 3_600_000)),
            (&[after("NaN")], None),
            (&[after("soon"), date], None),
            (&[date], None),
        ];
        for (headers, expected) in table {
            assert_eq!(retry_after_ms(&from(headers)), expected, "{headers:?}");
        }
        let spans = [
            ("22s", Some(22_000)),
            ("10.689924287s", Some(10_689)),
            ("6m0s", Some(360_000)),
            ("17ms", Some(17)),
            ("1h2m3s", Some(3_723_000)),
            ("", None),
            ("5", None),
            ("s", None),
            ("1y", None),
            ("2026-01-01T00:00:00Z", None),
        ];
        for (text, expected) in spans {
            assert_eq!(span_ms(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_left_is_read_from_the_headers_of_both_families() {
        // E23
        let openai = [
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ];
        let limit = |scope, limit, remaining, reset_ms| RateLimit {
            scope,
            limit: Some(limit),
            remaining: Some(remaining),
            reset_ms,
        };
        assert_eq!(
            snapshots(&from(&openai)),
            [
                limit(RateScope::Requests, 60, 59, Some(1_000)),
                limit(RateScope::Tokens, 150_000, 149_984, Some(360_000))
            ]
        );
        let anthropic = [
            ("date", "Sun, 01 Mar 2026 00:00:05 GMT"),
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "2026-03-01T00:01:00Z"),
            ("anthropic-ratelimit-output-tokens-limit", "8000"),
            ("anthropic-ratelimit-output-tokens-remaining", "8000"),
            ("anthropic-ratelimit-output-tokens-reset", "2026-02-28T23:59:00Z"),
        ];
        assert_eq!(
            snapshots(&from(&anthropic)),
            [limit(RateScope::Requests, 50, 0, Some(55_000)), limit(RateScope::OutputTokens, 8_000, 8_000, None)]
        );
        assert_eq!(snapshots(&from(&[("x-ratelimit-limit-requests", "many")])), []);
    }

    #[test]
    fn an_instant_is_the_same_to_us_and_to_the_library_of_http_dates() {
        for day in (0..30_000).step_by(17) {
            let seconds = day * 86_400 + day % 86_400;
            let http = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
            let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
            let words: Vec<&str> = http.split(' ').collect();
            let month = months.iter().position(|month| *month == words[2]).unwrap() + 1;
            let text = format!("{}-{month:02}-{}T{}Z", words[3], words[1], words[4]);
            assert_eq!(instant_s(&text), Some(seconds), "{http} {text}");
        }
        for bad in ["2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01", "2026-01-01T00:00:00", "x"] {
            assert_eq!(instant_s(bad), None, "{bad}");
        }
    }
}

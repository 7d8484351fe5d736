//! How long to wait before another attempt (D4): exponential, with full jitter, and not less than the other side asks
//! for, up to four times the longest delay of our own.

use contract::{Limits, StepId};

/// The delay before the attempt after `failures` earlier ones, in milliseconds.
///
/// The jitter comes from a hash of run, step and attempt: spread over runs, and the same whenever it is decided anew.
pub fn delay_ms(limits: &Limits, seed: u64, step: &StepId, failures: u32, retry_after_ms: Option<u64>) -> u64 {
    let ceiling = limits.retry_base_ms.saturating_mul(1 << failures.min(20)).min(limits.retry_most_ms);
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ seed ^ u64::from(failures).rotate_left(32);
    for byte in step.as_str().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let jittered = (hash >> 16) % (ceiling + 1);
    jittered.max(retry_after_ms.unwrap_or(0).min(limits.retry_most_ms.saturating_mul(4)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_stay_under_a_growing_ceiling_and_differ_between_runs() {
        let limits = Limits::default();
        let step = StepId::new("turn-1");
        for failures in 0..10 {
            let ceiling = (limits.retry_base_ms << failures).min(limits.retry_most_ms);
            let delays: Vec<u64> = (0..100).map(|run| delay_ms(&limits, run * 7919, &step, failures, None)).collect();
            assert!(delays.iter().all(|d| *d <= ceiling));
            assert!(delays.iter().max() > delays.iter().min(), "jitter spreads");
        }
        assert_eq!(delay_ms(&limits, 1, &step, 0, Some(9_000)), 9_000, "Retry-After is honoured");
    }
}

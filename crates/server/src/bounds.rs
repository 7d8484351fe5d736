//! What the door bounds beyond the limits table of `contract`: each value with its unit and its reason.
//!
//! Nothing here is about runs; whatever a run is bounded by stands in the table.

use std::time::Duration;

/// Connections that are open at once, if the process may have that many files; further ones wait in the kernel's queue. A browser tab
/// holds one stream and a few more.
pub const CONNECTIONS: usize = 16_384;

/// From an idle connection to the end of the next request's headers, so that a slow sender holds nothing for long.
pub const HEADER_TIME: Duration = Duration::from_secs(30);

/// From a request's headers to the end of its body.
pub const BODY_TIME: Duration = Duration::from_secs(10);

/// The same for a body that may be large: a file, an upload, a bundle.
pub const LARGE_BODY_TIME: Duration = Duration::from_secs(60);

/// Bytes of one request's head, and of what is buffered for one connection in each direction.
pub const CONNECTION_BUFFER_BYTES: usize = 32 * 1024;

/// Bytes of one connection that the system holds and that its reader has no room for; the rest waits where it came from.
pub const UNSENT_BYTES: u32 = 32 * 1024;

/// How long the last words to a reader that is being cut may take to be handed to the system.
pub const LAST_WORDS_TIME: Duration = Duration::from_secs(5);

/// Bytes that the system may hold for such a reader: what was under way and the last words.
pub const LAST_WORDS_BYTES: usize = 256 * 1024;

/// Bytes of one write to an event stream after which no further event joins it.
pub const SSE_BATCH_BYTES: usize = 16 * 1024;

/// Bytes of an event from which on it is passed on as it lies in memory, shared by all readers; smaller ones are copied
/// together, which costs less than a chunk each.
pub const SSE_SHARED_BYTES: usize = 8 * 1024;

/// How soon a browser's own event source tries again, in milliseconds.
pub const SSE_RETRY_MS: u64 = 1_000;

/// Sign-in codes that wait to be used; one more takes the place of the oldest.
pub const SESSION_CODES: usize = 16;

/// Characters of an `Idempotency-Key`.
pub const IDEMPOTENCY_KEY_BYTES: usize = 255;

/// Seconds after which a client that was refused for too many runs may ask again.
pub const RETRY_AFTER_SECONDS: u64 = 5;

/// How long `/readyz` waits for the store.
pub const READY_TIME: Duration = Duration::from_secs(2);

/// How long accepting rests after the system refused a connection, for want of file descriptors mostly.
pub const ACCEPT_REST: Duration = Duration::from_millis(100);

/// How often measured durations are gathered, so that a server that nobody scrapes does not grow.
pub const METRICS_UPKEEP: Duration = Duration::from_secs(5);

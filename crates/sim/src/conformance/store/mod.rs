//! What a store has to do. One file per promise: admission, the log and its fence, leases and the inbox, the rows that are drawn
//! from the log, lists, durability.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a suite fails by panicking")]

mod admission;
mod clerk;
mod drawn;
mod durability;
mod family;
mod lease;
mod lists;
mod log;
mod rows;

use std::sync::Arc;

use runtime::ports::Store;

pub use clerk::Clerk;
pub use durability::store_keeps;

/// The whole suite. Every promise gets a fresh store.
///
/// # Panics
/// Where a promise is broken.
pub async fn store(make: impl AsyncFn() -> Arc<dyn Store>) {
    admission::promises(&make).await;
    log::promises(&make).await;
    family::promises(&make).await;
    lease::promises(&make).await;
    rows::promises(&make).await;
    drawn::promises(&make).await;
    lists::promises(&make).await;
}

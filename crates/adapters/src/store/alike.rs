//! What the stores have to do alike: pages, their cursors, and what a run that has ended is doing.

use contract::ChatId;
use contract::api::{ChatView, ExecutionState, Page, RunStatus};
use runtime::ports::store::{StoreError, StoreFault};

/// Payloads of one page of a log, in bytes, after which it ends early: readers that lag hold a page each.
pub(super) const PAGE_BYTES: usize = 1024 * 1024;

/// A place in the list of chats.
pub(super) struct ChatCursor {
    pub(super) updated_at: u64,
    pub(super) id: ChatId,
}

impl ChatCursor {
    /// Reads the cursor of a page.
    pub(super) fn parse(text: &str) -> Result<Self, StoreError> {
        let parts = text.split_once('.').and_then(|(time, id)| Some((time.parse().ok()?, id.parse().ok()?)));
        let (updated_at, id) =
            parts.ok_or_else(|| StoreError::new(StoreFault::BadCursor, "no list of chats gave this cursor"))?;
        Ok(Self { updated_at, id })
    }

    /// The cursor of a page that ends with a chat.
    pub(super) fn after(last: &ChatView) -> String {
        format!("{}.{}", last.updated_at, last.id)
    }
}

/// A page out of one item more than it holds, if there are that many.
pub(super) fn page<T>(mut items: Vec<T>, most: usize, cursor: impl FnOnce(&T) -> String) -> Page<T> {
    let more = items.len() > most;
    items.truncate(most);
    let next = if more { items.last().map(cursor) } else { None };
    Page { items, next }
}

/// What a run that has ended is doing; none of one that has not.
pub(super) fn last_state(status: RunStatus) -> Option<ExecutionState> {
    match status {
        RunStatus::Queued | RunStatus::Running | RunStatus::Waiting => None,
        RunStatus::Completed => Some(ExecutionState::Complete),
        RunStatus::Failed => Some(ExecutionState::Failed),
        RunStatus::Cancelled => Some(ExecutionState::Cancelled),
    }
}

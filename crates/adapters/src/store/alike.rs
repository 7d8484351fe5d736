//! What the stores have to do alike: pages, their cursors, what a run that has ended is doing, and the names of ids in what is wrong.

use contract::api::{ChatView, ExecutionState, Page, RunStatus};
use contract::{ChatId, ProjectId, RunId, UserId};
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

/// A fault with ids as everybody writes them: a database knows them as 32 hexadecimal digits after the word for what they name.
pub(super) fn with_ids(fault: &str) -> String {
    let mut words: Vec<String> = vec![];
    for word in fault.split(' ') {
        let end = word.trim_end_matches([',', ':']).len();
        let digits: String = word[..end].chars().filter(|c| *c != '-').collect();
        let bits = (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok()).flatten();
        let named = bits.and_then(|bits| match words.last().map(String::as_str) {
            Some("run") => Some(RunId::from_bits(bits).to_string()),
            Some("chat") => Some(ChatId::from_bits(bits).to_string()),
            Some("user") => Some(UserId::from_bits(bits).to_string()),
            Some("project") => Some(ProjectId::from_bits(bits).to_string()),
            Some(_) | None => None,
        });
        match named {
            Some(id) => {
                words.pop();
                words.push(id + &word[end..]);
            }
            None => words.push(word.to_owned()),
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_names_runs_as_commands_do() {
        let run = RunId::from_bits(7);
        for hex in [format!("{:032X}", 7), "00000000-0000-0000-0000-000000000007".to_owned()] {
            let fault = with_ids(&format!("there are events of run {hex}, which is unknown"));
            assert_eq!(fault, format!("there are events of {run}, which is unknown"));
        }
        assert_eq!(with_ids("a row of runs refers to nothing"), "a row of runs refers to nothing");
    }
}

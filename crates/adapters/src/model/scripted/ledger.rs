//! What a scripted server was asked lately and what became of it, for tests and for whoever writes a script. Bounded; no keys.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runtime::ports::model::{PromptMessage, Speaker};
use serde::Serialize;
use tokio::sync::watch;

/// Requests that are kept.
pub const LEDGER_ENTRIES: usize = 64;
/// Bytes of one message that are kept: its beginning.
pub const LEDGER_TEXT_BYTES: usize = 64 * 1024;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its number since the server started, from 1.
    pub n: u64,
    /// The format that was spoken: `chat_completions`, `responses`, `messages` or `generate_content`.
    pub format: &'static str,
    /// The model that was asked for; empty if the request could not be read.
    pub model: String,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// Whether a key came with it. The key itself is not kept.
    pub key: bool,
    /// The messages.
    pub messages: Vec<Said>,
    /// The script that answered.
    pub script: Option<String>,
    /// Its rule.
    pub rule: Option<String>,
    /// The turn, as the script counted it.
    pub turn: Option<u32>,
    /// The HTTP status of the answer.
    pub status: u16,
    /// What was wrong with the request.
    pub problem: Option<String>,
    /// What became of the answer.
    pub way: Way,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Said {
    /// `system`, `user` or `assistant`.
    pub role: &'static str,
    /// Its text, or the beginning of it.
    pub text: String,
    /// Bytes of the whole text.
    pub bytes: usize,
    /// Images with it.
    pub images: usize,
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// It is under way.
    Open,
    /// It was sent to its end, be that an error.
    Sent,
    /// It went wrong as the script says.
    Broken,
    /// The client left before.
    Left,
    /// The server was stopped before.
    Stopped,
}

impl Said {
    pub(super) fn of(message: &PromptMessage) -> Self {
        let text = &message.text;
        Self {
            role: match message.speaker {
                Speaker::System => "system",
                Speaker::User => "user",
                Speaker::Assistant => "assistant",
            },
            text: text[..text.floor_char_boundary(LEDGER_TEXT_BYTES)].to_owned(),
            bytes: text.len(),
            images: message.images.len(),
        }
    }
}

/// The last requests of one server. Clones are the same ledger.
#[derive(Debug, Clone)]
pub struct Ledger {
    book: Arc<Mutex<Book>>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Book {
    count: u64,
    entries: VecDeque<Entry>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { book: Arc::default(), changed: watch::Sender::new(0) }
    }
}

impl Ledger {
    /// Requests since the start.
    pub fn count(&self) -> u64 {
        self.book().count
    }

    /// The latest requests, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        self.book().entries.iter().cloned().collect()
    }

    /// Waits until an entry fits, and gives it. It waits for ever if none comes: the caller has a limit.
    pub async fn until(&self, fits: impl Fn(&Entry) -> bool) -> Entry {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            if let Some(entry) = self.book().entries.iter().find(|entry| fits(entry)).cloned() {
                return entry;
            }
            if changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Adds a request and gives its number; `entry.n` is set here.
    pub(super) fn add(&self, mut entry: Entry) -> u64 {
        let n = {
            let mut book = self.book();
            book.count += 1;
            entry.n = book.count;
            if book.entries.len() == LEDGER_ENTRIES {
                book.entries.pop_front();
            }
            book.entries.push_back(entry);
            book.count
        };
        self.changed.send_modify(|version| *version += 1);
        n
    }

    /// Notes what became of an answer.
    pub(super) fn close(&self, n: u64, way: Way) {
        if let Some(entry) = self.book().entries.iter_mut().find(|entry| entry.n == n) {
            entry.way = way;
        }
        self.changed.send_modify(|version| *version += 1);
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! What was read before, by how it was read and by content, up to a number of bytes. What was not asked for longest goes first.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use crate::css::Sheet;
use crate::json::Json;
use crate::script::{Dialect, Names, Script};

/// How a content was read: the same bytes are another module in another language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reading {
    Script(Dialect, /* verbatim */ bool),
    Json,
    Sheet,
    /// TypeScript's configuration.
    Configuration,
    /// A vendored module's exports.
    Vendored,
}

/// What came of it.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    Script(Arc<Script>),
    Json(Arc<Json>),
    Sheet(Arc<Sheet>),
    /// Whether imports that are only used as types stay.
    Verbatim(bool),
    Names(Option<Arc<Names>>),
}

/// A memory that threads share.
#[derive(Debug)]
pub(crate) struct Memory {
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: HashMap<(Reading, String), Entry>,
    /// Keys by when they were asked for last.
    order: BTreeMap<u64, (Reading, String)>,
    asked: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    known: Known,
    bytes: usize,
    asked: u64,
}

impl Memory {
    /// A memory of so many bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, kept: Mutex::default() }
    }

    /// What is known of a content, or else what comes of reading it. Two threads may read the same at once; one answer is kept.
    pub(crate) fn get(&self, reading: Reading, sha256: &str, read: impl FnOnce() -> Known) -> Known {
        let key = (reading, sha256.to_owned());
        if let Some(known) = self.kept.lock().unwrap_or_else(PoisonError::into_inner).touch(&key) {
            return known;
        }
        let known = read();
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).put(key, known.clone(), self.most);
        known
    }
}

impl Kept {
    fn touch(&mut self, key: &(Reading, String)) -> Option<Known> {
        let entry = self.entries.get_mut(key)?;
        self.order.remove(&entry.asked);
        self.asked += 1;
        entry.asked = self.asked;
        self.order.insert(self.asked, key.clone());
        Some(entry.known.clone())
    }

    fn put(&mut self, key: (Reading, String), known: Known, most: usize) {
        let bytes = cost(&known) + 2 * key.1.len() + 128;
        if bytes > most {
            return;
        }
        self.asked += 1;
        self.order.insert(self.asked, key.clone());
        self.bytes += bytes;
        let former = self.entries.insert(key, Entry { known, bytes, asked: self.asked });
        if let Some(former) = former {
            self.order.remove(&former.asked);
            self.bytes -= former.bytes;
        }
        while self.bytes > most {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            if let Some(entry) = self.entries.remove(&oldest) {
                self.bytes -= entry.bytes;
            }
        }
    }
}

fn cost(known: &Known) -> usize {
    match known {
        Known::Script(script) => script.cost(),
        Known::Json(json) => json.names.iter().map(|name| name.len() + 48).sum(),
        Known::Sheet(sheet) => sheet.cost(),
        Known::Verbatim(_) | Known::Names(None) => 0,
        Known::Names(Some(names)) => names.names.iter().chain(&names.stars).map(|name| name.len() + 48).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_longest_is_forgotten() {
        let memory = Memory::new(700);
        let reads = std::cell::Cell::new(0);
        let ask = |sha256: &str| {
            let before = reads.get();
            memory.get(Reading::Configuration, sha256, || {
                reads.set(before + 1);
                Known::Verbatim(true)
            });
            reads.get() > before
        };
        let names: Vec<String> = (0..5).map(|i| format!("{i}")).collect();
        assert!(names.iter().all(|name| ask(name)), "nothing is known at first");
        assert!(!ask("0"), "what fits is remembered");
        assert!(ask("5") && !ask("0") && ask("1"), "0 was asked for again, 1 was not");
        assert!(memory.kept.lock().unwrap().bytes <= 700);
        let tiny = Memory::new(1);
        tiny.get(Reading::Json, "a", || Known::Verbatim(true));
        assert!(tiny.kept.lock().unwrap().entries.is_empty(), "what does not fit is not kept");
    }
}

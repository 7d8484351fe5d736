//! Every adapter and its stand-in against the suite of its port.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use adapters::bus::LocalBus;
use adapters::objects::AddressedObjects;
use adapters::store::sqlite::{Options, Sqlite};
use runtime::ports::{Bus, Objects, Store};
use sim::conformance;
use sim::memory::{Hook, MemoryObjects, MemoryStore, Moment};
use tempfile::TempDir;

/// A folder in a folder that is gone at the end of the test.
struct Folders {
    parent: TempDir,
    made: AtomicU32,
}

impl Folders {
    fn new() -> Self {
        Self { parent: tempfile::tempdir().unwrap(), made: AtomicU32::new(0) }
    }

    fn next(&self) -> std::path::PathBuf {
        self.parent.path().join(self.made.fetch_add(1, Ordering::Relaxed).to_string())
    }
}

#[tokio::test]
async fn the_store_in_sqlite_keeps_every_promise() {
    let folders = Folders::new();
    let open = async || Arc::new(Sqlite::open(&folders.next(), &Options::default()).unwrap()) as Arc<dyn Store>;
    conformance::store(open).await;
}

#[tokio::test]
async fn the_store_in_sqlite_keeps_every_promise_one_event_per_commit() {
    let folders = Folders::new();
    let options = Options { commit_events: 1, queued_requests: 1, readers: 1, ..Options::default() };
    let open = async || Arc::new(Sqlite::open(&folders.next(), &options).unwrap()) as Arc<dyn Store>;
    conformance::store(open).await;
}

// E4: what was answered survives, however the process ended.
#[tokio::test]
async fn the_store_in_sqlite_keeps_what_it_answered() {
    let folder = tempfile::tempdir().unwrap();
    conformance::store_keeps(async || {
        Arc::new(Sqlite::open(folder.path(), &Options::default()).unwrap()) as Arc<dyn Store>
    })
    .await;
}

#[tokio::test]
async fn the_store_in_memory_keeps_every_promise() {
    conformance::store(async || Arc::new(MemoryStore::new(Hook::default())) as Arc<dyn Store>).await;
    let store = MemoryStore::new(Hook::default());
    let open = async || {
        store.restart();
        Arc::new(store.clone()) as Arc<dyn Store>
    };
    conformance::store_keeps(open).await;
}

#[tokio::test]
async fn objects_in_a_folder_keep_every_promise() {
    let folders = Folders::new();
    conformance::objects(async || Arc::new(AddressedObjects::local(&folders.next()).unwrap()) as Arc<dyn Objects>)
        .await;
}

#[tokio::test]
async fn objects_in_memory_keep_every_promise() {
    conformance::objects(async || Arc::new(MemoryObjects::new(Hook::default())) as Arc<dyn Objects>).await;
}

#[tokio::test]
async fn the_bus_of_a_process_keeps_every_promise() {
    conformance::bus(async || Arc::new(LocalBus::new()) as Arc<dyn Bus>).await;
}

/// A failure before a call means that nothing was done; one after it, that all was and nobody heard of it.
#[tokio::test]
async fn the_store_in_memory_fails_where_it_is_told() {
    let strike = Arc::new(Mutex::new(None));
    let told = strike.clone();
    let store = MemoryStore::new(Hook::new(move |moment, op| match *told.lock().unwrap() {
        Some(when) if when == moment && op.name == "admit" => Err("the connection broke".into()),
        _ => Ok(()),
    }));
    let clerk = conformance::store::Clerk::new();
    for (when, stored) in [(Moment::Before, 0), (Moment::After, 2)] {
        let admission = clerk.new_chat(clerk.id());
        *strike.lock().unwrap() = Some(when);
        let error = store.admit(admission.clone()).await.unwrap_err();
        assert_eq!(error.to_string(), "the store failed: the connection broke");
        assert_eq!(store.read_after(admission.run_id, 0, 9).await.unwrap().len(), stored);
        *strike.lock().unwrap() = None;
        store.admit(clerk.new_chat(clerk.id())).await.unwrap();
    }
}

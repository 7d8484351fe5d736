//! Connections that only read. Each read is one snapshot, on a blocking thread; their number is bounded.
#![expect(clippy::disallowed_methods, reason = "SQLite blocks; each read is awaited by its caller")]

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use runtime::ports::store::{StoreError, StoreFault};
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::failure::store_error;
use super::{Options, open};

/// The pool.
pub(super) struct Readers {
    pool: Arc<Pool>,
    places: Arc<Semaphore>,
}

struct Pool {
    file: PathBuf,
    options: Options,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    /// A pool that opens connections as they are needed.
    pub(super) fn new(file: PathBuf, options: &Options) -> Self {
        let places = Arc::new(Semaphore::new(options.readers.max(1)));
        Self { pool: Arc::new(Pool { file, options: options.clone(), idle: Mutex::default() }), places }
    }

    /// Reads within one snapshot: all statements of `work` see the same moment.
    pub(super) async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let stopped = |_| StoreError::new(StoreFault::Stopped, "the readers have stopped");
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(stopped)?;
        let pool = Arc::clone(&self.pool);
        let read = move || {
            let _place = place;
            pool.read(work).map_err(|error| store_error(&error))
        };
        match tokio::task::spawn_blocking(read).await {
            Ok(answer) => answer,
            Err(error) => Err(StoreError::new(StoreFault::Stopped, format!("a read did not end: {error}"))),
        }
    }
}

impl Pool {
    fn read<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut db = match idle {
            Some(db) => db,
            None => open::reader(&self.file, &self.options)?,
        };
        let snapshot = db.transaction()?;
        let answer = work(&snapshot);
        // A connection that cannot end its snapshot is closed with it.
        if snapshot.finish().is_ok() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(db);
        }
        answer
    }
}

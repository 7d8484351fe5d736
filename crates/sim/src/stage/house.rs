//! Where the store of a rehearsal lives: in memory, or in a real one, which lives in real time beside the stage.

use std::sync::Arc;

use adapters::store::postgres::{Clock, Postgres, PostgresOptions};
use adapters::store::sqlite::{Options, Sqlite};
use runtime::ports::Store;
use tokio::runtime::Handle;

use crate::memory::{Hook, MemoryStore};

/// A store that outlives the processes of a rehearsal.
pub trait House: Send {
    /// The store as a process that starts opens it.
    ///
    /// # Errors
    /// It cannot be opened.
    fn store(&self) -> Result<Arc<dyn Store>, String>;

    /// What is done with the store when the only process of the stage has died and the next begins.
    ///
    /// # Errors
    /// It cannot be opened again.
    fn reopen(&mut self) -> Result<(), String>;

    /// What does not hold in it, when all is over.
    ///
    /// # Errors
    /// It cannot be read.
    fn faults(&self) -> Result<Vec<String>, String>;

    /// Where it lives in real time, if it does.
    fn real(&self) -> Option<Handle>;
}

/// A store in memory.
#[derive(Clone)]
pub struct InMemory(MemoryStore);

impl InMemory {
    /// An empty one.
    pub fn new() -> Self {
        Self(MemoryStore::new(Hook::default()))
    }
}

impl Default for InMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl House for InMemory {
    fn store(&self) -> Result<Arc<dyn Store>, String> {
        Ok(Arc::new(self.0.clone()))
    }

    fn reopen(&mut self) -> Result<(), String> {
        self.0.restart();
        Ok(())
    }

    fn faults(&self) -> Result<Vec<String>, String> {
        Ok(vec![])
    }

    fn real(&self) -> Option<Handle> {
        None
    }
}

/// SQLite in a folder that is gone with it.
pub struct InSqlite {
    /// None only while it is opened again: the folder has one owner.
    store: Option<Arc<Sqlite>>,
    folder: tempfile::TempDir,
    real: Handle,
}

impl InSqlite {
    /// An empty one.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn new(real: Handle) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut house = Self { store: None, folder, real };
        house.reopen()?;
        Ok(house)
    }
}

impl House for InSqlite {
    fn store(&self) -> Result<Arc<dyn Store>, String> {
        let open = self.store.clone().ok_or("the store could not be opened again")?;
        Ok(open)
    }

    fn reopen(&mut self) -> Result<(), String> {
        self.store = None;
        let opened = Sqlite::open(self.folder.path(), &Options::default());
        self.store = Some(Arc::new(opened.map_err(|error| error.to_string())?));
        Ok(())
    }

    fn faults(&self) -> Result<Vec<String>, String> {
        let Some(store) = &self.store else { return Ok(vec![]) };
        self.real.block_on(store.check()).map_err(|error| error.to_string())
    }

    fn real(&self) -> Option<Handle> {
        Some(self.real.clone())
    }
}

/// A database of PostgreSQL, which every process opens for itself.
pub struct InPostgres {
    url: String,
    real: Handle,
}

impl InPostgres {
    /// An empty one, by its URL.
    pub fn new(url: String, real: Handle) -> Self {
        Self { url, real }
    }

    fn open(&self) -> Result<Postgres, String> {
        // Leases end by the stage's clock, and a rehearsal needs few connections.
        let options = PostgresOptions { clock: Clock::Caller, lanes: 1, connections: 3, ..PostgresOptions::default() };
        self.real.block_on(Postgres::open(&self.url, &options)).map_err(|error| error.to_string())
    }
}

impl House for InPostgres {
    fn store(&self) -> Result<Arc<dyn Store>, String> {
        Ok(Arc::new(self.open()?))
    }

    fn reopen(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn faults(&self) -> Result<Vec<String>, String> {
        let store = self.open()?;
        let faults = self.real.block_on(store.check());
        self.real.block_on(store.close());
        faults.map_err(|error| error.to_string())
    }

    fn real(&self) -> Option<Handle> {
        Some(self.real.clone())
    }
}

//! The store in one SQLite file: one connection writes on a thread of its own, a few read.
//!
//! Full durability: an answer to a write means that the commit is on the disk (WAL, `synchronous=FULL`, fdatasync). Commits are
//! grouped and self-clocked (`writer.rs`); reads never wait for them (`readers.rs`). Nothing here decides what an event means.

mod admit;
mod append;
mod column;
mod failure;
mod lease;
mod lists;
mod open;
mod readers;
mod rows;
mod upkeep;
mod users;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use contract::api::{Accepted, ChatDetail, ChatView, Page, RunView, VersionView};
use contract::{ChatId, Limits, ProjectId, RunId, UserId, VersionId};
use runtime::ports::store::{
    Admission, AdmitError, Append, AppendError, Claim, Drawn, InboxItem, ProjectRow, PublishedVersion, Snapshot, Store,
    StoreError, StoredEvent,
};

pub use open::OpenError;
pub use upkeep::{backup_folder, check_folder};

use super::alike::ChatCursor;
use lease::Asking;
use open::Lock;
use readers::Readers;
use writer::Writer;

/// Bounds of one store. The defaults are the product's; a test makes them small.
#[derive(Debug, Clone)]
pub struct Options {
    /// Events of one commit (`commit_batch` of the limits table).
    pub commit_events: usize,
    /// Requests that wait for the writer; a caller beyond waits for a place.
    pub queued_requests: usize,
    /// Connections that read at the same time; a caller beyond waits for one.
    pub readers: usize,
    /// How long a statement waits for a lock that another program holds on the file, in milliseconds. Baton itself never does.
    pub busy_ms: u64,
    /// Size of the write-ahead log, in bytes, at which its pages are moved into the database.
    pub wal_bytes: u64,
    /// The database does not grow beyond this, in bytes: writes are then refused as when the disk is full.
    pub most_bytes: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            commit_events: 4_096,
            queued_requests: 1_024,
            readers: 4,
            busy_ms: 5_000,
            wal_bytes: 16 * 1024 * 1024,
            most_bytes: None,
        }
    }
}

impl From<&Limits> for Options {
    fn from(limits: &Limits) -> Self {
        Self { commit_events: usize::try_from(limits.commit_batch).unwrap_or(usize::MAX), ..Self::default() }
    }
}

/// The store in `<data>/baton.db`.
///
/// Fields are dropped in this order: the writer finishes what was queued and, as the last connection, leaves everything in the
/// one file; the lock goes last, so that whoever opens the folder next finds nobody in it.
pub struct Sqlite {
    readers: Readers,
    writer: Writer,
    file: PathBuf,
    /// None of a store that is only looked at.
    lock: Option<Lock>,
}

impl Sqlite {
    /// Opens or makes the store of a data folder, brings its schema up to date and ends every lease that a dead predecessor
    /// left: its runs can be claimed at once.
    ///
    /// # Errors
    /// See [`OpenError`]: another process has the folder, the schema is newer than this program, the disk fails.
    pub fn open(data: &Path, options: &Options) -> Result<Self, OpenError> {
        let lock = open::lock(data)?;
        let file = data.join("baton.db");
        let db = open::writer(&file, options)?;
        lease::end_all(&db).map_err(|error| OpenError::sqlite(&file, error))?;
        Ok(Self {
            writer: Writer::start(db, options).map_err(|error| OpenError::io("start the writer for", &file, error))?,
            readers: Readers::new(file.clone(), options),
            file,
            lock: Some(lock),
        })
    }

    /// The store of a data folder to look at, also while a Baton works on it: nothing is changed, and what would change it is refused.
    ///
    /// # Errors
    /// See [`OpenError`]: there is no database of Baton, or it has another schema than this program.
    pub fn look(data: &Path) -> Result<Self, OpenError> {
        let (file, options) = (data.join("baton.db"), Options::default());
        open::known_reader(&file, true)?;
        Ok(Self { writer: Writer::none(), readers: Readers::new(file.clone(), &options), file, lock: None })
    }
}

#[async_trait]
impl Store for Sqlite {
    async fn admit(&self, admission: Admission) -> Result<Accepted, AdmitError> {
        let prepared = admit::Prepared::new(admission)?;
        self.writer.ask(prepared.weight(), move |db| admit::admit(db, &prepared)).await
    }

    async fn claim(&self, worker: &str, most: usize, now_ms: u64, lease_ms: u64) -> Result<Vec<Claim>, StoreError> {
        let asking = Asking { worker: worker.to_owned(), most, stopped: false };
        self.writer.ask(1, move |db| Ok(lease::claim(db, &asking, now_ms, lease_ms)?)).await
    }

    async fn claim_stopped(
        &self,
        worker: &str,
        most: usize,
        now_ms: u64,
        lease_ms: u64,
    ) -> Result<Vec<Claim>, StoreError> {
        let asking = Asking { worker: worker.to_owned(), most, stopped: true };
        self.writer.ask(1, move |db| Ok(lease::claim(db, &asking, now_ms, lease_ms)?)).await
    }

    async fn renew(&self, claims: &[Claim], now_ms: u64, lease_ms: u64) -> Result<Vec<Claim>, StoreError> {
        let claims = claims.to_vec();
        self.writer.ask(1, move |db| Ok(lease::renew(db, &claims, now_ms, lease_ms)?)).await
    }

    async fn release(&self, claim: Claim) -> Result<(), StoreError> {
        self.writer.ask(1, move |db| Ok(lease::release(db, claim)?)).await
    }

    async fn append(&self, append: Append) -> Result<u64, AppendError> {
        append.check()?;
        let weight = append.events.len() + append.rows.len();
        self.writer.ask(weight, move |db| append::append(db, &append)).await
    }

    async fn read_after(&self, run: RunId, after: u64, most: usize) -> Result<Vec<StoredEvent>, StoreError> {
        self.readers.read(move |db| append::read_after(db, run, after, most)).await
    }

    async fn put_snapshot(&self, claim: Claim, snapshot: Snapshot) -> Result<(), StoreError> {
        self.writer.ask(1, move |db| Ok(append::put_snapshot(db, claim, &snapshot)?)).await
    }

    async fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, StoreError> {
        self.readers.read(move |db| append::snapshot(db, run)).await
    }

    async fn put_inbox(&self, run: RunId, item: InboxItem, at: u64) -> Result<Vec<RunId>, StoreError> {
        let json = failure::json(&item)?;
        self.writer.ask(1, move |db| Ok(lease::put_inbox(db, run, &item, &json, at)?)).await
    }

    async fn inbox(&self, run: RunId) -> Result<Vec<(u64, InboxItem)>, StoreError> {
        self.readers.read(move |db| lease::inbox(db, run)).await
    }

    async fn owner(&self, fresh: UserId, at: u64) -> Result<UserId, StoreError> {
        if self.lock.is_none() {
            return Ok(self.readers.read(users::known_owner).await?.unwrap_or(fresh));
        }
        self.writer.ask(1, move |db| Ok(users::owner(db, fresh, at)?)).await
    }

    async fn run(&self, user: UserId, run: RunId) -> Result<Option<RunView>, StoreError> {
        self.readers.read(move |db| lists::run(db, user, run)).await
    }

    async fn runs(
        &self,
        user: UserId,
        chat: Option<ChatId>,
        before: Option<RunId>,
        most: usize,
    ) -> Result<Page<RunView>, StoreError> {
        self.readers.read(move |db| lists::runs(db, user, chat, before, most)).await
    }

    async fn chats(&self, user: UserId, cursor: Option<&str>, most: usize) -> Result<Page<ChatView>, StoreError> {
        let after = cursor.map(ChatCursor::parse).transpose()?;
        self.readers.read(move |db| lists::chats(db, user, after, most)).await
    }

    async fn project_of(&self, user: UserId, chat: ChatId) -> Result<Option<ProjectId>, StoreError> {
        self.readers.read(move |db| admit::project_of(db, user, chat)).await
    }

    async fn chat(&self, user: UserId, chat: ChatId) -> Result<Option<ChatDetail>, StoreError> {
        self.readers.read(move |db| lists::chat(db, user, chat)).await
    }

    async fn project(&self, project: ProjectId) -> Result<Option<ProjectRow>, StoreError> {
        self.readers.read(move |db| lists::project(db, project)).await
    }

    async fn project_by_slug(&self, slug: &str) -> Result<Option<ProjectRow>, StoreError> {
        let slug = slug.to_owned();
        self.readers.read(move |db| lists::project_by_slug(db, &slug)).await
    }

    async fn unpublished_runs(&self, project: ProjectId) -> Result<Vec<RunId>, StoreError> {
        self.readers.read(move |db| lists::unpublished_runs(db, project)).await
    }

    async fn versions(&self, project: ProjectId, most: usize) -> Result<Vec<VersionView>, StoreError> {
        self.readers.read(move |db| lists::versions(db, project, most)).await
    }

    async fn version(&self, project: ProjectId, version: VersionId) -> Result<Option<PublishedVersion>, StoreError> {
        self.readers.read(move |db| lists::version(db, project, version)).await
    }

    async fn drawn(&self, run: RunId) -> Result<Drawn, StoreError> {
        self.readers.read(move |db| lists::drawn(db, run)).await
    }

    async fn put_session(&self, token_sha256: &str, user: UserId, until: u64) -> Result<(), StoreError> {
        let token = token_sha256.to_owned();
        self.writer.ask(1, move |db| Ok(users::put_session(db, &token, user, until)?)).await
    }

    async fn session(&self, token_sha256: &str, now_ms: u64) -> Result<Option<UserId>, StoreError> {
        let token = token_sha256.to_owned();
        self.readers.read(move |db| users::session(db, &token, now_ms)).await
    }
}

//! The store in PostgreSQL, for many servers and workers on many machines.
//!
//! Every change is one call of a function in the database (`schema/`): one round trip and one transaction, durable when it is
//! answered. Appends gather (`writer.rs`), reads and other writes share a few connections (`links.rs`), and a lock of its own
//! tells the others that this process lives (`presence.rs`). Nothing here decides what an event means. Wake-ups are the bus's.

mod admit;
mod append;
mod column;
mod failure;
mod lease;
mod links;
mod lists;
mod open;
mod presence;
mod rows;
mod upkeep;
mod users;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use contract::api::{Accepted, ChatDetail, ChatView, Page, RunView, VersionView};
use contract::{ChatId, Limits, ProjectId, RunId, UserId, VersionId};
use runtime::ports::store::{
    Admission, AdmitError, Append, AppendError, Claim, Drawn, InboxItem, ProjectRow, PublishedVersion, Snapshot, Store,
    StoreError, StoreFault, StoredEvent,
};

pub use open::{OpenError, is_address};
pub use upkeep::check_database;

use super::alike::ChatCursor;
use lease::{Asking, Terms};
use links::Links;
use presence::Presence;
use writer::Writer;

/// By whose clock leases end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// By the database server's, since those of machines differ.
    Server,
    /// By the caller's, which a rehearsal can turn.
    Caller,
}

/// Bounds of one store. The defaults are the product's; a test makes them small.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Events of one commit (`commit_batch` of the limits table).
    pub commit_events: usize,
    /// Requests that wait for each task that appends; a caller beyond waits for a place.
    pub queued_requests: usize,
    /// Tasks that append, each with a connection of its own.
    pub lanes: usize,
    /// Connections for everything else; a caller beyond waits for one.
    pub connections: usize,
    /// How long a connection, a statement and a lock may take, in milliseconds.
    pub wait_ms: u64,
    /// How long after its start the server takes nobody for dead, in milliseconds: those that live are connecting again.
    pub grace_ms: u64,
    /// By whose clock leases end.
    pub clock: Clock,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            commit_events: 4_096,
            queued_requests: 1_024,
            lanes: 1,
            connections: 8,
            wait_ms: 10_000,
            grace_ms: 3_000,
            clock: Clock::Server,
        }
    }
}

impl From<&Limits> for PostgresOptions {
    fn from(limits: &Limits) -> Self {
        Self { commit_events: usize::try_from(limits.commit_batch).unwrap_or(usize::MAX), ..Self::default() }
    }
}

/// The store in one PostgreSQL database.
///
/// When it is dropped, what was queued is still appended as long as the process lives, and its runs can be claimed by others.
pub struct Postgres {
    writer: Writer,
    /// None once the server was told goodbye.
    presence: Mutex<Option<Presence>>,
    links: Arc<Links>,
    terms: Terms,
    clock: Clock,
    /// Whether it is only looked at.
    looks: bool,
}

impl Postgres {
    /// Opens the store at `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, brings its schema up to date and ends the claims of
    /// processes that are gone: their runs can be claimed at once.
    ///
    /// # Errors
    /// See [`OpenError`]: the server cannot be reached, the schema is newer than this program, the tables are another's.
    pub async fn open(url: &str, options: &PostgresOptions) -> Result<Self, OpenError> {
        let address = open::address(url, options)?;
        let place = open::place(&address);
        let links = Arc::new(Links::new(address, options));
        open::prepare(&links, &place).await?;
        let unusable = |error| OpenError::Unusable { place: place.clone(), error };
        let holder = number().map_err(unusable)?;
        let presence = Presence::take(&links, holder).await.map_err(unusable)?;
        let terms = Terms { holder, grace_ms: column::int(options.grace_ms) };
        lease::reap(&links, &terms).await.map_err(unusable)?;
        let writer = Writer::start(&links, options);
        Ok(Self { writer, presence: Mutex::new(Some(presence)), links, terms, clock: options.clock, looks: false })
    }

    /// The store at `postgres://USER:PASSWORD@HOST:PORT/DATABASE` to look at, while others work on it: nothing is changed, what would
    /// change it is refused, and nobody waits or is taken for dead.
    ///
    /// # Errors
    /// See [`OpenError`]: there is nothing of Baton's, it has another schema than this program, or it cannot be read.
    pub async fn look(url: &str) -> Result<Self, OpenError> {
        let options = PostgresOptions::default();
        let address = open::address(url, &options)?.options([("default_transaction_read_only", "on")]);
        let place = open::place(&address);
        let links = Arc::new(Links::new(address, &options));
        let unusable = |error| OpenError::Unusable { place: place.clone(), error };
        let mut connection = links.connect().await.map_err(unusable)?;
        open::recognise(&links, &mut connection, &place).await?;
        let terms = Terms { holder: 0, grace_ms: column::int(options.grace_ms) };
        let writer = Writer::start(&links, &options);
        Ok(Self { writer, presence: Mutex::default(), links, terms, clock: options.clock, looks: true })
    }

    /// Finishes what was queued and says goodbye to the server: from then on it does nothing, and what it still has can be claimed.
    pub async fn close(&self) {
        self.writer.finish().await;
        let presence = self.presence.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(presence) = presence {
            presence.end().await;
        }
        self.links.close();
    }

    /// The time that counts, if it is the caller's.
    fn now(&self, now_ms: u64) -> Option<u64> {
        match self.clock {
            Clock::Server => None,
            Clock::Caller => Some(now_ms),
        }
    }
}

/// A number that no other process has.
#[expect(clippy::disallowed_methods, reason = "names a process, which no rehearsal repeats")]
fn number() -> Result<i64, StoreError> {
    let mut bytes = [0; 8];
    let random = getrandom::fill(&mut bytes);
    random.map_err(|_| StoreError::new(StoreFault::Unavailable, "the system gives no random numbers"))?;
    Ok(i64::from_be_bytes(bytes))
}

#[async_trait]
impl Store for Postgres {
    async fn admit(&self, admission: Admission) -> Result<Accepted, AdmitError> {
        admit::admit(&self.links, admission).await
    }

    async fn claim(&self, worker: &str, most: usize, now_ms: u64, lease_ms: u64) -> Result<Vec<Claim>, StoreError> {
        let asking = Asking { worker, most, stopped: false };
        lease::claim(&self.links, &self.terms, asking, self.now(now_ms), lease_ms).await
    }

    async fn claim_stopped(
        &self,
        worker: &str,
        most: usize,
        now_ms: u64,
        lease_ms: u64,
    ) -> Result<Vec<Claim>, StoreError> {
        let asking = Asking { worker, most, stopped: true };
        lease::claim(&self.links, &self.terms, asking, self.now(now_ms), lease_ms).await
    }

    async fn renew(&self, claims: &[Claim], now_ms: u64, lease_ms: u64) -> Result<Vec<Claim>, StoreError> {
        lease::renew(&self.links, claims, self.now(now_ms), lease_ms).await
    }

    async fn release(&self, claim: Claim) -> Result<(), StoreError> {
        lease::release(&self.links, claim).await
    }

    async fn append(&self, append: Append) -> Result<u64, AppendError> {
        append.check()?;
        self.writer.append(append).await
    }

    async fn put_snapshot(&self, claim: Claim, snapshot: Snapshot) -> Result<(), StoreError> {
        append::put_snapshot(&self.links, claim, &snapshot).await
    }

    async fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, StoreError> {
        append::snapshot(&self.links, run).await
    }

    async fn read_after(&self, run: RunId, after: u64, most: usize) -> Result<Vec<StoredEvent>, StoreError> {
        append::read_after(&self.links, run, after, most).await
    }

    async fn put_inbox(&self, run: RunId, item: InboxItem, at: u64) -> Result<Vec<RunId>, StoreError> {
        lease::put_inbox(&self.links, run, &item, at).await
    }

    async fn inbox(&self, run: RunId) -> Result<Vec<(u64, InboxItem)>, StoreError> {
        lease::inbox(&self.links, run).await
    }

    async fn owner(&self, fresh: UserId, at: u64) -> Result<UserId, StoreError> {
        if self.looks {
            return Ok(users::known_owner(&self.links).await?.unwrap_or(fresh));
        }
        users::owner(&self.links, fresh, at).await
    }

    async fn run(&self, user: UserId, run: RunId) -> Result<Option<RunView>, StoreError> {
        lists::run(&self.links, user, run).await
    }

    async fn runs(
        &self,
        user: UserId,
        chat: Option<ChatId>,
        before: Option<RunId>,
        most: usize,
    ) -> Result<Page<RunView>, StoreError> {
        lists::runs(&self.links, user, chat, before, most).await
    }

    async fn chats(&self, user: UserId, cursor: Option<&str>, most: usize) -> Result<Page<ChatView>, StoreError> {
        let after = cursor.map(ChatCursor::parse).transpose()?;
        lists::chats(&self.links, user, after, most).await
    }

    async fn project_of(&self, user: UserId, chat: ChatId) -> Result<Option<ProjectId>, StoreError> {
        lists::project_of(&self.links, user, chat).await
    }

    async fn chat(&self, user: UserId, chat: ChatId) -> Result<Option<ChatDetail>, StoreError> {
        lists::chat(&self.links, user, chat).await
    }

    async fn project(&self, project: ProjectId) -> Result<Option<ProjectRow>, StoreError> {
        lists::project(&self.links, project).await
    }

    async fn project_by_slug(&self, slug: &str) -> Result<Option<ProjectRow>, StoreError> {
        lists::project_by_slug(&self.links, slug).await
    }

    async fn unpublished_runs(&self, project: ProjectId) -> Result<Vec<RunId>, StoreError> {
        lists::unpublished_runs(&self.links, project).await
    }

    async fn versions(&self, project: ProjectId, most: usize) -> Result<Vec<VersionView>, StoreError> {
        lists::versions(&self.links, project, most).await
    }

    async fn version(&self, project: ProjectId, version: VersionId) -> Result<Option<PublishedVersion>, StoreError> {
        lists::version(&self.links, project, version).await
    }

    async fn drawn(&self, run: RunId) -> Result<Drawn, StoreError> {
        lists::drawn(&self.links, run).await
    }

    async fn put_session(&self, token_sha256: &str, user: UserId, until: u64) -> Result<(), StoreError> {
        users::put_session(&self.links, token_sha256, user, until).await
    }

    async fn session(&self, token_sha256: &str, now_ms: u64) -> Result<Option<UserId>, StoreError> {
        users::session(&self.links, token_sha256, now_ms).await
    }
}

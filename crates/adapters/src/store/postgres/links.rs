//! Connections that are used for one statement at a time and then by the next caller; their number is bounded.
//!
//! A connection that failed is closed, and with it all that are idle: what broke one has mostly broken all. A read is then made
//! again on a fresh one, a write never: whether it was done is unknown, and its caller has to look.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runtime::ports::store::{StoreError, StoreFault};
use sqlx::postgres::{PgArguments, PgConnectOptions, PgRow};
use sqlx::query::Query;
use sqlx::{ConnectOptions, Executor, PgConnection, Postgres};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::PostgresOptions;
use super::failure::{Fate, fate, store_error, unavailable};

/// A statement with its values.
pub(super) type Ask<'q> = Query<'q, Postgres, PgArguments>;

/// How often a statement is made again that the server took back because of what others did at the same moment.
pub(super) const AGAIN: usize = 3;

/// How much longer an answer is waited for than the server may take: its word that nothing was done is better than none.
const MARGIN: Duration = Duration::from_secs(1);

/// Why a statement failed, and what that says of it.
pub(super) struct Trouble {
    pub(super) error: StoreError,
    pub(super) fate: Fate,
}

/// The pool.
pub(super) struct Links {
    options: PgConnectOptions,
    wait: Duration,
    places: Semaphore,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// How often connections were found broken: those from before are not kept.
    breaks: u64,
    connections: Vec<PgConnection>,
}

impl Links {
    /// A pool that connects as it is needed.
    pub(super) fn new(connect: PgConnectOptions, options: &PostgresOptions) -> Self {
        Self {
            options: connect,
            wait: Duration::from_millis(options.wait_ms).saturating_add(MARGIN),
            places: Semaphore::new(options.connections.max(1)),
            idle: Mutex::default(),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection of the caller's own.
    pub(super) async fn connect(&self) -> Result<PgConnection, StoreError> {
        match timeout(self.wait, self.options.connect()).await {
            Ok(connected) => connected.map_err(|error| store_error(&error)),
            Err(_) => Err(unavailable("the server does not answer")),
        }
    }

    /// Whatever is idle is not used again.
    pub(super) fn forget(&self) {
        let mut idle = self.idle();
        idle.breaks += 1;
        idle.connections.clear();
    }

    /// No connection is given any more.
    pub(super) fn close(&self) {
        self.places.close();
        self.forget();
    }

    async fn take(&self) -> Result<Link<'_>, StoreError> {
        let stopped = |_| StoreError::new(StoreFault::Stopped, "the store has stopped");
        let place = match timeout(self.wait, self.places.acquire()).await {
            Ok(place) => place.map_err(stopped)?,
            Err(_) => return Err(unavailable("all connections are in use")),
        };
        let (breaks, idle) = {
            let mut idle = self.idle();
            (idle.breaks, idle.connections.pop())
        };
        let fresh = idle.is_none();
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        Ok(Link { links: self, connection: Some(connection), breaks, fresh, whole: true, _place: place })
    }

    /// Makes a statement that changes nothing.
    pub(super) async fn read<'q>(&self, ask: impl Fn() -> Ask<'q>) -> Result<Vec<PgRow>, StoreError> {
        let mut again = AGAIN;
        loop {
            let mut link = self.take().await?;
            match link.ask(ask()).await {
                Ok(rows) => return Ok(rows),
                // After the first break none is left that is not fresh.
                Err(trouble) if trouble.fate == Fate::Unknown && !link.fresh => {}
                Err(trouble) if trouble.fate == Fate::Again && again > 0 => again -= 1,
                Err(trouble) => return Err(trouble.error),
            }
        }
    }

    /// Makes a statement once that is a transaction of its own; its outcome is unknown if the connection breaks.
    pub(super) async fn write<'q>(&self, ask: impl Fn() -> Ask<'q>) -> Result<Vec<PgRow>, StoreError> {
        let mut again = AGAIN;
        loop {
            let mut link = self.take().await?;
            match link.ask(ask()).await {
                Ok(rows) => return Ok(rows),
                Err(trouble) if trouble.fate == Fate::Again && again > 0 => again -= 1,
                Err(trouble) => return Err(trouble.error),
            }
        }
    }

    /// A connection whose statements all see one moment, until [`Link::end`].
    pub(super) async fn moment(&self) -> Result<Link<'_>, StoreError> {
        loop {
            let mut link = self.take().await?;
            match link.ask(sqlx::query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")).await {
                Ok(_) => {
                    link.whole = false;
                    return Ok(link);
                }
                Err(trouble) if trouble.fate == Fate::Unknown && !link.fresh => {}
                Err(trouble) => return Err(trouble.error),
            }
        }
    }

    /// Makes a statement on a connection, within the time that one may take.
    pub(super) async fn ask(&self, connection: &mut PgConnection, ask: Ask<'_>) -> Result<Vec<PgRow>, Trouble> {
        match timeout(self.wait, ask.fetch_all(connection)).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => Err(Trouble { error: store_error(&error), fate: fate(&error) }),
            Err(_) => Err(Trouble { error: unavailable("the server does not answer"), fate: Fate::Unknown }),
        }
    }

    /// Has statements without values carried out, of which there may be several.
    pub(super) async fn run(&self, connection: &mut PgConnection, sql: &'static str) -> Result<(), Trouble> {
        match timeout(self.wait, connection.execute(sqlx::raw_sql(sql))).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Trouble { error: store_error(&error), fate: fate(&error) }),
            Err(_) => Err(Trouble { error: unavailable("the server does not answer"), fate: Fate::Unknown }),
        }
    }
}

/// A connection in use. It is kept for the next caller if it is whole when it is dropped.
pub(super) struct Link<'a> {
    links: &'a Links,
    connection: Option<PgConnection>,
    breaks: u64,
    fresh: bool,
    /// Neither in the middle of a statement nor of a transaction.
    whole: bool,
    _place: SemaphorePermit<'a>,
}

impl Link<'_> {
    async fn ask(&mut self, ask: Ask<'_>) -> Result<Vec<PgRow>, Trouble> {
        let Some(connection) = &mut self.connection else {
            return Err(Trouble { error: unavailable("the connection failed before"), fate: Fate::Undone });
        };
        let whole = std::mem::replace(&mut self.whole, false);
        let answer = self.links.ask(connection, ask).await;
        match &answer {
            Err(trouble) if trouble.fate == Fate::Unknown => {
                self.connection = None;
                self.links.forget();
            }
            Ok(_) | Err(_) => self.whole = whole,
        }
        answer
    }

    /// Reads what was there at the moment.
    pub(super) async fn rows(&mut self, ask: Ask<'_>) -> Result<Vec<PgRow>, StoreError> {
        self.ask(ask).await.map_err(|trouble| trouble.error)
    }

    /// Lets go of the moment.
    pub(super) async fn end(mut self) -> Result<(), StoreError> {
        self.rows(sqlx::query("COMMIT")).await?;
        self.whole = true;
        Ok(())
    }
}

impl Drop for Link<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take().filter(|_| self.whole) else { return };
        let mut idle = self.links.idle();
        if idle.breaks == self.breaks {
            idle.connections.push(connection);
        }
    }
}

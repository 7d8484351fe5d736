//! That this process lives: a connection of its own that holds the advisory lock of its number.
//!
//! When the process dies, however that happens, the server lets go of the lock, and whoever claims next takes its runs without
//! waiting for their leases. A connection that breaks while the process lives is made again; epochs guard what happens meanwhile.
#![expect(clippy::disallowed_methods, reason = "owns the task that holds the lock")]

use std::sync::Arc;
use std::time::Duration;

use runtime::ports::store::{StoreError, StoreFault};
use sqlx::{Connection, PgConnection};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::column::get;
use super::links::Links;

/// How often is looked whether the connection still is there.
const LOOK: Duration = Duration::from_millis(500);
/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// Held as long as the store is open.
pub(super) struct Presence {
    task: Option<JoinHandle<()>>,
    stop: Option<oneshot::Sender<()>>,
}

impl Presence {
    /// Takes the lock of a number that nobody else has.
    pub(super) async fn take(links: &Arc<Links>, number: i64) -> Result<Self, StoreError> {
        let connection = hold(links, number).await?;
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(keep(links.clone(), number, connection, stopped));
        Ok(Self { task: Some(task), stop: Some(stop) })
    }

    /// Lets go of the lock, and waits until the server knows.
    pub(super) async fn end(mut self) {
        drop(self.stop.take());
        if let Some(task) = self.task.take()
            && timeout(GOODBYE, task).await.is_err()
        {
            tracing::warn!("the database's server was not told that this process has stopped");
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            // The connection goes with it, and the lock with that.
            task.abort();
        }
    }
}

/// A connection that holds the lock.
async fn hold(links: &Links, number: i64) -> Result<PgConnection, StoreError> {
    let mut connection = links.connect().await?;
    let told = |trouble: super::links::Trouble| trouble.error;
    // A machine that is gone without a word is noticed within seconds too.
    for setting in ["SET tcp_keepalives_idle = 3", "SET tcp_keepalives_interval = 1", "SET tcp_keepalives_count = 3"] {
        links.ask(&mut connection, sqlx::query(setting)).await.map_err(told)?;
    }
    let taken = links.ask(&mut connection, sqlx::query("SELECT pg_try_advisory_lock($1)").bind(number)).await;
    let taken = match taken.map_err(told)?.first() {
        Some(row) => get::<bool>(row, 0)?,
        None => false,
    };
    if !taken {
        // A former connection that the server has not yet given up; it tells the same.
        return Err(StoreError::new(StoreFault::Unavailable, "the lock of this process is still held"));
    }
    let known = sqlx::query("INSERT INTO holders (holder) VALUES ($1) ON CONFLICT DO NOTHING").bind(number);
    links.ask(&mut connection, known).await.map_err(told)?;
    Ok(connection)
}

async fn keep(links: Arc<Links>, number: i64, connection: PgConnection, mut stopped: oneshot::Receiver<()>) {
    let mut held = Some(connection);
    // The sender is dropped, never used: either way it is time to go.
    while timeout(LOOK, &mut stopped).await.is_err() {
        held = match held {
            Some(mut connection) => match links.ask(&mut connection, sqlx::query("SELECT")).await {
                Ok(_) => Some(connection),
                Err(trouble) => {
                    tracing::warn!(error = %trouble.error, "the connection that tells that this process lives broke");
                    // The others are no better, most likely: nobody should have to find that out.
                    links.forget();
                    None
                }
            },
            None => match hold(&links, number).await {
                Ok(connection) => {
                    tracing::info!("the connection that tells that this process lives is back");
                    Some(connection)
                }
                Err(error) => {
                    tracing::debug!(%error, "the connection that tells that this process lives is not back yet");
                    None
                }
            },
        };
    }
    if let Some(mut connection) = held {
        let gone = sqlx::query(
            "DELETE FROM holders h WHERE h.holder = $1 AND NOT EXISTS (SELECT FROM claims c WHERE c.holder = h.holder)",
        );
        // Best effort: whoever claims next finds out.
        let _ = links.ask(&mut connection, gone.bind(number)).await;
        let _ = timeout(GOODBYE, connection.close()).await;
    }
}

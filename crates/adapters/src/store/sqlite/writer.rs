//! The one writer: a thread of ours that owns the connection and commits whatever has gathered while it was busy.
//!
//! Self-clocked group commit: take the first request, then all that wait behind it, up to a bound; one transaction; answer all
//! after the commit. One caller alone pays one commit's latency, a thousand share it, and no timer decides anything.
//!
//! One bad request must not hurt the others of its batch. A refusal (a limit, a fence) is found before the request changes
//! anything, so the transaction goes on. A request that fails later ends the transaction, and the batch is done again one by
//! one, each in a transaction of its own. That costs nothing where savepoints cost each request, and it also covers what they
//! do not: errors after which SQLite has rolled everything back by itself, such as a full disk.
#![expect(clippy::disallowed_methods, reason = "owns and joins the writer's thread")]

use std::io;
use std::thread::JoinHandle;

use runtime::ports::store::{StoreError, StoreFault};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::Options;
use super::failure::{Failure, store_error};

/// What one caller wants to be done in the next transaction. It can be done again: see the top of this file.
trait Request: Send {
    /// Events that it appends; at least 1.
    fn weight(&self) -> usize;

    /// Does the work and keeps the result. False: the transaction cannot go on.
    fn apply(&mut self, db: &Connection) -> bool;

    /// Tells the caller, given what became of the transaction.
    fn answer(self: Box<Self>, fate: &Result<(), StoreError>);
}

/// Work with the caller who waits for it.
struct Asked<T, E, F> {
    weight: usize,
    work: F,
    result: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<T, E, F> Request for Asked<T, E, F>
where
    T: Send,
    E: From<StoreError> + Send,
    F: Fn(&Connection) -> Result<T, Failure<E>> + Send,
{
    fn weight(&self) -> usize {
        self.weight
    }

    fn apply(&mut self, db: &Connection) -> bool {
        let changes = db.total_changes();
        let (result, goes_on) = match (self.work)(db) {
            Ok(value) => (Ok(value), true),
            Err(Failure::Refused(error)) => (Err(error), db.total_changes() == changes),
            Err(Failure::Sql(error)) => {
                let error = store_error(&error);
                tracing::warn!(%error, "a request failed in its transaction");
                (Err(error.into()), false)
            }
        };
        self.result = Some(result);
        goes_on
    }

    fn answer(self: Box<Self>, fate: &Result<(), StoreError>) {
        let answer = match (self.result, fate) {
            (Some(Ok(value)), Ok(())) => Ok(value),
            (Some(Err(error)), _) => Err(error),
            (Some(Ok(_)) | None, Err(error)) => Err(error.clone().into()),
            (None, Ok(())) => Err(stopped().into()),
        };
        // A caller who no longer waits is not an error: the work is done all the same.
        let _ = self.reply.send(answer);
    }
}

fn stopped() -> StoreError {
    StoreError::new(StoreFault::Stopped, "the writer has stopped")
}

/// The handle of the writer's thread.
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Box<dyn Request>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// One that does nothing: whatever is asked of it has stopped.
    pub(super) fn none() -> Self {
        Self { queue: None, thread: None }
    }

    /// Gives the connection to a thread of its own.
    pub(super) fn start(db: Connection, options: &Options) -> io::Result<Self> {
        let (queue, requests) = mpsc::channel(options.queued_requests.max(1));
        let most = options.commit_events.max(1);
        let thread =
            std::thread::Builder::new().name("store-writer".into()).spawn(move || write(&db, requests, most))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Has work done in the next transaction and waits until that is durable. `weight` is the number of events it appends.
    ///
    /// Work must find its reasons to refuse before its first change.
    pub(super) async fn ask<T, E, F>(&self, weight: usize, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: Fn(&Connection) -> Result<T, Failure<E>> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let request = Box::new(Asked { weight: weight.max(1), work, result: None, reply });
        let queue = self.queue.as_ref().ok_or_else(stopped)?;
        queue.send(request).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's writer had panicked");
        }
    }
}

fn write(db: &Connection, mut requests: mpsc::Receiver<Box<dyn Request>>, most: usize) {
    let mut batch = Vec::new();
    while let Some(first) = requests.blocking_recv() {
        let mut weight = first.weight();
        batch.push(first);
        while weight < most
            && let Ok(next) = requests.try_recv()
        {
            weight += next.weight();
            batch.push(next);
        }
        commit(db, &mut batch);
    }
}

/// What became of an attempted transaction.
enum Attempt {
    Committed,
    /// SQLite would not begin or commit.
    Failed(StoreError),
    /// One of the requests cannot be in a transaction with others.
    Spoilt,
}

fn commit(db: &Connection, batch: &mut Vec<Box<dyn Request>>) {
    let fate = match attempt(db, batch) {
        Attempt::Committed => Ok(()),
        Attempt::Failed(error) => {
            tracing::error!(%error, requests = batch.len(), "a commit failed");
            Err(error)
        }
        Attempt::Spoilt if batch.len() > 1 => {
            for request in batch.drain(..) {
                commit(db, &mut vec![request]);
            }
            return;
        }
        // Alone in its transaction: it keeps its own error.
        Attempt::Spoilt => Err(stopped()),
    };
    for request in batch.drain(..) {
        request.answer(&fate);
    }
}

fn attempt(db: &Connection, batch: &mut [Box<dyn Request>]) -> Attempt {
    if let Err(error) = run(db, "BEGIN IMMEDIATE") {
        return Attempt::Failed(store_error(&error));
    }
    let outcome = match batch.iter_mut().all(|request| request.apply(db)) {
        true => match run(db, "COMMIT") {
            Ok(()) => {
                metrics::counter!("baton_store_commits_total").increment(1);
                Attempt::Committed
            }
            Err(error) => Attempt::Failed(store_error(&error)),
        },
        false => Attempt::Spoilt,
    };
    // SQLite rolls back by itself after some errors, but not after all.
    if !db.is_autocommit()
        && let Err(error) = run(db, "ROLLBACK")
    {
        tracing::error!(error = %store_error(&error), "a rollback failed");
    }
    outcome
}

fn run(db: &Connection, sql: &str) -> rusqlite::Result<()> {
    db.prepare_cached(sql)?.execute([]).map(|_| ())
}

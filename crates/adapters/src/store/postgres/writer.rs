//! Appending: a few tasks, each with a connection of its own, that commit whatever has gathered while they were busy.
//!
//! Self-clocked group commit as in SQLite's store: take the first request, then all that wait behind it, up to a bound; one
//! statement, which is one transaction and one round trip; answer all after it. A run's appends go through one task and one by one,
//! so they keep their order.
//!
//! One bad request must not hurt the others of its batch. The statement names those that it refuses and then changes nothing: the
//! rest is sent again. If it fails, each is sent alone. If its connection breaks, the outcome is unknown, and all are told so.
#![expect(clippy::disallowed_methods, reason = "owns the tasks that append")]

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use contract::RunId;
use runtime::ports::store::{Append, AppendError, StoreError, StoreFault};
use sqlx::PgConnection;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::PostgresOptions;
use super::append::{appends, refusal};
use super::failure::Fate;
use super::links::{AGAIN, Links, Trouble};

/// Payloads of one commit, in bytes, after which it takes no more.
const COMMIT_BYTES: usize = 8 * 1024 * 1024;

/// How often other tasks get a turn before a commit that is smaller than the one before.
const TURNS: u32 = 4;

/// An append with the caller who waits for it.
struct Request {
    append: Append,
    reply: oneshot::Sender<Result<u64, AppendError>>,
}

impl Request {
    fn run(&self) -> RunId {
        self.append.claim.run_id
    }

    fn answer(self, answer: Result<u64, AppendError>) {
        // A caller who no longer waits is not an error: the work is done all the same.
        let _ = self.reply.send(answer);
    }

    fn done(self) {
        let end = self.append.after.saturating_add(self.append.events.len() as u64);
        self.answer(Ok(end));
    }
}

fn stopped() -> StoreError {
    StoreError::new(StoreFault::Stopped, "the writer has stopped")
}

/// The handles of the tasks.
pub(super) struct Writer {
    queues: Vec<mpsc::Sender<Request>>,
    /// Empty once they were waited for.
    tasks: Mutex<Vec<JoinHandle<()>>>,
    end: CancellationToken,
}

impl Writer {
    /// Starts the tasks. They end when what was queued is done and the writer is gone.
    pub(super) fn start(links: &Arc<Links>, options: &PostgresOptions) -> Self {
        let (mut queues, mut tasks, end) = (vec![], vec![], CancellationToken::new());
        for _ in 0..options.lanes.max(1) {
            let (queue, requests) = mpsc::channel(options.queued_requests.max(1));
            let lane = Lane {
                links: links.clone(),
                connection: None,
                requests,
                most: options.commit_events.max(1),
                held: VecDeque::new(),
                most_held: options.queued_requests.max(1),
                latest: 0,
                end: end.clone(),
            };
            queues.push(queue);
            tasks.push(tokio::spawn(lane.work()));
        }
        Self { queues, tasks: Mutex::new(tasks), end }
    }

    /// Appends, and waits until it is durable.
    pub(super) async fn append(&self, append: Append) -> Result<u64, AppendError> {
        let lanes = self.queues.len() as u128;
        let lane = usize::try_from(append.claim.run_id.bits() % lanes).unwrap_or(0);
        let queue = self.queues.get(lane).ok_or_else(stopped)?;
        let (reply, answer) = oneshot::channel();
        queue.send(Request { append, reply }).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    /// Takes no more, and waits until everything that was queued is done.
    pub(super) async fn finish(&self) {
        self.end.cancel();
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the store's writer did not end well");
            }
        }
    }
}

struct Lane {
    links: Arc<Links>,
    connection: Option<PgConnection>,
    requests: mpsc::Receiver<Request>,
    most: usize,
    /// Requests of runs that were in a batch already.
    held: VecDeque<Request>,
    most_held: usize,
    /// Requests of the latest commit.
    latest: usize,
    /// Asks the task to take no more.
    end: CancellationToken,
}

impl Lane {
    async fn work(mut self) {
        while let Some(mut batch) = self.gather().await {
            // Claims are locked in the order of their ids, here as everywhere.
            batch.sort_unstable_by_key(Request::run);
            self.commit(batch).await;
        }
    }

    /// What has gathered: of each run one request, the others keep their order behind it.
    async fn gather(&mut self) -> Option<Vec<Request>> {
        let mut batch = Batch { most: self.most, ..Batch::default() };
        for request in std::mem::take(&mut self.held) {
            self.held.extend(batch.add(request));
        }
        if batch.requests.is_empty() {
            let first = match self.end.run_until_cancelled(self.requests.recv()).await {
                Some(first) => first?,
                None => {
                    self.requests.close();
                    self.requests.recv().await?
                }
            };
            self.held.extend(batch.add(first));
        }
        for turn in 0..=TURNS {
            while batch.has_room()
                && self.held.len() < self.most_held
                && let Ok(next) = self.requests.try_recv()
            {
                self.held.extend(batch.add(next));
            }
            if turn == TURNS || batch.requests.len() >= self.latest {
                break;
            }
            // Those that were answered a moment ago are about to ask again: without them this commit would be of the quickest
            // alone, and the others would wait for it. They have a turn each, and no time passes if there are none.
            tokio::task::yield_now().await;
        }
        self.latest = batch.requests.len();
        Some(batch.requests)
    }

    async fn commit(&mut self, mut batch: Vec<Request>) {
        let mut again = AGAIN;
        while !batch.is_empty() {
            match self.attempt(&batch).await {
                Ok(refused) if refused.is_empty() => {
                    batch.into_iter().for_each(Request::done);
                    return;
                }
                Ok(refused) => {
                    for (run, why) in refused {
                        if let Some(at) = batch.iter().position(|request| request.run() == run) {
                            batch.remove(at).answer(Err(why));
                        }
                    }
                }
                Err(trouble) if trouble.fate == Fate::Again && again > 0 => again -= 1,
                Err(trouble) if trouble.fate != Fate::Unknown && batch.len() > 1 => {
                    tracing::warn!(error = %trouble.error, requests = batch.len(), "a commit failed; each is made alone");
                    for request in batch {
                        Box::pin(self.commit(vec![request])).await;
                    }
                    return;
                }
                Err(trouble) => {
                    tracing::warn!(error = %trouble.error, requests = batch.len(), "a commit failed");
                    batch.into_iter().for_each(|request| request.answer(Err(trouble.error.clone().into())));
                    return;
                }
            }
        }
    }

    /// Makes the batch durable, or gives what is refused of it and does nothing.
    async fn attempt(&mut self, batch: &[Request]) -> Result<Vec<(RunId, AppendError)>, Trouble> {
        let undone = |error| Trouble { error, fate: Fate::Undone };
        let unknown = |error| Trouble { error, fate: Fate::Unknown };
        let connection = match &mut self.connection {
            Some(connection) => connection,
            // Nothing was asked yet, but sending each alone would not help.
            None => self.connection.insert(self.links.connect().await.map_err(unknown)?),
        };
        let ask = appends(batch.iter().map(|request| &request.append)).map_err(undone)?;
        let answer = self.links.ask(connection, ask).await;
        if answer.as_ref().is_err_and(|trouble| trouble.fate == Fate::Unknown) {
            self.connection = None;
            self.links.forget();
        }
        let refused: Result<Vec<_>, _> = answer?.iter().map(refusal).collect();
        let refused = refused.map_err(unknown)?;
        // A name that is not of the batch would be asked for ever.
        let known = refused.iter().all(|(run, _)| batch.iter().any(|request| request.run() == *run));
        if known { Ok(refused) } else { Err(unknown(StoreError::new(StoreFault::Damaged, "a refusal of no request"))) }
    }
}

/// Requests of different runs, up to a weight.
#[derive(Default)]
struct Batch {
    requests: Vec<Request>,
    runs: HashSet<RunId>,
    most: usize,
    weight: usize,
    bytes: usize,
}

impl Batch {
    fn has_room(&self) -> bool {
        self.weight < self.most && self.bytes < COMMIT_BYTES
    }

    /// Takes the request, or gives it back.
    fn add(&mut self, request: Request) -> Option<Request> {
        if !self.has_room() || !self.runs.insert(request.run()) {
            return Some(request);
        }
        let Append { events, rows, .. } = &request.append;
        self.weight += (events.len() + rows.len()).max(1);
        self.bytes += events.iter().map(|event| event.payload.len()).sum::<usize>();
        self.requests.push(request);
        None
    }
}

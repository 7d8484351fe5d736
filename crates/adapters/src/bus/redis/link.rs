//! The one connection of a bus: it carries what is sent and what is heard (RESP3 pushes), so that an answer to either proves both.
//!
//! The client's own reconnecting is not used: it is silent, and whoever was away has to look at everything.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, PushInfo, PushKind, RedisError, Value};
use runtime::ports::bus::Exchange;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::letter::{self, Heard, Origin};
use super::outbox::{Batch, Outbox};
use super::{ANSWER, CONNECT, words};

/// After this much silence Redis is asked whether it is there: a connection can die without a word.
const SILENCE: Duration = Duration::from_secs(5);
/// First pause before connecting again; doubles.
const PAUSE: Duration = Duration::from_millis(50);
/// Longest pause.
const PAUSE_MOST: Duration = Duration::from_secs(2);

/// What keeps the connection.
pub(super) struct Link {
    pub(super) client: Client,
    /// Host and port, for people.
    pub(super) name: String,
    pub(super) channel: String,
    pub(super) origin: Origin,
    pub(super) exchange: Arc<Exchange>,
    pub(super) outbox: Arc<Outbox>,
    /// Tells why it does not work, or that it does.
    pub(super) tell: watch::Sender<Option<String>>,
}

/// Why a connection is over.
enum Lost {
    Closed,
    Failed(RedisError),
}

impl From<RedisError> for Lost {
    fn from(error: RedisError) -> Self {
        Self::Failed(error)
    }
}

impl Link {
    /// Connects, again and again, until it is dropped.
    pub(super) async fn keep(self) {
        let mut pause = PAUSE;
        // Whether somebody was told of the outage that lasts.
        let mut told = false;
        loop {
            let mut since = None;
            let Err(lost) = self.connection(&mut since, &mut told).await;
            let reason = match lost {
                Lost::Closed => "the connection was closed".to_owned(),
                Lost::Failed(error) => words(&error),
            };
            metrics::gauge!("baton_bus_connected").set(0.0);
            self.tell.send_replace(Some(format!("Redis at {}: {reason}", self.name)));
            // A connection that breaks at once is the same outage.
            if since.is_some_and(|since: Instant| since.elapsed() >= PAUSE_MOST) {
                pause = PAUSE;
            }
            if !std::mem::replace(&mut told, true) {
                metrics::counter!("baton_bus_outages_total").increment(1);
                tracing::warn!(
                    redis = self.name,
                    reason,
                    "no wake-ups from other processes: all poll until Redis is back"
                );
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MOST);
        }
    }

    /// One connection, to its end; tells since when it works.
    async fn connection(&self, since: &mut Option<Instant>, told: &mut bool) -> Result<std::convert::Infallible, Lost> {
        let closed = CancellationToken::new();
        let mut connection = connect(&self.client, self.receiver(closed.clone())).await?;
        connection.subscribe(&self.channel).await?;
        *since = Some(Instant::now());
        if std::mem::take(told) {
            tracing::info!(redis = self.name, "Redis is back");
        }
        // Whatever was sent while nobody listened here is lost.
        self.exchange.wake_all();
        metrics::gauge!("baton_bus_connected").set(1.0);
        self.tell.send_replace(None);
        loop {
            let batch = tokio::select! {
                biased;
                () = closed.cancelled() => return Err(Lost::Closed),
                batch = self.outbox.next() => Some(batch),
                () = sleep(SILENCE) => None,
            };
            match batch {
                Some(batch) => self.publish(&mut connection, batch).await?,
                None => redis::cmd("PING").query_async::<()>(&mut connection).await?,
            }
        }
    }

    async fn publish(&self, connection: &mut MultiplexedConnection, batch: Batch) -> Result<(), RedisError> {
        let mut unsent = Unsent { outbox: &self.outbox, batch: Some(batch) };
        let Some(batch) = &unsent.batch else { return Ok(()) };
        let letter = letter::write(self.origin, batch);
        redis::cmd("PUBLISH").arg(&self.channel).arg(letter).query_async::<()>(connection).await?;
        metrics::counter!("baton_bus_sent_total").increment(1);
        unsent.batch = None;
        self.outbox.sent();
        Ok(())
    }

    /// What takes the messages of a connection: it wakes at once, and keeps nothing.
    fn receiver(&self, closed: CancellationToken) -> impl Fn(PushInfo) + Send + Sync + 'static {
        let (exchange, origin) = (Arc::clone(&self.exchange), self.origin);
        move |push: PushInfo| match (push.kind, push.data.last()) {
            (PushKind::Disconnection, _) => closed.cancel(),
            (PushKind::Message, Some(Value::BulkString(letter))) => {
                for heard in letter::read(origin, letter) {
                    metrics::counter!("baton_bus_heard_total").increment(1);
                    match heard {
                        Heard::Wake(wake) => exchange.wake(wake),
                        Heard::Everything => exchange.wake_all(),
                    }
                }
            }
            // Confirmations, and what a later Redis may say.
            _ => {}
        }
    }
}

/// A batch whose message goes back if it is dropped: it may not have arrived.
struct Unsent<'a> {
    outbox: &'a Outbox,
    batch: Option<Batch>,
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if let Some(batch) = self.batch.take() {
            self.outbox.put_back(batch);
        }
    }
}

/// A connection whose messages go to `receive`.
pub(super) async fn connect(
    client: &Client,
    receive: impl Fn(PushInfo) + Send + Sync + 'static,
) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT))
        .set_response_timeout(Some(ANSWER))
        .set_push_sender(move |push| {
            receive(push);
            Ok::<(), std::convert::Infallible>(())
        });
    client.get_multiplexed_async_connection_with_config(&config).await
}

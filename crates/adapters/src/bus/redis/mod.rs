//! Wake-ups between processes: Redis pub/sub, one channel for all processes of one Baton.
//!
//! | file | holds |
//! |---|---|
//! | `outbox` | what waits to be sent, each wake-up once, bounded |
//! | `letter` | a message on the channel, as bytes |
//! | `link` | the one connection: made again for ever, with a pause |
//!
//! Nothing depends on it: whoever listens here is woken without the round trip, and whoever listens elsewhere also polls. So it opens
//! and works while Redis is down, forgets nothing that it could remember in a bounded place, and says once per outage that it lasts.

mod letter;
mod link;
mod outbox;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{Client, IntoConnectionInfo, ProtocolVersion, RedisError};
use runtime::ports::bus::{Bus, Exchange, Listener, Wake};
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::letter::Origin;
use self::link::{Link, connect};
use self::outbox::Outbox;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(2);
/// How long Redis may take to answer. It does nothing slow for us.
const ANSWER: Duration = Duration::from_secs(2);
/// What the channels' names begin with.
const PREFIX: &str = "baton";

/// Why a bus cannot be opened: its address is none. That nobody answers there is no reason.
#[derive(Debug, Error)]
#[error("the address of Redis cannot be used: {0}")]
pub struct OpenBusError(&'static str);

impl OpenBusError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        "bus_unusable"
    }

    /// What the person can do.
    pub fn action(&self) -> &'static str {
        "Write it as redis://[user[:password]@]host[:port][/database], or rediss:// for TLS."
    }
}

/// The bus of several processes.
pub struct RedisBus {
    exchange: Arc<Exchange>,
    outbox: Arc<Outbox>,
    trouble: watch::Receiver<Option<String>>,
    _stops_the_link: DropGuard,
}

impl RedisBus {
    /// Opens a bus and begins to connect, on the runtime that calls it. Whether Redis answers is seen by [`Bus::trouble`].
    ///
    /// Redis keeps no channels apart by database, so the number is part of the channel's name: Batons that share a Redis and not a
    /// database do not wake each other.
    ///
    /// # Errors
    /// The text is no address of a Redis. The error does not repeat it, since it may hold a password.
    #[expect(clippy::disallowed_methods, reason = "owns the task of the connection, which ends with the bus")]
    pub fn open(url: &str) -> Result<Self, OpenBusError> {
        let Place { client, name, channel } = Place::parse(url)?;
        let (exchange, outbox, stop) = (Arc::default(), Arc::<Outbox>::default(), CancellationToken::new());
        let (tell, trouble) = watch::channel(Some(format!("Redis at {name} has not answered yet")));
        let link = Link {
            client,
            name,
            channel,
            origin: Origin::new(),
            exchange: Arc::clone(&exchange),
            outbox: Arc::clone(&outbox),
            tell,
        };
        let until = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = link.keep() => {}
                () = until.cancelled() => {}
            }
        });
        Ok(Self { exchange, outbox, trouble, _stops_the_link: stop.drop_guard() })
    }

    /// Waits until Redis has everything that was sent so far, but not for longer than `most`. For a process that is about to end.
    pub async fn flush(&self, most: Duration) {
        let _elapsed = tokio::time::timeout(most, self.outbox.emptied()).await;
    }
}

impl fmt::Debug for RedisBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBus").field("trouble", &*self.trouble.borrow()).finish_non_exhaustive()
    }
}

impl Bus for RedisBus {
    fn send(&self, wake: Wake) {
        self.exchange.wake(wake);
        self.outbox.put(wake);
    }

    fn listen(&self, wake: Wake) -> Listener {
        self.exchange.listen(wake)
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.borrow().clone()
    }
}

/// Asks a Redis once whether it works for a bus: it answers, knows us, and speaks a protocol that carries messages.
///
/// # Errors
/// What is wrong, in words that hold no password.
pub async fn probe(url: &str) -> Result<(), String> {
    let place = Place::parse(url).map_err(|error| format!("{error}. {}", error.action()))?;
    let failed = |error: RedisError| format!("Redis at {}: {}", place.name, words(&error));
    let mut connection = connect(&place.client, |_message| {}).await.map_err(failed)?;
    connection.subscribe(&place.channel).await.map_err(failed)
}

/// A Redis and the channel on it.
struct Place {
    client: Client,
    /// Host and port, for people.
    name: String,
    channel: String,
}

impl Place {
    fn parse(url: &str) -> Result<Self, OpenBusError> {
        // The client's own errors are not shown: nobody promises that they hold nothing of the address.
        let info = url.into_connection_info().map_err(|_| OpenBusError("it is no address"))?;
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let (name, channel) = (info.addr().to_string(), format!("{PREFIX}:{}:wakes", settings.db()));
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
        let client = Client::open(info.set_redis_settings(settings).set_tcp_settings(tcp));
        Ok(Self { client: client.map_err(|_| OpenBusError("no connection can be made from it"))?, name, channel })
    }
}

/// An error of the client for people. What Redis answers may be shown: it never repeats a password.
fn words(error: &RedisError) -> String {
    match error.detail() {
        Some(detail) if !detail.is_empty() => detail.to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_channel_and_never_shows_its_password() {
        let place = |url| Place::parse(url).map(|place| (place.name, place.channel));
        let found = place("redis://me:secret@example.test/3").unwrap();
        assert_eq!(found, ("example.test:6379".into(), "baton:3:wakes".into()));
        assert_eq!(place("rediss://h:1").unwrap().1, "baton:0:wakes");
        for bad in ["", "h:1", "http://:secret@h", "redis://:secret@h/x", "redis://:secret@/", "redis://:secret@[h"] {
            let error = place(bad).unwrap_err();
            assert!(!format!("{error} {error:?} {}", error.action()).contains("secret@"), "{bad}: {error}");
        }
    }

    #[tokio::test]
    async fn where_nobody_answers_a_bus_opens_all_the_same_and_works_here() {
        // Port 1 belongs to nobody.
        let bus = RedisBus::open("redis://:secret@127.0.0.1:1").unwrap();
        let mut listener = bus.listen(Wake::Claimable);
        bus.send(Wake::Claimable);
        listener.heard().await;
        let trouble = bus.trouble().unwrap();
        assert!(trouble.contains("127.0.0.1:1") && !format!("{trouble} {bus:?}").contains("secret"), "{trouble}");
        assert!(probe("redis://:secret@127.0.0.1:1").await.unwrap_err().contains("127.0.0.1:1"));
    }
}

//! The listener: connections in, each bounded in number, time and memory, and a stop that ends what is open.
//!
//! The one place of this crate that starts tasks. It knows nothing of routes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use contract::UserId;
use metrics_exporter_prometheus::PrometheusHandle;
use runtime::Runtime;
use runtime::ports::store::StoreError;
use runtime::ports::world::new_id;
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::guard::{Hosts, OwnerToken};
use crate::session::Codes;
use crate::{bounds, connection, router};

/// Everything that a server is made of.
pub struct ServerConfig {
    /// What the doors call.
    pub runtime: Arc<Runtime>,
    /// The port that clients connect to, which their Host names: that of the listener, unless something forwards to it.
    pub port: u16,
    /// Opens everything.
    pub owner_token: OwnerToken,
    /// Renders what was measured. Its recorder should be the process's own.
    pub metrics: PrometheusHandle,
}

/// What every handler shares.
pub struct App {
    pub runtime: Arc<Runtime>,
    pub hosts: Hosts,
    pub owner_token: OwnerToken,
    pub metrics: PrometheusHandle,
    /// Whether whoever can connect may read the metrics: only this machine can.
    pub metrics_are_open: bool,
    pub codes: Codes,
    /// Ends every open stream.
    pub stop: CancellationToken,
    owner: OnceCell<UserId>,
}

impl App {
    /// The one user of an embedded server, asked for once.
    pub async fn owner(&self) -> Result<UserId, StoreError> {
        let ports = &self.runtime.ports;
        let ask = || ports.store.owner(new_id(&*ports.world), ports.world.now_ms());
        self.owner.get_or_try_init(ask).await.copied()
    }
}

/// The door, ready to be opened.
pub struct Server {
    config: ServerConfig,
    among_others: bool,
}

impl Server {
    /// Takes what it is made of. Nothing happens before [`Server::serve`].
    pub fn new(config: ServerConfig) -> Self {
        Self { config, among_others: false }
    }

    /// One of several servers of this Baton: what they show in common, each shows.
    #[must_use]
    pub fn among_others(mut self) -> Self {
        self.among_others = true;
        self
    }

    /// Serves until `stop`: then open streams end at once, and requests in hand have `shutdown_ms`.
    ///
    /// # Errors
    /// When the listener has no address.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) -> io::Result<()> {
        let config = self.config;
        let limits = &config.runtime.limits;
        let (patience, grace) = (Duration::from_millis(limits.sse_write_ms), Duration::from_millis(limits.shutdown_ms));
        let metrics = config.metrics.clone();
        let app = Arc::new(App {
            hosts: Hosts {
                port: config.port,
                preview_suffix: config.runtime.preview.host_suffix.to_ascii_lowercase(),
                preview_port: config.runtime.preview.port,
                among_others: self.among_others,
            },
            owner_token: config.owner_token,
            metrics: config.metrics,
            metrics_are_open: listener.local_addr()?.ip().is_loopback(),
            codes: Codes::default(),
            stop: stop.clone(),
            owner: OnceCell::new(),
            runtime: config.runtime,
        });
        let router = router::whole(app);
        let mut connections = JoinSet::new();
        let room = Arc::new(Semaphore::new(most_connections()));
        let mut upkeep = tokio::time::interval(bounds::METRICS_UPKEEP);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => {}
                _ = upkeep.tick() => metrics.run_upkeep(),
                (stream, permit) = accept(&listener, &room) => {
                    let connection = connection::serve(stream, router.clone(), patience, stop.clone());
                    connections.spawn(async move {
                        connection.await;
                        drop(permit);
                    });
                }
            }
        }
        drop(listener);
        let finish = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, finish).await.is_err() {
            tracing::warn!("requests in hand were cut off: shutdown_ms is over");
        }
        connections.shutdown().await;
        Ok(())
    }
}

/// Connections that may be open at once. Files of other kinds need their room too, or the store could not open one.
fn most_connections() -> usize {
    let files = getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok());
    files.map_or(bounds::CONNECTIONS, |most| bounds::CONNECTIONS.min(most - most / 4))
}

/// The next connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (TcpStream, Option<tokio::sync::OwnedSemaphorePermit>) {
    // The semaphore is never closed, so there is a permit.
    let permit = Arc::clone(room).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, permit),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(bounds::ACCEPT_REST).await;
            }
        }
    }
}

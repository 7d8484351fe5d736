//! The listener: connections in, each bounded in number, time and memory, and a stop that ends what is open.
//!
//! The one place of this crate that starts tasks. It knows nothing of routes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use contract::UserId;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use metrics_exporter_prometheus::PrometheusHandle;
use runtime::Runtime;
use runtime::ports::store::StoreError;
use runtime::ports::world::new_id;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use crate::guard::{Hosts, OwnerToken};
use crate::session::Codes;
use crate::{bounds, router};

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
pub struct Server(ServerConfig);

impl Server {
    /// Takes what it is made of. Nothing happens before [`Server::serve`].
    pub fn new(config: ServerConfig) -> Self {
        Self(config)
    }

    /// Serves until `stop`: then open streams end at once, and requests in hand have `shutdown_ms`.
    ///
    /// # Errors
    /// When the listener has no address.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) -> io::Result<()> {
        let config = self.0;
        let limits = &config.runtime.limits;
        let (patience, grace) = (Duration::from_millis(limits.sse_write_ms), Duration::from_millis(limits.shutdown_ms));
        let metrics = config.metrics.clone();
        let app = Arc::new(App {
            hosts: Hosts { port: config.port, preview_suffix: config.runtime.preview.host_suffix.to_ascii_lowercase() },
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
        let room = Arc::new(Semaphore::new(bounds::CONNECTIONS));
        let mut upkeep = tokio::time::interval(bounds::METRICS_UPKEEP);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => {}
                _ = upkeep.tick() => metrics.run_upkeep(),
                (stream, permit) = accept(&listener, &room) => {
                    let connection = connection(stream, router.clone(), patience, stop.clone());
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

/// Serves one connection to its end.
async fn connection(stream: TcpStream, router: Router, patience: Duration, stop: CancellationToken) {
    // Events are small and wanted at once; without this they would wait for the reader's acknowledgement.
    let _ = stream.set_nodelay(true);
    let io = TokioIo::new(Impatient { stream, patience, waiting: None });
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds::HEADER_TIME)
            .max_buf_size(bounds::CONNECTION_BUFFER_BYTES)
            .serve_connection(io, TowerToHyperService::new(router))
    );
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        let reason = match () {
            () if is_stalled(&error) => "reader_stalled",
            () if error.is_timeout() => "sender_silent",
            () => "broken",
        };
        metrics::counter!("baton_connections_cut_total", "reason" => reason).increment(1);
        tracing::debug!(%error, reason, "a connection was cut");
    }
}

/// Whether a reader was cut that took nothing.
fn is_stalled(error: &hyper::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// A connection whose peer must take something every now and then. A reader that stands still is cut (`sse_write_ms`): nothing
/// is held for it, and it comes back with its cursor. It must be seen here, since a full connection asks its stream for no more.
struct Impatient {
    stream: TcpStream,
    patience: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    fn watched(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(waiting.as_mut().poll(cx));
        let reason = format!("the reader took nothing for {} ms", patience.as_millis());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, reason)))
    }
}

impl AsyncRead for Impatient {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watched(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watched(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

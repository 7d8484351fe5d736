//! One connection, from its first request to its end: bounded in time and memory, and patient with its reader up to a limit.
//!
//! A reader that takes nothing for `sse_write_ms` is cut: nothing is held for it, and it comes back with its cursor. That is seen here,
//! since a full connection asks its stream for no more. A stream of events is told, so that its last words can be the reason; the
//! system keeps them until the reader looks or is known to be gone.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::bounds;

/// Tells a response that lasts that its reader is being cut: what it says from then on are its last words. It stands among the
/// response's extensions.
#[derive(Debug, Clone, Default)]
pub struct Cut(CancellationToken);

impl Cut {
    /// Returns when the reader is being cut.
    pub async fn due(&self) {
        self.0.cancelled().await;
    }
}

/// Serves one connection to its end.
pub async fn serve(stream: TcpStream, router: Router, patience: Duration, stop: CancellationToken) {
    prepare(&stream, patience);
    let stalled = CancellationToken::new();
    let lasting = Lasting::default();
    let noted = lasting.clone();
    let service = ServiceExt::<Request<Incoming>>::map_response(router, move |response: Response| {
        noted.set(response.extensions().get::<Cut>().cloned());
        response
    });
    let io = TokioIo::new(Impatient { stream, patience, waiting: None, stalled: stalled.clone() });
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds::HEADER_TIME)
            .max_buf_size(bounds::CONNECTION_BUFFER_BYTES)
            .serve_connection(io, TowerToHyperService::new(service))
    );
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = stalled.cancelled() => {
            lasting.cut();
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    let reason = match &ended {
        _ if stalled.is_cancelled() || ended.as_ref().is_err_and(is_unheard) => "reader_stalled",
        Ok(()) => return,
        Err(error) if error.is_timeout() => "sender_silent",
        Err(_) => "broken",
    };
    metrics::counter!("baton_connections_cut_total", "reason" => reason).increment(1);
    tracing::debug!(?ended, reason, "a connection was cut");
}

/// What the system is to do with a connection. Where it cannot, the connection works all the same.
fn prepare(stream: &TcpStream, patience: Duration) {
    // Events are small and wanted at once; without this they would wait for the reader's acknowledgement.
    let _ = stream.set_nodelay(true);
    let socket = SockRef::from(stream);
    // What the reader's side has no room for yet waits in the log and not in the system, which would hold megabytes of it.
    let _ = socket.set_tcp_notsent_lowat(bounds::UNSENT_BYTES);
    // A reader whose machine is gone acknowledges nothing. One that only stands still is cut here, and sooner.
    let _ = socket.set_tcp_user_timeout(Some(patience * 2 + bounds::LAST_WORDS_TIME));
}

/// Whether the system gave a reader up that acknowledged nothing.
fn is_unheard(error: &hyper::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The response of a connection that lasts, if there is one.
#[derive(Clone, Default)]
struct Lasting(Arc<Mutex<Option<Cut>>>);

impl Lasting {
    fn set(&self, cut: Option<Cut>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = cut;
    }

    fn cut(&self) {
        if let Some(cut) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            cut.0.cancel();
        }
    }
}

/// A connection whose peer must take something every now and then.
struct Impatient {
    stream: TcpStream,
    patience: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    /// Cancelled when the reader took nothing for too long.
    stalled: CancellationToken,
}

impl Impatient {
    fn watched(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let is_stalled = self.stalled.is_cancelled();
        if written.is_ready() {
            if !is_stalled {
                self.waiting = None;
            }
            return written;
        }
        let patience = if is_stalled { bounds::LAST_WORDS_TIME } else { self.patience };
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(waiting.as_mut().poll(cx));
        if is_stalled {
            let reason = format!("the reader took nothing for {} ms", self.patience.as_millis());
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, reason)));
        }
        // Room for what is under way and the last words; the system says when it is there.
        let socket = SockRef::from(&self.stream);
        let _ = socket.set_send_buffer_size(bounds::LAST_WORDS_BYTES);
        let _ = socket.set_tcp_notsent_lowat(0);
        let mut waiting = Box::pin(tokio::time::sleep(bounds::LAST_WORDS_TIME));
        // Registers the wake-up: it has only just begun.
        let _ = waiting.as_mut().poll(cx);
        self.waiting = Some(waiting);
        self.stalled.cancel();
        Poll::Pending
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

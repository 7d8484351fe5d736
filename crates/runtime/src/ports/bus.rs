//! Wake-ups. The bus carries no facts: lose every message on it and only latency suffers, since all who listen also poll.

use contract::RunId;
use tokio::sync::broadcast;

/// A hint that something can be found in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// A run can be claimed.
    Claimable,
    /// Events were appended to a run.
    Appended(RunId),
    /// A row was put into a run's inbox.
    Inbox(RunId),
}

/// Delivers wake-ups to whoever listens now.
pub trait Bus: Send + Sync {
    /// Sends without waiting; may be lost, repeated or late.
    fn send(&self, wake: Wake);

    /// Listens from now on. A listener that lags is told so by the channel and looks into the store.
    fn subscribe(&self) -> broadcast::Receiver<Wake>;
}

/// Returns at the next wake-up that is wanted, and whenever some may have been missed; never for a bus that is gone, since all who
/// listen also poll.
pub(crate) async fn woken(wakes: &mut broadcast::Receiver<Wake>, wanted: impl Fn(Wake) -> bool) {
    loop {
        match wakes.recv().await {
            Ok(wake) if wanted(wake) => return,
            Ok(_other) => {}
            Err(broadcast::error::RecvError::Lagged(_)) => return,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

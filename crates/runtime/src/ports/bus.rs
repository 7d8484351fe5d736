//! Wake-ups. The bus carries no facts: lose every message on it and only latency suffers, since all who listen also poll.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contract::RunId;
use tokio::sync::watch;

/// A hint that something can be found in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

    /// Listens for one wake-up from now on.
    fn listen(&self, wake: Wake) -> Listener;

    /// Why wake-ups do not pass between processes now, for an operator; none if they do. Everyone polls meanwhile.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// Hears one wake-up. Any number of them that come while nobody waits are heard as one.
#[derive(Debug)]
pub struct Listener {
    wake: Wake,
    /// None only while it is being dropped.
    heard: Option<watch::Receiver<()>>,
    exchange: Arc<Exchange>,
}

impl Listener {
    /// Returns when the wake-up has been sent since this was called last, or since it listens. Dropping the future loses nothing.
    pub async fn heard(&mut self) {
        let gone = match &mut self.heard {
            Some(heard) => heard.changed().await.is_err(),
            None => true,
        };
        if gone {
            // All who listen also poll.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.heard = None;
        let mut listened = self.exchange.listened();
        if listened.get(&self.wake).is_some_and(|sender| sender.receiver_count() == 0) {
            listened.remove(&self.wake);
        }
    }
}

/// The listeners of one process, by what they listen for: a wake-up costs those who want it and nobody else.
#[derive(Debug, Default)]
pub struct Exchange(Mutex<HashMap<Wake, watch::Sender<()>>>);

impl Exchange {
    fn listened(&self) -> MutexGuard<'_, HashMap<Wake, watch::Sender<()>>> {
        // The map is whole between its calls, so a panic elsewhere leaves it usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes who listens for it here.
    pub fn wake(&self, wake: Wake) {
        if let Some(sender) = self.listened().get(&wake) {
            sender.send_replace(());
        }
    }

    /// Wakes everybody here: something may have been missed.
    pub fn wake_all(&self) {
        self.listened().values().for_each(|sender| {
            sender.send_replace(());
        });
    }

    /// Listens from now on.
    pub fn listen(self: &Arc<Self>, wake: Wake) -> Listener {
        let mut listened = self.listened();
        let heard = listened.entry(wake).or_insert_with(|| watch::Sender::new(())).subscribe();
        drop(listened);
        Listener { wake, heard: Some(heard), exchange: self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_who_listens_is_nothing_that_is_kept() {
        let exchange = Arc::new(Exchange::default());
        let entries = || exchange.listened().len();
        (0..1_000).for_each(|run| exchange.wake(Wake::Appended(RunId::from_bits(run))));
        assert_eq!(entries(), 0, "a wake-up leaves nothing");
        let (one, other) = (exchange.listen(Wake::Claimable), exchange.listen(Wake::Claimable));
        let third = exchange.listen(Wake::Inbox(RunId::from_bits(1)));
        assert_eq!(entries(), 2);
        drop(one);
        assert_eq!(entries(), 2, "somebody else listens");
        drop((other, third));
        assert_eq!(entries(), 0);
    }
}

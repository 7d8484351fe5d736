//! What waits to be sent: a set, since a wake-up that waits already need not wait twice. It fills while a message is under way, and
//! when it is full, one word stands for all of it.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use runtime::ports::bus::Wake;
use tokio::sync::Notify;

/// Different wake-ups that wait; more of them are one that says "look at everything". A message of them has 70 KB.
pub(super) const WAITING_MOST: usize = 4_096;

/// What one message says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Batch {
    Some(HashSet<Wake>),
    Everything,
}

#[derive(Default)]
struct Waiting {
    wakes: HashSet<Wake>,
    everything: bool,
    /// Whether a message is under way of which nobody knows yet what became.
    sending: bool,
}

/// Takes without waiting, gives all at once.
#[derive(Default)]
pub(super) struct Outbox {
    waiting: Mutex<Waiting>,
    filled: Notify,
    emptied: Notify,
}

impl Outbox {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // The set is whole between its calls, so a panic elsewhere leaves it usable.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, wake: Wake) {
        let mut waiting = self.waiting();
        if waiting.everything || !waiting.wakes.insert(wake) {
            return;
        }
        if waiting.wakes.len() > WAITING_MOST {
            waiting.wakes = HashSet::new();
            waiting.everything = true;
            metrics::counter!("baton_bus_overflows_total").increment(1);
        }
        drop(waiting);
        self.filled.notify_one();
    }

    /// Everything that waits, as soon as something does. It counts as under way until [`Self::sent`] or [`Self::put_back`].
    pub(super) async fn next(&self) -> Batch {
        loop {
            if let Some(batch) = self.take() {
                return batch;
            }
            self.filled.notified().await;
        }
    }

    fn take(&self) -> Option<Batch> {
        let mut waiting = self.waiting();
        let everything = std::mem::take(&mut waiting.everything);
        let wakes = std::mem::take(&mut waiting.wakes);
        waiting.sending = everything || !wakes.is_empty();
        match (everything, waiting.sending) {
            (true, _) => Some(Batch::Everything),
            (false, true) => Some(Batch::Some(wakes)),
            (false, false) => None,
        }
    }

    /// The message has arrived.
    pub(super) fn sent(&self) {
        self.waiting().sending = false;
        self.emptied.notify_waiters();
    }

    /// The message may not have arrived: it is sent again with the next.
    pub(super) fn put_back(&self, batch: Batch) {
        match batch {
            Batch::Everything => {
                let mut waiting = self.waiting();
                waiting.wakes = HashSet::new();
                waiting.everything = true;
            }
            Batch::Some(wakes) => wakes.into_iter().for_each(|wake| self.put(wake)),
        }
        self.waiting().sending = false;
        self.filled.notify_one();
    }

    /// Returns when nothing waits and nothing is under way.
    pub(super) async fn emptied(&self) {
        loop {
            let emptied = self.emptied.notified();
            tokio::pin!(emptied);
            // Before looking, so that nothing falls between.
            emptied.as_mut().enable();
            {
                let waiting = self.waiting();
                if waiting.wakes.is_empty() && !waiting.everything && !waiting.sending {
                    return;
                }
            }
            emptied.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use contract::RunId;
    use futures::FutureExt as _;

    use super::*;

    fn appended(number: usize) -> Wake {
        Wake::Appended(RunId::from_bits(number as u128))
    }

    #[test]
    fn repeats_are_one_and_too_many_are_one_word_for_all() {
        let outbox = Outbox::default();
        (0..10 * WAITING_MOST).for_each(|number| outbox.put(appended(number % 3)));
        let three: HashSet<_> = (0..3).map(appended).collect();
        assert_eq!(outbox.next().now_or_never(), Some(Batch::Some(three)));
        outbox.sent();
        assert_eq!(outbox.next().now_or_never(), None, "given once");

        (0..10 * WAITING_MOST).for_each(|number| outbox.put(appended(number)));
        assert_eq!(outbox.next().now_or_never(), Some(Batch::Everything));
        outbox.put(appended(7));
        outbox.put_back(Batch::Everything);
        assert_eq!(outbox.next().now_or_never(), Some(Batch::Everything), "what may not have arrived comes again");
    }

    #[test]
    fn it_is_empty_when_the_last_message_has_arrived() {
        let outbox = Outbox::default();
        assert!(outbox.emptied().now_or_never().is_some());
        outbox.put(Wake::Claimable);
        let emptied = outbox.emptied();
        tokio::pin!(emptied);
        assert!(emptied.as_mut().now_or_never().is_none());
        let batch = outbox.next().now_or_never().unwrap();
        assert!(emptied.as_mut().now_or_never().is_none(), "nobody knows yet whether it has arrived");
        outbox.put_back(batch);
        assert!(emptied.as_mut().now_or_never().is_none());
        assert_eq!(outbox.next().now_or_never(), Some(Batch::Some([Wake::Claimable].into())));
        outbox.sent();
        assert!(emptied.as_mut().now_or_never().is_some());
    }
}

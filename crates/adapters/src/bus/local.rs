//! Wake-ups within one process: a bounded channel that overwrites the oldest, since a lost wake-up costs only latency.

use runtime::ports::{Bus, Wake};
use tokio::sync::broadcast;

/// Wake-ups that a listener can be behind before it is told that it missed some, and looks into the store.
const KEPT: usize = 1_024;

/// The bus of a process that does everything itself.
#[derive(Debug)]
pub struct LocalBus {
    wakes: broadcast::Sender<Wake>,
}

impl LocalBus {
    /// A bus without listeners.
    pub fn new() -> Self {
        Self { wakes: broadcast::Sender::new(KEPT) }
    }
}

impl Default for LocalBus {
    fn default() -> Self {
        Self::new()
    }
}

impl Bus for LocalBus {
    fn send(&self, wake: Wake) {
        // An error means that nobody listens, and then nobody has to be woken.
        let _ = self.wakes.send(wake);
    }

    fn subscribe(&self) -> broadcast::Receiver<Wake> {
        self.wakes.subscribe()
    }
}

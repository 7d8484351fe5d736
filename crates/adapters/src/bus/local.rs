//! Wake-ups within one process.

use std::sync::Arc;

use runtime::ports::bus::{Bus, Exchange, Listener, Wake};

/// The bus of a process that does everything itself.
#[derive(Debug, Default)]
pub struct LocalBus(Arc<Exchange>);

impl LocalBus {
    /// A bus without listeners.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Bus for LocalBus {
    fn send(&self, wake: Wake) {
        self.0.wake(wake);
    }

    fn listen(&self, wake: Wake) -> Listener {
        self.0.listen(wake)
    }
}

//! What a bus has to do: deliver to whoever listens, and never hold a sender up.

use std::sync::Arc;

use contract::RunId;
use runtime::ports::{Bus, Wake};
use tokio::sync::broadcast::error::RecvError;

/// Wake-ups sent while nobody takes them; far more than any bus keeps.
const FLOOD: u64 = 10_000;

/// The whole suite.
///
/// # Panics
/// Where a promise is broken.
pub async fn bus(make: impl AsyncFn() -> Arc<dyn Bus>) {
    everyone_who_listens_is_woken_in_order(&*make().await).await;
    nobody_has_to_listen_and_a_slow_listener_is_told(&*make().await).await;
}

fn run(number: u64) -> RunId {
    RunId::from_bits(u128::from(number))
}

async fn everyone_who_listens_is_woken_in_order(bus: &dyn Bus) {
    bus.send(Wake::Claimable);
    let mut listeners = [bus.subscribe(), bus.subscribe()];
    let sent = [Wake::Appended(run(1)), Wake::Inbox(run(2)), Wake::Claimable];
    for wake in sent {
        bus.send(wake);
    }
    for listener in &mut listeners {
        for wake in sent {
            assert_eq!(listener.recv().await, Ok(wake), "what was sent since it listens, in order");
        }
        assert!(listener.try_recv().is_err(), "nothing from before it listened, and nothing twice");
    }
}

async fn nobody_has_to_listen_and_a_slow_listener_is_told(bus: &dyn Bus) {
    for number in 0..FLOOD {
        bus.send(Wake::Appended(run(number)));
    }
    let mut slow = bus.subscribe();
    for number in 0..FLOOD {
        bus.send(Wake::Appended(run(number)));
    }
    assert!(matches!(slow.recv().await, Err(RecvError::Lagged(_))), "a listener that missed something is told so");
    let mut last = None;
    while let Ok(wake) = slow.try_recv() {
        last = Some(wake);
    }
    assert_eq!(last, Some(Wake::Appended(run(FLOOD - 1))), "and then gets the newest");
}

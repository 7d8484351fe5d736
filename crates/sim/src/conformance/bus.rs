//! What a bus has to do: wake whoever listens for it and nobody else, keep nothing for those who do not, and never hold a sender up.

use std::sync::Arc;
use std::time::Duration;

use contract::RunId;
use futures::FutureExt as _;
use runtime::ports::Bus;
use runtime::ports::bus::{Listener, Wake};

/// Wake-ups sent while nobody takes them.
const FLOOD: u64 = 10_000;
/// How long a wake-up may take from one process to another on a machine that is busy with other tests.
const ARRIVES: Duration = Duration::from_secs(30);
/// How often one is sent again meanwhile: a bus may lose it.
const AGAIN: Duration = Duration::from_millis(20);

/// What holds within a process.
///
/// # Panics
/// Where a promise is broken.
pub async fn bus(make: impl AsyncFn() -> Arc<dyn Bus>) {
    who_listens_hears_what_it_listens_for_and_nothing_else(&*make().await).await;
    what_was_sent_before_is_not_heard(&*make().await).await;
    a_flood_is_heard_as_one(&*make().await).await;
    who_stops_listening_takes_nothing_away(&*make().await).await;
}

/// What holds between two processes, each with a bus of its own that works and on which nothing is under way.
///
/// # Panics
/// Where a promise is broken.
pub async fn buses(here: &dyn Bus, there: &dyn Bus) {
    // A repeat may come late, so that none of these is sent before it must not be heard.
    let table = [
        (Wake::Appended(run(10)), [Wake::Appended(run(11)), Wake::Inbox(run(10)), Wake::Claimable]),
        (Wake::Inbox(run(20)), [Wake::Inbox(run(21)), Wake::Appended(run(20)), Wake::Claimable]),
        (Wake::Claimable, [Wake::Inbox(run(30)), Wake::Inbox(run(31)), Wake::Appended(run(30))]),
    ];
    for (wake, others) in table {
        let mut wanted = there.listen(wake);
        let mut others = others.map(|other| there.listen(other));
        arrives(here, wake, &mut wanted).await;
        for other in &mut others {
            assert!(!is_heard(other), "{wake:?} wakes nobody else");
        }
    }
    // Far more than waits anywhere: who listens looks, whatever it was told.
    let mut last = there.listen(Wake::Appended(run(FLOOD)));
    (1..FLOOD).for_each(|number| here.send(Wake::Appended(run(number))));
    arrives(here, Wake::Appended(run(FLOOD)), &mut last).await;
}

/// Sends a wake-up from one process until it is heard in another.
///
/// # Panics
/// If it never is.
pub async fn arrives(here: &dyn Bus, wake: Wake, listener: &mut Listener) {
    let sending = async {
        loop {
            here.send(wake);
            tokio::time::sleep(AGAIN).await;
        }
    };
    let heard = async {
        tokio::select! {
            () = listener.heard() => {}
            () = sending => {}
        }
    };
    let heard = tokio::time::timeout(ARRIVES, heard).await;
    assert!(heard.is_ok(), "{wake:?} was not heard within {} s", ARRIVES.as_secs());
}

fn run(number: u64) -> RunId {
    RunId::from_bits(u128::from(number))
}

fn others(wake: Wake) -> Vec<Wake> {
    let all =
        [Wake::Claimable, Wake::Appended(run(1)), Wake::Appended(run(2)), Wake::Inbox(run(1)), Wake::Inbox(run(2))];
    all.into_iter().filter(|other| *other != wake).collect()
}

/// Whether the listener was woken by now. Asking takes the wake-up.
fn is_heard(listener: &mut Listener) -> bool {
    listener.heard().now_or_never().is_some()
}

async fn who_listens_hears_what_it_listens_for_and_nothing_else(bus: &dyn Bus) {
    for wake in [Wake::Claimable, Wake::Appended(run(1)), Wake::Inbox(run(1))] {
        let mut wanted = [bus.listen(wake), bus.listen(wake)];
        let mut others: Vec<Listener> = others(wake).into_iter().map(|other| bus.listen(other)).collect();
        bus.send(wake);
        for listener in &mut wanted {
            listener.heard().await;
            assert!(!is_heard(listener), "{wake:?}: once");
        }
        for other in &mut others {
            assert!(!is_heard(other), "{wake:?} wakes nobody else");
        }
    }
}

async fn what_was_sent_before_is_not_heard(bus: &dyn Bus) {
    bus.send(Wake::Claimable);
    let mut listener = bus.listen(Wake::Claimable);
    assert!(!is_heard(&mut listener), "it listens from then on");
    bus.send(Wake::Claimable);
    let mut later = bus.listen(Wake::Claimable);
    assert!(is_heard(&mut listener) && !is_heard(&mut later));
    // A wait that was given up loses nothing.
    assert!(listener.heard().now_or_never().is_none());
    bus.send(Wake::Claimable);
    listener.heard().await;
}

async fn a_flood_is_heard_as_one(bus: &dyn Bus) {
    let mut listener = bus.listen(Wake::Appended(run(0)));
    for number in 0..FLOOD {
        bus.send(Wake::Appended(run(0)));
        bus.send(Wake::Appended(run(number)));
    }
    listener.heard().await;
    assert!(!is_heard(&mut listener), "any number of them is one");
}

async fn who_stops_listening_takes_nothing_away(bus: &dyn Bus) {
    let wake = Wake::Inbox(run(1));
    let (mut stays, leaves) = (bus.listen(wake), bus.listen(wake));
    drop(leaves);
    bus.send(wake);
    stays.heard().await;
    drop(stays);
    bus.send(wake);
    let mut again = bus.listen(wake);
    assert!(!is_heard(&mut again));
    bus.send(wake);
    again.heard().await;
}

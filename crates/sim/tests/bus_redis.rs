//! The bus of several processes against a real Redis: what it promises, and what remains of that when Redis goes away.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a way between two processes ends with its test")]

use std::time::Duration;

use adapters::bus::RedisBus;
use contract::RunId;
use runtime::ports::Bus;
use runtime::ports::bus::Wake;
use rustix::process::{Pid, Signal, kill_process};
use sim::conformance::{self, bus::arrives};
use sim::servers::Redis;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How long a bus may take to connect on a machine that is busy with other tests.
const CONNECTS: Duration = Duration::from_secs(30);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(5);
/// Wake-ups that are sent while nobody takes them.
const MANY: u128 = 100_000;
/// Runs that they are about: few enough for each to be remembered.
const RUNS: u128 = 1_000;

/// A bus that works.
async fn connected(url: &str) -> RedisBus {
    let bus = RedisBus::open(url).unwrap();
    becomes(&bus, true).await;
    bus
}

async fn becomes(bus: &RedisBus, works: bool) {
    let waiting = async {
        while bus.trouble().is_none() != works {
            tokio::time::sleep(LOOK).await;
        }
    };
    let waited = tokio::time::timeout(CONNECTS, waiting).await;
    assert!(waited.is_ok(), "works: {works} never came true: {bus:?}");
}

async fn soon(heard: impl Future<Output = ()>) {
    assert!(tokio::time::timeout(CONNECTS, heard).await.is_ok(), "it was not heard");
}

/// A way to Redis whose connections can fall silent, for the process that goes by it alone: the URL, and what silences them.
async fn way(redis: &Redis) -> (String, watch::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (url, port) = (redis.url(), listener.local_addr().unwrap().port());
    let (address, _) = url.rsplit_once(':').unwrap();
    let (silence, silenced) = watch::channel(());
    let there = url.rsplit(['@', '/']).nth(1).unwrap().to_owned();
    let go = async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let mut far = TcpStream::connect(&there).await.unwrap();
            let mut silenced = silenced.clone();
            silenced.mark_unchanged();
            tokio::spawn(async move {
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                    // Open, and nothing passes any more.
                    _ = silenced.changed() => std::future::pending().await,
                }
            });
        }
    };
    tokio::spawn(go);
    (format!("{address}:{port}/"), silence)
}

fn run(number: u128) -> RunId {
    RunId::from_bits(number)
}

#[tokio::test]
async fn the_bus_in_redis_keeps_every_promise() {
    let redis = Redis::start();
    conformance::bus(async || std::sync::Arc::new(connected(&redis.url()).await) as std::sync::Arc<dyn Bus>).await;
    let (here, there) = (connected(&redis.url()).await, connected(&redis.url()).await);
    conformance::buses(&here, &there).await;
    conformance::buses(&there, &here).await;
}

// E16: a lost Redis costs latency and nothing else.
#[tokio::test]
async fn a_bus_outlives_its_redis_and_says_what_is_wrong_meanwhile() {
    let redis = Redis::start();
    let (here, there) = (connected(&redis.url()).await, connected(&redis.url()).await);
    redis.stop();
    becomes(&here, false).await;
    let trouble = format!("{:?} {here:?}", here.trouble());
    let password = redis.url().split([':', '@']).nth(2).unwrap().to_owned();
    assert!(trouble.contains("127.0.0.1") && !trouble.contains(&password), "{trouble}");

    // Nobody waits: not who sends, not who listens here.
    let mut local = here.listen(Wake::Claimable);
    (0..MANY).for_each(|number| here.send(Wake::Appended(run(number % RUNS))));
    here.send(Wake::Claimable);
    local.heard().await;

    // Whoever comes back looks at everything, and what was sent meanwhile arrives.
    becomes(&there, false).await;
    let mut missed = there.listen(Wake::Inbox(run(1)));
    let mut sent = there.listen(Wake::Appended(run(1)));
    redis.start_again();
    soon(missed.heard()).await;
    soon(sent.heard()).await;
    becomes(&there, true).await;
    becomes(&here, true).await;
    here.flush(CONNECTS).await;
    // Messages of one process keep their order: after this one, nothing from the outage is under way.
    arrives(&here, Wake::Inbox(run(9)), &mut there.listen(Wake::Inbox(run(9)))).await;
    conformance::buses(&here, &there).await;

    redis.flush();
    conformance::buses(&there, &here).await;
    assert!(here.trouble().is_none(), "there is nothing in Redis that could be flushed");
}

// D14: that a process hands its runs back is heard although it ends at once, and although it has only just begun to connect.
#[tokio::test]
async fn a_process_that_ends_leaves_no_wake_up_behind() {
    let redis = Redis::start();
    let there = connected(&redis.url()).await;
    let mut heard = there.listen(Wake::Claimable);
    let here = RedisBus::open(&redis.url()).unwrap();
    here.send(Wake::Claimable);
    here.flush(CONNECTS).await;
    drop(here);
    soon(heard.heard()).await;
}

#[tokio::test]
async fn databases_keep_batons_apart_and_a_wrong_password_is_said_without_showing_it() {
    let redis = Redis::start();
    let (one, two) = (connected(&format!("{}1", redis.url())).await, connected(&format!("{}2", redis.url())).await);
    let same = connected(&format!("{}1", redis.url())).await;
    let (mut elsewhere, mut here) = (two.listen(Wake::Claimable), same.listen(Wake::Claimable));
    arrives(&one, Wake::Claimable, &mut here).await;
    let silent = tokio::time::timeout(LOOK, elsewhere.heard()).await;
    assert!(silent.is_err(), "another database is another Baton");

    let port = redis.url().rsplit(':').next().unwrap().trim_end_matches('/').to_owned();
    let wrong = format!("redis://:wrong-one@127.0.0.1:{port}/");
    let told = adapters::bus::redis::probe(&wrong).await.unwrap_err();
    assert!(told.contains("127.0.0.1") && !told.contains("wrong-one"), "{told}");
    adapters::bus::redis::probe(&redis.url()).await.unwrap();
}

// Whoever never lost the connection itself is not woken by coming back: it hears what others had to send twice.
#[tokio::test]
async fn what_was_under_way_when_a_connection_died_is_sent_again() {
    let redis = Redis::start();
    let (url, silence) = way(&redis).await;
    let (here, there) = (connected(&url).await, connected(&redis.url()).await);
    let mut heard = there.listen(Wake::Inbox(run(4)));
    silence.send(()).unwrap();
    here.send(Wake::Inbox(run(4)));
    soon(heard.heard()).await;
    assert!(there.trouble().is_none() && here.trouble().is_none());
}

// A Redis that hangs keeps its connections, so that only its silence tells.
#[tokio::test]
async fn a_redis_that_hangs_is_noticed_and_what_was_sent_arrives_later() {
    let redis = Redis::start();
    let (here, there) = (connected(&redis.url()).await, connected(&redis.url()).await);
    let process = Pid::from_raw(i32::try_from(redis.pid()).unwrap()).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    let mut heard = there.listen(Wake::Inbox(run(3)));
    here.send(Wake::Inbox(run(3)));
    becomes(&here, false).await;
    becomes(&there, false).await;
    kill_process(process, Signal::CONT).unwrap();
    soon(heard.heard()).await;
    becomes(&here, true).await;
}

//! Limits on active runs (E1): exact, and no user waits for another.
#![expect(clippy::disallowed_methods, reason = "has admissions that wait in tasks of their own")]

use std::sync::Arc;

use futures::future::join_all;
use runtime::ports::Store;
use runtime::ports::store::{Admission, AdmitError};
use sim::conformance::store::Clerk;
use sim::servers;

use super::room::{LONG_MS, ended, exact, gone, is_whole, open, waiting};

#[tokio::test(flavor = "multi_thread")]
async fn users_do_not_wait_for_one_another() {
    let server = servers::Postgres::start();
    let store = Arc::new(open(&server.url(), &exact()).await);
    let clerk = Clerk::new();
    let (slow, quick) = (clerk.new_chat(clerk.id()), clerk.new_chat(clerk.id()));
    store.admit(slow.clone()).await.unwrap();
    let lock = format!("SELECT FROM users WHERE id = '{:032x}' FOR UPDATE", slow.user.bits());
    let held = server.hold(&server.url(), &lock);
    let (waits, admission) = (store.clone(), clerk.follow_up(&slow));
    let blocked = tokio::spawn(async move { waits.admit(admission).await });
    waiting(&server, 1).await;
    store.admit(quick.clone()).await.unwrap();
    for _ in 0..20 {
        store.admit(clerk.new_chat(clerk.id())).await.unwrap();
        store.admit(clerk.follow_up(&quick)).await.unwrap();
    }
    // Slots of the global counter that others hold are passed over.
    let slots = server.hold(&server.url(), "SELECT FROM slots WHERE slot <> 9 FOR UPDATE");
    store.admit(clerk.new_chat(clerk.id())).await.unwrap();
    drop(slots);
    assert!(!blocked.is_finished(), "its row is locked");
    drop(held);
    blocked.await.unwrap().unwrap();
    is_whole(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_somebody_holds_is_waited_for_before_the_limit_is_said_to_be_reached() {
    let server = servers::Postgres::start();
    let store = Arc::new(open(&server.url(), &exact()).await);
    let clerk = Clerk::new();
    let one = |mut admission: Admission| {
        admission.most_active[2].1 = 1;
        admission
    };
    // With a limit of one, the first slot alone has room.
    let held = server.hold(&server.url(), "SELECT FROM slots WHERE slot = 0 FOR UPDATE");
    let (waits, admission) = (store.clone(), one(clerk.new_chat(clerk.id())));
    let blocked = tokio::spawn(async move { waits.admit(admission).await });
    waiting(&server, 1).await;
    drop(held);
    blocked.await.unwrap().expect("there is room");
    let refused = store.admit(one(clerk.new_chat(clerk.id()))).await;
    assert!(matches!(refused, Err(AdmitError::Limit { limit: "global", value: 1 })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_at_once_exactly_as_many_as_the_limit_are_admitted() {
    let server = servers::Postgres::start();
    let (url, clerk) = (server.url(), Clerk::new());
    let stores = [open(&url, &exact()).await, open(&url, &exact()).await];
    for limit in [7, 40] {
        let crowd = (0..100).map(|i| {
            let mut admission = clerk.new_chat(clerk.id());
            admission.most_active[2].1 = limit;
            stores[i % 2].admit(admission)
        });
        let answers = join_all(crowd).await;
        let admitted = answers.iter().filter(|answer| answer.is_ok()).count() as u64;
        let full = |answer: &Result<_, AdmitError>| matches!(answer, Err(AdmitError::Limit { limit: "global", .. }));
        let refused = answers.iter().filter(|answer| full(answer)).count() as u64;
        assert_eq!((admitted, refused), (limit, 100 - limit));
        is_whole(&stores[0]).await;
        let claims = stores[0].claim("worker", 100, 0, LONG_MS).await.unwrap();
        let ends = join_all(claims.iter().enumerate().map(|(i, claim)| stores[i % 2].append(ended(*claim, 2)))).await;
        assert!(ends.len() as u64 == limit && ends.iter().all(Result::is_ok), "all of them make room");
    }
    is_whole(&stores[1]).await;
}

// E1: no table is searched. What an admission reads does not grow with what there is.
#[tokio::test(flavor = "multi_thread")]
async fn an_admission_reads_as_much_among_many_runs_as_among_few() {
    const MEASURED: usize = 20;
    const MANY: usize = 500;
    let server = servers::Postgres::start();
    let (url, clerk) = (server.url(), Clerk::new());
    let crowd = async |runs: usize| {
        let store = open(&url, &exact()).await;
        for answer in join_all((0..runs).map(|_| store.admit(clerk.new_chat(clerk.id())))).await {
            answer.unwrap();
        }
        store.close().await;
        // A session tells what it has read when it ends.
        gone(&server).await;
        let read = "SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_user_tables";
        server.ask(&url, read).parse::<u64>().unwrap()
    };
    let begun = crowd(MEASURED).await;
    let few = crowd(MEASURED).await - begun;
    let before = crowd(MANY).await;
    let many = crowd(MEASURED).await - before;
    assert!(many < few + few / 4, "{few} rows for {MEASURED} admissions, {many} after {MANY} more");
}

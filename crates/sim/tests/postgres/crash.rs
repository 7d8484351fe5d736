//! Processes and servers that die, and connections that break: nothing answered is lost, nothing is done twice, and the runs of the
//! dead are taken at once (E3, E4).
#![expect(clippy::disallowed_methods, reason = "has writers in tasks of their own")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use adapters::store::postgres::{Postgres, PostgresOptions};
use contract::event::{Event, TextDelta};
use runtime::ports::Store;
use runtime::ports::store::{Append, AppendError, Claim, RowChange, StoreFault};
use sim::conformance::store::Clerk;
use sim::servers;

use super::room::{LONG_MS, eventually, exact, is_whole, log_end, open, text};

const WRITERS: usize = 16;
/// How often the server is killed.
const KILLS: u64 = 4;
/// Answers between two kills.
const ANSWERS: u64 = 300;

/// Between two looks at a server that is down.
const PAUSE: Duration = Duration::from_millis(20);

/// Sessions that hold a process's lock.
const PRESENT: &str = "SELECT string_agg(pid::text, ',') FROM pg_locks WHERE locktype = 'advisory' AND granted";

#[tokio::test(flavor = "multi_thread")]
async fn the_runs_of_a_process_that_is_gone_are_claimed_before_their_lease_ends() {
    let server = servers::Postgres::start();
    let url = server.url();
    let (clerk, lost) = (Clerk::new(), open(&url, &exact()).await);
    let (_, claim) = clerk.running(&lost).await;
    assert!(lost.renew(&[claim], 0, LONG_MS).await.unwrap().is_empty());
    let pid = server.ask(&url, PRESENT);
    let other = open(&url, &exact()).await;
    assert!(other.claim("other", 9, 0, LONG_MS).await.unwrap().is_empty(), "it lives");
    server.ask(&url, &format!("SELECT pg_terminate_backend({pid}, 60000)"));
    let taken = other.claim("other", 9, 0, LONG_MS).await.unwrap();
    assert_eq!(taken, [Claim { epoch: claim.epoch + 1, ..claim }], "at once");
    // It lives after all: what it believes to have is fenced, and it is there for new runs.
    assert!(matches!(lost.append(text(claim, 2, "late")).await, Err(AppendError::Fenced)));
    eventually(async || server.ask(&url, PRESENT).contains(',')).await;
    let (_, next) = clerk.running(&lost).await;
    assert!(other.claim("other", 9, 0, LONG_MS).await.unwrap().is_empty(), "which are its own");
    lost.append(text(next, 2, "in time")).await.unwrap();

    // Gone without a goodbye.
    drop(lost);
    let mut taken = vec![];
    eventually(async || {
        taken = other.claim("other", 9, 0, LONG_MS).await.unwrap();
        !taken.is_empty()
    })
    .await;
    assert_eq!(taken, [Claim { epoch: next.epoch + 1, ..next }]);
    assert_eq!(server.ask(&url, "SELECT count(*) FROM holders"), "1", "and nobody is looked for in vain again");
    is_whole(&other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_taken_for_dead_because_the_server_began_again() {
    let server = servers::Postgres::start_own();
    let options = PostgresOptions { grace_ms: LONG_MS, ..exact() };
    let (clerk, lives) = (Clerk::new(), open(&server.url(), &options).await);
    let (_, claim) = clerk.running(&lives).await;
    let other = open(&server.url(), &options).await;
    server.restart();
    // Writes fail as long as the connections of before are tried.
    let mut claims = Err(());
    eventually(async || {
        claims = other.claim("other", 9, 0, LONG_MS).await.map_err(drop);
        claims.is_ok()
    })
    .await;
    assert_eq!(claims, Ok(vec![]));
    eventually(async || lives.append(text(claim, 2, "x")).await.is_ok() || log_end(&lives, claim).await == 3).await;
    eventually(async || server.ask(&server.url(), PRESENT).contains(',')).await;
    assert_eq!(log_end(&other, claim).await, 3);
    is_whole(&other).await;
}

/// What the writers and their judge share.
#[derive(Default)]
struct Round {
    answers: AtomicU64,
    unknown: AtomicU64,
    stop: AtomicBool,
}

/// Appends one piece after another to a run of its own. After an answer that says nothing, the log says what was done.
async fn write(store: Arc<Postgres>, claim: Claim, round: Arc<Round>) -> u64 {
    let mut end = 2;
    while !round.stop.load(Ordering::SeqCst) {
        let piece = format!("{end} ");
        let rows = vec![RowChange::AssistantText { text: piece.clone() }];
        match store.append(Append { rows, ..text(claim, end, &piece) }).await {
            Ok(at) => {
                assert_eq!(at, end + 1);
                end = at;
                round.answers.fetch_add(1, Ordering::SeqCst);
            }
            Err(AppendError::Store(error)) => {
                assert_eq!(error.fault, StoreFault::Unavailable, "{error}");
                round.unknown.fetch_add(1, Ordering::SeqCst);
                let found = loop {
                    match store.read_after(claim.run_id, 0, 100_000).await {
                        Ok(log) => break log.len() as u64,
                        Err(_) => tokio::time::sleep(PAUSE).await,
                    }
                };
                assert!(found == end || found == end + 1, "nothing answered is lost, and nothing is done twice");
                end = found;
            }
            Err(other) => panic!("nobody else has the run: {other}"),
        }
    }
    end
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_survives_a_server_that_is_killed_again_and_again() {
    let server = servers::Postgres::start_own();
    let clerk = Clerk::new();
    let options = PostgresOptions { wait_ms: 10_000, ..PostgresOptions::default() };
    let store = Arc::new(open(&server.url(), &options).await);
    let mut admissions = vec![];
    for _ in 0..WRITERS {
        admissions.push(clerk.new_chat(clerk.id()));
        store.admit(admissions[admissions.len() - 1].clone()).await.unwrap();
    }
    let claims = store.claim("worker", WRITERS, 0, LONG_MS).await.unwrap();
    let round = Arc::new(Round::default());
    let writers: Vec<_> =
        claims.iter().map(|claim| tokio::spawn(write(store.clone(), *claim, round.clone()))).collect();
    for kill in 1..=KILLS {
        eventually(async || round.answers.load(Ordering::SeqCst) >= kill * ANSWERS).await;
        if kill % 2 == 1 {
            server.kill9()
        } else {
            server.stop()
        }
        server.start_again();
    }
    eventually(async || round.answers.load(Ordering::SeqCst) >= (KILLS + 1) * ANSWERS).await;
    round.stop.store(true, Ordering::SeqCst);
    for ((writer, claim), admission) in writers.into_iter().zip(&claims).zip(&admissions) {
        let end = writer.await.unwrap();
        let log = store.read_after(claim.run_id, 0, 100_000).await.unwrap();
        assert_eq!(log.iter().map(|event| event.head.seq).collect::<Vec<_>>(), (1..=end).collect::<Vec<_>>());
        let mut written = String::new();
        for (event, seq) in log.iter().zip(1..).skip(2) {
            let piece = format!("{} ", seq - 1);
            let told: Event = serde_json::from_slice(&event.payload).unwrap();
            assert_eq!(told, TextDelta { text: piece.clone() }.into(), "each once, at its place");
            written += &piece;
        }
        let chat = store.chat(admission.user, admission.session.chat_id).await.unwrap().unwrap();
        assert_eq!(chat.messages[1].text, written, "rows and events are of one transaction");
    }
    assert!(round.unknown.load(Ordering::SeqCst) > 0, "the writers were in the middle of it");
    is_whole(&store).await;
}

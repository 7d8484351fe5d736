//! What every store promises, and what a text, a batch and a check are here.

use std::sync::Arc;

use adapters::store::postgres::{Clock, PostgresOptions};
use contract::CallId;
use contract::api::RunStatus;
use contract::event::{ToolName, ToolStatus};
use futures::future::join_all;
use runtime::ports::Store;
use runtime::ports::store::{
    Admission, Append, AppendError, Claim, InboxItem, NewChat, PublishedVersion, RowChange, StoreFault,
};
use sim::conformance::{self, store::Clerk};
use sim::servers;

use super::room::{LONG_MS, eventually, exact, is_whole, open, prepared, text, version, waiting};

#[tokio::test(flavor = "multi_thread")]
async fn the_store_in_postgresql_keeps_every_promise() {
    let server = servers::Postgres::start();
    let empty = prepared(&server).await;
    conformance::store(async || Arc::new(open(&server.copy_of(&empty), &exact()).await) as Arc<dyn Store>).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_in_postgresql_keeps_every_promise_with_the_least_of_everything() {
    let server = servers::Postgres::start();
    let options = PostgresOptions { commit_events: 1, queued_requests: 1, lanes: 1, connections: 1, ..exact() };
    let empty = prepared(&server).await;
    conformance::store(async || Arc::new(open(&server.copy_of(&empty), &options).await) as Arc<dyn Store>).await;
}

// E4: what was answered survives, however the process ended.
#[tokio::test(flavor = "multi_thread")]
async fn the_store_in_postgresql_keeps_what_it_answered() {
    let server = servers::Postgres::start();
    let url = server.url();
    conformance::store_keeps(async || {
        // The server finds out by itself that the former one is gone; whoever opens the store before waits for the lease.
        let sessions =
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'baton' AND datname = current_database()";
        eventually(async || server.ask(&url, sessions) == "0").await;
        Arc::new(open(&url, &exact()).await) as Arc<dyn Store>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_end_by_the_servers_clock() {
    let server = servers::Postgres::start();
    let store = open(&server.url(), &PostgresOptions { clock: Clock::Server, ..exact() }).await;
    let clerk = Clerk::new();
    store.admit(clerk.new_chat(clerk.id())).await.unwrap();
    let claim = store.claim("worker", 1, 0, LONG_MS).await.unwrap()[0];
    let far = u64::MAX / 2;
    assert!(store.claim("other", 1, far, LONG_MS).await.unwrap().is_empty(), "whatever time the caller believes it is");
    assert!(store.renew(&[claim], far, 1).await.unwrap().is_empty());
    eventually(async || store.claim("other", 1, 0, LONG_MS).await.unwrap().len() == 1).await;
}

/// The zero character, which PostgreSQL's texts cannot hold, and the one that stands for it.
const ODD: &str = "a\0b\u{10}0\u{10}\u{10}\0é🦀";

#[tokio::test(flavor = "multi_thread")]
async fn every_character_comes_back() {
    let server = servers::Postgres::start();
    let (store, clerk) = (open(&server.url(), &exact()).await, Clerk::new());
    let odd = || ODD.to_owned();
    let mut admission = clerk.new_chat(clerk.id());
    admission.session.request = odd();
    admission.new_chat = Some(NewChat { title: odd(), slug: "odd".into() });
    admission.idempotency_key = Some(odd());
    let claim = clerk.begin(&store, &admission).await;
    assert_eq!(store.admit(admission.clone()).await.unwrap().run_id, claim.run_id, "the key is the same");
    let call = CallId::new("turn-1.1.1");
    let (status, output) = (ToolStatus::Failed, odd());
    let rows = vec![
        RowChange::AssistantText { text: odd() },
        RowChange::AssistantText { text: "\u{10}".into() },
        RowChange::ToolRequested { call_id: call.clone(), tool: ToolName::Command, input: odd(), key: odd() },
        RowChange::ToolFinished { call_id: call, status, output, error: Some(odd()), duration_ms: 1 },
    ];
    store.append(Append { rows, ..text(claim, 2, ODD) }).await.unwrap();
    // A piece that would be an escape together with the one before.
    let rows = vec![RowChange::AssistantText { text: "0".into() }];
    store.append(Append { rows, ..text(claim, 3, "") }).await.unwrap();
    let cancel = InboxItem::Cancel { by: odd() };
    store.put_inbox(claim.run_id, cancel.clone(), 1).await.unwrap();
    assert_eq!(store.inbox(claim.run_id).await.unwrap()[0].1, cancel);

    let call = store.drawn(claim.run_id).await.unwrap().calls.remove(0);
    assert_eq!((call.input, call.key, call.output, call.error), (odd(), Some(odd()), Some(odd()), Some(odd())));
    let detail = async || store.chat(admission.user, admission.session.chat_id).await.unwrap().unwrap();
    let before = detail().await;
    assert_eq!((before.chat.title.as_str(), before.messages[0].text.as_str()), (ODD, ODD));
    assert_eq!(before.messages[1].text, format!("{ODD}\u{10}0"));
    let status = RunStatus::Failed;
    let failed = RowChange::Run { status, stop_reason: None, code: Some("code".into()), error: Some(odd()), at: 9 };
    store.append(Append { rows: vec![failed], ends: true, ..text(claim, 4, "end") }).await.unwrap();
    let after = detail().await;
    assert_eq!(after.messages[1].text, before.messages[1].text, "also when it is whole");
    assert_eq!(after.runs[0].error.as_deref(), Some(ODD));
}

/// An inbox keeps one item of each kind, however long it is: longer than what an index can hold.
#[tokio::test(flavor = "multi_thread")]
async fn an_item_may_be_longer_than_an_index_can_hold() {
    let server = servers::Postgres::start();
    let (store, clerk) = (open(&server.url(), &exact()).await, Clerk::new());
    let (_, claim) = clerk.running(&store).await;
    let noise: String = (0..20_000_u64).map(|i| format!("{:x}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    for (by, told) in [(noise.clone(), 1), (noise.clone(), 0), (format!("{noise}!"), 1)] {
        assert_eq!(store.put_inbox(claim.run_id, InboxItem::Cancel { by }, 1).await.unwrap().len(), told);
    }
}

/// One lane that is busy while all others gather behind it: they are one commit, unless one of them makes it fail.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_request_does_not_hurt_those_that_are_committed_with_it() {
    let server = servers::Postgres::start();
    for fails in [false, true] {
        let url = server.new_database();
        commit_together(&server, &url, fails).await;
    }
}

async fn commit_together(server: &servers::Postgres, url: &str, fails: bool) {
    const RUNS: usize = 24;
    let store = open(url, &PostgresOptions { lanes: 1, ..exact() }).await;
    let clerk = Clerk::new();
    let mut running: Vec<(Admission, Claim)> = vec![];
    for _ in 0..RUNS {
        running.push(clerk.running(&store).await);
    }
    let (first, taken) = (running[0].1, version(&clerk, &running[1].0));
    store.append(Append { rows: vec![RowChange::Publish(taken.clone())], ..text(running[1].1, 2, "x") }).await.unwrap();
    let appends = running[2..].iter().enumerate().map(|(i, (admission, claim))| {
        let publish = |version| vec![RowChange::Publish(PublishedVersion { run_id: claim.run_id, ..version })];
        match i {
            // The statement names these: fenced, misplaced, another's project.
            3 => text(Claim { epoch: claim.epoch + 1, ..*claim }, 2, "fenced"),
            4 => text(*claim, 9, "misplaced"),
            5 => Append { rows: publish(version(&clerk, &running[1].0)), ..text(*claim, 2, "foreign") },
            // This one makes it fail: the version's id is taken.
            6 if fails => {
                let twice = PublishedVersion { project_id: admission.session.project_id, ..taken.clone() };
                Append { rows: publish(twice), ..text(*claim, 2, "twice") }
            }
            _ => text(*claim, 2, "good"),
        }
    });
    let lock = format!("SELECT FROM claims WHERE run_id = '{:032x}' FOR UPDATE", first.run_id.bits());
    let held = server.hold(url, &lock);
    let gathered = async {
        waiting(server, 1).await;
        join_all(appends.map(|append| store.append(append))).await
    };
    let release = async {
        waiting(server, 1).await;
        // What is sent behind the first is in the queue at the next turn: sending waits for nothing.
        tokio::task::yield_now().await;
        drop(held);
    };
    let (blocked, answers, ()) = futures::join!(store.append(text(first, 2, "blocked")), gathered, release);
    assert_eq!(blocked.unwrap(), 3);
    for (i, answer) in answers.iter().enumerate() {
        match (i, answer) {
            (3, Err(AppendError::Fenced)) | (4, Err(AppendError::Conflict { at: 2 })) => {}
            (5, Err(AppendError::Store(error))) => assert_eq!(error.fault, StoreFault::Refused, "{error}"),
            (6, Err(AppendError::Store(error))) if fails => assert_eq!(error.fault, StoreFault::Refused, "{error}"),
            (3..=5, other) => panic!("{i}: {other:?}"),
            (_, answer) => assert!(matches!(answer, Ok(3)), "{i}: {answer:?}"),
        }
    }
    let commits = server.ask(url, "SELECT count(DISTINCT xmin::text) FROM events WHERE seq = 3");
    let good = RUNS - 2 - 4;
    // That of the taken version, the one that was blocked, and the others: together or each alone.
    assert_eq!(commits, if fails { 2 + good } else { 3 }.to_string());
    is_whole(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_finds_what_does_not_hold_together() {
    let server = servers::Postgres::start();
    let empty = prepared(&server).await;
    let clerk = Clerk::new();
    for (damage, found) in [
        ("UPDATE users SET active = active + 1", "counter"),
        ("UPDATE slots SET active = 3 WHERE slot = 15", "counter"),
        ("UPDATE chats SET active = 0", "counter"),
        ("DELETE FROM events WHERE seq = 2", "gaps"),
        ("DELETE FROM events WHERE seq = 3", "does not end"),
        ("UPDATE runs SET ended_at = 1", "can be claimed"),
        ("UPDATE claims SET n = 77", "not that of its row"),
        ("UPDATE claims SET holder = NULL", "half a holder"),
        ("INSERT INTO prose VALUES (gen_random_uuid(), 1, '')", "in pieces"),
    ] {
        let url = server.copy_of(&empty);
        let store = open(&url, &exact()).await;
        let (_, claim) = clerk.running(&store).await;
        store.append(text(claim, 2, "x")).await.unwrap();
        is_whole(&store).await;
        server.ask(&url, damage);
        let faults = store.check().await.unwrap();
        assert!(faults.iter().any(|fault| fault.contains(found)), "{damage}: {faults:?}");
    }
}

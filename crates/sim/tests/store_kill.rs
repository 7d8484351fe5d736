//! kill -9 in the middle of appending, again and again: what was answered is there, gapless, and nothing is half done (E4, N3).
//!
//! The test starts its own binary as a child that appends to several runs at once and writes a line to stdout for each answer.
#![expect(clippy::disallowed_methods, reason = "starts, reads and kills a process of its own")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use adapters::store::sqlite::{Options, Sqlite};
use contract::event::{Event, NewEvent, TextDelta};
use contract::{RunId, StepId, UserId};
use futures::future::join_all;
use runtime::ports::Store;
use runtime::ports::store::{Append, Claim, Entry, RowChange};
use sim::conformance::store::Clerk;

/// Where the child finds its data folder.
const DATA: &str = "BATON_TEST_KILL_DATA";
/// Answers after which the child is killed, round by round, on the same data. The kill strikes wherever the child is by then.
const KILLED_AFTER: [usize; 8] = [1, 2, 5, 20, 50, 100, 200, 400];
const RUNS: usize = 6;

fn open(data: &Path) -> Sqlite {
    // A small log, so that kills also hit checkpoints.
    Sqlite::open(data, &Options { wal_bytes: 64 * 4_096, ..Options::default() }).unwrap()
}

#[tokio::test]
async fn what_was_answered_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let clerk = Clerk::new();
    let user: UserId = clerk.id();
    let runs: Vec<RunId> = {
        let store = open(folder.path());
        let admitted = join_all((0..RUNS).map(|_| store.admit(clerk.new_chat(user)))).await;
        admitted.into_iter().map(|accepted| accepted.unwrap().run_id).collect()
    };
    let mut answered: BTreeMap<RunId, u64> = runs.iter().map(|run| (*run, 2)).collect();
    for (round, answers) in (1..).zip(KILLED_AFTER) {
        for (run, seq) in kill_a_child_after(folder.path(), answers) {
            let last = answered.get_mut(&run).unwrap();
            *last = seq.max(*last);
        }
        let store = open(folder.path());
        assert_eq!(store.check().await.unwrap(), Vec::<String>::new(), "round {round}");
        for (run, last) in &mut answered {
            let log = store.read_after(*run, 0, 100_000).await.unwrap();
            assert!(log.len() as u64 >= *last, "round {round}: {run} was answered {last} and has {}", log.len());
            assert!(log.iter().zip(1..).all(|(event, seq)| event.head.seq == seq), "round {round}: {run} has gaps");
            let written: String =
                log.iter().filter_map(|event| text(&serde_json::from_slice(&event.payload).unwrap())).collect();
            let view = store.run(user, *run).await.unwrap().unwrap();
            let chat = store.chat(user, view.chat_id).await.unwrap().unwrap();
            assert_eq!(chat.messages[1].text, written, "round {round}: {run}: rows and events are of one transaction");
            *last = log.len() as u64;
        }
        let claims = store.claim("parent", RUNS, 0, 1).await.unwrap();
        assert_eq!(claims.iter().map(|claim| claim.run_id).collect::<Vec<_>>(), runs, "all can be claimed at once");
        assert!(claims.iter().all(|claim| claim.epoch == 2 * round), "under a higher epoch each time");
    }
}

fn text(event: &Event) -> Option<String> {
    match event {
        Event::TextDelta(delta) => Some(delta.text.clone()),
        _ => None,
    }
}

/// Every answer that the child got out before it died.
fn kill_a_child_after(data: &Path, answers: usize) -> Vec<(RunId, u64)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_appends_until_it_is_killed", "--ignored", "--nocapture"])
        .env(DATA, data)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut got = vec![];
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        // The test harness writes lines of its own, and the last one may be cut.
        let Some((run, seq)) = line.strip_prefix("answer ").and_then(|rest| rest.strip_suffix(" end")?.split_once(' '))
        else {
            continue;
        };
        got.push((run.parse().unwrap(), seq.parse().unwrap()));
        if got.len() == answers {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(got.len() >= answers, "the child ended by itself after {} answers", got.len());
    got
}

#[tokio::test]
#[ignore = "the child of what_was_answered_survives_kill_9"]
async fn child_appends_until_it_is_killed() {
    let Ok(data) = std::env::var(DATA) else { return };
    let store = open(Path::new(&data));
    let claims = store.claim("child", RUNS, 0, 60_000).await.unwrap();
    join_all(claims.into_iter().map(|claim| append_for_ever(&store, claim))).await;
}

async fn append_for_ever(store: &Sqlite, claim: Claim) {
    let mut end = store.read_after(claim.run_id, 0, 100_000).await.unwrap().len() as u64;
    loop {
        let pieces: Vec<String> = (0..=end % 3).map(|i| format!("{} ", end + i)).collect();
        let event = |text: &String| {
            let event = TextDelta { text: text.clone() }.into();
            Entry::of(&NewEvent { at: end, step: Some((StepId::new("turn-1"), 1)), event }).unwrap()
        };
        let append = Append {
            claim,
            after: end,
            events: pieces.iter().map(event).collect(),
            rows: vec![RowChange::AssistantText { text: pieces.concat() }],
            consumed: vec![],
            ends: false,
        };
        end = store.append(append).await.unwrap();
        // One write: a line is out whole or not at all.
        let line = format!("answer {} {end} end\n", claim.run_id);
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    }
}

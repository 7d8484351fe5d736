//! A database of every earlier schema is brought up to date when it is opened, with everything that was in it, and goes on (E22).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use adapters::store::sqlite::{Options, Sqlite};
use contract::api::{ExecutionState, RunStatus};
use contract::event::{NewEvent, TextDelta};
use contract::{ChatId, ProjectId, RunId, StepId, UserId};
use runtime::ports::Store;
use runtime::ports::store::{Append, Entry, RowChange};
use rusqlite::Connection;

/// The schemas before the newest, oldest first, each with what its Baton wrote.
const EARLIER: [(&str, &str); 1] =
    [(include_str!("../src/store/sqlite/schema/0001.sql"), include_str!("sqlite_0001.sql"))];

#[tokio::test]
async fn every_earlier_schema_is_brought_up_to_date() {
    for newest in 1..=EARLIER.len() {
        let folder = tempfile::tempdir().unwrap();
        let db = Connection::open(folder.path().join("baton.db")).unwrap();
        for (version, (schema, _)) in (1..=newest).zip(EARLIER) {
            let application = 0x4261_746e;
            db.execute_batch(&format!(
                "BEGIN; PRAGMA application_id = {application}; {schema}; PRAGMA user_version = {version}; COMMIT;"
            ))
            .unwrap();
        }
        db.execute_batch(EARLIER[newest - 1].1).unwrap();
        drop(db);
        goes_on(&Sqlite::open(folder.path(), &Options::default()).unwrap()).await;
        goes_on_again(&Sqlite::open(folder.path(), &Options::default()).unwrap()).await;
    }
}

/// One run had ended, one was running, and one of another project waited for a person.
async fn goes_on(store: &Sqlite) {
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    let user = UserId::from_bits(1);
    let runs = store.runs(user, None, None, 9).await.unwrap().items;
    let seen: Vec<_> = runs.iter().map(|run| (run.id.bits(), run.status, run.state, run.turn, run.last_seq)).collect();
    let expected = [
        (13, RunStatus::Waiting, ExecutionState::Init, 0, 2),
        (12, RunStatus::Running, ExecutionState::Init, 1, 3),
        (11, RunStatus::Completed, ExecutionState::Complete, 2, 5),
    ];
    assert_eq!(seen, expected);
    let chat = store.chat(user, ChatId::from_bits(2)).await.unwrap().unwrap();
    let texts: Vec<_> = chat.messages.iter().map(|message| message.text.as_str()).collect();
    assert_eq!(texts, ["build it", "built", "make it dark", "on it"]);
    assert_eq!(store.project_of(user, chat.chat.id).await.unwrap(), Some(ProjectId::from_bits(3)));

    let claims = store.claim("worker", 9, 1_000, 15_000).await.unwrap();
    assert_eq!(claims.len(), 1, "whose lease a dead process had; the one that waits stays parked");
    let (claim, text) = (claims[0], TextDelta { text: "and on".into() });
    let new = NewEvent { at: 9, step: Some((StepId::new("turn-1"), 1)), event: text.into() };
    let rows = vec![RowChange::AssistantText { text: " and on".into() }];
    let append =
        Append { claim, after: 3, events: vec![Entry::of(&new).unwrap()], rows, consumed: vec![], ends: false };
    assert_eq!((claim.run_id, claim.epoch, store.append(append).await.unwrap()), (RunId::from_bits(12), 4, 4));
}

async fn goes_on_again(store: &Sqlite) {
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    assert_eq!(store.read_after(RunId::from_bits(12), 0, 9).await.unwrap().len(), 4);
}

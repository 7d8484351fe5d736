//! What only SQLite can get wrong: the folder's lock, schemas, a full disk, failing commits, the rows that no list shows.
#![expect(clippy::disallowed_methods, reason = "a test makes files of its own")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use contract::api::RunStatus;
use contract::event::{
    BuildState, Intent, ModelRef, NewEvent, Provider, Session, TextDelta, ToolName, ToolStatus, Work,
};
use contract::{CallId, ChatId, Event, MessageId, ProjectId, RunId, StepId, UserId};
use futures::future::join_all;
use runtime::ports::store::{
    Admission, Append, AppendError, Begun, Claim, Door, Entry, NewChat, RowChange, Store, StoreError, StoreFault,
};
use rusqlite::Connection;

use super::failure::Failure;
use super::{OpenError, Options, Sqlite};

const LEASE_MS: u64 = 60_000;

fn open(data: &Path) -> Sqlite {
    Sqlite::open(data, &Options::default()).unwrap()
}

fn admission(number: u128) -> Admission {
    let session = Session {
        chat_id: ChatId::from_bits(number),
        project_id: ProjectId::from_bits(number),
        user_message_id: MessageId::from_bits(2 * number),
        assistant_message_id: MessageId::from_bits(2 * number + 1),
        is_new_chat: true,
        request: "build it".into(),
        intent: Intent::Generate,
        follow_up: false,
        template: "react-vite".into(),
        model: ModelRef { provider: Provider::Demo, name: "demo".into() },
        work: Work::Message,
        fork: None,
    };
    Admission {
        user: UserId::from_bits(7),
        run_id: RunId::from_bits(number),
        session,
        new_chat: Some(NewChat { title: "it".into(), slug: format!("it-{number}") }),
        idempotency_key: None,
        at: 1_000,
        most_active: [("chat", 100), ("user", 100), ("global", 100)],
        parent: None,
        most_depth: ("depth", 3),
        alone: false,
        log: Begun::default(),
        door: Door::Message,
    }
}

/// Admits runs with the numbers from 1 and claims them.
async fn running(store: &Sqlite, runs: usize) -> Vec<Claim> {
    for number in 1..=runs {
        store.admit(admission(number as u128)).await.unwrap();
    }
    store.claim("worker", runs, 0, LEASE_MS).await.unwrap()
}

fn text(claim: Claim, after: u64, text: impl Into<String>) -> Append {
    let event = Event::from(TextDelta { text: text.into() });
    let new = NewEvent { at: 1_732_147_200_000, step: Some((StepId::new("turn-1"), 1)), event };
    let events = vec![Entry::of(&new).unwrap()];
    Append { claim, after, events, rows: vec![], consumed: vec![], ends: false }
}

#[tokio::test]
async fn a_folder_has_one_baton_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("made").join("on the way");
    let store = open(&data);
    let error = Sqlite::open(&data, &Options::default()).err().unwrap();
    assert!(matches!(&error, OpenError::DataDirInUse { pid: Some(pid), .. } if *pid == std::process::id()), "{error}");
    assert_eq!(error.code(), "data_dir_in_use");
    assert!(error.to_string().contains(&format!("(process {})", std::process::id())), "{error}");
    store.owner(UserId::from_bits(7), 1).await.unwrap();
    store.owner(UserId::from_bits(7), 1).await.unwrap();
    store.project_by_slug("none").await.unwrap();
    drop(store);
    assert!(!data.join("baton.db-wal").exists(), "closed, everything is in the one file");
    open(&data);
}

#[test]
fn a_database_of_another_program_or_of_a_newer_baton_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("baton.db");
    let refused = |code: &str| {
        let before = fs::read(&file).unwrap();
        let error = Sqlite::open(folder.path(), &Options::default()).err().unwrap();
        assert_eq!(error.code(), code, "{error}");
        assert!(!error.action().is_empty());
        assert_eq!(fs::read(&file).unwrap(), before, "{code}: not a byte of it has changed");
    };
    fs::write(&file, "this is a diary, and a long one too").unwrap();
    refused("not_a_baton_database");

    fs::remove_file(&file).unwrap();
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE diary (page TEXT)").unwrap();
    refused("not_a_baton_database");

    fs::remove_file(&file).unwrap();
    drop(open(folder.path()));
    let known: i64 = Connection::open(&file).unwrap().query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    Connection::open(&file).unwrap().pragma_update(None, "user_version", known + 1).unwrap();
    refused("schema_too_new");
}

// N3: an answer means that the disk has it.
#[tokio::test]
async fn every_commit_is_synced_and_the_log_keeps_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let pragma = async |name: &'static str| {
        let ask = move |db: &Connection| {
            Ok(db.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, rusqlite::types::Value>(0))?)
        };
        store.writer.ask::<_, StoreError, _>(1, ask).await.unwrap()
    };
    assert_eq!(pragma("journal_mode").await, "wal".to_owned().into());
    assert_eq!(pragma("synchronous").await, 2.into(), "FULL");
    assert_eq!(pragma("foreign_keys").await, 1.into());
    assert_eq!(pragma("journal_size_limit").await, (64 * 1024 * 1024).into());
}

/// A request that fails after it has changed something, whatever the kind of failure, next to requests that do not.
#[tokio::test]
async fn a_bad_request_hurts_none_of_its_batch() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let claims = running(&store, 3).await;
    let change = "UPDATE chats SET title = 'spoilt'";
    let breaks = store.writer.ask::<(), StoreError, _>(1, move |db| {
        db.execute(change, [])?;
        db.execute("INSERT INTO users (id, created_at) VALUES (x'00', 0)", [])?;
        Ok(())
    });
    let refuses = store.writer.ask::<(), StoreError, _>(1, move |db| {
        db.execute(change, [])?;
        Err(Failure::Refused(StoreError::new(StoreFault::BadCursor, "changed its mind")))
    });
    // As SQLite does by itself when the disk is full.
    let rolls_back = store.writer.ask::<(), StoreError, _>(1, move |db| {
        db.execute(change, [])?;
        db.execute_batch("ROLLBACK")?;
        db.execute("INSERT INTO users (id, created_at) VALUES (x'00', 0)", [])?;
        Ok(())
    });
    let good = |claim: Claim| store.append(text(claim, 2, "good"));
    let (a, broken, b, refused, rolled_back, c) =
        futures::join!(good(claims[0]), breaks, good(claims[1]), refuses, rolls_back, good(claims[2]));
    assert_eq!(broken.unwrap_err().fault, StoreFault::Refused);
    assert_eq!(refused.unwrap_err().fault, StoreFault::BadCursor, "a refusal keeps its own error");
    assert!(rolled_back.is_err());
    for (claim, end) in claims.iter().zip([a, b, c]) {
        assert_eq!(end.unwrap(), 3);
        assert_eq!(store.read_after(claim.run_id, 2, 9).await.unwrap().len(), 1);
    }
    let chats = store.chats(UserId::from_bits(7), None, 9).await.unwrap();
    assert!(chats.items.iter().all(|chat| chat.title == "it"), "what a failed request changed is undone");
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_commit_that_fails_is_told_to_all_and_the_store_stays_usable() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let claim = running(&store, 1).await[0];
    // A reference to nothing that is looked at no sooner than at the commit.
    let spoils_the_commit = store.writer.ask::<(), StoreError, _>(1, |db| {
        db.execute_batch("PRAGMA defer_foreign_keys = ON")?;
        db.execute("INSERT INTO sessions (token_sha256, user_id, until) VALUES ('x', zeroblob(16), 1)", [])?;
        Ok(())
    });
    let (spoilt, append) = futures::join!(spoils_the_commit, store.append(text(claim, 2, "lost")));
    assert!(spoilt.is_err());
    let seen = store.read_after(claim.run_id, 2, 9).await.unwrap().len() as u64;
    match append {
        Ok(end) => assert_eq!((end, seen), (3, 1), "it was in a later commit"),
        Err(AppendError::Store(_)) => assert_eq!(seen, 0, "nobody saw it"),
        Err(other) => panic!("{other}"),
    }
    assert_eq!(store.append(text(claim, 2 + seen, "next")).await.unwrap(), 3 + seen);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

/// Fills the store until it refuses; gives how many appends of each run were answered.
async fn fill(store: &Sqlite, claims: &[Claim]) -> Vec<u64> {
    let writers = claims.iter().map(async |claim| {
        let mut end = 2;
        loop {
            match store.append(text(*claim, end, "x".repeat(3_000))).await {
                Ok(new) => end = new,
                Err(AppendError::Store(error)) => {
                    assert_eq!((error.fault, error.code()), (StoreFault::Full, "store_full"), "{error}");
                    break end;
                }
                Err(other) => panic!("{other}"),
            }
        }
    });
    join_all(writers).await
}

async fn is_whole(store: &Sqlite, claims: &[Claim], ends: &[u64]) {
    for (claim, end) in claims.iter().zip(ends) {
        assert_eq!(
            store.read_after(claim.run_id, 0, 10_000).await.unwrap().len() as u64,
            *end,
            "what was answered and no more"
        );
    }
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_full_store_refuses_writes_keeps_what_it_has_and_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let full = Options { most_bytes: Some(1024 * 1024), ..Options::default() };
    let store = Sqlite::open(folder.path(), &full).unwrap();
    let claims = running(&store, 4).await;
    let ends = fill(&store, &claims).await;
    is_whole(&store, &claims, &ends).await;
    assert!(store.renew(&claims, 1, LEASE_MS).await.unwrap().is_empty(), "what needs no room is still done");
    drop(store);
    let store = open(folder.path());
    is_whole(&store, &claims, &ends).await;
    let claims = store.claim("worker", 9, 0, LEASE_MS).await.unwrap();
    for (claim, end) in claims.iter().zip(ends) {
        assert_eq!(store.append(text(*claim, end, "room again")).await.unwrap(), end + 1);
    }
}

/// The same with a disk that is really full, in the middle of a commit. Where a test may not mount one, there is nothing to see.
#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = rustix::mount::mount(
        "baton-test",
        folder.path(),
        "tmpfs",
        rustix::mount::MountFlags::empty(),
        Some(c"size=4m"),
    );
    if mounted.is_err() {
        return;
    }
    let data = folder.path().join("data");
    let store = open(&data);
    let claims = running(&store, 4).await;
    let ballast = folder.path().join("ballast");
    fs::write(&ballast, vec![0; 1024 * 1024]).unwrap();
    let mut ends = fill(&store, &claims).await;
    is_whole(&store, &claims, &ends).await;
    fs::remove_file(&ballast).unwrap();
    for (claim, end) in claims.iter().zip(&mut ends) {
        *end = store.append(text(*claim, *end, "room again, without a restart")).await.unwrap();
    }
    drop(store);
    is_whole(&open(&data), &claims, &ends).await;
    rustix::mount::unmount(folder.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
}

// E22: rows that no list of the API shows yet, for whoever queries the file.
#[tokio::test]
async fn tool_calls_and_builds_are_rows() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let claim = running(&store, 1).await[0];
    let call = |n: u32| CallId::new(format!("turn-1.1.{n}"));
    let finished = |n, status, error: Option<&str>| RowChange::ToolFinished {
        call_id: call(n),
        status,
        output: "out".into(),
        error: error.map(Into::into),
        duration_ms: 5,
    };
    let build = |status, duration_ms, error: Option<&str>, at| RowChange::Build {
        build_id: "build-1.1".into(),
        status,
        duration_ms,
        error: error.map(Into::into),
        at,
    };
    let rows = vec![
        RowChange::ToolRequested { call_id: call(1), tool: ToolName::Command, input: "{}".into(), key: "k1".into() },
        RowChange::ToolRequested { call_id: call(2), tool: ToolName::WebSearch, input: "{}".into(), key: "k2".into() },
        finished(1, ToolStatus::TimedOut, Some("too slow")),
        finished(9, ToolStatus::Succeeded, None),
        build(BuildState::Building, None, None, 100),
        build(BuildState::Failed, Some(9), Some("{}"), 109),
    ];
    store.append(Append { events: vec![], rows, ..text(claim, 2, "") }).await.unwrap();
    let file = Connection::open(folder.path().join("baton.db")).unwrap();
    let lines = |sql: &str| -> Vec<String> {
        file.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let calls = "SELECT concat_ws(' ', call_id, tool, input, coalesce(status, '-'), coalesce(output, '-'), coalesce(error, '-'), \
                 coalesce(duration_ms, '-')) FROM tool_calls ORDER BY n";
    assert_eq!(lines(calls), ["turn-1.1.1 command {} timed_out out too slow 5", "turn-1.1.2 web_search {} - - - -"]);
    let builds = "SELECT concat_ws(' ', build_id, status, error, started_at, duration_ms) FROM builds";
    assert_eq!(lines(builds), ["build-1.1 failed {} 100 9"]);
}

#[tokio::test]
async fn the_pieces_of_an_answer_are_joined_when_its_run_ends() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let claim = running(&store, 1).await[0];
    for (after, piece) in [(2, "one, "), (3, "two, "), (4, "three")] {
        let rows = vec![RowChange::AssistantText { text: piece.into() }];
        store.append(Append { rows, ..text(claim, after, piece) }).await.unwrap();
    }
    let file = Connection::open(folder.path().join("baton.db")).unwrap();
    let stored = || -> (i64, String) {
        let sql = "SELECT (SELECT count(*) FROM prose), text FROM messages WHERE role = 'assistant'";
        file.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    };
    assert_eq!(stored(), (3, String::new()));
    let done = RowChange::Run { status: RunStatus::Completed, stop_reason: None, code: None, error: None, at: 9 };
    store.append(Append { rows: vec![done], ends: true, ..text(claim, 5, "") }).await.unwrap();
    assert_eq!(stored(), (0, "one, two, three".into()));
}

#[tokio::test]
async fn a_small_event_takes_at_most_300_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let claim = running(&store, 1).await[0];
    let size = async || {
        let pages = |db: &Connection| {
            Ok(db.query_row("SELECT sum(pgsize) FROM dbstat WHERE name = 'events'", [], |row| row.get(0))?)
        };
        store.writer.ask::<i64, StoreError, _>(1, pages).await.unwrap()
    };
    let before = size().await;
    for i in 0..1_000 {
        store.append(text(claim, 2 + i, "a few words of prose, ")).await.unwrap();
    }
    let each = (size().await - before) / 1_000;
    assert!(each <= 300, "{each} bytes");
}

#[tokio::test]
async fn checking_finds_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let claims = running(&store, 2).await;
    store.append(text(claims[0], 2, "x")).await.unwrap();
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    let file = Connection::open(folder.path().join("baton.db")).unwrap();
    for (damage, found) in [
        ("DELETE FROM events WHERE seq = 1 AND run_id = (SELECT min(run_id) FROM events)", "has gaps"),
        (
            "UPDATE claims SET last_seq = 9 WHERE run_id = (SELECT max(run_id) FROM claims)",
            "does not end where its row says",
        ),
        ("UPDATE counters SET active = active + 1 WHERE scope = 'user'", "counter of active runs of usr_"),
        ("INSERT INTO prose VALUES (zeroblob(16), 1, 'x')", "is in pieces"),
        ("DELETE FROM counters WHERE scope = 'global'", "counter of active runs of global"),
        ("UPDATE runs SET status = 'failed', ended_at = 1 WHERE n = 1", "is failed and can be claimed"),
        (
            "PRAGMA foreign_keys = OFF; DELETE FROM messages; DELETE FROM projects WHERE slug = 'it-1'",
            "a row of runs refers to nothing",
        ),
    ] {
        file.execute_batch(damage).unwrap();
        let faults = store.check().await.unwrap();
        assert!(faults.iter().any(|fault| fault.contains(found)), "`{damage}` gave {faults:?}");
    }
}

#[tokio::test]
async fn a_backup_is_whole_while_others_write_and_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(&folder.path().join("data")));
    let claim = running(&store, 1).await[0];
    let copied = folder.path().join("copy").join("baton.db");
    fs::create_dir(copied.parent().unwrap()).unwrap();
    let writes = async {
        for i in 0..200 {
            store.append(text(claim, 2 + i, "x".repeat(500))).await.unwrap();
        }
    };
    let ((), backup) = futures::join!(writes, store.backup(&copied));
    backup.unwrap();
    let error = store.backup(&copied).await.unwrap_err();
    assert!(error.message.contains("exists"), "{error}");
    assert!(store.backup(&folder.path().join("no folder").join("baton.db")).await.is_err());
    assert_eq!(fs::read_dir(copied.parent().unwrap()).unwrap().count(), 1, "and nothing half made is left");

    let copy = open(copied.parent().unwrap());
    assert_eq!(copy.check().await.unwrap(), Vec::<String>::new());
    let log = copy.read_after(claim.run_id, 0, 10_000).await.unwrap();
    assert_eq!(log, store.read_after(claim.run_id, 0, log.len()).await.unwrap(), "a copy of one moment");
}

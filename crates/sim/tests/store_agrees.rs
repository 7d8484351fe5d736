//! Any sequence of requests gets the same answers from the stores in SQLite and PostgreSQL as from the plain one in memory (proptest
//! shrinks a difference to the shortest sequence that shows it).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use contract::api::RunStatus;
use contract::event::{Intent, ModelRef, NewEvent, Provider, Session, StopReason, TextDelta, Work};
use contract::{ChatId, MessageId, ProjectId, RunId, StepId, UserId, VersionId};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use runtime::ports::Store;
use runtime::ports::store::{
    Admission, Append, Begun, Claim, Door, Entry, InboxItem, NewChat, PublishedVersion, RowChange,
};
use sim::memory::{Hook, MemoryStore};
use sim::servers;
use tempfile::TempDir;

use adapters::store::postgres::{Clock, Postgres, PostgresOptions};
use adapters::store::sqlite::{Options, Sqlite};

/// Few of everything, so that requests meet.
const USERS: u8 = 2;
const CHATS: u8 = 3;
const CASES: u32 = 96;
/// Fewer, since each is a database of its own.
const POSTGRES_CASES: u32 = 24;
const REQUESTS: std::ops::Range<usize> = 1..50;

#[derive(Debug, Clone)]
enum Request {
    Admit { user: u8, chat: u8, new: bool, key: Option<u8>, text: u8, at: u64, parent: Option<(u8, u64)>, alone: bool },
    Claim { most: usize, now: u64, stopped: bool },
    Renew { now: u64 },
    Release { run: u8, epoch: u64 },
    Append { run: u8, epoch: u64, after: i64, events: u8, rows: Vec<Row>, consumed: Vec<u64> },
    PutInbox { run: u8, by: u8 },
    Restart,
    Look { user: u8, chat: u8, most: usize },
}

#[derive(Debug, Clone)]
enum Row {
    Status(RunStatus, u64),
    Say(u8),
    Reset(u8),
    Publish(u8),
}

fn row() -> impl Strategy<Value = Row> {
    use RunStatus::*;
    prop_oneof![
        3 => (prop::sample::select(vec![Running, Running, Waiting, Completed, Failed]), 0..100u64).prop_map(|(s, at)| Row::Status(s, at)),
        2 => any::<u8>().prop_map(Row::Say),
        1 => any::<u8>().prop_map(Row::Reset),
        1 => (0..CHATS).prop_map(Row::Publish),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    let run = 0..12u8;
    let epoch = 1..4u64;
    let append = (
        run.clone(),
        epoch.clone(),
        -1..=1i64,
        0..4u8,
        prop::collection::vec(row(), 0..3),
        prop::collection::vec(1..6u64, 0..3),
    );
    prop_oneof![
        4 => (0..USERS, 0..CHATS, any::<bool>(), prop::option::weighted(0.3, 0..2u8), 0..2u8, 0..100u64,
              prop::option::weighted(0.4, (run.clone(), epoch.clone())), prop::bool::weighted(0.2))
            .prop_map(|(user, chat, new, key, text, at, parent, alone)|
                Request::Admit { user, chat, new, key, text, at, parent, alone }),
        3 => (0..4usize, 0..300u64, prop::bool::weighted(0.3))
            .prop_map(|(most, now, stopped)| Request::Claim { most, now, stopped }),
        1 => (0..300u64).prop_map(|now| Request::Renew { now }),
        1 => (run.clone(), epoch).prop_map(|(run, epoch)| Request::Release { run, epoch }),
        8 => append.prop_map(|(run, epoch, off, events, rows, consumed)|
            // Mostly at the right place.
            Request::Append { run, epoch, after: if events == 3 { off } else { 0 }, events, rows, consumed }),
        2 => (run, 0..2u8).prop_map(|(run, by)| Request::PutInbox { run, by }),
        1 => Just(Request::Restart),
        2 => (0..USERS, 0..CHATS, 0..4usize).prop_map(|(user, chat, most)| Request::Look { user, chat, most }),
    ]
}

/// Turns requests into calls; what it numbers depends on the requests alone, so both stores are asked the same.
#[derive(Default)]
struct Desk {
    admitted: u8,
    versions: u8,
}

fn user(number: u8) -> UserId {
    UserId::from_bits(u128::from(number) + 1)
}

fn chat(number: u8) -> ChatId {
    ChatId::from_bits(u128::from(number) + 1)
}

fn project(number: u8) -> ProjectId {
    ProjectId::from_bits(u128::from(number) + 1)
}

/// Scattered, so that the order of ids is not that of admission.
fn run(number: u8) -> RunId {
    RunId::from_bits(u128::from(number).wrapping_mul(77) % 251 + 1)
}

impl Desk {
    fn admission(&mut self, request: &Request) -> Option<Admission> {
        let Request::Admit { user: u, chat: c, new, key, text, at, parent, alone } = *request else { return None };
        self.admitted += 1;
        let number = u128::from(self.admitted);
        Some(Admission {
            user: user(u),
            run_id: run(self.admitted),
            session: Session {
                chat_id: chat(c),
                project_id: project(c),
                user_message_id: MessageId::from_bits(2 * number),
                assistant_message_id: MessageId::from_bits(2 * number + 1),
                is_new_chat: new,
                request: format!("text {text}"),
                intent: Intent::Edit,
                follow_up: !new,
                template: "react-vite".into(),
                model: ModelRef { provider: Provider::Demo, name: "demo".into() },
                work: Work::Message,
                fork: None,
            },
            new_chat: new.then(|| NewChat { title: format!("chat {c}"), slug: format!("slug-{c}") }),
            idempotency_key: key.map(|key| format!("key {key}")),
            at,
            most_active: [("chat", 2), ("user", 4), ("global", 5)],
            parent: parent.map(|(number, epoch)| Claim { run_id: run(number), epoch }),
            most_depth: ("depth", 2),
            alone,
            log: Begun::default(),
            door: Door::Message,
        })
    }

    fn append(&mut self, request: &Request, end: u64) -> Option<Append> {
        let Request::Append { run: number, epoch, after, events, ref rows, ref consumed } = *request else {
            return None;
        };
        let claim = Claim { run_id: run(number), epoch };
        let mut ends = false;
        let mut change = |row: &Row| match *row {
            Row::Status(status, at) => {
                ends = status.is_terminal();
                RowChange::Run { status, stop_reason: ends.then_some(StopReason::Done), code: None, error: None, at }
            }
            Row::Say(n) => RowChange::AssistantText { text: format!("say {n} ") },
            Row::Reset(n) => RowChange::AssistantReset { text: format!("reset {n} ") },
            Row::Publish(c) => {
                self.versions += 1;
                RowChange::Publish(PublishedVersion {
                    id: VersionId::from_bits(u128::from(self.versions)),
                    project_id: project(c),
                    run_id: claim.run_id,
                    parent: None,
                    summary: format!("version {}", self.versions),
                    files: "f".into(),
                    output: "o".into(),
                    at: 50,
                })
            }
        };
        let rows = rows.iter().map(&mut change).collect();
        let event = |i| {
            let event = TextDelta { text: format!("event {i}") }.into();
            Entry::of(&NewEvent { at: u64::from(i), step: Some((StepId::new("turn-1"), 1)), event }).unwrap()
        };
        let after = end.saturating_add_signed(after);
        Some(Append { claim, after, events: (0..events).map(event).collect(), rows, consumed: consumed.clone(), ends })
    }
}

/// What a store answers to a request, as text: errors by what they say of the request, not by how the store puts it.
async fn answer(store: &dyn Store, desk: &mut Desk, request: &Request) -> String {
    use runtime::ports::store::{AdmitError, AppendError};
    match request {
        Request::Admit { .. } => match store.admit(desk.admission(request).unwrap()).await {
            Err(AdmitError::Store(error)) => format!("{:?}", error.fault),
            other => format!("{other:?}"),
        },
        Request::Claim { most, now, stopped: false } => format!("{:?}", store.claim("worker", *most, *now, 100).await),
        Request::Claim { most, now, stopped: true } => {
            format!("{:?}", store.claim_stopped("worker", *most, *now, 100).await)
        }
        Request::Renew { now } => {
            let all: Vec<_> = (0..12).flat_map(|r| (1..4).map(move |epoch| Claim { run_id: run(r), epoch })).collect();
            format!("{:?}", store.renew(&all, *now, 100).await)
        }
        Request::Release { run: r, epoch } => {
            format!("{:?}", store.release(Claim { run_id: run(*r), epoch: *epoch }).await)
        }
        Request::Append { run: r, .. } => {
            let end = store.read_after(run(*r), 0, 1_000).await.unwrap().len() as u64;
            match store.append(desk.append(request, end).unwrap()).await {
                Err(AppendError::Store(error)) => format!("{:?}", error.fault),
                other => format!("{other:?}"),
            }
        }
        Request::PutInbox { run: r, by } => {
            let mut told = store.put_inbox(run(*r), InboxItem::Cancel { by: by.to_string() }, 1).await.unwrap();
            told.sort_unstable();
            format!("{told:?}")
        }
        Request::Restart => String::new(),
        Request::Look { user: u, chat: c, most } => look(store, *u, *c, *most).await.join("\n"),
    }
}

/// Everything that a user, a chat and a project show.
async fn look(store: &dyn Store, u: u8, c: u8, most: usize) -> Vec<String> {
    let mut seen = vec![
        format!("{:?}", store.runs(user(u), None, None, most).await),
        format!("{:?}", store.runs(user(u), Some(chat(c)), Some(run(3)), most).await),
        format!("{:?}", store.chats(user(u), None, most).await),
        format!("{:?}", store.chat(user(u), chat(c)).await),
        format!("{:?}", store.project(project(c)).await),
        format!("{:?}", store.versions(project(c), most).await),
        format!("{:?}", store.unpublished_runs(project(c)).await),
    ];
    for r in 0..12 {
        seen.push(format!("{:?}", store.run(user(u), run(r)).await));
        seen.push(format!("{:?}", store.inbox(run(r)).await));
        seen.push(format!("{:?}", store.read_after(run(r), 0, 1_000).await));
    }
    seen
}

/// A store that is held against the one in memory.
trait Subject: Sized {
    fn store(&self) -> &dyn Store;

    /// Ends the process that has it, and begins another.
    async fn restart(self) -> Self;

    /// What does not hold together.
    async fn faults(&self) -> Vec<String>;
}

struct InSqlite {
    store: Sqlite,
    folder: TempDir,
}

impl InSqlite {
    fn open(folder: TempDir) -> Self {
        Self { store: Sqlite::open(folder.path(), &Options::default()).unwrap(), folder }
    }
}

impl Subject for InSqlite {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn restart(self) -> Self {
        drop(self.store);
        Self::open(self.folder)
    }

    async fn faults(&self) -> Vec<String> {
        self.store.check().await.unwrap()
    }
}

struct InPostgres {
    store: Postgres,
    url: String,
}

impl InPostgres {
    async fn open(url: String) -> Self {
        let options = PostgresOptions { clock: Clock::Caller, grace_ms: 0, ..PostgresOptions::default() };
        Self { store: Postgres::open(&url, &options).await.unwrap(), url }
    }
}

impl Subject for InPostgres {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn restart(self) -> Self {
        self.store.close().await;
        Self::open(self.url).await
    }

    async fn faults(&self) -> Vec<String> {
        self.store.check().await.unwrap()
    }
}

async fn compare(requests: &[Request], mut subject: impl Subject) {
    let memory = MemoryStore::new(Hook::default());
    let mut desks = [Desk::default(), Desk::default()];
    for (i, request) in requests.iter().enumerate() {
        if matches!(request, Request::Restart) {
            memory.restart();
            subject = subject.restart().await;
        }
        let [a, b] = &mut desks;
        let (got, expected) = (answer(subject.store(), a, request).await, answer(&memory, b, request).await);
        assert_eq!(got, expected, "request {i}: {request:?}");
    }
    for u in 0..USERS {
        for c in 0..CHATS {
            for (a, b) in look(subject.store(), u, c, 3).await.into_iter().zip(look(&memory, u, c, 3).await) {
                assert_eq!(a, b, "in the end");
            }
        }
    }
    assert_eq!(subject.faults().await, Vec::<String>::new());
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(CASES))]

    #[test]
    fn sqlite_and_memory_answer_alike(requests in prop::collection::vec(request(), REQUESTS)) {
        let subject = InSqlite::open(tempfile::tempdir().unwrap());
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(compare(&requests, subject));
    }
}

#[test]
fn postgresql_and_memory_answer_alike() {
    let server = servers::Postgres::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { InPostgres::open(server.url()).await.store.close().await });
    let sequences = prop::collection::vec(request(), REQUESTS);
    let outcome = TestRunner::new(config(POSTGRES_CASES)).run(&sequences, |requests| {
        // Tables that are there are copied more quickly than they are made.
        let url = server.copy_of(&server.url());
        runtime.block_on(async { compare(&requests, InPostgres::open(url).await).await });
        Ok(())
    });
    outcome.unwrap_or_else(|difference| panic!("{difference}"));
}

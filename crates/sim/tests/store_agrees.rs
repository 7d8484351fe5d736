//! Any sequence of requests gets the same answers from the store in SQLite as from the plain one in memory (proptest shrinks a
//! difference to the shortest sequence that shows it).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use contract::api::RunStatus;
use contract::event::{Intent, ModelRef, NewEvent, Provider, Session, StopReason, TextDelta};
use contract::{ChatId, MessageId, ProjectId, RunId, StepId, UserId, VersionId};
use proptest::prelude::*;
use runtime::ports::Store;
use runtime::ports::store::{Admission, Append, Claim, InboxItem, NewChat, PublishedVersion, RowChange};
use sim::memory::{Hook, MemoryStore};

use adapters::store::sqlite::{Options, Sqlite};

/// Few of everything, so that requests meet.
const USERS: u8 = 2;
const CHATS: u8 = 3;
const CASES: u32 = 96;
const REQUESTS: std::ops::Range<usize> = 1..50;

#[derive(Debug, Clone)]
enum Request {
    Admit { user: u8, chat: u8, new: bool, key: Option<u8>, text: u8, at: u64 },
    Claim { most: usize, now: u64 },
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
        4 => (0..USERS, 0..CHATS, any::<bool>(), prop::option::weighted(0.3, 0..2u8), 0..2u8, 0..100u64)
            .prop_map(|(user, chat, new, key, text, at)| Request::Admit { user, chat, new, key, text, at }),
        3 => (0..4usize, 0..300u64).prop_map(|(most, now)| Request::Claim { most, now }),
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
        let Request::Admit { user: u, chat: c, new, key, text, at } = *request else { return None };
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
            },
            new_chat: new.then(|| NewChat { title: format!("chat {c}"), slug: format!("slug-{c}") }),
            idempotency_key: key.map(|key| format!("key {key}")),
            at,
            most_active: [("chat", 2), ("user", 4), ("global", 5)],
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
                RowChange::Run { status, stop_reason: ends.then_some(StopReason::Done), error: None, at }
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
        let event = |i| NewEvent {
            at: u64::from(i),
            step: Some((StepId::new("turn-1"), 1)),
            event: TextDelta { text: format!("event {i}") }.into(),
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
        Request::Claim { most, now } => format!("{:?}", store.claim("worker", *most, *now, 100).await),
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
            format!("{:?}", store.put_inbox(run(*r), InboxItem::Cancel { by: by.to_string() }, 1).await)
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

async fn compare(requests: &[Request]) {
    let folder = tempfile::tempdir().unwrap();
    let open = || Sqlite::open(folder.path(), &Options::default()).unwrap();
    let (mut sqlite, memory) = (open(), MemoryStore::new(Hook::default()));
    let mut desks = [Desk::default(), Desk::default()];
    for (i, request) in requests.iter().enumerate() {
        if matches!(request, Request::Restart) {
            memory.restart();
            drop(sqlite);
            sqlite = open();
        }
        let [a, b] = &mut desks;
        assert_eq!(answer(&sqlite, a, request).await, answer(&memory, b, request).await, "request {i}: {request:?}");
    }
    for u in 0..USERS {
        for c in 0..CHATS {
            for (a, b) in look(&sqlite, u, c, 3).await.into_iter().zip(look(&memory, u, c, 3).await) {
                assert_eq!(a, b, "in the end");
            }
        }
    }
    assert_eq!(sqlite.check().await.unwrap(), Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_and_memory_answer_alike(requests in prop::collection::vec(request(), REQUESTS)) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(compare(&requests));
    }
}

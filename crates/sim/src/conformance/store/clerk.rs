//! Makes what a store is asked: messages, claims, events. Its ids never repeat and are in no order, so that nothing can lean on
//! the order of ids where that of admission is meant.

use std::sync::atomic::{AtomicU64, Ordering};

use contract::api::RunStatus;
use contract::event::{Intent, ModelRef, NewEvent, Provider, RunCompleted, Session, StopReason, TextDelta, Work};
use contract::{Event, StepId, UserId};
use runtime::ports::Store;
use runtime::ports::store::{Admission, Append, Begun, Claim, Door, Entry, NewChat, RowChange};
use runtime::ports::world::From128;

/// Odd, so that multiplying by it is one to one.
const SCATTER: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
/// How long the suites lease runs, in milliseconds.
pub const LEASE_MS: u64 = 1_000;
/// Limits that nothing in the suites reaches.
pub const NO_LIMIT: [(&str, u64); 3] = [("chat", 1_000), ("user", 1_000), ("global", 1_000)];

/// Numbers everything that it makes.
#[derive(Debug, Default)]
pub struct Clerk {
    made: AtomicU64,
}

impl Clerk {
    /// A clerk who has made nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn next(&self) -> u64 {
        self.made.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A new id.
    pub fn id<T: From128>(&self) -> T {
        T::from_bits(u128::from(self.next()).wrapping_mul(SCATTER))
    }

    /// A message that begins a chat.
    pub fn new_chat(&self, user: UserId) -> Admission {
        let number = self.next();
        Admission {
            user,
            run_id: self.id(),
            session: Session {
                chat_id: self.id(),
                project_id: self.id(),
                user_message_id: self.id(),
                assistant_message_id: self.id(),
                is_new_chat: true,
                request: format!("build app {number}"),
                intent: Intent::Generate,
                follow_up: false,
                template: "react-vite".into(),
                model: ModelRef { provider: Provider::Demo, name: "demo".into() },
                work: Work::Message,
                fork: None,
            },
            new_chat: Some(NewChat { title: format!("app {number}"), slug: format!("app-{number}") }),
            idempotency_key: None,
            at: 1_000 + number,
            most_active: NO_LIMIT,
            parent: None,
            most_depth: ("child_run_depth", 3),
            alone: false,
            log: Begun::default(),
            door: Door::Message,
        }
    }

    /// A further message in the chat of an earlier one.
    pub fn follow_up(&self, first: &Admission) -> Admission {
        let mut next = self.new_chat(first.user);
        next.session.chat_id = first.session.chat_id;
        next.session.project_id = first.session.project_id;
        next.session.is_new_chat = false;
        next.session.follow_up = true;
        next.new_chat = None;
        next
    }

    /// Admits a message and claims its run, which has to be the only one that can be claimed at time 0.
    pub async fn begin(&self, store: &dyn Store, admission: &Admission) -> Claim {
        let run = store.admit(admission.clone()).await.expect("admitted").run_id;
        let claims = store.claim("worker", 1, 0, LEASE_MS).await.expect("claimed");
        assert_eq!(claims.iter().map(|claim| claim.run_id).collect::<Vec<_>>(), [run], "nothing else can be claimed");
        claims[0]
    }

    /// A new chat of a new user whose run is claimed.
    pub async fn running(&self, store: &dyn Store) -> (Admission, Claim) {
        let admission = self.new_chat(self.id());
        let claim = self.begin(store, &admission).await;
        (admission, claim)
    }

    /// A piece of text, as an event of the first turn.
    pub fn text(&self, text: &str) -> NewEvent {
        let event = Event::from(TextDelta { text: text.into() });
        NewEvent { at: 2_000 + self.next(), step: Some((StepId::new("turn-1"), 1)), event }
    }
}

/// An append of events alone.
pub fn append(claim: Claim, after: u64, events: Vec<NewEvent>) -> Append {
    let events = events.iter().map(|new| Entry::of(new).expect("encoded")).collect();
    Append { claim, after, events, rows: vec![], consumed: vec![], ends: false }
}

/// An append of one row change alone.
pub fn draw(claim: Claim, after: u64, row: RowChange) -> Append {
    Append { rows: vec![row], ..append(claim, after, vec![]) }
}

/// A change of a run's status.
pub fn status(status: RunStatus, at: u64) -> RowChange {
    RowChange::Run { status, stop_reason: None, code: None, error: None, at }
}

/// The append that ends a run.
pub fn end(claim: Claim, after: u64, at: u64) -> Append {
    let event = Event::from(RunCompleted { stop_reason: StopReason::Done, result: "done".into() });
    Append {
        rows: vec![RowChange::Run {
            status: RunStatus::Completed,
            stop_reason: Some(StopReason::Done),
            code: None,
            error: None,
            at,
        }],
        ends: true,
        ..append(claim, after, vec![NewEvent { at, step: None, event }])
    }
}

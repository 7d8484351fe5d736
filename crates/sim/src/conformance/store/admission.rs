//! Admission (E1): everything or nothing, within the limits, whoever else is admitted at the same moment.

use std::sync::Arc;

use contract::UserId;
use contract::api::{Accepted, ChatDetail, ChatView, Page, RunView};
use contract::event::{Event, RunQueued, Work};
use futures::future::join_all;
use runtime::ports::Store;
use runtime::ports::store::{Admission, AdmitError, Door};

use super::clerk::{Clerk, LEASE_MS, NO_LIMIT, end};

/// Messages that arrive at the same moment.
const CROWD: usize = 16;

pub(super) async fn promises(make: &impl AsyncFn() -> Arc<dyn Store>) {
    the_log_begins_with_the_place_in_the_queue_and_the_session(&*make().await).await;
    a_refused_message_leaves_nothing(&*make().await).await;
    for scope in 0..3 {
        exactly_as_many_as_the_limit_are_admitted_at_once(&*make().await, scope).await;
    }
    a_run_that_ended_makes_room(&*make().await).await;
    a_key_gives_the_first_answer_again(&*make().await).await;
    a_key_used_by_many_at_once_makes_one_run(&*make().await).await;
    a_key_stands_for_one_message_of_one_user(&*make().await).await;
    a_key_stands_for_what_was_asked_at_one_door(&*make().await).await;
}

async fn the_log_begins_with_the_place_in_the_queue_and_the_session(store: &dyn Store) {
    let clerk = Clerk::new();
    for position in 0..3 {
        let admission = clerk.new_chat(clerk.id());
        let accepted = store.admit(admission.clone()).await.unwrap();
        let session = &admission.session;
        let expected = Accepted {
            chat_id: session.chat_id,
            message_id: session.user_message_id,
            run_id: admission.run_id,
            project_id: session.project_id,
        };
        assert_eq!(accepted, expected);
        let log = store.read_after(admission.run_id, 0, 10).await.unwrap();
        let events: Vec<Event> = log.iter().map(|event| serde_json::from_slice(&event.payload).unwrap()).collect();
        assert_eq!(events, [RunQueued { position, parent: None }.into(), session.clone().into()]);
        for (event, seq) in log.iter().zip(1..) {
            assert_eq!((event.head.seq, event.head.at, event.head.run_id), (seq, admission.at, admission.run_id));
        }
    }
}

/// All that a user can see, and how many wait before a further message of somebody else.
type Sight = (Page<ChatView>, Page<RunView>, Vec<Option<ChatDetail>>);

async fn sight(store: &dyn Store, user: UserId) -> Sight {
    let chats = store.chats(user, None, 100).await.unwrap();
    let mut details = vec![];
    for chat in &chats.items {
        details.push(store.chat(user, chat.id).await.unwrap());
    }
    (chats, store.runs(user, None, None, 100).await.unwrap(), details)
}

/// Promise 1 of contracts.md § 5.
async fn a_refused_message_leaves_nothing(store: &dyn Store) {
    let clerk = Clerk::new();
    let first = clerk.new_chat(clerk.id());
    store.admit(Admission { idempotency_key: Some("used".into()), ..first.clone() }).await.unwrap();
    let stranger = Admission { user: clerk.id(), ..clerk.follow_up(&first) };
    let nowhere = Admission { new_chat: None, ..clerk.new_chat(first.user) };
    let limited = |scope: usize, admission: Admission| {
        let mut most_active = NO_LIMIT;
        most_active[scope].1 = 1;
        Admission { most_active, ..admission }
    };
    let refusals = [
        (limited(0, clerk.follow_up(&first)), "chat is reached: 1"),
        (limited(1, clerk.new_chat(first.user)), "user is reached: 1"),
        (limited(2, clerk.new_chat(first.user)), "global is reached: 1"),
        (stranger, "there is no such chat"),
        (nowhere, "there is no such chat"),
        (
            Admission { idempotency_key: Some("used".into()), ..clerk.follow_up(&first) },
            "the idempotency key was used for another request",
        ),
    ];
    let before = sight(store, first.user).await;
    for (refused, why) in refusals {
        let error = store.admit(refused.clone()).await.expect_err(why);
        assert_eq!(error.to_string(), why);
        assert_eq!(sight(store, first.user).await, before, "{why}");
        assert!(sight(store, refused.user).await.0.items.len() <= 1, "{why}: also not for whoever was refused");
        assert!(store.read_after(refused.run_id, 0, 10).await.unwrap().is_empty(), "{why}: no log");
        assert!(store.project(clerk.id()).await.unwrap().is_none());
        if let Some(new) = refused.new_chat {
            assert!(store.project_by_slug(&new.slug).await.unwrap().is_none(), "{why}: no project");
        }
    }
    assert_eq!(store.claim("worker", 10, 0, LEASE_MS).await.unwrap().len(), 1, "nothing of them can be claimed");
    let next = clerk.new_chat(clerk.id());
    store.admit(next.clone()).await.unwrap();
    let log = store.read_after(next.run_id, 0, 1).await.unwrap();
    assert!(log[0].payload.ends_with(br#""position":1}"#), "and none of them counts");
}

async fn exactly_as_many_as_the_limit_are_admitted_at_once(store: &dyn Store, scope: usize) {
    let clerk = Clerk::new();
    let first = clerk.new_chat(clerk.id());
    let (limit, allowed) = (NO_LIMIT[scope].0, 4);
    let mut most_active = NO_LIMIT;
    most_active[scope].1 = allowed;
    // The first one makes the chat that the others share, if they do.
    store.admit(Admission { most_active, ..first.clone() }).await.unwrap();
    let crowd: Vec<_> = (0..CROWD)
        .map(|_| match scope {
            0 => clerk.follow_up(&first),
            1 => clerk.new_chat(first.user),
            _ => clerk.new_chat(clerk.id()),
        })
        .map(|admission| Admission { most_active, ..admission })
        .collect();
    let answers = join_all(crowd.iter().map(|admission| store.admit(admission.clone()))).await;
    let mut admitted = 1;
    for (answer, admission) in answers.iter().zip(&crowd) {
        let log = store.read_after(admission.run_id, 0, 10).await.unwrap().len();
        match answer {
            Ok(_) => {
                admitted += 1;
                assert_eq!(log, 2);
            }
            Err(AdmitError::Limit { limit: named, value }) => assert_eq!((*named, *value, log), (limit, allowed, 0)),
            Err(other) => panic!("refused for another reason: {other}"),
        }
    }
    assert_eq!(admitted, allowed, "exactly as many as the limit of the {limit} allows");
    // Those of one chat wait for one another.
    let claimable = if scope == 0 { 1 } else { allowed };
    assert_eq!(store.claim("worker", 100, 0, LEASE_MS).await.unwrap().len() as u64, claimable);
}

async fn a_run_that_ended_makes_room(store: &dyn Store) {
    let clerk = Clerk::new();
    let most_active = NO_LIMIT.map(|(name, _)| (name, 1));
    let first = Admission { most_active, ..clerk.new_chat(clerk.id()) };
    let mut latest = first.clone();
    for _ in 0..3 {
        let claim = clerk.begin(store, &latest).await;
        latest = Admission { most_active, ..clerk.follow_up(&first) };
        assert!(matches!(store.admit(latest.clone()).await, Err(AdmitError::Limit { limit: "chat", value: 1 })));
        store.append(end(claim, 2, 5_000)).await.unwrap();
    }
    store.admit(latest).await.unwrap();
}

async fn a_key_gives_the_first_answer_again(store: &dyn Store) {
    let clerk = Clerk::new();
    let key = || Some("key".to_owned());
    let first = Admission { idempotency_key: key(), ..clerk.new_chat(clerk.id()) };
    let answer = store.admit(first.clone()).await.unwrap();
    // A client that tries again sends the same text; all ids are fresh, and the limits may be reached by now.
    let mut again = Admission {
        idempotency_key: key(),
        most_active: NO_LIMIT.map(|(name, _)| (name, 1)),
        ..clerk.new_chat(first.user)
    };
    again.session.request.clone_from(&first.session.request);
    assert_eq!(store.admit(again.clone()).await.unwrap(), answer);
    let claim = store.claim("worker", 9, 0, LEASE_MS).await.unwrap();
    store.append(end(claim[0], 2, 5_000)).await.unwrap();
    assert_eq!(store.admit(again).await.unwrap(), answer, "also when the run has ended");
    assert_eq!(store.runs(first.user, None, None, 9).await.unwrap().items.len(), 1);
    assert_eq!(store.chats(first.user, None, 9).await.unwrap().items.len(), 1);
}

async fn a_key_used_by_many_at_once_makes_one_run(store: &dyn Store) {
    let clerk = Clerk::new();
    let user = clerk.id();
    let crowd = (0..CROWD).map(|_| {
        let mut admission = Admission { idempotency_key: Some("key".into()), ..clerk.new_chat(user) };
        admission.session.request = "the same".into();
        store.admit(admission)
    });
    let answers: Vec<_> = join_all(crowd).await.into_iter().map(Result::unwrap).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]), "all get one answer");
    assert_eq!(store.runs(user, None, None, 100).await.unwrap().items.len(), 1);
}

async fn a_key_stands_for_one_message_of_one_user(store: &dyn Store) {
    let clerk = Clerk::new();
    let keyed = |admission: Admission| Admission { idempotency_key: Some("key".into()), ..admission };
    let first = keyed(clerk.new_chat(clerk.id()));
    store.admit(first.clone()).await.unwrap();
    assert!(matches!(store.admit(keyed(clerk.new_chat(first.user))).await, Err(AdmitError::KeyReused)), "another text");
    let mut elsewhere = keyed(clerk.follow_up(&first));
    elsewhere.session.request.clone_from(&first.session.request);
    assert!(
        matches!(store.admit(elsewhere).await, Err(AdmitError::KeyReused)),
        "the same text, but not for a new chat"
    );
    let mut change = keyed(clerk.new_chat(first.user));
    change.session.request.clone_from(&first.session.request);
    change.session.work = Work::Change { files: vec![], restores: None };
    assert!(matches!(store.admit(change).await, Err(AdmitError::KeyReused)), "the same words for other work");
    store.admit(keyed(clerk.new_chat(clerk.id()))).await.expect("another user's key is another key");
}

/// However alike two requests are in all else.
async fn a_key_stands_for_what_was_asked_at_one_door(store: &dyn Store) {
    let clerk = Clerk::new();
    let first = clerk.new_chat(clerk.id());
    store.admit(first.clone()).await.unwrap();
    let doors = [
        Door::Message,
        Door::Retry(first.run_id),
        Door::Retry(clerk.id()),
        Door::Fork,
        Door::Edit,
        Door::Restore,
        Door::Import([1; 32]),
        Door::Import([2; 32]),
    ];
    let through = |door: Door, key: String| {
        let mut admission = clerk.follow_up(&first);
        admission.session.request = "the same".into();
        Admission { idempotency_key: Some(key), door, ..admission }
    };
    for (n, door) in doors.into_iter().enumerate() {
        let answer = store.admit(through(door, format!("key {n}"))).await.unwrap();
        for other in doors {
            match store.admit(through(other, format!("key {n}"))).await {
                Ok(again) => assert!(other == door && again == answer, "{door:?}, then {other:?}"),
                Err(AdmitError::KeyReused) => assert_ne!(other, door),
                Err(error) => panic!("{door:?}, then {other:?}: {error}"),
            }
        }
    }
}

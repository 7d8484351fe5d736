//! Runs and projects: one writer at a time (promise 7), runs that start runs (E1, E16), logs that are admitted whole, snapshots.

use std::sync::Arc;

use bytes::Bytes;
use contract::RunId;
use contract::api::{ExecutionState, RunStatus};
use contract::event::{Event, Parent, RunQueued, StopReason};
use runtime::ports::Store;
use runtime::ports::store::{Admission, AdmitError, Begun, Claim, Entry, InboxItem, RowChange, Snapshot};

use super::clerk::{Clerk, LEASE_MS, append, end};

pub(super) async fn promises(make: &impl AsyncFn() -> Arc<dyn Store>) {
    a_project_has_one_writer_at_a_time(&*make().await).await;
    a_child_goes_before_a_run_that_waits_for_its_root(&*make().await).await;
    what_is_stopped_before_it_began_does_not_wait_for_its_turn(&*make().await).await;
    who_may_not_wait_for_a_project_is_refused(&*make().await).await;
    a_child_has_its_roots_slot_and_deadline(&*make().await).await;
    a_child_needs_a_parent_that_goes_on(&*make().await).await;
    a_cancel_reaches_the_whole_family(&*make().await).await;
    a_run_that_ends_stops_what_it_started(&*make().await).await;
    a_log_can_be_admitted_with_its_run(&*make().await).await;
    the_newest_snapshot_of_the_owner_is_kept(&*make().await).await;
}

async fn claim_all(store: &dyn Store) -> Vec<Claim> {
    store.claim("worker", 9, 0, LEASE_MS).await.unwrap()
}

async fn claimed(store: &dyn Store) -> Vec<RunId> {
    claim_all(store).await.into_iter().map(|claim| claim.run_id).collect()
}

fn child(clerk: &Clerk, of: &Admission, parent: Claim) -> Admission {
    Admission { parent: Some(parent), ..clerk.follow_up(of) }
}

async fn a_project_has_one_writer_at_a_time(store: &dyn Store) {
    let clerk = Clerk::new();
    let first = clerk.new_chat(clerk.id());
    let followers = [clerk.follow_up(&first), clerk.follow_up(&first)];
    let other = clerk.new_chat(first.user);
    for admission in [&first, &followers[0], &followers[1], &other] {
        store.admit(admission.clone()).await.unwrap();
    }
    let claims = claim_all(store).await;
    let runs: Vec<_> = claims.iter().map(|claim| claim.run_id).collect();
    assert_eq!(runs, [first.run_id, other.run_id], "of each project the oldest");
    assert_eq!(claimed(store).await, [], "the others wait");
    let lapsed = store.claim("other", 9, LEASE_MS, LEASE_MS).await.unwrap();
    assert_eq!(lapsed.len(), 2, "a run whose worker is gone still has its project");
    store.append(end(lapsed[0], 2, 5_000)).await.unwrap();
    assert_eq!(claimed(store).await, [followers[0].run_id], "the next in the order of admission");
}

/// Else the root would wait for its child, the child for the other run, and that for the root.
async fn a_child_goes_before_a_run_that_waits_for_its_root(store: &dyn Store) {
    let clerk = Clerk::new();
    let (root, claim) = clerk.running(store).await;
    let next = clerk.follow_up(&root);
    store.admit(next.clone()).await.unwrap();
    let child = child(&clerk, &root, claim);
    store.admit(child.clone()).await.unwrap();
    let claims = claim_all(store).await;
    assert_eq!(claims.iter().map(|claim| claim.run_id).collect::<Vec<_>>(), [child.run_id]);
    store.append(end(claim, 2, 5_000)).await.unwrap();
    assert_eq!(claimed(store).await, [], "as long as anybody of the family works there");
    store.append(end(claims[0], 2, 5_000)).await.unwrap();
    assert_eq!(claimed(store).await, [next.run_id]);
}

/// E16: it changes nothing, so the one that works there need not have ended.
async fn what_is_stopped_before_it_began_does_not_wait_for_its_turn(store: &dyn Store) {
    let clerk = Clerk::new();
    let (first, working) = clerk.running(store).await;
    let waiting = [clerk.follow_up(&first), clerk.follow_up(&first)];
    for admission in &waiting {
        store.admit(admission.clone()).await.unwrap();
    }
    let cancel = InboxItem::Cancel { by: "user".into() };
    store.put_inbox(waiting[1].run_id, cancel, 10).await.unwrap();
    let claims = claim_all(store).await;
    assert_eq!(claims.iter().map(|claim| claim.run_id).collect::<Vec<_>>(), [waiting[1].run_id]);
    store.append(append(working, 2, vec![clerk.text("goes on")])).await.expect("it still has the project");
    store.append(end(claims[0], 2, 5_000)).await.unwrap();
    assert_eq!(claimed(store).await, [], "the other waits as before");
    store.append(end(working, 3, 5_000)).await.unwrap();
    assert_eq!(claimed(store).await, [waiting[0].run_id]);
}

async fn who_may_not_wait_for_a_project_is_refused(store: &dyn Store) {
    let clerk = Clerk::new();
    let (first, claim) = clerk.running(store).await;
    let alone = || Admission { alone: true, ..clerk.follow_up(&first) };
    let refused = alone();
    match store.admit(refused.clone()).await {
        Err(AdmitError::ProjectBusy { run }) => assert_eq!(run, claim.run_id),
        other => panic!("{other:?}"),
    }
    assert!(store.read_after(refused.run_id, 0, 9).await.unwrap().is_empty());
    store.admit(Admission { alone: true, ..clerk.new_chat(first.user) }).await.expect("another project");
    store.append(end(claim, 2, 5_000)).await.unwrap();
    store.admit(alone()).await.expect("the project is free");
}

async fn a_child_has_its_roots_slot_and_deadline(store: &dyn Store) {
    let clerk = Clerk::new();
    let (root, mut claim) = clerk.running(store).await;
    let mut full = child(&clerk, &root, claim);
    full.most_active.iter_mut().for_each(|(_, value)| *value = 1);
    let mut family = vec![claim];
    for depth in 1..=3 {
        let admission = Admission { parent: Some(claim), run_id: clerk.id(), ..child(&clerk, &root, claim) };
        let admission = Admission { most_active: full.most_active, ..admission };
        store.admit(admission.clone()).await.expect("its root has the slot");
        let log = store.read_after(admission.run_id, 0, 1).await.unwrap();
        let parent = Parent { run_id: claim.run_id, root_id: root.run_id, depth, since: root.at };
        let queued: Event = serde_json::from_slice(&log[0].payload).unwrap();
        assert_eq!(queued, RunQueued { position: 1, parent: Some(parent) }.into());
        let view = store.run(root.user, admission.run_id).await.unwrap().unwrap();
        assert_eq!(view.parent, Some(claim.run_id));
        claim = claim_all(store).await[0];
        assert_eq!(claim.run_id, admission.run_id, "it does not wait for the runs that started it");
        family.push(claim);
    }
    match store.admit(child(&clerk, &root, claim)).await {
        Err(AdmitError::Limit { limit, value }) => assert_eq!((limit, value), ("child_run_depth", 3)),
        other => panic!("{other:?}"),
    }
    for claim in family.iter().rev() {
        let mut message = clerk.new_chat(root.user);
        message.most_active = full.most_active;
        assert!(store.admit(message).await.is_err(), "the root's slot is taken until the root has ended");
        store.append(end(*claim, 2, 5_000)).await.unwrap();
    }
    let mut message = clerk.new_chat(root.user);
    message.most_active = full.most_active;
    store.admit(message).await.expect("and then it is free, once");
}

async fn a_child_needs_a_parent_that_goes_on(store: &dyn Store) {
    let clerk = Clerk::new();
    let (root, claim) = clerk.running(store).await;
    let over = async |parent: Claim| {
        let admission = child(&clerk, &root, parent);
        let refused = store.admit(admission.clone()).await;
        assert!(matches!(refused, Err(AdmitError::ParentOver)), "{refused:?}");
        assert!(store.read_after(admission.run_id, 0, 9).await.unwrap().is_empty());
    };
    over(Claim { epoch: claim.epoch + 1, ..claim }).await;
    let claim = {
        store.release(claim).await.unwrap();
        over(claim).await;
        claim_all(store).await[0]
    };
    store.admit(child(&clerk, &root, claim)).await.expect("it goes on");
    store.put_inbox(claim.run_id, InboxItem::Cancel { by: "user".into() }, 10).await.unwrap();
    over(claim).await;
    store.append(end(claim, 2, 5_000)).await.unwrap();
    over(claim).await;
}

async fn a_cancel_reaches_the_whole_family(store: &dyn Store) {
    let clerk = Clerk::new();
    let (root, top) = clerk.running(store).await;
    let (stranger, _) = clerk.running(store).await;
    let middle = child(&clerk, &root, top);
    store.admit(middle.clone()).await.unwrap();
    let claim = claim_all(store).await[0];
    let [leaf, ended] = [child(&clerk, &root, claim), child(&clerk, &root, claim)];
    store.admit(ended.clone()).await.unwrap();
    store.append(end(claim_all(store).await[0], 2, 5_000)).await.unwrap();
    store.admit(leaf.clone()).await.unwrap();
    let cancel = || InboxItem::Cancel { by: "user".into() };

    let told = store.put_inbox(middle.run_id, cancel(), 10).await.unwrap();
    assert_eq!(sorted(told), sorted(vec![middle.run_id, leaf.run_id]), "the run and what it started");
    let told = store.put_inbox(root.run_id, cancel(), 10).await.unwrap();
    assert_eq!(told, [root.run_id], "the others know already");
    for (run, rows) in [(root.run_id, 1), (middle.run_id, 1), (leaf.run_id, 1), (ended.run_id, 0), (stranger.run_id, 0)]
    {
        assert_eq!(store.inbox(run).await.unwrap().len(), rows);
    }
}

fn sorted(mut runs: Vec<RunId>) -> Vec<RunId> {
    runs.sort_unstable();
    runs
}

async fn a_run_that_ends_stops_what_it_started(store: &dyn Store) {
    let clerk = Clerk::new();
    let (root, top) = clerk.running(store).await;
    let middle = child(&clerk, &root, top);
    store.admit(middle.clone()).await.unwrap();
    let claim = claim_all(store).await[0];
    let leaf = child(&clerk, &root, claim);
    store.admit(leaf.clone()).await.unwrap();
    let stranger = clerk.new_chat(clerk.id());
    store.admit(stranger.clone()).await.unwrap();
    store.append(end(top, 2, 5_000)).await.unwrap();
    for (run, told) in [(middle.run_id, true), (leaf.run_id, true), (stranger.run_id, false)] {
        let items: Vec<_> = store.inbox(run).await.unwrap().into_iter().map(|(_, item)| item).collect();
        assert_eq!(items, vec![InboxItem::parent_ended(); usize::from(told)]);
    }
}

async fn a_log_can_be_admitted_with_its_run(store: &dyn Store) {
    let clerk = Clerk::new();
    let texts = [clerk.text("one"), clerk.text("two")];
    let events: Vec<Entry> = texts.iter().map(|text| Entry::of(text).unwrap()).collect();
    let rows = vec![RowChange::AssistantText { text: "onetwo".into() }];
    let forked = Admission {
        log: Begun { events: events.clone(), rows: rows.clone(), ends: false },
        ..clerk.new_chat(clerk.id())
    };
    let claim = clerk.begin(store, &forked).await;
    assert_eq!(store.append(append(claim, 4, vec![clerk.text("three")])).await.unwrap(), 5, "its log goes on");
    let log = store.read_after(forked.run_id, 2, 9).await.unwrap();
    assert_eq!(log.iter().map(|event| event.head.at).take(2).collect::<Vec<_>>(), [texts[0].at, texts[1].at]);
    assert_eq!(String::from_utf8_lossy(&log[1].payload), events[1].payload);

    let mut most_active = forked.most_active;
    most_active.iter_mut().for_each(|(_, value)| *value = 1);
    let completed = RowChange::Run {
        status: RunStatus::Completed,
        stop_reason: Some(StopReason::Done),
        code: None,
        error: None,
        at: 7,
    };
    let progress = RowChange::Progress { state: ExecutionState::LlmStream, turn: 4 };
    let answered = RowChange::Answered { tokens: 12, duration_ms: 34 };
    let rows = rows.into_iter().chain([progress, answered, completed]).collect();
    let log = Begun { events, rows, ends: true };
    let imported = Admission { log, most_active, ..clerk.new_chat(forked.user) };
    store.admit(imported.clone()).await.expect("what has ended needs no slot");
    assert_eq!(claimed(store).await, []);
    let run = store.run(forked.user, imported.run_id).await.unwrap().unwrap();
    assert_eq!((run.status, run.state, run.turn, run.last_seq), (RunStatus::Completed, ExecutionState::Complete, 4, 4));
    let chat = store.chat(forked.user, imported.session.chat_id).await.unwrap().unwrap();
    let answer = &chat.messages[1];
    assert_eq!((answer.text.as_str(), answer.tokens, answer.duration_ms), ("onetwo", Some(12), Some(34)));
    assert_eq!((chat.messages[0].tokens, chat.messages[0].duration_ms), (None, None));
}

async fn the_newest_snapshot_of_the_owner_is_kept(store: &dyn Store) {
    let clerk = Clerk::new();
    let (_, claim) = clerk.running(store).await;
    let snapshot = |seq: u64, body: &'static [u8]| Snapshot { seq, body: Bytes::from_static(body) };
    assert_eq!(store.snapshot(claim.run_id).await.unwrap(), None);
    store.put_snapshot(claim, snapshot(1, b"\0first\xff")).await.unwrap();
    assert_eq!(store.snapshot(claim.run_id).await.unwrap(), Some(snapshot(1, b"\0first\xff")));
    store.put_snapshot(claim, snapshot(2, b"second")).await.unwrap();
    store.put_snapshot(claim, snapshot(1, b"late")).await.unwrap();
    assert_eq!(store.snapshot(claim.run_id).await.unwrap(), Some(snapshot(2, b"second")));
    store.release(claim).await.unwrap();
    let next = claim_all(store).await[0];
    store.put_snapshot(claim, snapshot(3, b"fenced")).await.unwrap();
    assert_eq!(store.snapshot(claim.run_id).await.unwrap(), Some(snapshot(2, b"second")), "of who has the run alone");
    store.append(append(next, 2, vec![clerk.text("x")])).await.unwrap();
    store.put_snapshot(next, snapshot(3, b"third")).await.unwrap();
    assert_eq!(store.snapshot(claim.run_id).await.unwrap(), Some(snapshot(3, b"third")));
    assert_eq!(store.snapshot(clerk.id()).await.unwrap(), None);
}

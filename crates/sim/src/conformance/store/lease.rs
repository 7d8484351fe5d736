//! Who has a run: claims, leases, handing back, and the inbox that wakes a run nobody has.

use std::sync::Arc;

use contract::RunId;
use contract::api::RunStatus;
use futures::future::join_all;
use runtime::ports::Store;
use runtime::ports::store::{Append, Claim, InboxItem};

use super::clerk::{Clerk, LEASE_MS, append, draw, end, status};

pub(super) async fn promises(make: &impl AsyncFn() -> Arc<dyn Store>) {
    runs_are_claimed_in_the_order_of_admission(&*make().await).await;
    of_many_workers_one_gets_a_run(&*make().await).await;
    who_has_no_room_takes_what_was_told_to_stop(&*make().await).await;
    a_lease_ends_when_it_was_said_to_unless_renewed(&*make().await).await;
    renewing_tells_which_claims_are_lost(&*make().await).await;
    a_run_that_is_given_back_can_be_claimed_at_once(&*make().await).await;
    a_waiting_run_is_woken_by_its_inbox(&*make().await).await;
    an_inbox_is_consumed_with_the_append_that_answers_it(&*make().await).await;
    an_ended_run_has_no_inbox(&*make().await).await;
}

fn cancel(by: &str) -> InboxItem {
    InboxItem::Cancel { by: by.into() }
}

fn runs(claims: &[Claim]) -> Vec<RunId> {
    claims.iter().map(|claim| claim.run_id).collect()
}

async fn runs_are_claimed_in_the_order_of_admission(store: &dyn Store) {
    let clerk = Clerk::new();
    let mut admitted = vec![];
    for _ in 0..7 {
        admitted.push(store.admit(clerk.new_chat(clerk.id())).await.unwrap().run_id);
    }
    assert!(store.claim("worker", 0, 0, LEASE_MS).await.unwrap().is_empty());
    for (most, expected) in [(1, &admitted[..1]), (4, &admitted[1..5]), (9, &admitted[5..]), (9, &[])] {
        let claims = store.claim("worker", most, 0, LEASE_MS).await.unwrap();
        assert_eq!(runs(&claims), expected, "the oldest, once");
        assert!(claims.iter().all(|claim| claim.epoch == 1));
    }
}

async fn of_many_workers_one_gets_a_run(store: &dyn Store) {
    let clerk = Clerk::new();
    let mut admitted = vec![];
    for _ in 0..10 {
        admitted.push(store.admit(clerk.new_chat(clerk.id())).await.unwrap().run_id);
    }
    let claims = join_all((0..8).map(|_| store.claim("worker", 3, 0, LEASE_MS))).await;
    let mut claimed: Vec<_> = claims.into_iter().flat_map(Result::unwrap).map(|claim| claim.run_id).collect();
    claimed.sort_unstable();
    admitted.sort_unstable();
    assert_eq!(claimed, admitted);
}

/// E16: what waits for room, for its turn or for its worker's lease, and no more than is asked for.
async fn who_has_no_room_takes_what_was_told_to_stop(store: &dyn Store) {
    let clerk = Clerk::new();
    let (working, began) = clerk.running(store).await;
    let queued = [clerk.new_chat(clerk.id()), clerk.new_chat(clerk.id()), clerk.new_chat(clerk.id())];
    let behind = clerk.follow_up(&working);
    for admission in queued.iter().chain([&behind]) {
        store.admit(admission.clone()).await.unwrap();
    }
    let stopped = async |most, now| runs(&store.claim_stopped("worker", most, now, LEASE_MS).await.unwrap());
    assert_eq!(stopped(9, 0).await, [], "nobody has stopped anything");
    for run in [behind.run_id, queued[2].run_id, queued[0].run_id, began.run_id] {
        store.put_inbox(run, cancel("user"), 10).await.unwrap();
    }
    assert_eq!(stopped(0, 0).await, []);
    assert_eq!(stopped(2, 0).await, [queued[0].run_id, queued[2].run_id], "the oldest first");
    assert_eq!(stopped(9, 0).await, [behind.run_id], "and what has begun elsewhere ends there");
    store.append(append(began, 2, vec![clerk.text("goes on")])).await.expect("it is its owner's");
    let lapsed = store.claim_stopped("other", 1, LEASE_MS, LEASE_MS).await.unwrap();
    assert_eq!(lapsed, [Claim { epoch: began.epoch + 1, ..began }]);
    assert_eq!(
        runs(&store.claim("worker", 9, 0, LEASE_MS).await.unwrap()),
        [queued[1].run_id],
        "the others are as before"
    );
}

async fn a_lease_ends_when_it_was_said_to_unless_renewed(store: &dyn Store) {
    let clerk = Clerk::new();
    let (_, first) = clerk.running(store).await;
    assert!(store.claim("other", 1, LEASE_MS - 1, LEASE_MS).await.unwrap().is_empty());
    assert!(store.renew(&[first], 600, LEASE_MS).await.unwrap().is_empty());
    assert!(store.claim("other", 1, 600 + LEASE_MS - 1, LEASE_MS).await.unwrap().is_empty());
    let second = store.claim("other", 1, 600 + LEASE_MS, LEASE_MS).await.unwrap();
    assert_eq!(second, [Claim { epoch: first.epoch + 1, ..first }], "a new claim, a higher epoch");
    assert_eq!(store.renew(&[first], 700, LEASE_MS).await.unwrap(), [first], "too late");
    assert!(store.claim("third", 1, 700, LEASE_MS).await.unwrap().is_empty(), "a lost claim shortens no lease");
}

async fn renewing_tells_which_claims_are_lost(store: &dyn Store) {
    let clerk = Clerk::new();
    for _ in 0..4 {
        store.admit(clerk.new_chat(clerk.id())).await.unwrap();
    }
    let claims = store.claim("worker", 4, 0, LEASE_MS).await.unwrap();
    store.release(claims[1]).await.unwrap();
    store.append(end(claims[2], 2, 5_000)).await.unwrap();
    let unknown = Claim { run_id: clerk.id(), epoch: 1 };
    let asked = [claims[0], claims[1], claims[2], claims[3], unknown];
    assert_eq!(store.renew(&asked, 0, LEASE_MS).await.unwrap(), [claims[1], claims[2], unknown]);
    assert!(store.renew(&[], 0, LEASE_MS).await.unwrap().is_empty());
}

async fn a_run_that_is_given_back_can_be_claimed_at_once(store: &dyn Store) {
    let clerk = Clerk::new();
    let (_, first) = clerk.running(store).await;
    store.append(draw(first, 2, status(RunStatus::Running, 10))).await.unwrap();
    store.release(first).await.unwrap();
    let second = store.claim("other", 9, 0, LEASE_MS).await.unwrap();
    assert_eq!(second, [Claim { epoch: first.epoch + 1, ..first }]);
    store.release(first).await.unwrap();
    assert!(store.claim("third", 9, 0, LEASE_MS).await.unwrap().is_empty(), "who has lost a claim gives nothing back");
    assert_eq!(store.append(append(second[0], 2, vec![clerk.text("x")])).await.unwrap(), 3);
}

async fn a_waiting_run_is_woken_by_its_inbox(store: &dyn Store) {
    let clerk = Clerk::new();
    let (_, claim) = clerk.running(store).await;
    store.append(draw(claim, 2, status(RunStatus::Waiting, 10))).await.unwrap();
    store.release(claim).await.unwrap();
    assert!(store.claim("worker", 9, u64::MAX / 2, LEASE_MS).await.unwrap().is_empty(), "it waits for somebody");
    store.put_inbox(claim.run_id, cancel("user"), 20).await.unwrap();
    let claim = store.claim("worker", 9, 0, LEASE_MS).await.unwrap()[0];

    store.release(claim).await.unwrap();
    let claim = store.claim("worker", 9, 0, LEASE_MS).await.expect("its inbox was not answered yet")[0];
    let [(number, _)] = store.inbox(claim.run_id).await.unwrap()[..] else { panic!("one row") };
    store.append(Append { consumed: vec![number], ..append(claim, 2, vec![clerk.text("answered")]) }).await.unwrap();
    store.put_inbox(claim.run_id, cancel("user"), 30).await.unwrap();
    store.release(claim).await.unwrap();
    let claim =
        store.claim("worker", 9, 0, LEASE_MS).await.expect("a row that came before it was given back is not lost")[0];
    assert_eq!(store.inbox(claim.run_id).await.unwrap().len(), 1);
}

async fn an_inbox_is_consumed_with_the_append_that_answers_it(store: &dyn Store) {
    let clerk = Clerk::new();
    let (_, claim) = clerk.running(store).await;
    for by in ["first", "second", "first", "third"] {
        store.put_inbox(claim.run_id, cancel(by), 10).await.unwrap();
    }
    let rows = store.inbox(claim.run_id).await.unwrap();
    let items: Vec<_> = rows.iter().map(|(_, item)| item.clone()).collect();
    assert_eq!(items, [cancel("first"), cancel("second"), cancel("third")], "oldest first, the same once");
    let (_, other) = clerk.running(store).await;
    let all = rows.iter().map(|(number, _)| *number).collect::<Vec<_>>();
    store.append(Append { consumed: all.clone(), ..append(other, 2, vec![]) }).await.unwrap();
    assert_eq!(store.inbox(claim.run_id).await.unwrap(), rows, "nobody consumes another run's");

    store.append(Append { consumed: vec![all[0], all[2]], ..append(claim, 2, vec![clerk.text("x")]) }).await.unwrap();
    assert_eq!(store.inbox(claim.run_id).await.unwrap(), [rows[1].clone()]);
    store.put_inbox(claim.run_id, cancel("third"), 10).await.unwrap();
    let again = store.inbox(claim.run_id).await.unwrap();
    assert!(!all.contains(&again[1].0), "a number is never used again");
}

async fn an_ended_run_has_no_inbox(store: &dyn Store) {
    let clerk = Clerk::new();
    let (admission, claim) = clerk.running(store).await;
    store.put_inbox(claim.run_id, cancel("early"), 10).await.unwrap();
    store.append(end(claim, 2, 5_000)).await.unwrap();
    store.put_inbox(claim.run_id, cancel("late"), 10).await.unwrap();
    store.put_inbox(clerk.id(), cancel("nobody"), 10).await.unwrap();
    assert!(store.inbox(claim.run_id).await.unwrap().is_empty());
    assert!(store.claim("worker", 9, u64::MAX / 2, LEASE_MS).await.unwrap().is_empty());
    assert_eq!(store.run(admission.user, claim.run_id).await.unwrap().unwrap().last_seq, 3);
}

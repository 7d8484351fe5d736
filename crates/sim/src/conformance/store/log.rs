//! The log: gapless, fenced, and all or nothing.

use std::sync::Arc;

use contract::api::RunStatus;
use contract::event::Event;
use contract::{RunId, StepId};
use futures::future::join_all;
use runtime::ports::Store;
use runtime::ports::store::{Append, AppendError, Claim, InboxItem, NewEvent, RowChange, StoreFault, StoredEvent};

use super::clerk::{Clerk, LEASE_MS, append, draw, end, status};

pub(super) async fn promises(make: &impl AsyncFn() -> Arc<dyn Store>) {
    what_is_appended_is_read_back_without_gaps(&*make().await).await;
    any_page_from_any_place_is_a_piece_of_the_log(&*make().await).await;
    only_the_latest_claim_can_append(&*make().await).await;
    a_writer_that_believes_another_end_is_refused(&*make().await).await;
    a_refused_append_changes_nothing(&*make().await).await;
    of_many_appends_at_one_place_one_is_done(&*make().await).await;
    many_runs_append_at_once_without_mixing(&*make().await).await;
    a_run_ends_when_its_status_says_so(&*make().await).await;
}

async fn whole_log(store: &dyn Store, run: RunId) -> Vec<StoredEvent> {
    store.read_after(run, 0, 10_000).await.unwrap()
}

fn told(event: &StoredEvent) -> NewEvent {
    let step = event.head.step_id.clone().map(|step| (step, event.head.attempt.unwrap()));
    NewEvent { at: event.head.at, step, event: serde_json::from_slice(&event.payload).unwrap() }
}

async fn what_is_appended_is_read_back_without_gaps(store: &dyn Store) {
    let clerk = Clerk::new();
    let (admission, claim) = clerk.running(store).await;
    let texts = ["", " ", "\n\t", "a \"quoted\" \\ line\u{0}", "naïve 🦀", &"x".repeat(70_000)];
    let mut written: Vec<NewEvent> = texts.iter().map(|text| clerk.text(text)).collect();
    written[1].step = None;
    written[2].step = Some((StepId::new("build-3"), 4_000_000_000));
    let mut after = 2;
    for chunk in written.chunks(4) {
        let end = store.append(append(claim, after, chunk.to_vec())).await.unwrap();
        assert_eq!(end, after + chunk.len() as u64, "an append gives the new end");
        after = end;
    }
    assert_eq!(store.append(append(claim, after, vec![])).await.unwrap(), after, "an append may be of rows alone");
    let log = whole_log(store, claim.run_id).await;
    assert_eq!(log.iter().map(|event| event.head.seq).collect::<Vec<_>>(), (1..=after).collect::<Vec<_>>());
    assert_eq!(log[2..].iter().map(told).collect::<Vec<_>>(), written);
    for event in &log {
        assert_eq!(event.kind, serde_json::from_slice::<Event>(&event.payload).unwrap().kind());
        assert_eq!(event.head.from_seq, None);
    }
    let view = store.run(admission.user, claim.run_id).await.unwrap().unwrap();
    assert_eq!(view.last_seq, after);
}

async fn any_page_from_any_place_is_a_piece_of_the_log(store: &dyn Store) {
    let clerk = Clerk::new();
    let (_, claim) = clerk.running(store).await;
    store.append(append(claim, 2, (0..9).map(|i| clerk.text(&i.to_string())).collect())).await.unwrap();
    let log = whole_log(store, claim.run_id).await;
    for after in 0..=12 {
        for most in [0, 1, 4, 100] {
            let page = store.read_after(claim.run_id, after, most).await.unwrap();
            let expected: Vec<_> = log.iter().skip(after as usize).take(most).cloned().collect();
            assert_eq!(page, expected, "{most} after {after}");
        }
    }
    assert!(store.read_after(claim.run_id, u64::MAX, 9).await.unwrap().is_empty());
    assert!(whole_log(store, clerk.id()).await.is_empty(), "an unknown run has no log");
}

/// The fence, as a table: what happened to the claim, and whether it can append.
async fn only_the_latest_claim_can_append(store: &dyn Store) {
    let clerk = Clerk::new();
    let lease_ended = LEASE_MS + 1;
    for (case, can) in [
        ("held", true),
        ("its lease ended and nobody took the run", true),
        ("renewed", true),
        ("taken by another", false),
        ("given back", false),
        ("given back and taken again", false),
        ("an epoch that nobody has yet", false),
        ("epoch 0", false),
        ("another run's", false),
        ("the run ended", false),
    ] {
        let (_, mut claim) = clerk.running(store).await;
        let held = claim;
        match case {
            "renewed" => assert!(store.renew(&[claim], 0, LEASE_MS).await.unwrap().is_empty()),
            "taken by another" => assert_eq!(store.claim("other", 1, lease_ended, LEASE_MS).await.unwrap().len(), 1),
            "given back" => store.release(claim).await.unwrap(),
            "given back and taken again" => {
                store.release(claim).await.unwrap();
                assert_eq!(store.claim("worker", 1, 0, LEASE_MS).await.unwrap().len(), 1);
            }
            "an epoch that nobody has yet" => claim.epoch += 1,
            "epoch 0" => claim.epoch = 0,
            "another run's" => claim.run_id = clerk.id(),
            "the run ended" => drop(store.append(end(claim, 2, 5_000)).await.unwrap()),
            _ => {}
        }
        let before = whole_log(store, held.run_id).await;
        // Fenced is said before conflict: a fenced writer has no business with the log's end.
        for after in [before.len() as u64, 0] {
            let answer = store.append(append(claim, after, vec![clerk.text("late")])).await;
            match (can, answer) {
                (true, Ok(_) | Err(AppendError::Conflict { .. })) => {}
                (false, Err(AppendError::Fenced)) => assert_eq!(whole_log(store, held.run_id).await, before, "{case}"),
                (_, answer) => panic!("{case}: {answer:?}"),
            }
        }
        // Out of the way of the next case.
        let latest = Claim { epoch: held.epoch + 1, ..held };
        let log_end = whole_log(store, held.run_id).await.len() as u64;
        store.release(held).await.unwrap();
        store.release(latest).await.unwrap();
        for claim in store.claim("cleaner", 9, 0, LEASE_MS).await.unwrap() {
            store.append(end(claim, log_end, 5_000)).await.unwrap();
        }
    }
}

async fn a_writer_that_believes_another_end_is_refused(store: &dyn Store) {
    let clerk = Clerk::new();
    let (_, claim) = clerk.running(store).await;
    for after in [0, 1, 3, 1_000, u64::MAX] {
        let answer = store.append(append(claim, after, vec![clerk.text("x")])).await;
        assert!(matches!(answer, Err(AppendError::Conflict { at: 2 })), "{after}: {answer:?}");
    }
    assert_eq!(store.append(append(claim, 2, vec![clerk.text("x")])).await.unwrap(), 3);
    let repeated = store.append(append(claim, 2, vec![clerk.text("x")])).await;
    assert!(
        matches!(repeated, Err(AppendError::Conflict { at: 3 })),
        "an append whose answer was lost is not done twice"
    );
}

async fn a_refused_append_changes_nothing(store: &dyn Store) {
    let clerk = Clerk::new();
    let (admission, claim) = clerk.running(store).await;
    store.put_inbox(claim.run_id, InboxItem::Cancel { by: "user".into() }, 1).await.unwrap();
    let inbox = store.inbox(claim.run_id).await.unwrap();
    let everything = Append {
        rows: vec![RowChange::AssistantText { text: "never".into() }, status(RunStatus::Cancelled, 9_000)],
        consumed: vec![inbox[0].0],
        ends: true,
        ..append(claim, 2, vec![clerk.text("never")])
    };
    let before = store.chat(admission.user, admission.session.chat_id).await.unwrap();
    let fenced = Claim { epoch: claim.epoch + 1, ..claim };
    for refused in [Append { claim: fenced, ..everything.clone() }, Append { after: 1, ..everything.clone() }] {
        assert!(store.append(refused).await.is_err());
        assert_eq!(store.chat(admission.user, admission.session.chat_id).await.unwrap(), before);
        assert_eq!(store.inbox(claim.run_id).await.unwrap(), inbox);
        assert_eq!(whole_log(store, claim.run_id).await.len(), 2);
    }
    assert_eq!(store.append(everything).await.unwrap(), 3, "and the claim is as good as before");
    assert!(store.inbox(claim.run_id).await.unwrap().is_empty());
}

async fn of_many_appends_at_one_place_one_is_done(store: &dyn Store) {
    let clerk = Clerk::new();
    let (_, claim) = clerk.running(store).await;
    let answers = join_all((0..16).map(|i| store.append(append(claim, 2, vec![clerk.text(&i.to_string())])))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert!(answers.iter().all(|answer| matches!(answer, Ok(3) | Err(AppendError::Conflict { at: 3 }))));
    assert_eq!(whole_log(store, claim.run_id).await.len(), 3);
}

async fn many_runs_append_at_once_without_mixing(store: &dyn Store) {
    let clerk = Clerk::new();
    for _ in 0..8 {
        store.admit(clerk.new_chat(clerk.id())).await.unwrap();
    }
    let claims = store.claim("worker", 8, 0, LEASE_MS).await.unwrap();
    let writers = claims.iter().map(async |claim| {
        for i in 0..20 {
            let events = vec![clerk.text(&format!("{} {i}", claim.run_id)), clerk.text("")];
            assert_eq!(store.append(append(*claim, 2 + 2 * i, events)).await.unwrap(), 4 + 2 * i);
        }
    });
    join_all(writers).await;
    for claim in claims {
        let log = whole_log(store, claim.run_id).await;
        assert_eq!(log.iter().map(|event| event.head.seq).collect::<Vec<_>>(), (1..=42).collect::<Vec<_>>());
        for (i, event) in log[2..].iter().step_by(2).enumerate() {
            assert_eq!(told(event).event, clerk.text(&format!("{} {i}", claim.run_id)).event);
        }
    }
}

async fn a_run_ends_when_its_status_says_so(store: &dyn Store) {
    let clerk = Clerk::new();
    let (admission, claim) = clerk.running(store).await;
    let contradictions = [
        draw(claim, 2, status(RunStatus::Completed, 5_000)),
        Append { ends: true, ..draw(claim, 2, status(RunStatus::Running, 5_000)) },
        Append { ends: true, ..append(claim, 2, vec![clerk.text("x")]) },
    ];
    for contradiction in contradictions {
        match store.append(contradiction).await {
            Err(AppendError::Store(error)) => assert_eq!(error.fault, StoreFault::Refused),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(whole_log(store, claim.run_id).await.len(), 2);
    assert_eq!(store.run(admission.user, claim.run_id).await.unwrap().unwrap().status, RunStatus::Queued);
}

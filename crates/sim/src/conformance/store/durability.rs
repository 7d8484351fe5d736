//! Durability: whatever was answered is there when the store is opened again, however it was left.

use std::sync::Arc;

use contract::api::RunStatus;
use runtime::ports::Store;
use runtime::ports::store::{Append, AppendError, Claim, InboxItem, PublishedVersion, RowChange};

use super::clerk::{Clerk, LEASE_MS, append, draw, status};

/// What a durable store keeps. `open` opens the same store each time, after all handles to it are gone.
///
/// # Panics
/// Where a promise is broken.
pub async fn store_keeps(open: impl AsyncFn() -> Arc<dyn Store>) {
    let clerk = Clerk::new();
    let store = open().await;
    let (first, claim) = clerk.running(&*store).await;
    let version = PublishedVersion {
        id: clerk.id(),
        project_id: first.session.project_id,
        run_id: claim.run_id,
        parent: None,
        summary: "first".into(),
        files: "0".repeat(64),
        output: "1".repeat(64),
        at: 7,
    };
    let rows = vec![
        status(RunStatus::Running, 5),
        RowChange::AssistantText { text: "half a sen".into() },
        RowChange::Publish(version.clone()),
    ];
    store.append(Append { rows, ..append(claim, 2, vec![clerk.text("a"), clerk.text("b")]) }).await.unwrap();
    store.put_inbox(claim.run_id, InboxItem::Cancel { by: "user".into() }, 9).await.unwrap();
    let waiting = clerk.begin(&*store, &clerk.new_chat(first.user)).await;
    store.append(draw(waiting, 2, status(RunStatus::Waiting, 6))).await.unwrap();
    store.release(waiting).await.unwrap();
    let owner = store.owner(clerk.id(), 1).await.unwrap();
    store.put_session("token", owner, 100).await.unwrap();
    let sight = async |store: &dyn Store| {
        (
            store.chat(first.user, first.session.chat_id).await.unwrap(),
            store.chats(first.user, None, 9).await.unwrap(),
            store.runs(first.user, None, None, 9).await.unwrap(),
            store.read_after(claim.run_id, 0, 100).await.unwrap(),
            store.project(first.session.project_id).await.unwrap(),
            store.inbox(claim.run_id).await.unwrap(),
            store.session("token", 99).await.unwrap(),
        )
    };
    let before = sight(&*store).await;
    assert_eq!(before.4.as_ref().unwrap().current, Some(version));
    drop(store);

    let mut held = claim;
    for _ in 0..3 {
        let store = open().await;
        assert_eq!(sight(&*store).await, before);
        assert_eq!(store.owner(clerk.id(), 1).await.unwrap(), owner);
        let late = store.append(append(held, 4, vec![clerk.text("late")])).await;
        assert!(matches!(late, Err(AppendError::Fenced)), "the lease of a process that is gone has ended");
        let claims = store.claim("successor", 9, 0, LEASE_MS).await.unwrap();
        assert_eq!(
            claims,
            [Claim { epoch: held.epoch + 1, ..held }],
            "its run can be claimed at once; one that waits cannot"
        );
        held = claims[0];
    }
}

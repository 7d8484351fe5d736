//! The rows that are drawn from the log: status, answer, published version (E20, E22).

use std::sync::Arc;

use contract::api::{ExecutionState, RunStatus};
use contract::event::StopReason;
use contract::{ProjectId, RunId};
use runtime::ports::Store;
use runtime::ports::store::{Admission, Append, Claim, PublishedVersion, RowChange};

use super::clerk::{Clerk, append, draw, end, status};

pub(super) async fn promises(make: &impl AsyncFn() -> Arc<dyn Store>) {
    a_run_shows_the_last_status_and_its_times(&*make().await).await;
    an_answer_is_the_sum_of_its_pieces(&*make().await).await;
    publishing_switches_the_project_at_once(&*make().await).await;
    a_publish_that_is_refused_switches_nothing(&*make().await).await;
    unpublished_runs_are_those_after_the_published_one(&*make().await).await;
}

async fn a_run_shows_the_last_status_and_its_times(store: &dyn Store) {
    let clerk = Clerk::new();
    let (admission, claim) = clerk.running(store).await;
    let view = async || store.run(admission.user, claim.run_id).await.unwrap().unwrap();
    let fresh = view().await;
    assert_eq!((fresh.status, fresh.created_at, fresh.last_seq), (RunStatus::Queued, admission.at, 2));
    assert_eq!((fresh.started_at, fresh.ended_at, fresh.stop_reason, fresh.error), (None, None, None, None));
    assert_eq!(fresh.title, admission.session.request);
    for (at, now) in [(100, RunStatus::Running), (200, RunStatus::Waiting), (300, RunStatus::Running)] {
        store.append(draw(claim, 2, status(now, at))).await.unwrap();
        let run = view().await;
        assert_eq!((run.status, run.started_at, run.ended_at), (now, Some(100), None), "it started once");
    }
    let failed = RowChange::Run {
        status: RunStatus::Failed,
        stop_reason: Some(StopReason::Failed),
        code: Some("how".into()),
        error: Some("why".into()),
        at: 400,
    };
    store.append(Append { ends: true, rows: vec![failed], ..append(claim, 2, vec![clerk.text("x")]) }).await.unwrap();
    let run = view().await;
    assert_eq!((run.status, run.started_at, run.ended_at, run.last_seq), (RunStatus::Failed, Some(100), Some(400), 3));
    assert_eq!((run.stop_reason, run.error.as_deref()), (Some(StopReason::Failed), Some("why")));
    assert_eq!((run.code.as_deref(), run.state), (Some("how"), ExecutionState::Failed));
}

async fn answer(store: &dyn Store, admission: &Admission) -> String {
    let detail = store.chat(admission.user, admission.session.chat_id).await.unwrap().unwrap();
    let message = detail.messages.into_iter().find(|message| message.id == admission.session.assistant_message_id);
    message.unwrap().text
}

async fn an_answer_is_the_sum_of_its_pieces(store: &dyn Store) {
    let clerk = Clerk::new();
    let (admission, claim) = clerk.running(store).await;
    let piece = |text: &str| RowChange::AssistantText { text: text.into() };
    assert_eq!(answer(store, &admission).await, "");
    let mut expected = String::new();
    for after in 2..14 {
        let rows = vec![piece(&after.to_string()), piece(" \n")];
        store.append(Append { rows, ..append(claim, after, vec![clerk.text("x")]) }).await.unwrap();
        expected += &format!("{after} \n");
        assert_eq!(answer(store, &admission).await, expected, "also while it is being written");
    }
    store.append(draw(claim, 14, piece("without an event"))).await.unwrap();
    let rows = vec![piece("dropped"), RowChange::AssistantReset { text: "kept. ".into() }, piece("new")];
    store.append(Append { rows, ..append(claim, 14, vec![]) }).await.unwrap();
    assert_eq!(answer(store, &admission).await, "kept. new");
    let mut last = end(claim, 14, 5_000);
    last.rows.push(piece(", last"));
    store.append(last).await.unwrap();
    assert_eq!(answer(store, &admission).await, "kept. new, last");

    let next = clerk.follow_up(&admission);
    clerk.begin(store, &next).await;
    assert_eq!(answer(store, &next).await, "");
    assert_eq!(answer(store, &admission).await, "kept. new, last", "the next run writes its own");
}

fn version(clerk: &Clerk, project_id: ProjectId, run_id: RunId, parent: Option<&PublishedVersion>) -> PublishedVersion {
    let number = parent.map_or(1, |parent| parent.at + 1);
    PublishedVersion {
        id: clerk.id(),
        project_id,
        run_id,
        parent: parent.map(|parent| parent.id),
        summary: format!("version {number}"),
        files: format!("{number:064x}"),
        output: format!("{:064x}", number + 1),
        at: number,
    }
}

fn publish(claim: Claim, after: u64, version: &PublishedVersion) -> Append {
    draw(claim, after, RowChange::Publish(version.clone()))
}

async fn publishing_switches_the_project_at_once(store: &dyn Store) {
    let clerk = Clerk::new();
    let (admission, claim) = clerk.running(store).await;
    let project = admission.session.project_id;
    let slug = admission.new_chat.as_ref().unwrap().slug.clone();
    let row = store.project(project).await.unwrap().unwrap();
    assert_eq!((row.id, row.chat_id, row.user), (project, admission.session.chat_id, admission.user));
    assert_eq!((row.slug.as_str(), row.current, row.latest_run), (slug.as_str(), None, Some(claim.run_id)));
    assert!(store.versions(project, 9).await.unwrap().is_empty());
    let mut published = vec![];
    for _ in 0..3 {
        let new = version(&clerk, project, claim.run_id, published.last());
        store.append(publish(claim, 2, &new)).await.unwrap();
        let row = store.project_by_slug(&slug).await.unwrap().unwrap();
        assert_eq!(row.current.as_ref(), Some(&new));
        assert_eq!(store.project(project).await.unwrap(), Some(row));
        published.push(new);
    }
    let versions = store.versions(project, 2).await.unwrap();
    let expected: Vec<_> =
        published.iter().rev().take(2).map(|v| (v.id, v.parent, v.run_id, v.summary.clone(), v.at)).collect();
    let got: Vec<_> = versions.into_iter().map(|v| (v.id, v.parent, v.run_id, v.summary, v.created_at)).collect();
    assert_eq!(got, expected, "newest first");
    assert!(store.project(clerk.id()).await.unwrap().is_none());
    assert!(store.project_by_slug("nobody").await.unwrap().is_none());
}

async fn a_publish_that_is_refused_switches_nothing(store: &dyn Store) {
    let clerk = Clerk::new();
    let (admission, claim) = clerk.running(store).await;
    let (other, _) = clerk.running(store).await;
    let (project, elsewhere) = (admission.session.project_id, other.session.project_id);
    let good = version(&clerk, project, claim.run_id, None);
    store.append(publish(claim, 2, &good)).await.unwrap();
    let next = version(&clerk, project, claim.run_id, Some(&good));
    let foreign = PublishedVersion { project_id: elsewhere, ..version(&clerk, elsewhere, claim.run_id, None) };
    let posing = PublishedVersion { run_id: other.run_id, ..version(&clerk, project, claim.run_id, Some(&good)) };
    for refused in [
        publish(Claim { epoch: claim.epoch + 1, ..claim }, 2, &next),
        publish(claim, 1, &next),
        Append { rows: publish(claim, 2, &foreign).rows, ..append(claim, 2, vec![clerk.text("never")]) },
        publish(claim, 2, &posing),
    ] {
        assert!(store.append(refused).await.is_err());
        assert_eq!(store.project(project).await.unwrap().unwrap().current.as_ref(), Some(&good));
        assert_eq!(store.project(elsewhere).await.unwrap().unwrap().current, None);
        assert_eq!(
            store.versions(project, 9).await.unwrap().len() + store.versions(elsewhere, 9).await.unwrap().len(),
            1
        );
        assert_eq!(store.read_after(claim.run_id, 0, 9).await.unwrap().len(), 2);
    }
}

async fn unpublished_runs_are_those_after_the_published_one(store: &dyn Store) {
    let clerk = Clerk::new();
    let (first, mut claim) = clerk.running(store).await;
    let project = first.session.project_id;
    let mut expected = vec![claim.run_id];
    let mut published: Option<PublishedVersion> = None;
    for publishes in [false, true, false, false, true, true, false] {
        assert_eq!(store.unpublished_runs(project).await.unwrap(), expected);
        if publishes {
            let new = version(&clerk, project, claim.run_id, published.as_ref());
            store.append(publish(claim, 2, &new)).await.unwrap();
            published = Some(new);
            expected.clear();
            assert_eq!(store.unpublished_runs(project).await.unwrap(), expected);
        }
        store.append(end(claim, 2, 5_000)).await.unwrap();
        claim = clerk.begin(store, &clerk.follow_up(&first)).await;
        expected.push(claim.run_id);
    }
    assert!(store.unpublished_runs(clerk.id()).await.unwrap().is_empty());
}

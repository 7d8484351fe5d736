//! What the rows say of a run's calls, builds and versions: that of the log, in its order, whatever came twice (E22).

use std::sync::Arc;

use contract::CallId;
use contract::event::{BuildState, ToolName, ToolStatus};
use runtime::ports::Store;
use runtime::ports::store::{Append, Begun, Drawn, PublishedVersion, RowChange};

use super::clerk::{Clerk, append, draw, end};

pub(super) async fn promises(make: &impl AsyncFn() -> Arc<dyn Store>) {
    a_runs_work_is_shown_as_it_was_drawn(&*make().await).await;
    a_version_is_found_by_its_project(&*make().await).await;
}

fn asked(call: &str, input: &str) -> RowChange {
    let (input, key) = (input.to_owned(), format!("turn-1/command/{call}/1"));
    RowChange::ToolRequested { call_id: CallId::new(call), tool: ToolName::Command, input, key }
}

fn answered(call: &str, status: ToolStatus, error: Option<&str>) -> RowChange {
    let (output, error) = (format!("{call} said\n"), error.map(str::to_owned));
    RowChange::ToolFinished { call_id: CallId::new(call), status, output, error, duration_ms: 7 }
}

fn build(id: &str, status: BuildState, error: Option<&str>, at: u64) -> RowChange {
    let duration_ms = (status != BuildState::Building).then_some(at);
    RowChange::Build { build_id: id.into(), status, duration_ms, error: error.map(str::to_owned), at }
}

async fn a_runs_work_is_shown_as_it_was_drawn(store: &dyn Store) {
    let clerk = Clerk::new();
    let (admission, claim) = clerk.running(store).await;
    let (_, other) = clerk.running(store).await;
    let version = PublishedVersion {
        id: clerk.id(),
        project_id: admission.session.project_id,
        run_id: claim.run_id,
        parent: None,
        summary: "first".into(),
        files: "a".repeat(64),
        output: "b".repeat(64),
        at: 9,
    };
    let changes = [
        asked("z", "{\"tool\":\"command\"}"),
        asked("a", "{}"),
        answered("z", ToolStatus::Failed, Some("it broke")),
        asked("a", "{\"again\":true}"),
        build("build-1.1", BuildState::Building, None, 3),
        build("build-1.1", BuildState::Failed, Some("{\"code\":\"build_failed\"}"), 4),
        build("build-2.1", BuildState::Building, None, 5),
        answered("nobody", ToolStatus::Succeeded, None),
        build("build-2.1", BuildState::Succeeded, None, 6),
        build("build-3.1", BuildState::Building, None, 7),
        RowChange::Publish(version),
        RowChange::BuildShown { url: "http://a.localhost/".into() },
        answered("a", ToolStatus::Succeeded, None),
    ];
    let mut expected = Drawn::default();
    for change in changes.clone() {
        expected.take(&change);
        store.append(draw(claim, 2, change)).await.unwrap();
        assert_eq!(store.drawn(claim.run_id).await.unwrap(), expected);
    }
    assert_eq!(store.drawn(other.run_id).await.unwrap(), Drawn::default(), "each run has its own");
    assert_eq!(store.drawn(clerk.id()).await.unwrap(), Drawn::default());
    store.append(end(claim, 2, 5_000)).await.unwrap();
    assert_eq!(store.drawn(claim.run_id).await.unwrap(), expected, "also when it has ended");

    // The same in a log that is admitted with its run.
    let mut copy = clerk.new_chat(admission.user);
    let ending = end(claim, 2, 5_000);
    let mut rows: Vec<_> = changes.into_iter().filter(|row| !matches!(row, RowChange::Publish(_))).collect();
    rows.extend(ending.rows);
    copy.log = Begun { events: ending.events, rows, ends: true };
    store.admit(copy.clone()).await.unwrap();
    expected.versions.clear();
    assert_eq!(store.drawn(copy.run_id).await.unwrap(), expected);
}

async fn a_version_is_found_by_its_project(store: &dyn Store) {
    let clerk = Clerk::new();
    let (admission, claim) = clerk.running(store).await;
    let (other, _) = clerk.running(store).await;
    let project = admission.session.project_id;
    let mut published: Vec<PublishedVersion> = vec![];
    for number in 1..=3_u64 {
        let version = PublishedVersion {
            id: clerk.id(),
            project_id: project,
            run_id: claim.run_id,
            parent: published.last().map(|version| version.id),
            summary: format!("version {number}"),
            files: format!("{number:064x}"),
            output: format!("{number:064x}"),
            at: number,
        };
        let rows = vec![RowChange::Publish(version.clone())];
        store.append(Append { rows, ..append(claim, 2, vec![]) }).await.unwrap();
        published.push(version);
    }
    for version in &published {
        assert_eq!(store.version(project, version.id).await.unwrap().as_ref(), Some(version));
        assert_eq!(store.version(other.session.project_id, version.id).await.unwrap(), None, "not another project's");
    }
    assert_eq!(store.version(project, clerk.id()).await.unwrap(), None);
    assert_eq!(store.drawn(claim.run_id).await.unwrap().versions, published);
}

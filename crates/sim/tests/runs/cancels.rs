//! A cancel reaches a run wherever it is (E16): queued, asking, running a command, building.

use std::time::Duration;

use contract::Limits;
use contract::api::RunStatus;
use contract::event::{BuildState, Event};
use tokio::time::Instant;

use crate::house::{CORPUS, House, USER};

/// What a run is doing, by its name, and the event that begins it.
type Place = (&'static str, fn(&Event) -> bool);

#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_a_run_whatever_it_is_doing() {
    let places: [Place; 4] = [
        ("asking", |event| matches!(event, Event::TurnStarted(_))),
        ("writing", |event| matches!(event, Event::FileStarted(_))),
        ("running", |event| matches!(event, Event::ToolStarted(_))),
        ("building", |event| matches!(event, Event::BuildStatus(build) if build.status == BuildState::Building)),
    ];
    for (place, at) in places {
        let house = House::new(CORPUS[2].1);
        let run = house.runtime.send(USER, None, "an app", None).await.unwrap();
        house.until(run.run_id, at).await;
        let told = house.view(run.run_id).await.last_seq;
        let asked = Instant::now();
        house.runtime.cancel(USER, run.run_id).await.unwrap();
        assert_eq!(house.end(run.run_id).await, "cancelled", "{place}");
        assert!(asked.elapsed() < Duration::from_millis(100), "{place}: by a wake-up, not by polling");
        assert!(house.view(run.run_id).await.last_seq > told, "{place}: what was told stays");
        house.verify(run.run_id).await;
        let again = house.runtime.cancel(USER, run.run_id).await.unwrap().unwrap();
        assert_eq!(again.status, house.view(run.run_id).await.status, "once more changes nothing");
    }
}

/// E23: what a call used until it was given up, or until it failed, is in the log.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_given_up_is_paid_for_and_so_is_one_that_failed() {
    let script = |fault: &str| {
        format!(
            "name: spent\nrules:\n  - name: any\n    respond: '1234567'\n    usage: {{ input: 70, cached: 60, output: 5 }}\n    \
             fault: {{ {fault} }}\n"
        )
    };
    for (fault, cancels, end) in [
        ("stall_after: 5", true, "cancelled"),
        ("error_after: 5, code: insufficient_quota", false, "failed model_quota"),
    ] {
        let house = House::new(&script(fault));
        let run = house.runtime.send(USER, None, "an app", None).await.unwrap();
        if cancels {
            house.until(run.run_id, |event| matches!(event, Event::TextDelta(_))).await;
            house.runtime.cancel(USER, run.run_id).await.unwrap();
        }
        assert_eq!(house.end(run.run_id).await, end);
        let log = house.log(run.run_id).await;
        let used: Vec<_> = log
            .iter()
            .filter_map(|entry| if let Event::Usage(usage) = &entry.event { Some(usage) } else { None })
            .collect();
        assert!(matches!(used[..], [usage] if (usage.tokens.input, usage.tokens.output) == (70, 5)), "{used:?}");
        house.verify(run.run_id).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_its_project_is_cancelled_before_it_begins() {
    let house = House::with(CORPUS[2].1, Limits { active_runs_per_chat: 2, ..Limits::default() });
    let first = house.runtime.send(USER, None, "an app", None).await.unwrap();
    let second = house.runtime.send(USER, Some(first.chat_id), "an app", None).await.unwrap();
    house.until(first.run_id, |event| matches!(event, Event::ToolStarted(_))).await;
    house.runtime.cancel(USER, second.run_id).await.unwrap();
    assert_eq!(house.end(second.run_id).await, "cancelled");
    let log = house.log(second.run_id).await;
    assert!(!log.iter().any(|entry| matches!(entry.event, Event::TurnStarted(_))), "nothing of it was done");
    assert_eq!(house.end(first.run_id).await, "completed Done");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_a_worker_with_room_is_cancelled_at_once() {
    let limits = Limits { runs_per_worker: 1, active_runs_per_user: 9, ..Limits::default() };
    let house = House::with(CORPUS[2].1, limits);
    let first = house.runtime.send(USER, None, "an app", None).await.unwrap();
    house.until(first.run_id, |event| matches!(event, Event::ToolStarted(_))).await;
    let mut others = vec![];
    for _ in 0..3 {
        others.push(house.runtime.send(USER, None, "an app", None).await.unwrap().run_id);
    }
    let asked = Instant::now();
    house.runtime.cancel(USER, others[1]).await.unwrap();
    assert_eq!(house.end(others[1]).await, "cancelled");
    assert!(asked.elapsed() < Duration::from_millis(100), "by a wake-up, and without room");
    assert_eq!(house.view(first.run_id).await.status, RunStatus::Running);
    for waiting in [others[0], others[2]] {
        assert_eq!(
            house.view(waiting).await.status,
            RunStatus::Queued,
            "no other is taken beyond what a worker has room for"
        );
    }
    assert_eq!(house.end(first.run_id).await, "completed Done");
    for waiting in [others[0], others[2]] {
        assert_eq!(house.end(waiting).await, "completed Done");
    }
}

//! What is stored of a run is what its log says, for every run of the corpus, and however it ended.

use contract::event::Event;
use contract::{Limits, RunId};
use runtime::VerifyError;

use crate::house::{CORPUS, House, USER};

#[tokio::test(start_paused = true)]
async fn folding_a_log_gives_what_is_stored() {
    // E22
    for (_, script, messages) in CORPUS {
        let house = House::with(script, Limits { snapshot_events: 20, ..Limits::default() });
        let mut snapshots = 0;
        for run in house.runs(messages).await {
            house.verify(run.run_id).await;
            snapshots += u64::from(house.runtime.verify(USER, run.run_id).await.unwrap().snapshot.is_some());
        }
        let long = house.lists().await.0.iter().any(|run| run.last_seq > 60);
        assert!(!long || snapshots > 0, "a long run has a snapshot, which is compared");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_stopped_anywhere_is_what_its_log_says() {
    // E16, E22
    let house = House::new(CORPUS[2].1);
    for n in [2, 9, 30, 60, 120] {
        let accepted = house.runtime.send(USER, None, "an app", None).await.unwrap();
        while house.view(accepted.run_id).await.last_seq < n {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        house.runtime.cancel(USER, accepted.run_id).await.unwrap();
        let end = house.end(accepted.run_id).await;
        assert!(end == "cancelled" || end.starts_with("completed"), "{end}");
        house.verify(accepted.run_id).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_is_not_judged() {
    let house = House::new(CORPUS[2].1);
    let accepted = house.runtime.send(USER, None, "an app", None).await.unwrap();
    house.until(accepted.run_id, |event| matches!(event, Event::TurnStarted(_))).await;
    assert!(matches!(house.runtime.verify(USER, accepted.run_id).await, Err(VerifyError::Active)));
    assert!(matches!(house.runtime.verify(USER, RunId::from_bits(1)).await, Err(VerifyError::NoSuchRun)));
}

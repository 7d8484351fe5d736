//! What all runs share may be wanting for a while: no room for objects costs a run time, and none of its recoveries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use contract::Limits;
use contract::event::{Event, StepStatus};
use sim::memory::{Hook, MemoryObjects};

use crate::house::{House, USER};

/// What its command changes has to be stored while the model still speaks.
const SPEAKS: &str = r#"
name: speaks
rules:
  - name: changes
    when: { turn: 1 }
    pace: { chunk: 8, delay_ms: 50 }
    respond: |
      <command command="write" args='["made.txt", "by a command"]'/>
      And many more words, so that the stream is not over when the command is, which takes no time at all, as the disk finds out.
      <done/>
"#;

#[tokio::test(start_paused = true)]
async fn objects_without_room_cost_a_run_time_and_not_its_recoveries() {
    let full = Arc::<AtomicBool>::default();
    let is_full = full.clone();
    let objects = MemoryObjects::new(Hook::new(move |_, op| match op.name {
        "put" if is_full.load(Ordering::SeqCst) => Err("no room".into()),
        _ => Ok(()),
    }));
    let house = House::on(SPEAKS, Limits::default(), objects);
    let run = house.runtime.send(USER, None, "an app", None).await.unwrap();
    house.until(run.run_id, |event| matches!(event, Event::TurnStarted(_))).await;
    full.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!house.view(run.run_id).await.status.is_terminal(), "it waits for room");
    full.store(false, Ordering::SeqCst);
    assert_eq!(house.end(run.run_id).await, "completed Done");
    assert_eq!(house.files(&run).await.len(), 5, "with what the command made");
    let log = house.log(run.run_id).await;
    let attempts =
        log.iter().filter(|entry| matches!(&entry.event, Event::StepState(s) if s.state == StepStatus::Running));
    assert!((3..12).contains(&attempts.count()), "each rest is longer than the one before");
    house.verify(run.run_id).await;
}

//! What survives: a server that is killed in the middle, a reader that leaves, a command that finds no server.

use rustix::process::Signal;
use serde_json::Value;

use crate::house::{House, exit_code, json_lines, told};

/// The first answer stops in the middle of a file until its reader leaves; the next one is whole.
const STALLS_ONCE: &str = r#"
name: stalls once
rules:
  - name: stalls
    when: { turn: 1, times: 1 }
    respond: |
      Some words first.
      <file path="src/App.tsx">
      the first attempt, which is never whole
      and goes on
      </file>
      <done/>
    fault: { stall_after: 70 }
  - name: whole
    when: { turn: 1 }
    respond: |
      Some words first.
      <file path="src/App.tsx">
      the second attempt
      </file>
      <done/>
"#;

#[test]
fn a_run_whose_server_was_killed_finishes_when_it_is_back_and_its_reader_misses_nothing() {
    // E4, E15, E21
    let mut house = House::with_script(STALLS_ONCE);
    let (mut run, mut lines) = house.follow(&["run", "an app", "--json"]);
    let first = lines.event("run_queued");
    let stalled = lines.event("file_delta");
    house.kill_server();
    house.start();
    let end = lines.event("run_completed");
    assert_eq!((exit_code(&mut run), &end["stop_reason"]), (Some(0), &"done".into()));
    assert_eq!(end["run_id"], first["run_id"], "the same run");

    let events = house.events(first["run_id"].as_str().unwrap());
    let seqs: Vec<_> =
        events.iter().map(|event| event["from_seq"].as_u64().or(event["seq"].as_u64()).unwrap()).collect();
    assert_eq!(seqs[0], 1);
    assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]));
    let kept = events.iter().find(|event| event["seq"].as_u64() >= stalled["seq"].as_u64()).unwrap();
    assert!(
        kept["text"].as_str().unwrap().contains(stalled["text"].as_str().unwrap()),
        "what was seen is in the log, forever"
    );
    let starts = events.iter().filter(|event| event["type"] == "run_started").count();
    let whole = |event: &&Value| event["type"] == "file_completed" && event["by"] == "model";
    assert_eq!((starts, events.iter().filter(whole).count()), (2, 1), "the cut file was never whole");
}

#[test]
fn a_command_starts_a_server_where_none_is_and_says_so() {
    let house = House::empty();
    let output = house.run(&["run", "a list", "--json"]);
    let (code, text) = told(&output);
    assert!(text.contains("no server was running; started one"), "{text}");
    let events = json_lines(&output);
    // The demo writes for the real template, which this one is not: that the run ended is what counts here.
    assert!(code.is_some() && events.last().unwrap()["type"].as_str().unwrap().starts_with("run_"), "{code:?} {text}");
    let pid = house.note().unwrap()["pid"].as_u64().unwrap();
    let (_, text) = told(&house.run(&["runs"]));
    assert_eq!((text.as_str(), house.note().unwrap()["pid"].as_u64()), ("", Some(pid)), "it is still there");
}

#[test]
fn a_reader_that_leaves_stops_nothing() {
    let house = House::with_script(STALLS_ONCE);
    let (mut reader, mut lines) = house.follow(&["run", "an app", "--json"]);
    let run = lines.event("run_queued")["run_id"].as_str().unwrap().to_owned();
    lines.event("file_delta");
    drop(lines);
    crate::house::signal(&reader, Signal::KILL);
    let _ = exit_code(&mut reader);
    assert_eq!(house.events(&run)[0]["type"], "run_queued");
    let runs = json_lines(&house.run(&["runs", "--json"]));
    assert_eq!(runs[0]["status"], "running", "whoever reads a run does not own it");
}

#[test]
fn a_stop_hands_runs_back_and_the_next_start_takes_them() {
    // D14
    let mut house = House::with_script(STALLS_ONCE);
    let (mut reader, mut lines) = house.follow(&["run", "an app", "--json"]);
    lines.event("file_delta");
    house.stop_server();
    assert!(house.note().is_none(), "a server that stops takes its note away");
    house.start();
    lines.event("run_completed");
    assert_eq!(exit_code(&mut reader), Some(0));
}

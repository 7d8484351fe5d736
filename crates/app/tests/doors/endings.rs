//! How runs end, seen from the command line: each ending has its exit code, and a status is true.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::house::{House, exit_code, json_lines, processes, signal, told, until};

const SCRIPT: &str = r#"
name: doors
expect: { stream: true, include_usage: true, system: true, messages_at_least: 2 }
rules:
  - name: an app
    when: { request: 'an app', turn: 1 }
    respond: |
      Here it is.
      <file path="src/App.tsx">
      the app of the run
      </file>
      <done/>
  - name: mended
    when: { request: 'broken', turn: 2, last: 'the build was asked to fail' }
    respond: |
      <file path="src/App.tsx">
      mended
      </file>
      <done/>
  - name: broken
    when: { request: 'broken', turn: 1 }
    respond: |
      <file path="src/App.tsx">
      BREAK THE BUILD
      </file>
      <done/>
  - name: endless
    when: { request: 'endless' }
    respond: |
      <command command="ls" args='["src"]'/>
  - name: refused
    when: { request: 'refused' }
    fault: { status: 401 }
  - name: never
    when: { request: 'never' }
    respond: |
      <command command="sleep" args='["86413.25"]'/>
"#;

fn last(events: &[Value]) -> &Value {
    events.last().unwrap()
}

#[test]
fn a_sentence_becomes_an_app_that_can_be_opened() {
    let house = House::with_script(SCRIPT);
    let output = house.run(&["run", "an app", "--json"]);
    let events = json_lines(&output);
    assert_eq!(told(&output).0, Some(0), "{output:?}");
    assert!(events[0]["run_id"].as_str().unwrap().starts_with("run_"), "the first line holds the run");
    let places: Vec<_> = events
        .iter()
        .map(|event| (event["from_seq"].as_u64().or(event["seq"].as_u64()), event["seq"].as_u64()))
        .collect();
    assert!(
        places.windows(2).all(|pair| pair[1].0 == pair[0].1.map(|seq| seq + 1)),
        "no gap, no repeat (E21): {places:?}"
    );
    assert_eq!((&last(&events)["type"], &last(&events)["stop_reason"]), (&"run_completed".into(), &"done".into()));
    let preview = events.iter().find(|event| event["type"] == "preview_url").unwrap();
    let page = house.get("/app.txt", preview["host"].as_str().unwrap());
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("the app of the run"), "{page}");

    // The log is the truth: what the run printed is what `events` prints, and the lists know the run.
    let run = events[0]["run_id"].as_str().unwrap();
    let again = house.events(run);
    assert_eq!(last(&again), last(&events));
    let runs = json_lines(&house.run(&["runs", "--json"]));
    assert_eq!((runs[0]["id"].as_str(), &runs[0]["status"]), (Some(run), &"completed".into()));
    let plain = String::from_utf8(house.run(&["run", "an app"]).stdout).unwrap();
    let (first, _) = plain.split_once('\n').unwrap();
    assert!(first.starts_with("run_") && first.contains(" in chat_"), "the ids come first: {first}");
    assert!(
        plain.contains("Here it is.") && plain.contains("+ src/App.tsx") && plain.contains(".localhost:"),
        "{plain}"
    );
}

#[test]
fn a_failed_build_is_read_and_mended_in_the_same_run() {
    // E13
    let house = House::with_script(SCRIPT);
    let output = house.run(&["run", "broken", "--json"]);
    assert_eq!(told(&output).0, Some(0), "{output:?}");
    let events = json_lines(&output);
    let builds: Vec<_> =
        events.iter().filter(|e| e["type"] == "build_status").map(|e| e["status"].as_str().unwrap()).collect();
    assert_eq!(builds, ["building", "failed", "building", "succeeded"]);
    assert_eq!(
        events.iter().filter(|event| event["type"] == "preview_url").count(),
        1,
        "nothing is published that did not build"
    );
}

#[test]
fn a_model_that_refuses_ends_the_run_with_1() {
    let house = House::with_script(SCRIPT);
    let output = house.run(&["run", "refused", "--json"]);
    assert_eq!(told(&output).0, Some(1), "{output:?}");
    let events = json_lines(&output);
    assert_eq!(last(&events)["type"], "run_failed");
    assert!(!last(&events)["action"].as_str().unwrap().is_empty());
}

#[test]
fn a_limit_is_told_as_that_limit_and_ends_with_3() {
    // E14
    let mut house = House::empty();
    fs::write(house.data().join("baton.toml"), "[limits]\nturns_per_run = 2\n").unwrap();
    house.start_model(SCRIPT);
    house.start();
    let output = house.run(&["run", "endless", "--json"]);
    assert_eq!(told(&output).0, Some(3), "{output:?}");
    let events = json_lines(&output);
    assert_eq!(last(&events)["stop_reason"], "max_turns_reached", "{:?}", last(&events));
}

#[test]
fn a_busy_chat_refuses_a_second_message_and_ctrl_c_stops_the_first_one_with_its_processes() {
    // E1, E16
    let house = House::with_script(SCRIPT);
    let (mut first, mut lines) = house.follow(&["run", "never", "--json"]);
    let session = lines.event("session");
    lines.event("tool_started");
    let chat = session["chat_id"].as_str().unwrap();
    let (code, text) = told(&house.run(&["run", "an app", "--chat", chat]));
    assert!(code == Some(3) && text.contains("active_runs_per_chat"), "{code:?} {text}");
    assert_eq!(json_lines(&house.run(&["runs", "--json"])).len(), 1, "a refusal leaves nothing behind");
    let run = session["run_id"].as_str().unwrap();
    let unknown = format!("chat_{}", "0".repeat(chat.len() - 5));
    let port = house.note().unwrap()["port"].as_u64().unwrap();
    for (command, words) in [
        (&mut house.command(&["runs", "--chat", &unknown]), ["no_such_chat", "baton chats"]),
        (&mut house.command(&["events", run, "--after", "99999"]), ["bad_cursor", "beyond the end"]),
        (&mut House::empty().up(port), ["is taken by a Baton that runs", "--port"]),
    ] {
        let (code, text) = told(&command.output().unwrap());
        assert!(code == Some(1) && words.iter().all(|word| text.contains(word)), "{code:?} {text}");
    }

    until("the command runs", || !processes("86413.25").is_empty());
    signal(&first, Signal::INT);
    assert_eq!(exit_code(&mut first), Some(130));
    let rest = lines.rest();
    assert!(rest.trim_end().lines().last().unwrap().contains("run_cancelled"), "{rest}");
    assert_eq!(processes("86413.25"), Vec::<std::path::PathBuf>::new(), "cancel means that the processes are gone");
    let output = house.run(&["run", "an app", "--chat", chat, "--json"]);
    assert_eq!(told(&output).0, Some(0), "the chat is free again: {output:?}");
}

//! What people do with runs from the command line: cancel, retry, fork, replay, export, import, restore; and looking after the store.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::house::{House, json_lines, processes, told, until};

const SCRIPT: &str = r#"
name: what people do
rules:
  - name: light
    when: { request: 'an app', turn: 1 }
    respond: |
      Here it is, with sk-0123456789abcdef in it.
      <file path="src/App.tsx">
      the first app
      </file>
      <done/>
  - name: dark
    when: { request: 'dark', turn: 1 }
    respond: |
      <file path="src/App.tsx">
      the dark app
      </file>
      <done/>
  - name: mended
    when: { request: 'two turns', turn: 2 }
    respond: |
      <file path="src/App.tsx">
      mended in the second turn
      </file>
      <done/>
  - name: broken
    when: { request: 'two turns', turn: 1 }
    respond: |
      <file path="src/App.tsx">
      BREAK THE BUILD
      </file>
      <done/>
  - name: refused
    when: { request: 'third time', times: 1 }
    fault: { status: 401 }
  - name: at last
    when: { request: 'third time' }
    respond: |
      <file path="src/App.tsx">
      at last
      </file>
      <done/>
  - name: never
    when: { request: 'never' }
    respond: |
      These words were said before it was stopped.
      <command command="sleep" args='["86417.75"]'/>
"#;

fn last(events: &[Value]) -> &Value {
    events.last().unwrap()
}

/// The id that a run's events begin with, and how they end.
fn run(house: &House, args: &[&str]) -> (String, Vec<Value>) {
    let output = house.run(&[args, &["--json"]].concat());
    let events = json_lines(&output);
    let run = events.iter().find_map(|event| event["run_id"].as_str()).unwrap_or_else(|| panic!("{output:?}"));
    (run.to_owned(), events)
}

fn chat_of(house: &House, run: &str) -> String {
    let runs = json_lines(&house.run(&["runs", "--json"]));
    runs.iter().find(|view| view["id"] == run).unwrap()["chat_id"].as_str().unwrap().to_owned()
}

/// The page that a run's preview shows.
fn page(house: &House, events: &[Value]) -> String {
    let built = |event: &&Value| event["type"] == "preview_url" && event["kind"] == "built";
    let host = events.iter().rfind(built).unwrap()["host"].as_str().unwrap();
    house.get("/app.txt", host)
}

#[test]
fn a_cancel_ends_the_processes_and_keeps_what_was_said() {
    // E16, promise 4
    let house = House::with_script(SCRIPT);
    let (_reader, mut lines) = house.follow(&["run", "never", "--json"]);
    let started = lines.event("tool_started");
    let run = started["run_id"].as_str().unwrap();
    until("the command runs", || !processes("86417.75").is_empty());
    let asked = Instant::now();
    let output = house.run(&["cancel", run]);
    println!("from `baton cancel` to its end: {:?}", asked.elapsed());
    assert_eq!(told(&output), (Some(0), String::new()));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), format!("{run} cancelled"));
    assert_eq!(processes("86417.75"), Vec::<std::path::PathBuf>::new());
    let events = house.events(run);
    let times = ["cancel_requested", "run_cancelled"]
        .map(|kind| events.iter().find(|event| event["type"] == kind).unwrap()["at"].as_u64().unwrap());
    println!("from the cancel's event to the end: {} ms", times[1] - times[0]);
    let said: String = events.iter().filter_map(|event| event["text"].as_str()).collect();
    assert!(said.contains("These words were said before it was stopped."), "{said}");
    assert_eq!(told(&house.run(&["replay", run])).0, Some(0), "and is in the chat");
    let again = house.run(&["cancel", run]);
    assert!(String::from_utf8_lossy(&again.stdout).contains("had ended before: cancelled"), "{again:?}");
}

#[test]
fn a_cancel_reaches_a_run_that_is_queued_or_building() {
    // E16
    let mut house = House::empty();
    fs::write(house.data().join("baton.toml"), "[limits]\nactive_runs_per_chat = 2\n").unwrap();
    let slow = house.data().join("templates/miniature-0001/node_modules/vite/bin/vite.js");
    let text = fs::read_to_string(&slow).unwrap();
    let waits = "import { spawnSync } from 'node:child_process';\nspawnSync('sleep', ['86419.5']);\n";
    fs::write(&slow, format!("{waits}{text}")).unwrap();
    house.start_model(SCRIPT);
    house.start();
    let (_reader, mut lines) = house.follow(&["run", "an app", "--json"]);
    let first = lines.event("build_status")["run_id"].as_str().unwrap().to_owned();
    until("the build runs", || !processes("86419.5").is_empty());
    let chat = chat_of(&house, &first);
    let (_reader, mut lines) = house.follow(&["run", "dark", "--chat", &chat, "--json"]);
    let queued = lines.event("session")["run_id"].as_str().unwrap().to_owned();
    assert_eq!(told(&house.run(&["cancel", &queued, "--no-wait"])).0, Some(0));
    assert_eq!(told(&house.run(&["cancel", &first])).0, Some(0));
    assert_eq!(processes("86419.5"), Vec::<std::path::PathBuf>::new());
    let events = house.events(&queued);
    lines.event("run_cancelled");
    assert!(!events.iter().any(|event| event["type"] == "turn_started"), "it never began: {events:?}");
}

#[test]
fn a_run_is_tried_again_and_only_when_it_has_ended() {
    let house = House::with_script(SCRIPT);
    let (first, events) = run(&house, &["run", "third time"]);
    assert_eq!(last(&events)["type"], "run_failed");
    let (again, events) = run(&house, &["retry", &first, "--follow"]);
    assert_eq!((last(&events)["type"].as_str(), again != first), (Some("run_completed"), true));
    assert_eq!(chat_of(&house, &again), chat_of(&house, &first));
    assert!(page(&house, &events).contains("at last"));
    let (_reader, mut lines) = house.follow(&["run", "never", "--json"]);
    let active = lines.event("tool_started")["run_id"].as_str().unwrap().to_owned();
    let (code, text) = told(&house.run(&["retry", &active]));
    assert!(code == Some(1) && text.contains("[run_is_active]"), "{code:?} {text}");
}

#[test]
fn a_fork_goes_on_from_a_step_with_another_model() {
    // N5
    let house = House::with_script(SCRIPT);
    let (source, events) = run(&house, &["run", "two turns"]);
    let before = house.events(&source);
    assert!(page(&house, &events).contains("mended in the second turn"));
    let output = house.run(&["fork", &source, "--at", "turn-2", "--model", "another", "--follow", "--json"]);
    let fork = json_lines(&output);
    assert_eq!((told(&output).0, last(&fork)["stop_reason"].as_str()), (Some(0), Some("done")), "{output:?}");
    assert!(page(&house, &fork).contains("mended in the second turn"), "the same app, at an address of its own");
    let session = fork.iter().find(|event| event["type"] == "session").unwrap();
    assert_eq!((&session["model"]["name"], &session["fork"]["step_id"]), (&"another".into(), &"turn-2".into()));
    let asked = fork.iter().filter(|event| event["type"] == "turn_started");
    let asked: Vec<_> = asked.map(|event| event["model"]["name"].as_str().unwrap()).collect();
    assert_eq!(asked, ["scripted", "another"], "the first turn is a copy");
    assert_eq!(house.events(&source), before, "the source is as it was");
    let asked = house.model_requests();
    let names: Vec<_> = asked.iter().map(|request| request["model"].as_str().unwrap()).collect();
    assert_eq!(names, ["scripted", "scripted", "another"], "and it is who was asked");
    let (code, text) = told(&house.run(&["fork", &source, "--at", "turn-9"]));
    assert!(code == Some(1) && text.contains("turn-1, check-1") && text.contains("[unknown_step]"), "{code:?} {text}");
}

#[test]
fn a_run_is_told_again_and_travels_in_a_file() {
    let house = House::with_script(SCRIPT);
    let (id, _) = run(&house, &["run", "an app"]);
    let replay = house.run(&["replay", &id]);
    let story = String::from_utf8_lossy(&replay.stdout).into_owned();
    assert_eq!(told(&replay), (Some(0), String::new()), "{story}");
    assert!(story.contains("Here it is") && story.contains("+ src/App.tsx"), "{story}");
    let count = house.events(&id).last().unwrap()["seq"].as_u64().unwrap();
    assert!(story.trim_end().ends_with(&format!("verified {count} events")), "{story}");
    assert_eq!(house.model_requests().len(), 1, "no model is asked again");

    let file = house.data().join("bundle.json");
    let output = house.run(&["export", &id, "-o", file.to_str().unwrap()]);
    assert_eq!(told(&output).0, Some(0), "{output:?}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let bundle = fs::read_to_string(&file).unwrap();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(!bundle.contains("sk-0123456789abcdef") && bundle.contains("the first app"));
    assert!(host.trim().len() < 4 || !bundle.contains(&format!("{}-", host.trim())), "{host}");
    assert!(!bundle.contains(house.data().to_str().unwrap()));
    let (code, text) = told(&house.run(&["export", &id, "-o", file.to_str().unwrap()]));
    assert!(code == Some(1) && text.contains("exists"), "nothing is overwritten: {code:?} {text}");

    let there = House::with_script(SCRIPT);
    let imported = json_lines(&there.run(&["import", file.to_str().unwrap(), "--json"]));
    let id = imported[0]["id"].as_str().unwrap();
    assert_eq!((&imported[0]["status"], &imported[0]["title"]), (&"completed".into(), &"an app".into()));
    let again = json_lines(&there.run(&["import", file.to_str().unwrap(), "--json"]));
    assert_eq!(again, imported, "the same file is the same run");
    let replay = there.run(&["replay", id]);
    let story = String::from_utf8_lossy(&replay.stdout).into_owned();
    assert!(told(&replay).0 == Some(0) && story.contains("*** in it") && story.contains("verified"), "{story}");
    let chats = json_lines(&there.run(&["chats", "--json"]));
    assert_eq!(chats[0]["title"], "Imported: an app");
    let (_, events) = run(&there, &["run", "dark", "--chat", chats[0]["id"].as_str().unwrap()]);
    assert!(page(&there, &events).contains("the dark app"), "one can go on from there");
    fs::write(&file, "{}").unwrap();
    let (code, text) = told(&there.run(&["import", file.to_str().unwrap()]));
    assert!(code == Some(1) && text.contains("[bad_bundle]"), "{code:?} {text}");
}

#[test]
fn what_is_stored_otherwise_than_the_log_says_ends_a_replay_with_1() {
    // E22
    let mut house = House::with_script(SCRIPT);
    let (_reader, mut lines) = house.follow(&["run", "never", "--json"]);
    let run = lines.event("tool_started")["run_id"].as_str().unwrap().to_owned();
    let (code, text) = told(&house.run(&["replay", &run]));
    assert!(code == Some(1) && text.contains("has not ended"), "{code:?} {text}");
    house.run(&["cancel", &run]);
    assert_eq!(told(&house.run(&["replay", &run])).0, Some(0));
    house.stop_server();
    // A call's key stands in its row alone, and nowhere in the log.
    let file = house.data().join("baton.db");
    let mut bytes = fs::read(&file).unwrap();
    let key = bytes.windows(15).position(|window| window == b"turn-1/command/").unwrap();
    bytes[key + 5] = b'9';
    fs::write(&file, bytes).unwrap();
    house.start();
    let output = house.run(&["replay", &run]);
    let story = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(told(&output).0, Some(1), "{story}");
    assert!(story.trim_end().ends_with("✗ call 1: the row is another than the log draws"), "{story}");
}

#[test]
fn a_file_is_put_by_hand_and_a_version_is_restored() {
    // Promise 7
    let house = House::with_script(SCRIPT);
    let (id, events) = run(&house, &["run", "an app"]);
    let chat = chat_of(&house, &id);
    let project = events.iter().find(|event| event["type"] == "session").unwrap()["project_id"].as_str().unwrap();
    let answer = put(&house, &format!("/v1/projects/{project}/files/src/App.tsx"), "by hand\n");
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    let edited: Value = serde_json::from_str(answer.rsplit_once("\r\n\r\n").unwrap().1).unwrap();
    let edited = edited["run_id"].as_str().unwrap();
    let (mut reader, lines) = house.follow(&["events", edited, "--follow", "--json"]);
    let rest: Vec<Value> = lines.rest().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(crate::house::exit_code(&mut reader), Some(0));
    assert_eq!(last(&rest)["stop_reason"], "done", "{rest:?}");
    assert!(page(&house, &rest).contains("by hand"));
    let story = String::from_utf8(house.run(&["replay", edited]).stdout).unwrap();
    assert!(story.contains("src/App.tsx") && story.contains("verified"), "{story}");

    let versions = json_lines(&house.run(&["versions", &chat, "--json"]));
    assert_eq!(versions.len(), 2);
    let first = versions[1]["id"].as_str().unwrap();
    let (_, events) = run(&house, &["restore", &chat, first, "--follow"]);
    assert_eq!(last(&events)["stop_reason"], "done", "{events:?}");
    assert!(page(&house, &events).contains("the first app"));
    let (code, text) = told(&house.run(&["restore", &chat, first]));
    assert!(code == Some(1) && text.contains("[nothing_to_change]"), "{code:?} {text}");
}

/// Puts a file as the owner, and gives the answer whole.
fn put(house: &House, path: &str, text: &str) -> String {
    let token = fs::read_to_string(house.data().join("owner-token")).unwrap();
    let port = u16::try_from(house.note().unwrap()["port"].as_u64().unwrap()).unwrap();
    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!("Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {}\r\nConnection: close", token.trim());
    write!(connection, "PUT {path} HTTP/1.1\r\n{head}\r\nContent-Length: {}\r\n\r\n{text}", text.len()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_backup_is_a_database_that_a_new_start_takes() {
    let mut house = House::with_script(SCRIPT);
    let (id, _) = run(&house, &["run", "an app"]);
    let check = |house: &House| told(&house.run(&["check"])).0;
    assert_eq!(check(&house), Some(0), "while the server runs");
    let copy = house.data().join("copy.db");
    let output = house.run(&["backup", copy.to_str().unwrap()]);
    assert_eq!(told(&output).0, Some(0), "{output:?}");
    assert!(told(&output).1.contains("objects"), "what else belongs to it is said");
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    let (code, text) = told(&house.run(&["backup", copy.to_str().unwrap()]));
    assert!(code == Some(1) && text.contains("copy.db exists") && text.contains("Name another"), "{text}");
    let (code, text) = told(&house.run(&["backup", house.data().join("no/copy.db").to_str().unwrap()]));
    assert!(code == Some(1) && text.contains("there is no folder"), "{text}");
    house.stop_server();
    assert_eq!(check(&house), Some(0), "and when none runs");
    let again = house.data().join("again.db");
    assert_eq!(told(&house.run(&["backup", again.to_str().unwrap()])).0, Some(0));

    let mut restored = House::empty();
    for copied in [&copy, &again] {
        fs::copy(copied, restored.data().join("baton.db")).unwrap();
        assert_eq!(check(&restored), Some(1), "the files of projects are not there");
    }
    copy_folder(&house.data().join("objects"), &restored.data().join("objects"));
    assert_eq!(check(&restored), Some(0));
    restored.start();
    assert_eq!(told(&restored.run(&["replay", &id])), (Some(0), String::new()));
    restored.stop_server();

    let mut file = fs::OpenOptions::new().write(true).open(restored.data().join("baton.db")).unwrap();
    file.seek(SeekFrom::Start(3 * 4_096)).unwrap();
    file.write_all(&[0x5a; 4_096]).unwrap();
    assert_eq!(check(&restored), Some(1), "damage is found");
    for command in [vec!["check"], vec!["backup", "copy.db"]] {
        let (code, text) = told(&House::empty().run(&command));
        assert!(code == Some(1) && text.contains("nothing of Baton's yet") && text.contains("baton up"), "{text}");
    }
}

fn copy_folder(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

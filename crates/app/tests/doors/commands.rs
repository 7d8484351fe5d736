//! Commands that need no run: help, settings, tokens, parsing, lists, and a pipe whose reader has gone.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

use crate::house::{House, Lines, Running, baton, exit_code, json_lines, told};

#[test]
fn a_mistake_on_the_command_line_ends_with_2() {
    let house = House::empty();
    for args in [
        &["fly"][..],
        &["run"],
        &["events", "run_1"],
        &["parse", "--dialect", "x"],
        &["up", "--port", "70000"],
        &["run", " "],
    ] {
        let (code, text) = told(&baton().args(args).arg("--data").arg(house.data()).output().unwrap());
        assert_eq!(code, Some(2), "{args:?}: {text}");
    }
    assert_eq!(baton().output().unwrap().status.code(), Some(2), "no command at all shows the help");
    assert_eq!(baton().arg("--help").output().unwrap().status.code(), Some(0));
}

#[test]
fn every_wrong_setting_is_told_at_once_and_no_key_with_it() {
    // E25
    let house = House::empty();
    fs::write(house.data().join("baton.toml"), "prot = 1\n[limits]\nturns_per_rum = 1\n").unwrap();
    let output = house.up(0).env("BATON_MODEL_KEY", "sk-secret").env("BATON_MODEL_URL", "nowhere").output().unwrap();
    let (code, text) = told(&output);
    assert_eq!(code, Some(2), "{text}");
    for part in ["prot", "turns_per_rum", "BATON_MODEL_URL", "BATON_MODEL:"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("sk-secret"), "{text}");
}

#[test]
fn where_no_server_is_a_command_says_how_to_get_one() {
    let house = House::empty();
    for args in [&["chats"][..], &["runs"], &["token"], &["token", "--link"]] {
        let (code, text) = told(&house.run(args));
        assert!(code == Some(1) && text.contains("baton up"), "{args:?}: {code:?} {text}");
    }
}

#[test]
fn a_second_server_is_refused_with_what_to_do() {
    let mut house = House::empty();
    house.start();
    let (code, text) = told(&house.up(0).output().unwrap());
    assert!(code == Some(1) && text.contains("already runs") && text.contains("baton token --link"), "{code:?} {text}");
    let port = house.note().unwrap()["port"].as_u64().unwrap();
    let (code, text) = told(&House::empty().up(port).output().unwrap());
    assert!(
        code == Some(1) && text.contains(&format!("port {port} is taken")) && text.contains("--port"),
        "{code:?} {text}"
    );
}

#[test]
fn the_owners_token_opens_the_api_and_a_link_is_printed_for_a_browser() {
    let mut house = House::empty();
    house.start();
    let token = String::from_utf8(house.run(&["token"]).stdout).unwrap();
    assert_eq!(token.trim().len(), 64);
    let link = &json_lines(&house.run(&["token", "--link", "--json"]))[0];
    let url = link["url"].as_str().unwrap();
    assert!(url.starts_with(house.note().unwrap()["url"].as_str().unwrap()) && url.contains("#code="), "{url}");
    assert_eq!(told(&house.run(&["chats"])).0, Some(0));
    fs::write(house.data().join("owner-token"), "0".repeat(64)).unwrap();
    let (code, text) = told(&house.run(&["chats"]));
    assert!(code == Some(1) && !text.is_empty(), "{code:?} {text}");
}

#[test]
fn frames_come_out_as_json_lines_whatever_the_chunks() {
    // E7
    let response = "Hi <thinking>hm</thinking>\n<file path=\"a.ts\">\nlet ü = 1;\n</file>\n<command command=\"ls\" args='[\"-l\"]'/>\n<done/>";
    let parse = |args: &[&str]| {
        let mut child = baton().arg("parse").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(response.as_bytes()).unwrap();
        json_lines(&child.wait_with_output().unwrap())
    };
    let merged = |frames: Vec<Value>| {
        let mut merged: Vec<Value> = Vec::new();
        for frame in frames {
            match merged.last_mut() {
                Some(last) if last["type"] == frame["type"] && frame["content"].is_string() => {
                    let both = format!("{}{}", last["content"].as_str().unwrap(), frame["content"].as_str().unwrap());
                    last["content"] = both.into();
                }
                _ => merged.push(frame),
            }
        }
        merged
    };
    let whole = merged(parse(&[]));
    let kinds: Vec<_> = whole.iter().map(|frame| frame["type"].as_str().unwrap()).collect();
    for kind in [
        "text",
        "thinking_start",
        "thinking_content",
        "thinking_end",
        "file_start",
        "file_content",
        "file_end",
        "command",
        "done",
    ] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    for chunk in ["1", "2", "7"] {
        assert_eq!(merged(parse(&["--chunk", chunk])), whole, "chunks of {chunk}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_panic() {
    let mut child = Running(
        baton().arg("parse").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(),
    );
    let mut input = child.0.stdin.take().unwrap();
    let mut lines = Lines::of(&mut child.0);
    input.write_all(b"<thinking>one</thinking>\n").unwrap();
    lines.next("thinking_start");
    drop(lines);
    // The program leaves as soon as it cannot write, so not all of this may find a reader either.
    while input.write_all(&b"<thinking>more</thinking>\n".repeat(1_000)).is_ok() {}
    assert_eq!(exit_code(&mut child), Some(0));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.0.stderr.take().unwrap(), &mut said).unwrap();
    assert_eq!(said, "");
}

#[test]
fn the_generated_documents_are_printed() {
    // E27
    for (name, key) in [("openapi", "openapi"), ("events", "$schema")] {
        let output = baton().args(["schema", name]).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(document.get(key).is_some(), "{name}");
    }
}

#[test]
fn the_doctor_says_what_is_wrong_and_how_to_mend_it() {
    let house = House::empty();
    let doctor = |args: &[&str]| {
        let mut command = house.command(&[&["doctor"], args].concat());
        command
            .env("BATON_MODEL", "m")
            .env("BATON_MODEL_URL", "http://127.0.0.1:1/v1")
            .env("BATON_MODEL_KEY", "sk-secret");
        command.output().unwrap()
    };
    fs::write(house.data().join("owner-token"), "0".repeat(64)).unwrap();
    let output = doctor(&["--json", "--confirm"]);
    let checks = json_lines(&output);
    let of = |name: &str| checks.iter().find(|check| check["name"] == name).unwrap();
    assert_eq!(output.status.code(), Some(1), "{checks:?}");
    assert_eq!(of("template")["verdict"], "fine");
    // Whether others can read a folder that was made elsewhere depends on who made it; it stops nothing.
    assert_ne!(of("data")["verdict"], "bad");
    assert!(
        of("token")["fix"][0].as_str().unwrap().contains("chmod 600"),
        "the token can be read by others: {checks:?}"
    );
    assert_eq!(of("model")["verdict"], "bad", "nobody answers there");
    assert!(of("model")["seen"].as_str().unwrap().contains("key ***"));
    assert!(of("sandbox")["seen"].as_str().unwrap().contains("isolation is"));
    let plain = String::from_utf8(doctor(&[]).stdout).unwrap();
    // Nobody is asked unless that was asked for.
    assert!(plain.contains("✓ model") && plain.contains("--confirm"), "{plain}");
    assert!(
        plain.contains("✗ token") && !plain.contains("sk-secret") && !format!("{checks:?}").contains("sk-secret"),
        "{plain}"
    );
    let limits = String::from_utf8(doctor(&["--limits"]).stdout).unwrap();
    assert!(limits.contains("turns_per_run"), "{limits}");
}

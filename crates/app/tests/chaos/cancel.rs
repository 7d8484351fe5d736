//! A cancel reaches a run wherever it is (E16, promise 4): through another server, by a message or, while there is no bus, by looking;
//! and when the run says that it was stopped, no process of it is left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::town::{Plan, Role, Town, now_ms};
use crate::view::View;
use crate::wire::{Reading, Wire};
use crate::witness::processes_with;

/// What a server that is asked first is.
const FIRST: Reading = Reading { first: 0, multiplexed: false, leaves_after: None };
/// How long a cancel may take on a machine that is busy with other tests. What it takes is told.
const SOON: Duration = Duration::from_secs(20);

/// With such long pauses between looks, only a message can be quick.
const BY_MESSAGE: &str = "poll_ms = 60000\nactive_runs_per_user = 10\nactive_runs_per_chat = 2\nretry_most_ms = 600000";
const BY_LOOKING: &str = "poll_ms = 200\nactive_runs_per_user = 10\nactive_runs_per_chat = 2\nretry_most_ms = 600000";

async fn town(limits: &'static str, workers: usize) -> (Arc<Town>, Wire) {
    let town = Town::found(&Plan { script: include_str!("cancel.yaml"), limits, servers: 2, workers }).await;
    tokio::task::block_in_place(|| town.open());
    let wire = Wire::new(town.servers(), town.token());
    (town, wire)
}

/// Seconds of a sleep that only this test has.
fn mark(n: u64) -> String {
    format!("{}{n}", 10_000_000 + u64::from(std::process::id()))
}

async fn send(wire: &Wire, chat: Option<&str>, text: &str) -> (String, String) {
    let accepted = wire.send(chat, text, text).await.unwrap();
    (accepted["run_id"].as_str().unwrap().to_owned(), accepted["chat_id"].as_str().unwrap().to_owned())
}

/// Whether a run is where it is to be stopped.
fn is_there(kind: &str, view: &View) -> bool {
    match kind {
        "command" => {
            view.events.iter().any(|event| event.kind() == "tool_output" && event.text("text").contains("ready"))
        }
        "build" => view.has("build_status"),
        "stream" => view.has("text_delta"),
        _ => view.has("step_retry"),
    }
}

/// Stops a run through the second server while a reader follows it at the first; gives what the reader saw and how long it took, in
/// milliseconds.
async fn stop(wire: &Wire, run: &str) -> (View, u64) {
    let asked = now_ms();
    let path = format!("/v1/runs/{run}/cancel");
    let answer = wire.once(Method::POST, 1, &path, "", &Value::Null).await;
    assert!(matches!(&answer, Some((StatusCode::OK, _))), "{answer:?}");
    let all = wire.follow(run, FIRST, |_| false);
    let view = tokio::time::timeout(SOON, all).await.unwrap_or_else(|_| panic!("{run} is not stopped after {SOON:?}"));
    let view = view.unwrap();
    let end = view.events.last().unwrap();
    assert_eq!((end.kind(), end.text("by")), ("run_cancelled", "user"), "{}", end.json);
    let took = end.json["at"].as_u64().unwrap().saturating_sub(asked);
    (view, took)
}

/// Runs that a worker has, each at another place; how long each took to stop.
async fn stopped_at_work(wire: &Wire, how: &str, first: u64) {
    for (n, kind) in (first..).zip(["command", "build", "stream", "wait"]) {
        let mark = mark(n);
        let (run, chat) = send(wire, None, &format!("{kind} {mark}")).await;
        let before = wire.follow(&run, FIRST, |view| is_there(kind, view)).await.unwrap();
        assert!(!before.ended(), "{kind}: {:?}", before.events.last());
        while kind == "build" && processes_with(&format!("sleep\0{mark}")).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (view, took) = stop(wire, &run).await;
        assert_eq!(processes_with(&format!("sleep\0{mark}")), [0_u32; 0], "{kind}: nothing of it is left");
        println!("  {how}: a run with a {kind} in hand was stopped after {took} ms");
        assert!(view.continues(&before), "{kind}: what was seen stays: {:?}", before.difference(&view));
        let (_, detail) = wire.get(&format!("/v1/chats/{chat}")).await;
        let answer = detail["messages"][1]["text"].as_str().unwrap_or_default();
        assert!(kind == "wait" || answer.contains("Words that"), "{kind}: {detail}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_at_another_server_reaches_a_run_by_message_and_nothing_of_it_is_left() {
    let (town, wire) = town(BY_MESSAGE, 1).await;
    stopped_at_work(&wire, "by message", 0).await;
    assert_eq!(town.take_faults(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_bus_a_cancel_is_found_by_looking() {
    let (town, wire) = town(BY_LOOKING, 1).await;
    tokio::task::block_in_place(|| town.redis.stop());
    stopped_at_work(&wire, "by looking", 10).await;
    assert_eq!(town.take_faults(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_waits_for_a_worker_or_for_its_turn_is_stopped_before_it_begins() {
    let (town, wire) = town(BY_LOOKING, 1).await;
    // Its turn comes when the run before it has ended, which it does not.
    let marks = [mark(20), mark(21), mark(22)];
    let (first, chat) = send(&wire, None, &format!("command {}", marks[0])).await;
    wire.follow(&first, FIRST, |view| is_there("command", view)).await.unwrap();
    let (next, _) = send(&wire, Some(&chat), &format!("command {}", marks[1])).await;
    let (view, took) = stop(&wire, &next).await;
    assert!(!view.has("step_added"), "it never began");
    println!("  a run that waited for its turn was stopped after {took} ms");
    stop(&wire, &first).await;
    // Nobody is there to take it.
    tokio::task::block_in_place(|| {
        let worker = town.of(Role::Worker).next().unwrap();
        town.terminate(worker, false);
        let since = Instant::now();
        while town.is_stopping(worker) && since.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let (queued, _) = send(&wire, None, &format!("command {}", marks[2])).await;
    let path = format!("/v1/runs/{queued}/cancel");
    let answer = wire.once(Method::POST, 1, &path, "", &Value::Null).await;
    assert!(matches!(&answer, Some((StatusCode::OK, _))), "{answer:?}");
    tokio::task::block_in_place(|| {
        town.start(town.of(Role::Worker).next().unwrap());
    });
    let view = tokio::time::timeout(SOON, wire.follow(&queued, FIRST, |_| false)).await.unwrap().unwrap();
    assert!(
        view.events.last().unwrap().kind() == "run_cancelled" && !view.has("step_added"),
        "{:?}",
        view.events.last()
    );
    assert_eq!(processes_with(&format!("sleep\0{}", marks[2])), [0_u32; 0]);
}

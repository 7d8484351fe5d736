//! What people do with runs, as programs ask for it: each refusal has its code and leaves nothing.

use contract::Limits;
use contract::api::{ExecutionState, RunStatus};
use contract::event::{RunStarted, StepAdded, StepKind, StepState, StepStatus};
use contract::{Event, StepId};
use runtime::ports::store::RowChange;
use serde_json::{Value, json};

use crate::house::wire::{Answer, Ask};
use crate::house::{House, Log, TOKEN};

async fn send(house: &House, method: &str, target: &str, body: &[u8], more: &[(&'static str, &str)]) -> Answer {
    let mut headers = vec![("Host", house.host()), ("Authorization", format!("Bearer {TOKEN}"))];
    headers.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
    house.raw(&Ask { method, target, headers, body }).await
}

fn step(id: &str, kind: StepKind) -> Vec<Event> {
    let (id, title) = (StepId::new(id), id.to_owned());
    let added = StepAdded { id: id.clone(), kind, title, depends_on: vec![], critical: true };
    let running = StepState { id, state: StepStatus::Running, attempt: 1, reason: None, output: None };
    vec![added.into(), running.into()]
}

/// A run that has ended, with one turn.
async fn ended(house: &House) -> Log {
    let mut log = house.log().await;
    log.append(step("turn-1", StepKind::Turn), vec![], false).await;
    log.finish().await;
    log
}

#[tokio::test]
async fn a_run_is_tried_again_when_it_has_ended_and_not_before() {
    let house = House::with(Limits { active_runs_per_user: 2, ..Limits::default() }).await;
    let mut log = house.log().await;
    let retry = format!("/v1/runs/{}/retry", log.run());
    let active = house.ask("POST", &retry, None).await;
    assert_eq!((active.status, active.code().as_str()), (409, "run_is_active"));
    log.finish().await;
    let accepted = send(&house, "POST", &retry, b"", &[("Idempotency-Key", "once")]).await;
    let run = accepted.json()["run_id"].as_str().unwrap().to_owned();
    assert_eq!((accepted.status, accepted.header("location")), (202, Some(format!("/v1/runs/{run}").as_str())));
    assert_eq!(accepted.json()["chat_id"], json!(log.accepted.chat_id));
    let again = send(&house, "POST", &retry, b"", &[("Idempotency-Key", "once")]).await;
    assert_eq!((again.status, &again.body), (202, &accepted.body));
    let busy = house.ask("POST", &retry, None).await;
    assert_eq!((busy.status, busy.code().as_str()), (429, "chat_busy"));
    assert_eq!((&busy.json()["limit"], &busy.json()["value"]), (&json!("active_runs_per_chat"), &json!(1)));
    assert!(busy.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
    let nobody = house.ask("POST", "/v1/runs/run_00000000000000000000000000/retry", None).await;
    assert_eq!((nobody.status, nobody.code().as_str()), (404, "no_such_run"));
}

#[tokio::test]
async fn a_fork_names_a_step_that_has_begun_and_a_model_that_is_reached() {
    // N5
    let house = House::open().await;
    let log = ended(&house).await;
    let fork = async |body: Value| house.ask("POST", &format!("/v1/runs/{}/fork", log.run()), Some(body)).await;
    let unknown = fork(json!({ "at": "turn-7" })).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (400, "unknown_step"));
    assert!(unknown.json()["detail"].as_str().unwrap().contains("turn-1"), "those that there are: {}", unknown.text());
    let nobody = fork(json!({ "at": "turn-1", "model": "nobody" })).await;
    assert_eq!((nobody.status, nobody.code().as_str()), (400, "unknown_model"));
    assert_eq!(fork(json!({ "at": "turn-1", "from": 3 })).await.code(), "bad_body");
    let accepted = fork(json!({ "at": "turn-1", "model": "other" })).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    let run = accepted.json()["run_id"].as_str().unwrap().to_owned();
    assert_ne!(accepted.json()["chat_id"], json!(log.accepted.chat_id));
    let graph = house.ask("GET", &format!("/v1/runs/{run}/graph"), None).await.json();
    assert_eq!((&graph["steps"][0]["id"], &graph["steps"][0]["state"]), (&json!("turn-1"), &json!("pending")));
    let (_, mut events) = house.events(&format!("/v1/runs/{run}/events?after=1"), None).await;
    let session = events.next().await.unwrap();
    assert!(format!("{session:?}").contains("other"), "{session:?}");
}

#[tokio::test]
async fn what_is_stored_otherwise_than_the_log_says_is_told() {
    // E22
    let house = House::open().await;
    let mut log = house.log().await;
    let verify = format!("/v1/runs/{}/verify", log.run());
    assert_eq!(house.ask("GET", &verify, None).await.code(), "run_is_active");
    let started = RunStarted { worker: "w".into(), epoch: 1 }.into();
    let running = RowChange::Run { status: RunStatus::Running, stop_reason: None, code: None, error: None, at: 1 };
    log.append(vec![started], vec![running], false).await;
    // Prose that no row has, and a row that no event draws.
    log.append(step("turn-1", StepKind::Turn), vec![], false).await;
    log.write(["never drawn".to_owned()]).await;
    log.append(vec![], vec![RowChange::Progress { state: ExecutionState::ToolExec, turn: 7 }], false).await;
    log.publish(&[("index.html", b"one")]).await;
    log.finish().await;
    let found = house.ask("GET", &verify, None).await.json();
    assert_eq!(found["events"], json!(log.end));
    let differences: Vec<_> = found["differences"].as_array().unwrap().iter().map(|d| d.as_str().unwrap()).collect();
    for (what, how) in [("answer", "0"), ("turn", "7"), ("tokens", "nothing"), ("versions", "none")] {
        assert!(differences.iter().any(|d| d.starts_with(what) && d.contains(how)), "{what}: {differences:?}");
    }
    assert!(!differences.iter().any(|d| d.starts_with("status") || d.starts_with("title")), "{differences:?}");
}

#[tokio::test]
async fn a_run_leaves_in_a_bundle_and_comes_back_in_a_chat_of_its_own() {
    let house = House::open().await;
    let mut log = house.log().await;
    log.append(step("turn-1", StepKind::Turn), vec![], false).await;
    log.files(&[("src/App.tsx", "const SECRET_KEY = 'abcdef';\n")]).await;
    log.finish().await;
    let target = format!("/v1/runs/{}/bundle", log.run());
    let bundle = house.ask("GET", &target, None).await;
    assert_eq!((bundle.status, bundle.header("content-type")), (200, Some("application/json")));
    assert!(bundle.header("content-disposition").unwrap().starts_with("attachment; filename=\"run_"));
    assert!(!bundle.text().contains("abcdef") && bundle.text().contains("SECRET_KEY"));
    assert_eq!(house.ask("GET", &format!("{target}?files=perhaps"), None).await.code(), "bad_query");
    let without = house.ask("GET", &format!("{target}?files=false"), None).await;
    assert!(!without.text().contains("SECRET_KEY"));

    let imported = send(&house, "POST", "/v1/bundles", &bundle.body, &[("Content-Type", "application/json")]).await;
    assert_eq!(imported.status, 201, "{}", imported.text());
    let (run, chat) = (imported.json()["id"].clone(), imported.json()["chat_id"].as_str().unwrap().to_owned());
    assert_eq!(imported.header("location"), Some(format!("/v1/runs/{}", run.as_str().unwrap()).as_str()));
    assert_eq!(imported.json()["status"], "completed");
    let shown = house.ask("GET", &format!("/v1/chats/{chat}"), None).await.json();
    assert_eq!((&shown["chat"]["title"], &shown["runs"][0]["id"]), (&json!("Imported: a to-do list"), &run));
    let verified = house.ask("GET", &format!("/v1/runs/{}/verify", run.as_str().unwrap()), None).await.json();
    assert_eq!(verified["differences"], json!([]));

    for (body, status, code) in [
        (&b"{}"[..], 400, "bad_bundle"),
        (b"not json", 400, "bad_bundle"),
        (b"", 400, "bad_bundle"),
        (&bundle.text().replace("\"version\":1,", "\"version\":9,").into_bytes(), 400, "unknown_bundle_version"),
    ] {
        let refused = send(&house, "POST", "/v1/bundles", body, &[]).await;
        assert_eq!((refused.status, refused.code().as_str()), (status, code), "{}", refused.text());
    }
    let keyed = [("Idempotency-Key", "once")];
    let first = send(&house, "POST", "/v1/bundles", &bundle.body, &keyed).await;
    let again = send(&house, "POST", "/v1/bundles", &bundle.body, &keyed).await;
    assert_eq!((first.status, again.status, &first.body), (201, 201, &again.body));
    assert_ne!(first.json()["id"], run);
    let reused = send(&house, "POST", "/v1/bundles", &without.body, &keyed).await;
    assert_eq!((reused.status, reused.code().as_str()), (409, "idempotency_key_reused"));

    let small = House::with(Limits { bundle_bytes: 1_000, ..Limits::default() }).await;
    let refused = send(&small, "POST", "/v1/bundles", &bundle.body, &[]).await;
    assert_eq!((refused.status, refused.code().as_str()), (413, "body_too_large"));
    assert_eq!((&refused.json()["limit"], &refused.json()["value"]), (&json!("bundle_bytes"), &json!(1_000)));
}

/// A project that no run has, with one file, and the run that made it.
async fn project(house: &House) -> Log {
    let mut log = house.log().await;
    log.append(step("turn-1", StepKind::Turn), vec![], false).await;
    log.files(&[("src/App.tsx", "one\n")]).await;
    log
}

#[tokio::test]
async fn a_file_is_changed_by_who_knows_it_and_only_while_no_run_has_the_project() {
    // Promise 7
    let house = House::with(Limits { active_runs_per_user: 9, ..Limits::default() }).await;
    let mut log = project(&house).await;
    let file = format!("/v1/projects/{}/files/src/App.tsx", log.accepted.project_id);
    let busy = send(&house, "PUT", &file, b"two\n", &[]).await;
    assert_eq!((busy.status, busy.code().as_str()), (409, "project_busy"));
    assert_eq!(busy.json()["run_id"], json!(log.run()));
    log.finish().await;

    let tag = house.ask("GET", &file, None).await.header("etag").unwrap().to_owned();
    let accepted = send(&house, "PUT", &file, b"two\n", &[("If-Match", &tag), ("Idempotency-Key", "k")]).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    let again = send(&house, "PUT", &file, b"two\n", &[("If-Match", &tag), ("Idempotency-Key", "k")]).await;
    assert_eq!((again.status, &again.body), (202, &accepted.body));
    let run = accepted.json()["run_id"].as_str().unwrap().to_owned();
    let (_, mut events) = house.events(&format!("/v1/runs/{run}/events?after=1"), None).await;
    let session = format!("{:?}", events.next().await.unwrap());
    assert!(session.contains("change") && session.contains("Edited src/App.tsx"), "{session}");
    let waits = send(&house, "DELETE", &file, b"", &[]).await;
    assert_eq!((waits.status, waits.json()["run_id"].as_str()), (409, Some(run.as_str())));
}

#[tokio::test]
async fn a_change_that_cannot_be_made_is_refused_with_its_code_and_leaves_nothing() {
    let limits = Limits { project_file_bytes: 64, active_runs_per_user: 9, upload_bytes: 500, ..Limits::default() };
    let house = House::with(limits).await;
    let mut log = project(&house).await;
    log.finish().await;
    let root = format!("/v1/projects/{}", log.accepted.project_id);
    let file = "files/src/App.tsx";
    let tag = house.ask("GET", &format!("{root}/{file}"), None).await.header("etag").unwrap().to_owned();
    let other = format!("\"{}\"", "0".repeat(64));
    let large = [b'x'; 65];
    let twice = br#"{"files": [{"path": "a", "base64": ""}, {"path": "./a", "base64": ""}]}"#;
    type Row<'a> = (&'a str, &'a str, &'a [u8], &'a [(&'static str, &'a str)], u16, &'a str);
    let rows: &[Row<'_>] = &[
        ("PUT", file, b"two\n", &[("If-Match", &other)], 412, "file_changed"),
        ("PUT", file, b"two\n", &[("If-Match", "App.tsx")], 400, "bad_if_match"),
        ("PUT", file, b"two\n", &[("If-Match", &tag), ("If-Match", &tag)], 400, "bad_if_match"),
        ("DELETE", file, b"", &[("If-Match", &other)], 412, "file_changed"),
        ("PUT", file, &large, &[], 413, "body_too_large"),
        ("PUT", file, b"one\n", &[], 409, "nothing_to_change"),
        ("PUT", "files/node_modules/x", b"x", &[], 400, "protected_path"),
        ("PUT", "files/src/App.tsx/below", b"x", &[], 409, "path_conflict"),
        ("PUT", "files/..%2fx", b"x", &[], 400, "bad_path"),
        ("DELETE", "files/none", b"", &[], 404, "no_such_file"),
        ("POST", "uploads", br#"{"files": []}"#, &[], 409, "nothing_to_change"),
        ("POST", "uploads", br#"{"files": [{"path": "a", "base64": "?"}]}"#, &[], 400, "bad_body"),
        ("POST", "uploads", br#"{"files": [{"path": "../a", "base64": ""}]}"#, &[], 400, "bad_body"),
        ("POST", "uploads", twice, &[], 400, "file_twice"),
        ("POST", "uploads", &[b' '; 501], &[], 413, "body_too_large"),
        ("POST", "versions/ver_00000000000000000000000000/restore", b"", &[], 404, "no_such_version"),
    ];
    let runs = async || house.ask("GET", "/v1/runs", None).await.json()["items"].as_array().unwrap().len();
    for (method, path, body, headers, status, code) in rows {
        let refused = send(&house, method, &format!("{root}/{path}"), body, headers).await;
        assert_eq!((refused.status, refused.code().as_str()), (*status, *code), "{method} {path}: {}", refused.text());
        assert_eq!(runs().await, 1, "{method} {path} leaves nothing");
    }
    let nowhere = send(&house, "PUT", "/v1/projects/prj_00000000000000000000000000/files/a", b"x", &[]).await;
    assert_eq!((nowhere.status, nowhere.code().as_str()), (404, "no_such_project"));
}

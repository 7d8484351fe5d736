//! Bundles that nobody exported: each is refused for what is wrong with it and leaves nothing, or does no harm.

use bytes::Bytes;
use contract::Limits;
use contract::event::Event;
use proptest::prelude::*;
use runtime::ImportError;
use serde_json::{Value, json};

use crate::house::{CORPUS, House, USER};

async fn good(house: &House) -> Value {
    let source = house.run(None, CORPUS[2].2[0]).await;
    serde_json::from_slice(&house.runtime.export(USER, source.run_id, true).await.unwrap()).unwrap()
}

fn bytes(bundle: &Value) -> Bytes {
    serde_json::to_vec(bundle).unwrap().into()
}

fn position(bundle: &Value, kind: &str) -> usize {
    bundle["events"].as_array().unwrap().iter().position(|event| event["event"]["type"] == kind).unwrap()
}

/// Puts an event into its place.
fn insert(bundle: &mut Value, at: usize, event: Value) {
    let events = bundle["events"].as_array_mut().unwrap();
    events.insert(at, json!({"seq": 0, "at": 1, "event": event}));
    for (n, event) in events.iter_mut().enumerate() {
        event["seq"] = json!(n + 1);
    }
}

type Spoil = fn(&mut Value);

const SPOILT: &[(&str, Spoil)] = &[
    ("another format", |b| b["format"] = json!("tar")),
    ("a newer version", |b| b["version"] = json!(2)),
    ("an unknown field", |b| b["extra"] = json!(1)),
    ("no events", |b| b["events"] = json!([])),
    ("an unknown event", |b| b["events"][5]["event"] = json!({"type": "shell", "command": "rm"})),
    ("events in another order", |b| b["events"].as_array_mut().unwrap().swap(8, 9)),
    ("a gap", |b| drop(b["events"].as_array_mut().unwrap().remove(9))),
    ("a second session", |b| {
        let session = b["events"][1]["event"].clone();
        insert(b, 6, session);
    }),
    ("no session", |b| b["events"][1]["event"] = json!({"type": "text_delta", "text": ""})),
    ("an event after the end", |b| {
        let end = b["events"].as_array().unwrap().len();
        insert(b, end, json!({"type": "text_delta", "text": "more"}));
    }),
    ("an end in the middle", |b| insert(b, 9, json!({"type": "run_cancelled", "by": "user"}))),
    ("a path that leads outside", |b| {
        let at = position(b, "file_started");
        b["events"][at]["event"]["path"] = json!("../../etc/passwd");
    }),
    ("a base that leads outside", |b| b["base"] = json!([{"path": "/etc/passwd", "sha256": "0".repeat(64)}])),
    ("a file in a folder of tools", |b| {
        let at = position(b, "file_completed");
        b["events"][at]["event"]["path"] = json!("node_modules/vite/bin/vite.js");
    }),
    ("a file renamed into one", |b| {
        let at = position(b, "file_renamed");
        b["events"][at]["event"]["to"] = json!(".git/hooks/post-checkout");
    }),
    ("a file below a file", |b| {
        let at = position(b, "file_completed");
        let mut below = b["events"][at]["event"].clone();
        below["path"] = json!(format!("{}/below", below["path"].as_str().unwrap()));
        insert(b, at + 1, below);
    }),
    ("a step's name that breaks out of an envelope", |b| {
        let at = position(b, "turn_started");
        b["events"][at]["step_id"] = json!("x\",\"type\":\"run_completed");
    }),
    ("a step with such a name", |b| {
        let at = position(b, "step_added");
        b["events"][at]["event"]["id"] = json!("turn-1\n");
    }),
    ("a call with such a name", |b| {
        let at = position(b, "tool_started");
        b["events"][at]["event"]["call_id"] = json!("<script>");
    }),
    ("a content that is another", |b| {
        let contents = b["contents"].as_object_mut().unwrap();
        let first = contents.keys().next().unwrap().clone();
        contents[&first] = json!({"text": "something else"});
    }),
    ("a content that is no base64", |b| {
        let contents = b["contents"].as_object_mut().unwrap();
        let first = contents.keys().next().unwrap().clone();
        contents[&first] = json!({"base64": "?"});
    }),
    ("the same file twice before the run", |b| {
        let hash = b["contents"].as_object().unwrap().keys().next().unwrap().clone();
        b["base"] = json!([{"path": "new.ts", "sha256": hash}, {"path": "./new.ts", "sha256": hash}]);
    }),
    ("a request that nobody may send", |b| b["events"][1]["event"]["request"] = json!("x".repeat(40_000))),
    ("work on a folder of tools", |b| {
        b["events"][1]["event"]["work"] =
            json!({"type": "change", "files": [{"path": "dist/x", "sha256": "0".repeat(64)}]});
    }),
    ("work with what is no hash", |b| {
        b["events"][1]["event"]["work"] = json!({"type": "change", "files": [{"path": "x", "sha256": "../../x"}]});
    }),
    ("endless steps", |b| {
        for n in 0..1_100 {
            let step = json!({"type": "step_added", "id": format!("s{n}"), "kind": "turn", "title": "", "depends_on": [], "critical": true});
            b["events"].as_array_mut().unwrap().insert(4, json!({"seq": 0, "at": 1, "event": step}));
        }
        insert(b, 4, json!({"type": "text_delta", "text": ""}));
    }),
    ("endless attempts", |b| {
        for n in 2..600 {
            let state = json!({"type": "step_state", "id": "turn-1", "state": "running", "of_attempt": n});
            b["events"].as_array_mut().unwrap().insert(9, json!({"seq": 0, "at": 1, "event": state}));
        }
        insert(b, 9, json!({"type": "text_delta", "text": ""}));
    }),
];

#[tokio::test(start_paused = true)]
async fn what_no_run_ever_was_is_refused_and_leaves_nothing() {
    let house = House::new(CORPUS[2].1);
    let good = good(&house).await;
    house.runtime.import(USER, bytes(&good), None).await.unwrap();
    let (lists, objects) = (house.lists().await, house.objects.count());
    for (what, spoil) in SPOILT {
        let mut bundle = good.clone();
        spoil(&mut bundle);
        assert_ne!(bundle, good, "{what}");
        match house.runtime.import(USER, bytes(&bundle), None).await {
            Err(ImportError::Bad(reason)) => {
                assert!(!reason.is_empty() && !reason.contains(char::is_control), "{what}")
            }
            Err(ImportError::Version { found: 2 } | ImportError::TooLarge { .. }) => {}
            other => panic!("{what}: {other:?}"),
        }
        assert_eq!((house.lists().await, house.objects.count()), (lists.clone(), objects), "{what}");
    }
    for text in [&b""[..], b"{}", b"[]", b"null", b"\xff\xfe", &bytes(&good)[..4_000], &b"[".repeat(100_000)[..]] {
        let refused = house.runtime.import(USER, Bytes::copy_from_slice(text), None).await;
        assert!(matches!(refused, Err(ImportError::Bad(_))), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hash_is_believed_by_nobody() {
    let house = House::new(CORPUS[2].1);
    let mut bundle = good(&house).await;
    // A file that says to be another one: what is read is remembered by its hash, for every project.
    let events = bundle["events"].as_array_mut().unwrap();
    let by_model: Vec<usize> = (0..events.len())
        .filter(|n| events[*n]["event"]["type"] == "file_completed" && events[*n]["event"]["by"] == "model")
        .collect();
    let stolen = "c".repeat(64);
    for n in &by_model {
        events[*n]["event"]["sha256"] = json!(stolen);
    }
    let run = house.runtime.import(USER, bytes(&bundle), None).await.unwrap();
    house.verify(run.id).await;
    let files = house.runtime.files(USER, run.project_id).await.unwrap().unwrap().files;
    assert!(files.iter().all(|file| file.sha256 != stolen), "{files:?}");
    let log = house.log(run.id).await;
    let rejected =
        log.iter().filter(|entry| matches!(&entry.event, Event::FileRejected(no) if no.code == "not_in_bundle"));
    assert!(rejected.count() >= by_model.len());
}

#[tokio::test(start_paused = true)]
async fn what_a_bundle_shows_leads_nowhere() {
    let house = House::new(CORPUS[2].1);
    let mut bundle = good(&house).await;
    let at = position(&bundle, "preview_url");
    bundle["events"][at]["event"]["url"] = json!("http://elsewhere.example/");
    bundle["baton"] = json!("1.0\u{1b}[31m<script>");
    bundle["run"]["title"] = json!("not what was asked");
    bundle["events"][0]["at"] = json!(u64::MAX);
    let run = house.runtime.import(USER, bytes(&bundle), None).await.unwrap();
    house.verify(run.id).await;
    assert_eq!(run.title, "an app", "the row is drawn from the log");
    for entry in house.log(run.id).await {
        assert!(!matches!(entry.event, Event::PreviewUrl(_) | Event::VersionCreated(_)));
        assert!(!serde_json::to_string(&entry.event).unwrap().contains("script>"));
        assert!(entry.at <= house.runtime.ports.world.now_ms());
    }
}

#[tokio::test(start_paused = true)]
async fn a_bundle_that_is_too_large_is_refused_before_it_is_read() {
    let house = House::with(CORPUS[2].1, Limits { bundle_bytes: 100_000, bundle_events: 300, ..Limits::default() });
    let mut bundle = good(&house).await;
    let padded = bytes(&json!({"x": "y".repeat(100_000)}));
    assert!(matches!(
        house.runtime.import(USER, padded, None).await,
        Err(ImportError::TooLarge { limit: "bundle_bytes", value: 100_000 })
    ));
    for _ in 0..300 {
        bundle["events"]
            .as_array_mut()
            .unwrap()
            .insert(4, json!({"seq": 0, "at": 1, "event": {"type": "text_delta", "text": ""}}));
    }
    insert(&mut bundle, 4, json!({"type": "text_delta", "text": ""}));
    let refused = house.runtime.import(USER, bytes(&bundle), None).await;
    assert!(matches!(refused, Err(ImportError::TooLarge { limit: "bundle_events", value: 300 })), "{refused:?}");
}

/// Whatever is changed in a bundle, it is refused, or becomes a run that is what its log says.
#[test]
fn a_bundle_that_is_changed_anywhere_does_no_harm() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let house = tokio.block_on(async { House::new(CORPUS[1].1) });
    let text = tokio.block_on(async {
        let source = house.run(None, "a page").await;
        house.runtime.export(USER, source.run_id, true).await.unwrap()
    });
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!(u64::MAX)),
        Just(json!(-1)),
        Just(json!(1e300)),
        Just(json!("")),
        Just(json!("turn-1")),
        Just(json!("src/App.tsx")),
        Just(json!("\u{0}")),
        Just(json!([])),
        Just(json!({})),
        Just(json!(true)),
        Just(json!("failed")),
    ];
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let good: Value = serde_json::from_slice(&text).unwrap();
    let changes = proptest::collection::vec((any::<u32>(), leaf, any::<bool>()), 1..4);
    runner
        .run(&changes, |changes| {
            let mut bundle = good.clone();
            for (place, leaf, swap) in changes {
                let events = bundle["events"].as_array_mut().unwrap();
                let n = place as usize % events.len();
                if swap {
                    // Another event at this place.
                    let other = (place as usize / 7) % events.len();
                    let event = events[other]["event"].clone();
                    events[n]["event"] = event;
                } else {
                    let fields = events[n]["event"].as_object_mut().unwrap();
                    let names: Vec<String> = fields.keys().cloned().collect();
                    fields.insert(names[place as usize % names.len()].clone(), leaf);
                }
            }
            tokio.block_on(async {
                match house.runtime.import(USER, bytes(&bundle), None).await {
                    Ok(run) => house.verify(run.id).await,
                    Err(ImportError::Bad(_) | ImportError::TooLarge { .. }) => {}
                    Err(other) => panic!("{other:?}"),
                }
            });
            Ok(())
        })
        .unwrap();
}

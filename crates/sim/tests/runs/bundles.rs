//! Bundles: what is exported is the run without its secrets, and what is imported elsewhere is that run.

use std::collections::BTreeMap;

use bytes::Bytes;
use contract::api::{Accepted, RunView};
use contract::bundle::Bundle;
use contract::event::{Author, Event, NewEvent};
use contract::{Limits, StepId};
use runtime::ports::store::AdmitError;
use runtime::{ExportError, ForkError, ImportError, RetryError};

use crate::house::{CORPUS, House, USER};

async fn export(house: &House, of: &Accepted, files: bool) -> (Bytes, Bundle) {
    let bytes = house.runtime.export(USER, of.run_id, files).await.unwrap();
    let bundle = serde_json::from_slice(&bytes).unwrap();
    (bytes, bundle)
}

async fn import(house: &House, bundle: Bytes) -> (RunView, Accepted) {
    let run = house.runtime.import(USER, bundle, None).await.unwrap();
    let detail = house.runtime.ports.store.chat(USER, run.chat_id).await.unwrap().unwrap();
    let message_id = detail.messages[0].id;
    let of = Accepted { chat_id: run.chat_id, message_id, run_id: run.id, project_id: run.project_id };
    (run, of)
}

/// What an event is, with its time and step.
type Told = Vec<(u64, Option<(StepId, u32)>, Event)>;

/// What a log tells, but for what an import leaves out and what it says of itself.
fn told(log: Vec<NewEvent>) -> Told {
    let of_here = |event: &Event| matches!(event, Event::PreviewUrl(_) | Event::VersionCreated(_));
    let own = |event: &Event| match event {
        Event::RunQueued(_) | Event::Session(_) => true,
        Event::Warning(warning) => warning.code == "imported",
        Event::FileCompleted(done) => done.by == Author::Restored,
        _ => false,
    };
    let log = log.into_iter().filter(|entry| !of_here(&entry.event) && (entry.step.is_some() || !own(&entry.event)));
    log.map(|entry| (entry.at, entry.step, entry.event)).collect()
}

/// The log as it would be without what names its worker.
fn without_host(mut log: Told) -> Told {
    for (_, _, event) in &mut log {
        if let Event::RunStarted(started) = event {
            started.worker = started.worker.replace("vm-host-77", "***");
        }
    }
    log
}

#[tokio::test(start_paused = true)]
async fn an_imported_run_is_the_exported_one_and_can_be_forked_from_there() {
    for (name, script, messages) in CORPUS {
        let (here, there) = (House::new(script), House::new(script));
        let mut chat = None;
        for message in messages {
            let source = here.run(chat, message).await;
            chat = Some(source.chat_id);
            let (bytes, bundle) = export(&here, &source, true).await;
            assert_eq!(
                (bundle.events.len() as u64, &bundle.missing),
                (here.view(source.run_id).await.last_seq, &vec![])
            );
            let (run, of) = import(&there, bytes).await;
            there.verify(run.id).await;
            assert_eq!(there.ended(run.id).await, here.ended(source.run_id).await, "{name}");
            assert_eq!(there.files(&of).await, here.files(&source).await, "{name}");
            assert!(there.shown(&of).await.is_empty(), "{name}: nothing is published here");
            let (log, before) = (there.log(run.id).await, here.log(source.run_id).await);
            assert!(told(log) == without_host(told(before)), "{name}: it tells the same");
            let view = here.view(source.run_id).await;
            assert_eq!(
                (run.created_at, run.started_at, run.ended_at),
                (view.created_at, view.started_at, view.ended_at)
            );
            let detail = there.runtime.ports.store.chat(USER, of.chat_id).await.unwrap().unwrap();
            assert_eq!(detail.chat.title, format!("Imported: {message}"));

            // All that it stands on is there: performed anew elsewhere, it comes to the same.
            if !["hard_luck", "broken_off"].contains(&name) {
                let fork = there.runtime.fork(USER, run.id, &StepId::new("turn-1"), None, None).await.unwrap();
                assert_eq!(there.end(fork.run_id).await, here.ended(source.run_id).await, "{name}");
                assert_eq!(there.files(&fork).await, here.files(&source).await, "{name}");
            }
        }
    }
}

const SECRETS: &str = r#"
name: secrets
rules:
  - name: first
    when: { turn: 1 }
    pace: { chunk: 5, delay_ms: 1 }
    reasoning: The key is sk-reasoning0123456789 and nobody should know.
    respond: |
      Use sk-prose0123456789abcdef for that, on vm-host-77.
      <file path="src/App.tsx">
      const API_KEY = "AIzaFile0123456789abcdef";
      export const home = "/home/ada/app";
      </file>
      <edit path="src/App.tsx">
      <<<<<<< SEARCH
      export const home
      =======
      // TOKEN=edited-in
      export const house
      >>>>>>> REPLACE
      </edit>
      <command command="write" args='[".env","SERVER_SECRET=by-a-command"]'/>
      <command command="ls" args='["--header", "Authorization: Bearer argument0123456789"]'/>
  - name: then
    when: { turn_from: 2 }
    respond: |
      <done/>
"#;
const PLANTED: [&str; 10] = [
    "sk-reasoning0123456789",
    "sk-prose0123456789abcdef",
    "vm-host-77",
    "AIzaFile0123456789abcdef",
    "/home/ada",
    "edited-in",
    "by-a-command",
    "argument0123456789",
    "sk-asked0123456789",
    "correct horse battery",
];

#[tokio::test(start_paused = true)]
async fn no_secret_leaves_and_what_leaves_still_fits_together() {
    let (here, there) = (House::new(SECRETS), House::new(SECRETS));
    here.runtime.keep_private(vec!["correct horse battery".into()]);
    let source = here.run(None, "an app with sk-asked0123456789 and correct horse battery").await;
    let text = |log: &[NewEvent]| log.iter().map(|e| serde_json::to_string(&e.event).unwrap()).collect::<String>();
    let before = text(&here.log(source.run_id).await);
    for planted in ["sk-asked0123456789", "by-a-command", "vm-host-77"] {
        assert!(before.contains(planted), "{planted} is in the log");
    }
    assert!(!before.contains("sk-prose0123456789abcdef"), "this one came in pieces");
    for files in [true, false] {
        let (bytes, bundle) = export(&here, &source, files).await;
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        for planted in PLANTED {
            assert!(!text.contains(planted), "{planted}: {text}");
        }
        let joined: String = bundle
            .events
            .iter()
            .map(|event| match &event.event {
                Event::TextDelta(delta) => delta.text.clone(),
                Event::ThinkingDelta(delta) => delta.text.clone(),
                Event::FileDelta(delta) => delta.text.clone(),
                _ => String::new(),
            })
            .collect();
        assert!(!PLANTED.iter().any(|planted| joined.contains(planted)), "{joined}");
        assert!(bundle.redacted >= PLANTED.len() as u64 - if files { 0 } else { 4 }, "{}", bundle.redacted);
        let (run, of) = import(&there, bytes).await;
        there.verify(run.id).await;
        assert_eq!(there.ended(run.id).await, "completed Done");
        let written = there.runtime.file(USER, of.project_id, &crate::house::path("src/App.tsx")).await.unwrap();
        if files {
            let text = String::from_utf8(written.unwrap().to_vec()).unwrap();
            assert!(text.contains("const API_KEY = \"***\"") && text.contains("// TOKEN=***"), "{text}");
        } else {
            let text = written.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).unwrap_or_default();
            assert!(!text.contains("API_KEY"), "{text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_files_their_hashes_stay_and_nothing_is_made_up() {
    let (here, there) = (House::new(CORPUS[1].1), House::new(CORPUS[1].1));
    let source = here.run(None, "a page").await;
    let (_, whole) = export(&here, &source, true).await;
    let (bytes, bundle) = export(&here, &source, false).await;
    assert!(bundle.contents.is_empty() && !bundle.files && whole.files && !whole.contents.is_empty());
    let hashes = |bundle: &Bundle| -> Vec<_> {
        let of = |event: &Event| match event {
            Event::FileCompleted(done) => Some((done.path.to_string(), done.sha256.clone(), done.bytes)),
            _ => None,
        };
        bundle.events.iter().filter_map(|event| of(&event.event)).collect()
    };
    assert_eq!(hashes(&bundle), hashes(&whole));
    let (run, of) = import(&there, bytes).await;
    there.verify(run.id).await;
    assert_eq!(there.files(&of).await, BTreeMap::new(), "what is not there is not shown as if it were");
    let log = there.log(run.id).await;
    assert!(log.iter().any(|e| matches!(&e.event, Event::FileRejected(no) if no.code == "not_in_bundle")));
    assert!(matches!(&log[2].event, Event::Warning(w) if w.code == "imported" && w.message.contains("files hold")));
    // Nothing is built on what is not there.
    let lists = there.lists().await;
    let fork = there.runtime.fork(USER, run.id, &StepId::new("turn-1"), None, None).await;
    assert!(matches!(fork, Err(ForkError::BytesGone { .. })), "{fork:?}");
    let retry = there.runtime.retry(USER, run.id, None).await;
    assert!(matches!(retry, Err(RetryError::BytesGone { .. })), "{retry:?}");
    assert_eq!(there.lists().await, lists);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_is_exported_as_far_as_it_is_and_imported_as_not_finished() {
    let (here, there) = (House::new(CORPUS[2].1), House::new(CORPUS[2].1));
    let source = here.runtime.send(USER, None, "an app", None).await.unwrap();
    here.until(source.run_id, |event| matches!(event, Event::ToolStarted(_))).await;
    let (bytes, bundle) = export(&here, &source, true).await;
    assert!(!bundle.run.status.is_terminal() && bundle.run.last_seq == bundle.events.len() as u64);
    let (run, _) = import(&there, bytes).await;
    assert_eq!(there.ended(run.id).await, "failed imported_unfinished");
    there.verify(run.id).await;
    here.end(source.run_id).await;
}

#[tokio::test(start_paused = true)]
async fn a_bundle_has_a_size_and_says_what_did_not_fit() {
    let (script, messages) = (CORPUS[2].1, CORPUS[2].2);
    let whole = House::new(script);
    let source = whole.run(None, messages[0]).await;
    let (bytes, bundle) = export(&whole, &source, true).await;
    let size = bytes.len() as u64;
    // The limits are in it too, with fewer digits then.
    for (most, fits) in [(size, true), (size - 20, true), (size / 8, false)] {
        let house = House::with(script, Limits { bundle_bytes: most, ..Limits::default() });
        let source = house.run(None, messages[0]).await;
        match house.runtime.export(USER, source.run_id, true).await {
            Ok(bytes) => {
                let small: Bundle = serde_json::from_slice(&bytes).unwrap();
                assert!(fits && bytes.len() as u64 <= most);
                assert_eq!(small.missing.len() + small.contents.len(), bundle.contents.len());
                assert_eq!(small.missing.is_empty(), most == size);
                let run = house.runtime.import(USER, bytes, None).await.unwrap();
                house.verify(run.id).await;
            }
            Err(ExportError::TooLarge { limit, value }) => {
                assert!(!fits && (limit, value) == ("bundle_bytes", most));
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_bundle_that_is_sent_again_is_the_run_that_there_is() {
    let (here, there) = (House::new(CORPUS[1].1), House::new(CORPUS[1].1));
    let (one, other) = (here.run(None, "a page").await, here.run(None, "a page").await);
    let (bundle, _) = export(&here, &one, true).await;
    let (another, _) = export(&here, &other, true).await;
    let import = async |bundle: &Bytes, key| there.runtime.import(USER, bundle.clone(), key).await;
    // A client that gave up waiting asks again while the first request is still at work.
    let (first, again) = tokio::join!(import(&bundle, Some("key")), import(&bundle, Some("key")));
    let run = first.unwrap();
    assert_eq!(run, again.unwrap());
    assert_eq!(run, import(&bundle, Some("key")).await.unwrap());
    assert_eq!(there.lists().await.0.len(), 1);
    let reused = import(&another, Some("key")).await;
    assert!(matches!(reused, Err(ImportError::Admit(AdmitError::KeyReused))), "{reused:?}");
    let message = there.runtime.send(USER, None, "a page", Some("key")).await;
    assert!(message.is_err(), "a key is of one door");
    assert_ne!(import(&bundle, None).await.unwrap().id, run.id, "without a key it is another one");
}

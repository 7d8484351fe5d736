//! What a person changes by hand is a run like any other, and one project has one writer (promise 7).

use bytes::Bytes;
use contract::api::Accepted;
use contract::event::{Author, Event, Work};
use contract::{Limits, ProjectId, StepId, VersionId};
use runtime::ports::store::AdmitError;
use runtime::{ChangeError, Edit, Guard, RetryError};

use crate::house::{CORPUS, House, USER, path};

fn put(name: &str, text: &str) -> Edit {
    (path(name), Some(Bytes::copy_from_slice(text.as_bytes())))
}

fn gone(name: &str) -> Edit {
    (path(name), None)
}

async fn edit(house: &House, of: &Accepted, edits: Vec<Edit>) -> Result<Accepted, ChangeError> {
    house.runtime.edit(USER, of.project_id, edits, None, None).await
}

async fn text(house: &House, of: &Accepted, name: &str) -> Option<String> {
    let bytes = house.runtime.file(USER, of.project_id, &path(name)).await.unwrap()?;
    Some(String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn an_edit_is_built_and_published_and_asks_no_model() {
    let house = House::new(CORPUS[1].1);
    let first = house.run(None, "a page").await;
    house.asked();
    let before = house.shown(&first).await;
    let run =
        edit(&house, &first, vec![put("src/App.tsx", "export const theme = \"mine\";\n"), put("logo.svg", "<svg/>")]);
    let run = run.await.unwrap();
    assert_eq!((run.chat_id, run.project_id), (first.chat_id, first.project_id));
    assert_eq!(house.end(run.run_id).await, "completed Done");
    assert!(house.asked().is_empty());
    assert_eq!(text(&house, &first, "src/App.tsx").await.as_deref(), Some("export const theme = \"mine\";\n"));
    assert_ne!(house.shown(&first).await, before, "it is on screen");
    house.verify(run.run_id).await;
    let log = house.log(run.run_id).await;
    let by = log.iter().filter(|entry| matches!(&entry.event, Event::FileCompleted(done) if done.by == Author::Person));
    assert_eq!(by.count(), 2);
    let detail = house.runtime.ports.store.chat(USER, first.chat_id).await.unwrap().unwrap();
    assert_eq!(detail.messages[2].text, "Uploaded src/App.tsx, logo.svg");

    let fork = house.runtime.fork(USER, run.run_id, &StepId::new("build-1"), None, None).await.unwrap();
    assert_eq!(house.end(fork.run_id).await, "completed Done");
    assert_eq!(house.files(&fork).await, house.files(&first).await, "a fork of it has the change, too");

    let run = edit(&house, &first, vec![gone("logo.svg")]).await.unwrap();
    assert_eq!(house.end(run.run_id).await, "completed Done");
    assert_eq!(text(&house, &first, "logo.svg").await, None);
    house.verify(run.run_id).await;
    // The model sees what became of it.
    house.run(Some(first.chat_id), "make it dark").await;
    let question = house.asked().remove(0);
    assert!(question.messages.last().unwrap().text.contains("\"mine\""));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_does_not_build_is_kept_and_the_last_good_version_stays() {
    let house = House::new(CORPUS[1].1);
    let first = house.run(None, "a page").await;
    let shown = house.shown(&first).await;
    let run = edit(&house, &first, vec![put("src/App.tsx", "// BREAK THE BUILD\n")]).await.unwrap();
    assert_eq!(house.end(run.run_id).await, "failed build_failed");
    assert_eq!(text(&house, &first, "src/App.tsx").await.as_deref(), Some("// BREAK THE BUILD\n"));
    assert_eq!(house.shown(&first).await, shown);
    house.verify(run.run_id).await;
    let again = house.runtime.retry(USER, run.run_id, None).await.unwrap();
    assert_eq!(house.end(again.run_id).await, "failed build_failed");
}

#[tokio::test(start_paused = true)]
async fn a_restored_version_has_its_files_and_nothing_else() {
    let house = House::new(CORPUS[1].1);
    let first = house.run(None, "a page").await;
    let files = house.files(&first).await;
    let version = house.runtime.ports.store.versions(first.project_id, 1).await.unwrap()[0].id;
    house.run(Some(first.chat_id), "make it dark").await;
    let added = edit(&house, &first, vec![put("src/new.ts", "export {};\n")]).await.unwrap();
    house.end(added.run_id).await;
    assert_ne!(house.files(&first).await, files);
    let restore = async |version, key| house.runtime.restore(USER, first.project_id, version, key).await;
    let run = restore(version, Some("key")).await.unwrap();
    assert_eq!(restore(version, Some("key")).await.unwrap(), run, "a repeated request gives the first answer");
    assert_eq!(house.end(run.run_id).await, "completed Done");
    assert_eq!(house.files(&first).await, files);
    house.verify(run.run_id).await;
    assert_eq!(restore(version, Some("key")).await.unwrap(), run, "also when it is done");
    let Event::Session(session) = &house.log(run.run_id).await[1].event else { panic!() };
    assert!(matches!(session.work, Work::Change { restores: Some(restored), .. } if restored == version));
    assert!(matches!(restore(version, None).await, Err(ChangeError::Nothing)));
    assert!(matches!(restore(VersionId::from_bits(1), None).await, Err(ChangeError::NoSuchVersion)));
    let nowhere = house.runtime.restore(USER, ProjectId::from_bits(1), version, None).await;
    assert!(matches!(nowhere, Err(ChangeError::NoSuchProject)));
}

#[tokio::test(start_paused = true)]
async fn a_project_that_a_run_has_is_not_waited_for_and_nothing_is_left() {
    // Promise 7
    let house =
        House::with(CORPUS[2].1, Limits { active_runs_per_chat: 9, active_runs_per_user: 9, ..Limits::default() });
    let first = house.runtime.send(USER, None, "an app", None).await.unwrap();
    house.until(first.run_id, |event| matches!(event, Event::ToolStarted(_))).await;
    let (runs, chats) = house.lists().await;
    let refused = edit(&house, &first, vec![put("a.ts", "1")]).await;
    assert!(matches!(refused, Err(ChangeError::Admit(AdmitError::ProjectBusy { run })) if run == first.run_id));
    let (after, _) = house.lists().await;
    assert_eq!((after.len(), house.lists().await.1), (runs.len(), chats));
    house.end(first.run_id).await;
    let run = edit(&house, &first, vec![put("a.ts", "1")]).await.unwrap();
    // The next message waits for it.
    let message = house.runtime.send(USER, Some(first.chat_id), "an app", None).await.unwrap();
    assert_eq!(house.end(run.run_id).await, "completed Done");
    let ended = house.view(run.run_id).await.ended_at;
    house.end(message.run_id).await;
    assert!(house.view(message.run_id).await.started_at >= ended);
}

#[tokio::test(start_paused = true)]
async fn what_a_project_cannot_be_is_refused() {
    let house = House::with(
        CORPUS[1].1,
        Limits { project_files: 7, project_file_bytes: 100, project_bytes: 300, ..Limits::default() },
    );
    let first = house.run(None, "a page").await;
    let lists = house.lists().await;
    let hash = house.files(&first).await["src/App.tsx"].clone();
    let limit = |found: &ChangeError, name: &str| matches!(found, ChangeError::TooMuch { limit, .. } if *limit == name);
    let many: Vec<Edit> = (0..9).map(|n| put(&format!("f{n}"), "x")).collect();
    let large: Vec<Edit> = (0..2).map(|n| put(&format!("g{n}"), &"x".repeat(90))).collect();
    type Check<'a> = Box<dyn Fn(&ChangeError) -> bool + 'a>;
    let table: Vec<(Vec<Edit>, Option<Guard>, Check<'_>)> = vec![
        (vec![], None, Box::new(|e| matches!(e, ChangeError::Nothing))),
        (vec![gone("nowhere")], None, Box::new(|e| matches!(e, ChangeError::NoSuchFile(_)))),
        (vec![put("a", "1"), put("a", "2")], None, Box::new(|e| matches!(e, ChangeError::Twice(_)))),
        (vec![put("node_modules/x", "1")], None, Box::new(|e| matches!(e, ChangeError::Protected(_)))),
        (vec![put(".git/config", "1")], None, Box::new(|e| matches!(e, ChangeError::Protected(_)))),
        (vec![gone("dist/index.html")], None, Box::new(|e| matches!(e, ChangeError::Protected(_)))),
        (vec![put("src", "1")], None, Box::new(|e| matches!(e, ChangeError::Conflict(_)))),
        (vec![put("index.html/x", "1")], None, Box::new(|e| matches!(e, ChangeError::Conflict(_)))),
        (
            vec![put("src/App.tsx", "x")],
            Some(Guard::Is("0".repeat(64))),
            Box::new(|e| matches!(e, ChangeError::Other(_))),
        ),
        (vec![put("new.ts", "x")], Some(Guard::Exists), Box::new(|e| matches!(e, ChangeError::Other(_)))),
        (vec![put("a", &"x".repeat(101))], None, Box::new(|e| limit(e, "project_file_bytes"))),
        (many, None, Box::new(|e| limit(e, "project_files"))),
        (large, None, Box::new(|e| limit(e, "project_bytes"))),
    ];
    for (edits, guard, expected) in table {
        let what = format!("{edits:?}");
        let refused = house.runtime.edit(USER, first.project_id, edits, guard, None).await.unwrap_err();
        assert!(expected(&refused), "{what}: {refused:?}");
    }
    let stranger = contract::UserId::from_bits(8);
    let theirs = house.runtime.edit(stranger, first.project_id, vec![put("a", "1")], None, None).await;
    assert!(matches!(theirs, Err(ChangeError::NoSuchProject)));
    assert_eq!(house.lists().await, lists);

    let right = Guard::parse(&format!("\"{hash}\"")).unwrap();
    let same = put("src/App.tsx", &text(&house, &first, "src/App.tsx").await.unwrap());
    let nothing = house.runtime.edit(USER, first.project_id, vec![same], Some(right.clone()), None).await;
    assert!(matches!(nothing, Err(ChangeError::Nothing)));
    let edits = vec![put("src/App.tsx", "export {};\n")];
    let run = house.runtime.edit(USER, first.project_id, edits.clone(), Some(right.clone()), Some("k")).await.unwrap();
    house.end(run.run_id).await;
    let again = house.runtime.edit(USER, first.project_id, edits, Some(right), Some("k")).await.unwrap();
    assert_eq!(again, run, "a repeated request gives the first answer, though the file is another one by now");
}

#[tokio::test(start_paused = true)]
async fn a_change_is_made_again_as_far_as_the_project_allows_it_by_now() {
    let house = House::with(CORPUS[1].1, Limits { project_bytes: 400, active_runs_per_chat: 9, ..Limits::default() });
    let first = house.run(None, "a page").await;
    let done = async |edits| {
        let run = edit(&house, &first, edits).await.unwrap();
        assert_eq!(house.end(run.run_id).await, "completed Done");
        run.run_id
    };
    let again = async |run, key| house.runtime.retry(USER, run, key).await;
    let refusal = async |run| match again(run, None).await {
        Err(RetryError::Change(why)) => why,
        other => panic!("{other:?}"),
    };
    let noted = done(vec![put("notes", "1")]).await;
    assert!(matches!(refusal(noted).await, ChangeError::Nothing), "it is on screen");
    let large = done(vec![put("large", &"x".repeat(150))]).await;
    let moved = done(vec![gone("notes"), gone("large"), put("notes/one", "1")]).await;
    assert!(matches!(refusal(noted).await, ChangeError::Conflict(at) if at == path("notes")));
    done(vec![put("other", &"y".repeat(150))]).await;
    let lists = house.lists().await;
    assert!(matches!(refusal(large).await, ChangeError::TooMuch { limit: "project_bytes", .. }));
    assert!(matches!(refusal(moved).await, ChangeError::Nothing), "what is gone is gone");
    assert_eq!(house.lists().await, lists, "a refusal leaves nothing");

    // What it asks is taken in, and the same request again is answered as before, though nothing would change any more.
    done(vec![put("notes/one", "2")]).await;
    let run = again(moved, Some("key")).await.unwrap();
    assert_eq!(house.end(run.run_id).await, "completed Done");
    assert_eq!(text(&house, &first, "notes/one").await.as_deref(), Some("1"));
    assert_eq!(again(moved, Some("key")).await.unwrap(), run);
    house.verify(run.run_id).await;
    let reused = house.runtime.edit(USER, first.project_id, vec![put("notes/one", "2")], None, Some("key")).await;
    assert!(matches!(reused, Err(ChangeError::Admit(AdmitError::KeyReused))), "a key is of one door");

    // It is refused while another run has the project, as it was the first time.
    let busy = house.runtime.send(USER, Some(first.chat_id), "make it dark", None).await.unwrap();
    let refused = refusal(noted).await;
    assert!(
        matches!(refused, ChangeError::Admit(AdmitError::ProjectBusy { run }) if run == busy.run_id),
        "{refused:?}"
    );
    house.end(busy.run_id).await;
}

#[tokio::test(start_paused = true)]
async fn a_version_is_restored_again_where_it_is_not_on_screen() {
    let house = House::new(CORPUS[1].1);
    let first = house.run(None, "a page").await;
    let files = house.files(&first).await;
    let version = house.runtime.ports.store.versions(first.project_id, 1).await.unwrap()[0].id;
    let added = edit(&house, &first, vec![put("src/new.ts", "export {};\n")]).await.unwrap();
    house.end(added.run_id).await;
    let run = house.runtime.restore(USER, first.project_id, version, None).await.unwrap();
    house.end(run.run_id).await;
    let nothing = house.runtime.retry(USER, run.run_id, None).await;
    assert!(matches!(nothing, Err(RetryError::Change(ChangeError::Nothing))), "{nothing:?}");
    // Files that came since go, too, though the first time there were none of that name.
    let later = edit(&house, &first, vec![put("src/later.ts", "export {};\n")]).await.unwrap();
    house.end(later.run_id).await;
    let again = house.runtime.retry(USER, run.run_id, None).await.unwrap();
    assert_eq!(house.end(again.run_id).await, "completed Done");
    assert_eq!(house.files(&first).await, files);
}

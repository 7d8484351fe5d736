//! Forks (N5): another run with the same past, which goes on by itself.

use contract::StepId;
use contract::api::Role;
use contract::event::{Author, Event, PreviewKind, StepStatus};
use contract::{Limits, RunId};
use runtime::ForkError;
use runtime::ports::store::AdmitError;

use crate::house::{CORPUS, House, OTHER, USER};

/// The steps of a run that have begun.
async fn begun(house: &House, run: RunId) -> Vec<StepId> {
    let mut steps: Vec<StepId> = vec![];
    for entry in house.log(run).await {
        if let Event::StepState(step) = entry.event
            && step.state == StepStatus::Running
            && !steps.contains(&step.id)
        {
            steps.push(step.id);
        }
    }
    steps
}

#[tokio::test(start_paused = true)]
async fn a_fork_at_any_step_asks_what_its_source_asked_and_ends_as_it_did() {
    // N5. Scripts that answer differently the second time are no models of a fork.
    for (name, script, messages) in CORPUS.into_iter().filter(|(name, ..)| !["hard_luck", "broken_off"].contains(name))
    {
        let house = House::new(script);
        let mut chat = None;
        for message in messages {
            let source = house.run(chat, message).await;
            chat = Some(source.chat_id);
            let questions = house.asked();
            let (end, files, shown) =
                (house.ended(source.run_id).await, house.files(&source).await, house.shown(&source).await);
            let log = house.log(source.run_id).await;
            let steps = begun(&house, source.run_id).await;
            for step in &steps {
                let what = format!("{name}, {message}, {step}");
                let fork = house.runtime.fork(USER, source.run_id, step, None, None).await.unwrap();
                assert_eq!(house.end(fork.run_id).await, end, "{what}");
                let again = house.asked();
                let first = questions.len().saturating_sub(again.len());
                assert!(again == questions[first..], "{what}: it is asked what its source was asked");
                let turns_before = steps.iter().take_while(|other| *other != step).filter(|step| is_turn(step)).count();
                assert_eq!(first, turns_before, "{what}: what came before is not asked again");
                assert_eq!(
                    (house.files(&fork).await, house.shown(&fork).await),
                    (files.clone(), shown.clone()),
                    "{what}"
                );
                house.verify(fork.run_id).await;
            }
            assert!(house.log(source.run_id).await == log, "{name}: the source is as it was");
            house.verify(source.run_id).await;
        }
    }
}

fn is_turn(step: &StepId) -> bool {
    step.as_str().starts_with("turn-")
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_a_to_do_list_at_its_second_turn_is_built_by_another_model() {
    // N5, E3
    let (_, script, messages) = CORPUS[7];
    let house = House::new(script);
    let source = house.run(None, messages[0]).await;
    let before = house.log(source.run_id).await;
    house.asked();
    let at = StepId::new("turn-2");
    let fork = house.runtime.fork(USER, source.run_id, &at, Some(OTHER), Some("key")).await.unwrap();
    assert_eq!(house.end(fork.run_id).await, "completed Done");
    assert_eq!(house.files(&fork).await, house.files(&source).await, "the same app");
    assert_eq!(house.shown(&fork).await, house.shown(&source).await);
    assert!(fork.chat_id != source.chat_id && fork.project_id != source.project_id);
    let asked = house.asked();
    assert!(!asked.is_empty() && asked.iter().all(|question| question.model.name == OTHER));

    let log = house.log(fork.run_id).await;
    let Event::Session(session) = &log[1].event else { panic!("{:?}", log[1]) };
    let forked = session.fork.as_ref().unwrap();
    assert_eq!((session.model.name.as_str(), forked.run_id, &forked.step_id), (OTHER, source.run_id, &at));
    let models: Vec<_> = log
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::TurnStarted(turn) => Some(turn.model.name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!((models[0], models[1]), ("stage", OTHER), "who was asked is told as it was");
    assert!(house.log(source.run_id).await == before, "the source is untouched");
    house.verify(source.run_id).await;
    house.verify(fork.run_id).await;

    // What the source published and where is not the fork's; its own instant pages are at its own address.
    let row = house.runtime.ports.store.project(fork.project_id).await.unwrap().unwrap();
    for entry in &log {
        if let Event::PreviewUrl(shown) = &entry.event {
            assert!(shown.url.contains(&row.slug), "{shown:?}");
            assert!(shown.kind == PreviewKind::Instant || shown.version == row.current.as_ref().map(|v| v.id));
        }
    }
    let again = house.runtime.fork(USER, source.run_id, &at, Some(OTHER), Some("key")).await.unwrap();
    assert_eq!(again, fork, "a repeated request gives the first answer");
    let other = house.runtime.fork(USER, source.run_id, &StepId::new("turn-1"), Some(OTHER), Some("key")).await;
    assert!(matches!(other, Err(ForkError::Admit(AdmitError::KeyReused))));
}

#[tokio::test(start_paused = true)]
async fn a_fork_takes_along_what_was_said_and_made_before_its_source() {
    // E5, N5
    let (_, script, messages) = CORPUS[1];
    let house = House::new(script);
    let runs = house.runs(messages).await;
    let fork = house.runtime.fork(USER, runs[1].run_id, &StepId::new("turn-1"), None, None).await.unwrap();
    house.end(fork.run_id).await;
    let log = house.log(fork.run_id).await;
    let Event::Session(session) = &log[1].event else { panic!("{:?}", log[1]) };
    let said: Vec<_> =
        session.fork.iter().flat_map(|fork| &fork.earlier).map(|said| (said.role, &said.text[..])).collect();
    assert_eq!(said[0], (Role::User, "a page"));
    assert!(said[1].0 == Role::Assistant && said[1].1.contains("Here it comes."));
    let restored = |event: &Event| matches!(event, Event::FileCompleted(done) if done.by == Author::Restored);
    let files = log.iter().filter(|entry| restored(&entry.event)).count();
    assert_eq!(files, house.files(&runs[0]).await.len());

    // A message that follows in the fork's chat, and a fork of that, know it all.
    house.asked();
    let next = house.run(Some(fork.chat_id), "and dark once more").await;
    let question = house.asked().remove(0);
    let told: Vec<_> = question.messages.iter().map(|message| message.text.as_str()).collect();
    assert!(told.contains(&"a page") && told.contains(&"make it dark"), "{told:?}");
    let of_next = house.runtime.fork(USER, next.run_id, &StepId::new("turn-1"), None, None).await.unwrap();
    house.end(of_next.run_id).await;
    assert_eq!(house.asked().remove(0), question);
}

#[tokio::test(start_paused = true)]
async fn a_run_can_be_forked_while_it_works() {
    let house = House::with(CORPUS[2].1, Limits { active_runs_per_user: 9, ..Limits::default() });
    let source = house.runtime.send(USER, None, "an app", None).await.unwrap();
    house.until(source.run_id, |event| matches!(event, Event::ToolStarted(_))).await;
    let fork = house.runtime.fork(USER, source.run_id, &StepId::new("turn-1"), None, None).await.unwrap();
    assert_eq!(
        (house.end(fork.run_id).await, house.end(source.run_id).await),
        ("completed Done".into(), "completed Done".into())
    );
    assert_eq!(house.files(&fork).await, house.files(&source).await);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_forked_is_refused_and_leaves_nothing() {
    let house = House::with(CORPUS[2].1, Limits { bundle_bytes: 4_000, ..Limits::default() });
    let source = house.run(None, "an app").await;
    let lists = house.lists().await;
    let fork = async |run, step: &str, model| house.runtime.fork(USER, run, &StepId::new(step), model, None).await;
    match fork(source.run_id, "turn-9", None).await {
        Err(ForkError::UnknownStep { begun: known, .. }) => assert_eq!(known, begun(&house, source.run_id).await),
        other => panic!("{other:?}"),
    }
    assert!(
        matches!(fork(source.run_id, "turn-1", Some("nobody")).await, Err(ForkError::UnknownModel { name }) if name == "nobody")
    );
    assert!(matches!(fork(RunId::from_bits(1), "turn-1", None).await, Err(ForkError::NoSuchRun)));
    assert!(matches!(fork(source.run_id, "publish-1", None).await, Err(ForkError::TooLong { most: 4_000 })));
    let stranger = contract::UserId::from_bits(8);
    let theirs = house.runtime.fork(stranger, source.run_id, &StepId::new("turn-1"), None, None).await;
    assert!(matches!(theirs, Err(ForkError::NoSuchRun)));
    assert_eq!(house.lists().await, lists);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_reached_no_more_is_told_as_that_and_no_other_is_asked() {
    // E3: the sealed envelope counts, whatever a later start is set to
    let house = House::new(CORPUS[1].1);
    let source = house.run(None, "a page").await;
    house.asked();
    let at = StepId::new("turn-1");
    let fork = house.runtime.fork(USER, source.run_id, &at, Some(OTHER), None).await.unwrap();
    // Nothing has been performed yet: this thread has not waited since.
    house.forget_other();
    assert_eq!(house.end(fork.run_id).await, "failed unknown_model");
    assert!(house.asked().is_empty());
    house.verify(fork.run_id).await;
    let named = house.runtime.fork(USER, fork.run_id, &at, Some(OTHER), None).await;
    assert!(matches!(named, Err(ForkError::UnknownModel { name }) if name == OTHER));
    // Nobody asked for that model, so the usual one does, and the log says so before anything else.
    let usual = house.runtime.fork(USER, fork.run_id, &at, None, None).await.unwrap();
    assert_eq!(house.end(usual.run_id).await, "completed Done");
    assert!(house.asked().iter().all(|question| question.model.name == "stage"));
    let log = house.log(usual.run_id).await;
    assert!(matches!(&log[2].event, Event::Warning(w) if w.code == "model_replaced" && w.message.contains(OTHER)));
    house.verify(usual.run_id).await;
}

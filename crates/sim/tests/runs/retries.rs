//! Trying again: the same request in the same chat, and what was there stays.

use contract::event::Event;
use contract::{Limits, RunId};
use runtime::RetryError;
use runtime::ports::store::AdmitError;

use crate::house::{CORPUS, House, OTHER, USER};

const TRIES: &str = r#"
name: tries
rules:
  - name: refused
    when: { request: hard, times: 1 }
    fault: { status: 401 }
  - name: slow
    when: { request: slow }
    respond: |
      <command command="sleep" args='["30"]'/>
  - name: done
    when: { turn: 1 }
    respond: |
      Here.
      <file path="src/App.tsx">
      export const made = 1;
      </file>
      <done/>
"#;

#[tokio::test(start_paused = true)]
async fn a_run_that_failed_is_tried_again_in_its_chat() {
    let house = House::new(TRIES);
    let first = house.run(None, "a hard app").await;
    assert_eq!(house.ended(first.run_id).await, "failed model_auth");
    let before = house.log(first.run_id).await;
    let again = house.runtime.retry(USER, first.run_id, Some("again")).await.unwrap();
    assert_eq!((again.chat_id, again.project_id), (first.chat_id, first.project_id));
    assert!(again.run_id != first.run_id && again.message_id != first.message_id);
    assert_eq!(house.runtime.retry(USER, first.run_id, Some("again")).await.unwrap(), again, "the first answer");
    assert_eq!(house.end(again.run_id).await, "completed Done");
    let detail = house.runtime.ports.store.chat(USER, first.chat_id).await.unwrap().unwrap();
    let said: Vec<_> = detail.messages.iter().map(|message| message.text.trim()).collect();
    assert_eq!(said, ["a hard app", "", "a hard app", "Here."]);
    assert!(house.log(first.run_id).await == before);
    house.verify(again.run_id).await;

    // What was completed can be asked for once more, too, and so can what was stopped.
    let third = house.runtime.retry(USER, again.run_id, None).await.unwrap();
    house.runtime.cancel(USER, third.run_id).await.unwrap();
    assert_eq!(house.end(third.run_id).await, "cancelled");
    let fourth = house.runtime.retry(USER, third.run_id, None).await.unwrap();
    assert_eq!(house.end(fourth.run_id).await, "completed Done");
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_is_refused_leaves_everything_as_it_was() {
    // E1, lessons: a retry refused at the limit deleted the person's earlier message
    let house = House::with(TRIES, Limits { active_runs_per_user: 1, ..Limits::default() });
    let first = house.run(None, "a hard app").await;
    let other = house.runtime.send(USER, None, "a slow app", None).await.unwrap();
    let chat = async || house.runtime.ports.store.chat(USER, first.chat_id).await.unwrap();
    let (before, log) = (chat().await, house.log(first.run_id).await);
    let refused = house.runtime.retry(USER, first.run_id, None).await;
    assert!(matches!(refused, Err(RetryError::Admit(AdmitError::Limit { limit: "active_runs_per_user", value: 1 }))));
    assert_eq!(chat().await, before);
    assert!(house.log(first.run_id).await == log);
    assert!(matches!(house.runtime.retry(USER, other.run_id, None).await, Err(RetryError::Active)));
    assert!(matches!(house.runtime.retry(USER, RunId::from_bits(3), None).await, Err(RetryError::NoSuchRun)));
    let stranger = contract::UserId::from_bits(8);
    assert!(matches!(house.runtime.retry(stranger, first.run_id, None).await, Err(RetryError::NoSuchRun)));
}

#[tokio::test(start_paused = true)]
async fn a_fork_is_tried_again_with_the_model_that_was_chosen_for_it() {
    let house = House::new(CORPUS[1].1);
    let source = house.run(None, "a page").await;
    let fork =
        house.runtime.fork(USER, source.run_id, &contract::StepId::new("turn-1"), Some(OTHER), None).await.unwrap();
    house.end(fork.run_id).await;
    house.asked();
    let again = house.runtime.retry(USER, fork.run_id, None).await.unwrap();
    house.end(again.run_id).await;
    assert!(house.asked().iter().all(|question| question.model.name == OTHER));
    let models = |event: &Event| matches!(event, Event::Session(session) if session.model.name == OTHER);
    assert!(models(&house.log(again.run_id).await[1].event));
}

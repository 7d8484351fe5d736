//! The app playbook as tables: events in, decisions out (E13, E14, E16, N2). No async, no I/O.
//!
//! Each row feeds one event and compares what follows, written as one line: events by name, effects behind `>`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::VecDeque;

use contract::event::*;
use contract::{CallId, ChatId, Limits, MessageId, ProjectId, ProjectPath, StepId, VersionId};
use engine::{Effect, RunState, step};

struct Play {
    limits: Limits,
    state: RunState,
    now: u64,
    log: Vec<NewEvent>,
}

impl Play {
    /// A run that was admitted.
    fn admitted(request: &str) -> Self {
        let mut play = Self { limits: Limits::default(), state: RunState::default(), now: 1_000, log: vec![] };
        play.feed(None, RunQueued { position: 0, parent: None });
        play.feed(
            None,
            Session {
                chat_id: ChatId::from_bits(1),
                project_id: ProjectId::from_bits(2),
                user_message_id: MessageId::from_bits(3),
                assistant_message_id: MessageId::from_bits(4),
                is_new_chat: true,
                request: request.into(),
                intent: Intent::Generate,
                follow_up: false,
                template: "t".into(),
                model: ModelRef { provider: Provider::Demo, name: "demo".into() },
                work: Work::Message,
                fork: None,
            },
        );
        play
    }

    /// A run that a worker has begun.
    fn begun(request: &str) -> Self {
        let mut play = Self::admitted(request);
        play.claim(1);
        play
    }

    fn claim(&mut self, epoch: u64) -> String {
        self.feed(None, RunStarted { worker: "w".into(), epoch })
    }

    fn feed(&mut self, of: Option<(&str, u32)>, event: impl Into<Event>) -> String {
        self.now += 1;
        let mut done = vec![];
        let first = (of.map(|(s, a)| (StepId::new(s), a)), event.into());
        let mut queue = VecDeque::from([first]);
        while let Some((step_ref, event)) = queue.pop_front() {
            if self.state.ended {
                break;
            }
            let entry = NewEvent { at: self.now, step: step_ref, event };
            self.state.fold(&entry);
            let decision = step(&self.limits, &self.state, &entry);
            self.log.push(entry);
            for follows in decision.events.into_iter().rev() {
                queue.push_front(follows);
            }
            done.extend(decision.effects.iter().filter_map(effect));
        }
        // Told in the order of the log.
        let from = self.log.len() - self.log.iter().rev().take_while(|e| e.at == self.now).count();
        let said: Vec<String> = self.log[from..].iter().skip(1).filter_map(|e| name(&e.event)).collect();
        if done.is_empty() { said.join(", ") } else { format!("{} > {}", said.join(", "), done.join(", ")) }
    }

    fn write(&mut self, turn: &str, attempt: u32) {
        let path = ProjectPath::parse("src/App.tsx").unwrap();
        self.feed(Some((turn, attempt)), FileCompleted { path, bytes: 1, sha256: "x".into(), by: Author::Model });
    }

    fn text(&mut self, turn: &str, text: &str) {
        self.feed(Some((turn, 1)), TextDelta { text: text.into() });
    }

    fn end_turn(&mut self, step: &str, attempt: u32, done: bool) -> String {
        self.feed(Some((step, attempt)), TurnCompleted { turn: 1, finish: Finish::Stop, done, bytes: 1, usage: None })
    }

    fn ask(&mut self, step: &str, attempt: u32, ordinal: u32, command: &str) -> String {
        let input = ToolInput::Command { command: command.into(), args: vec![] };
        let call_id = CallId::new(format!("{step}.{attempt}.{ordinal}"));
        self.feed(Some((step, attempt)), ToolRequested { call_id, ordinal, input })
    }

    fn answer(&mut self, call: &str, status: ToolStatus) -> String {
        let step = call.split('.').next().unwrap().to_owned();
        self.feed(
            Some((&step, 1)),
            ToolFinished {
                call_id: CallId::new(call),
                status,
                exit_code: Some(0),
                output: format!("output of {call}"),
                error: None,
                duration_ms: 1,
                replayed: false,
            },
        )
    }

    fn set(&mut self, step: &str, attempt: u32, state: StepStatus, reason: Option<&str>) -> String {
        let reason = reason.map(str::to_owned);
        self.feed(Some((step, attempt)), StepState { id: StepId::new(step), state, attempt, reason, output: None })
    }

    fn build_fails(&mut self, build: &str) -> String {
        let error = BuildError { code: "build_failed".into(), message: "no".into(), log_tail: "line 3".into() };
        let status = BuildStatus {
            status: BuildState::Failed,
            build_id: build.into(),
            duration_ms: None,
            error: Some(error),
            output: None,
        };
        self.feed(Some((build, 1)), status);
        self.set(build, 1, StepStatus::Failed, Some("no"))
    }

    fn builds(&mut self, build: &str) -> String {
        let (status, build_id, output) = (BuildState::Succeeded, format!("{build}.1"), Some("hash".into()));
        self.feed(Some((build, 1)), BuildStatus { status, build_id, duration_ms: Some(1), error: None, output })
    }

    fn shows(&mut self, revision: &str) -> String {
        let (url, host, kind) = (String::new(), String::new(), PreviewKind::Instant);
        self.feed(None, PreviewUrl { url, host, kind, version: None, revision: Some(revision.into()) })
    }

    fn error(&mut self, step: &str, attempt: u32, retryable: bool) -> String {
        let (code, message, action) = ("model_unreachable".into(), "it broke".into(), "wait".into());
        self.feed(Some((step, attempt)), Error { code, message, retryable, action, retry_after_ms: Some(2_000) })
    }
}

fn name(event: &Event) -> Option<String> {
    Some(match event {
        Event::StepAdded(added) => format!("+{}", added.id),
        Event::StepState(s) => {
            format!("{}#{} {}", s.id, s.attempt, serde_json::to_value(s.state).unwrap().as_str().unwrap())
        }
        Event::StepRetry(retry) => format!("retry {}#{}", retry.id, retry.attempt),
        Event::RunCompleted(done) => {
            format!("completed {}", serde_json::to_value(done.stop_reason).unwrap().as_str().unwrap())
        }
        Event::RunFailed(failed) => format!("failed {}", failed.code),
        Event::ToolFinished(f) => {
            let status = serde_json::to_value(f.status).unwrap();
            format!("{} {}{}", f.call_id, status.as_str().unwrap(), if f.replayed { " replayed" } else { "" })
        }
        Event::Budget(budget) => format!("limit {}", budget.limit),
        Event::RunCancelled(_) => "cancelled".into(),
        Event::PhaseChange(_) | Event::TurnStarted(_) | Event::ToolStarted(_) => return None,
        other => other.kind().into(),
    })
}

fn effect(effect: &Effect) -> Option<String> {
    Some(match effect {
        Effect::StartStep { step, attempt, .. } => format!("start {step}#{attempt}"),
        Effect::StopTurn { step } => format!("enough {step}"),
        Effect::PerformTool { call_id, .. } => format!("perform {call_id}"),
        Effect::SetTimer { token, .. } if token == "wall" => return None,
        Effect::SetTimer { token, .. } => format!("timer {token}"),
        Effect::StopAll => "stop all".into(),
    })
}

#[test]
fn a_sentence_becomes_a_version() {
    let mut play = Play::admitted("a list");
    assert_eq!(play.claim(1), "+turn-1, turn-1#1 running > start turn-1#1");
    play.write("turn-1", 1);
    assert_eq!(play.end_turn("turn-1", 1, true), "turn-1#1 completed, +check-1, check-1#1 running > start check-1#1");
    assert_eq!(play.set("check-1", 1, StepStatus::Completed, None), "+build-1, build-1#1 running > start build-1#1");
    assert_eq!(
        play.set("build-1", 1, StepStatus::Completed, None),
        "+publish-1, publish-1#1 running > start publish-1#1"
    );
    assert_eq!(play.set("publish-1", 1, StepStatus::Completed, None), "completed done");
    assert!(play.state.ended);
}

#[test]
fn a_build_that_fails_is_mended_and_then_told_honestly() {
    let mut play = Play::begun("a list");
    for round in 1..=3 {
        play.write(&format!("turn-{round}"), 1);
        play.end_turn(&format!("turn-{round}"), 1, true);
        play.set(&format!("check-{round}"), 1, StepStatus::Completed, None);
        let next = round + 1;
        // The same error after two repairs: another approach is asked for (N6).
        let again = if round == 3 { "loop_broken, " } else { "" };
        let want = format!("{again}+turn-{next}, turn-{next}#1 running > start turn-{next}#1");
        assert_eq!(play.build_fails(&format!("build-{round}")), want);
        let mended = &play.state.turns.last().unwrap().cause;
        assert!(matches!(mended, engine::state::Cause::Mend(why) if why.contains("line 3")), "{mended:?}");
    }
    play.write("turn-4", 1);
    play.end_turn("turn-4", 1, true);
    play.set("check-4", 1, StepStatus::Completed, None);
    assert_eq!(
        play.build_fails("build-4"),
        "failed build_failed",
        "three repairs are the most, and a failure is no success"
    );
}

/// N7, E20: a page that a browser sees blank is mended rather than published, as long as there are rounds; a browser's word alone
/// keeps nothing back for ever.
#[test]
fn an_app_that_shows_nothing_is_mended_before_it_is_published() {
    let mut play = Play::begun("a list");
    let blank = |play: &mut Play, code: &str, revision: &str| {
        let (message, revision) = ("ReferenceError: x is not defined".into(), Some(revision.to_owned()));
        play.feed(None, PreviewProblem { code: code.into(), message, place: None, revision });
    };
    for round in 1..=3 {
        let [turn, revision] = [format!("turn-{round}"), format!("r{round}")];
        play.write(&turn, 1);
        play.shows(&revision);
        play.end_turn(&turn, 1, true);
        play.set(&format!("check-{}", 2 * round - 1), 1, StepStatus::Completed, None);
        blank(&mut play, "blank_page", "another page");
        blank(&mut play, "exception", &revision);
        assert_eq!(
            play.state.shows_nothing(),
            None,
            "neither an old page nor an exception that leaves something there"
        );
        blank(&mut play, "blank_page", &revision);
        let check = format!("check-{}", 2 * round);
        let want = format!("+{check}, {check}#1 running > start {check}#1");
        play.builds(&format!("build-{round}"));
        assert_eq!(play.set(&format!("build-{round}"), 1, StepStatus::Completed, None), want);
        let why = play.state.shows_nothing().map(str::to_owned);
        assert!(why.as_ref().is_some_and(|why| why.contains("x is not defined")), "{why:?}");
        let next = format!("turn-{}", round + 1);
        let again = if round == 3 { "loop_broken, " } else { "" };
        let want = format!("{again}+{next}, {next}#1 running > start {next}#1");
        assert_eq!(play.set(&check, 1, StepStatus::Failed, why.as_deref()), want);
        assert!(!play.state.is_to_be_mended(), "it is told once");
    }
    play.write("turn-4", 1);
    play.shows("r4");
    play.end_turn("turn-4", 1, true);
    play.set("check-7", 1, StepStatus::Completed, None);
    blank(&mut play, "blank_page", "r4");
    let want = "+publish-1, publish-1#1 running > start publish-1#1";
    assert_eq!(play.set("build-4", 1, StepStatus::Completed, None), want, "the rounds are used up, and it builds");
}

/// E20: a model that finds nothing to mend does not lose the build; and a file that the page does not show changes nothing.
#[test]
fn a_build_that_a_browser_called_blank_is_published_after_all_if_nothing_is_mended() {
    let mut play = Play::begun("a list");
    play.write("turn-1", 1);
    play.shows("r1");
    let (message, revision) = ("nothing there".into(), Some("r1".to_owned()));
    play.feed(None, PreviewProblem { code: "blank_page".into(), message, place: None, revision });
    play.write("turn-1", 1);
    assert_eq!(play.state.shows_nothing(), None, "the files have changed");
    play.shows("r1");
    assert_eq!(play.state.shows_nothing(), Some("nothing there"), "the page has not");
    play.end_turn("turn-1", 1, true);
    play.set("check-1", 1, StepStatus::Failed, Some("nothing there"));
    assert_eq!(play.end_turn("turn-2", 1, true), "turn-2#1 completed, +check-2, check-2#1 running > start check-2#1");
    play.set("check-2", 1, StepStatus::Completed, None);
    play.builds("build-1");
    let want = "+publish-1, publish-1#1 running > start publish-1#1";
    assert_eq!(play.set("build-1", 1, StepStatus::Completed, None), want);
    play.feed(
        None,
        VersionCreated { version: VersionId::from_bits(1), parent: None, summary: String::new(), files: 1 },
    );
    play.set("publish-1", 1, StepStatus::Completed, None);
    let Some(Event::RunCompleted(end)) = play.log.last().map(|entry| &entry.event) else { panic!("it ends") };
    assert!(end.result.contains("saw nothing"), "and says what is true: {}", end.result);
}

#[test]
fn results_are_shown_before_anything_is_built() {
    let mut play = Play::begun("a list");
    play.write("turn-1", 1);
    assert_eq!(play.ask("turn-1", 1, 1, "ls"), " > perform turn-1.1.1");
    assert_eq!(play.ask("turn-1", 1, 2, "ls"), "", "calls of a turn are a queue");
    assert_eq!(play.end_turn("turn-1", 1, false), "", "a turn is open as long as its calls are");
    assert_eq!(
        play.answer("turn-1.1.1", ToolStatus::Succeeded),
        " > perform turn-1.1.2",
        "twice on purpose runs twice"
    );
    assert_eq!(
        play.answer("turn-1.1.2", ToolStatus::Failed),
        "turn-1#1 completed, +turn-2, turn-2#1 running > start turn-2#1"
    );
}

#[test]
fn words_are_an_answer_to_a_question_and_otherwise_deserve_one_nudge() {
    let mut play = Play::begun("what is React?");
    play.text("turn-1", "A library.");
    assert_eq!(play.end_turn("turn-1", 1, false), "turn-1#1 completed, completed done");

    let mut play = Play::begun("build it");
    play.text("turn-1", "Sure, I will.");
    assert_eq!(play.end_turn("turn-1", 1, false), "turn-1#1 completed, +turn-2, turn-2#1 running > start turn-2#1");
    assert_eq!(play.state.turns.last().unwrap().cause, engine::state::Cause::Nudge);
    play.text("turn-2", "I am on it.");
    assert_eq!(play.end_turn("turn-2", 1, false), "turn-2#1 completed, completed no_tool_results");
}

#[test]
fn limits_are_told_as_those_limits() {
    let mut play = Play::begun("a list");
    for n in 1..=12 {
        play.ask("turn-1", 1, n, &format!("c{n}"));
    }
    assert_eq!(play.ask("turn-1", 1, 13, "c13"), "turn-1.1.13 refused, limit tools_per_turn > enough turn-1");
    play.end_turn("turn-1", 1, false);
    for n in 1..=11 {
        play.answer(&format!("turn-1.1.{n}"), ToolStatus::Succeeded);
    }
    assert_eq!(
        play.answer("turn-1.1.12", ToolStatus::Succeeded),
        "turn-1#1 completed, completed turn_tool_budget_exceeded"
    );

    let mut play = Play::begun("a list");
    play.limits.turns_per_run = 1;
    play.write("turn-1", 1);
    play.ask("turn-1", 1, 1, "ls");
    play.answer("turn-1.1.1", ToolStatus::Succeeded);
    let built = play.end_turn("turn-1", 1, false);
    assert_eq!(built, "turn-1#1 completed, limit turns_per_run, +check-1, check-1#1 running > start check-1#1");
    play.set("check-1", 1, StepStatus::Completed, None);
    assert_eq!(
        play.build_fails("build-1"),
        "completed max_turns_reached",
        "what was written is built, and the limit is told"
    );
}

/// Going round in circles: first another approach is asked for, then the run stops and says what it took (contracts.md § 3).
#[test]
fn going_round_in_circles_changes_the_approach_once_and_then_stops_the_run() {
    let mut play = Play::begun("a list");
    let same = |turn: u32, n: u32| ToolFinished {
        call_id: CallId::new(format!("turn-{turn}.1.{n}")),
        status: ToolStatus::Failed,
        exit_code: Some(1),
        output: "no".into(),
        error: None,
        duration_ms: n.into(),
        replayed: false,
    };
    let circle = |play: &mut Play, turn: u32| {
        let step = format!("turn-{turn}");
        for n in 1..=3 {
            play.ask(&step, 1, n, "ls");
        }
        play.feed(Some((&step, 1)), same(turn, 1));
        play.feed(Some((&step, 1)), same(turn, 2));
        play.feed(Some((&step, 1)), same(turn, 3))
    };
    assert_eq!(circle(&mut play, 1), "loop_broken > enough turn-1");
    let next = play.end_turn("turn-1", 1, false);
    assert_eq!(next, "turn-1#1 completed, +turn-2, turn-2#1 running > start turn-2#1");
    let cause = &play.state.turns.last().unwrap().cause;
    assert!(matches!(cause, engine::state::Cause::Circle(what) if what.contains("ls")), "{cause:?}");
    assert_eq!(circle(&mut play, 2), "limit loop_repeats > enough turn-2", "what came before does not count again");
    assert_eq!(play.end_turn("turn-2", 1, false), "turn-2#1 completed, completed loop_detected");
}

/// What is left out of the prompt is what went round, whatever else the turn asked for meanwhile.
#[test]
fn a_circle_is_of_the_call_that_closed_it() {
    let mut play = Play::begun("a list");
    for (n, command) in (1..).zip(["ls", "ls", "ls", "pwd"]) {
        play.ask("turn-1", 1, n, command);
    }
    for n in 1..=3 {
        let (call_id, output) = (CallId::new(format!("turn-1.1.{n}")), "the same".into());
        let (status, exit_code) = (ToolStatus::Succeeded, Some(0));
        let same = ToolFinished { call_id, status, exit_code, output, error: None, duration_ms: 1, replayed: false };
        play.feed(Some(("turn-1", 1)), same);
    }
    let looped = play.state.looped.as_ref().unwrap();
    assert_eq!((looped.first.as_str(), looped.what.trim()), ("turn-1.1.1", "ls"));
}

#[test]
fn an_error_that_may_pass_is_tried_again_and_others_are_not() {
    let mut play = Play::begun("a list");
    assert_eq!(play.error("turn-1", 1, true), "turn-1#1 retrying, retry turn-1#2 > timer retry:turn-1");
    assert!(play.state.steps[0].retry_at.unwrap() >= play.now + 2_000, "Retry-After is honoured");
    assert_eq!(play.feed(None, TimerFired { token: "retry:turn-1".into() }), "turn-1#2 running > start turn-1#2");
    assert_eq!(
        play.feed(None, TimerFired { token: "retry:turn-1".into() }),
        "",
        "a timer that fires twice does nothing"
    );
    assert_eq!(play.error("turn-1", 1, true), "", "an error of an attempt that is over says nothing");
    play.error("turn-1", 2, true);
    play.feed(None, TimerFired { token: "retry:turn-1".into() });
    assert_eq!(
        play.error("turn-1", 3, true),
        "turn-1#3 failed, failed model_unreachable",
        "three attempts are the most"
    );

    let mut play = Play::begun("a list");
    assert_eq!(play.error("turn-1", 1, false), "turn-1#1 failed, failed model_unreachable");

    // A build that cannot be made here is not the project's fault: nothing that a model could mend.
    let mut play = Play::begun("a list");
    play.write("turn-1", 1);
    play.end_turn("turn-1", 1, true);
    play.set("check-1", 1, StepStatus::Completed, None);
    assert_eq!(play.error("build-1", 1, false), "build-1#1 failed, failed model_unreachable");

    // The attempt ends when its command does: the same command must not run twice at once.
    let mut play = Play::begun("a list");
    play.ask("turn-1", 1, 1, "a");
    play.ask("turn-1", 1, 2, "b");
    assert_eq!(play.error("turn-1", 1, true), "turn-1.1.2 cancelled");
    assert_eq!(
        play.answer("turn-1.1.1", ToolStatus::Succeeded),
        "turn-1#1 retrying, retry turn-1#2 > timer retry:turn-1"
    );
}

/// A call whose end nobody saw is told as long as it is known to have run, and not the time until somebody took the run over.
#[test]
fn an_interrupted_call_ran_until_it_last_printed() {
    let mut play = Play::begun("a list");
    play.ask("turn-1", 1, 1, "a");
    play.now += 500;
    let (stream, text) = (OutputStream::Stdout, "half".to_owned());
    play.feed(Some(("turn-1", 1)), ToolOutput { call_id: CallId::new("turn-1.1.1"), stream, text });
    play.now += 60_000;
    play.claim(2);
    let told = play.log.iter().find_map(|entry| match &entry.event {
        Event::ToolFinished(finished) => Some((finished.status, finished.duration_ms, finished.output.as_str())),
        _ => None,
    });
    assert_eq!(told, Some((ToolStatus::Interrupted, 501, "half")));
}

/// E11, E15: a successor replays what is recorded, repeats what is harmless, and tells what it cannot know.
#[test]
fn a_successor_goes_on_where_the_log_ends() {
    let mut play = Play::begun("a list");
    play.ask("turn-1", 1, 1, "a");
    play.answer("turn-1.1.1", ToolStatus::Succeeded);
    play.ask("turn-1", 1, 2, "a");
    let resumed = play.claim(2);
    assert_eq!(resumed, "turn-1.1.2 interrupted, turn-1#2 running > start turn-1#2");
    assert_eq!(play.ask("turn-1", 2, 1, "a"), "turn-1.2.1 succeeded replayed");
    assert_eq!(play.ask("turn-1", 2, 2, "a"), " > perform turn-1.2.2", "the second such call has no recorded result");
    assert_eq!(play.ask("turn-1", 2, 3, "b"), "");
    play.end_turn("turn-1", 2, false);
    let mut queue = Play::begun("a list");
    queue.ask("turn-1", 1, 1, "a");
    queue.ask("turn-1", 1, 2, "b");
    let resumed = queue.claim(2);
    assert_eq!(
        resumed, "turn-1.1.2 cancelled, turn-1.1.1 interrupted, turn-1#2 running > start turn-1#2",
        "b is not begun"
    );
    // The stream is over: nothing of it runs again, and a command that was running is told as interrupted.
    assert_eq!(play.claim(3), "turn-1.2.2 interrupted > perform turn-1.2.3");

    let mut play = Play::begun("a list");
    play.write("turn-1", 1);
    play.end_turn("turn-1", 1, true);
    assert_eq!(play.claim(2), "check-1#2 running > start check-1#2");
    play.set("check-1", 2, StepStatus::Completed, None);
    assert_eq!(play.claim(3), "build_status, build-1#2 running > start build-1#2");
}

#[test]
fn a_run_that_kills_its_workers_is_given_up() {
    let mut play = Play::begun("a list");
    for epoch in 0..play.limits.step_recoveries {
        assert!(play.claim(epoch + 2).contains("running"), "epoch {epoch}");
    }
    assert_eq!(play.claim(99), "turn-1#11 failed, failed turn_failed");
}

/// E16: wherever the run is, and the end comes only when nothing is in hand.
#[test]
fn a_cancel_ends_the_run_when_nothing_of_it_is_left() {
    let cancel = || CancelRequested { by: "user".into() };
    let mut queued = Play::admitted("a list");
    assert_eq!(queued.feed(None, cancel()), "cancelled");

    let mut streaming = Play::begun("a list");
    assert_eq!(streaming.feed(None, cancel()), " > stop all");
    assert_eq!(streaming.set("turn-1", 1, StepStatus::Skipped, None), "cancelled");

    let mut running = Play::begun("a list");
    running.ask("turn-1", 1, 1, "sleep");
    running.ask("turn-1", 1, 2, "ls");
    assert_eq!(running.feed(None, cancel()), "turn-1.1.2 cancelled > stop all");
    assert_eq!(running.set("turn-1", 1, StepStatus::Skipped, None), "", "the command is still there");
    assert_eq!(running.answer("turn-1.1.1", ToolStatus::Cancelled), "cancelled");

    let mut crossed = Play::begun("a list");
    crossed.feed(None, cancel());
    assert_eq!(
        crossed.error("turn-1", 1, true),
        "turn-1#1 skipped, cancelled",
        "an error was on its way when the cancel came"
    );

    let mut waiting = Play::begun("a list");
    waiting.error("turn-1", 1, true);
    assert_eq!(waiting.feed(None, cancel()), "turn-1#1 skipped, cancelled");

    let mut died = Play::begun("a list");
    died.ask("turn-1", 1, 1, "sleep");
    died.feed(None, cancel());
    assert_eq!(
        died.claim(2),
        "turn-1.1.1 interrupted, turn-1#1 skipped, cancelled",
        "its processes died with its worker"
    );
}

#[test]
fn a_run_whose_time_is_up_says_so() {
    let mut play = Play::begun("a list");
    assert_eq!(play.feed(None, TimerFired { token: "wall".into() }), "limit run_wall_ms > stop all");
    assert_eq!(play.set("turn-1", 1, StepStatus::Skipped, None), "completed timed_out");
}

mod any_order {
    use super::*;
    use proptest::prelude::*;

    /// Events of any kind in any order, as a hostile or damaged log could hold them.
    fn events() -> impl Strategy<Value = Vec<(u8, u32, u32)>> {
        proptest::collection::vec((0u8..14, 0u32..4, 1u32..4), 0..60)
    }

    proptest! {
        /// `fold` and `step` are total, a log never grows after its end, and folding it again gives the same state.
        #[test]
        fn nothing_breaks_the_engine(script in events()) {
            let mut play = Play::admitted("a list");
            for (what, n, attempt) in script {
                let step = ["turn-1", "turn-2", "check-1", "build-1"][n as usize];
                let call = format!("{step}.{attempt}.1");
                match what {
                    0 => drop(play.claim(u64::from(attempt))),
                    1 => drop(play.end_turn(step, attempt, n % 2 == 0)),
                    2 => drop(play.ask(step, attempt, n + 1, "ls")),
                    3 => drop(play.answer(&call, ToolStatus::Succeeded)),
                    4 => drop(play.set(step, attempt, StepStatus::Completed, None)),
                    5 => drop(play.set(step, attempt, StepStatus::Failed, Some("no"))),
                    6 => drop(play.error(step, attempt, n % 2 == 0)),
                    7 => drop(play.feed(None, CancelRequested { by: "user".into() })),
                    8 => drop(play.feed(None, TimerFired { token: format!("retry:{step}") })),
                    9 => drop(play.feed(None, TimerFired { token: "wall".into() })),
                    10 => play.write(step, attempt),
                    11 => play.text(step, "words"),
                    12 => drop(play.set(step, attempt, StepStatus::Skipped, None)),
                    _ => drop(play.build_fails(step)),
                }
            }
            let mut again = RunState::default();
            play.log.iter().for_each(|entry| again.fold(entry));
            prop_assert_eq!(&again, &play.state);
            let ends = play.log.iter().filter(|e| e.event.is_terminal()).count();
            prop_assert!(ends <= 1 && (ends == 0 || play.log.last().unwrap().event.is_terminal()));
        }
    }
}

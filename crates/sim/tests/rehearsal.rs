//! The crash rehearsal (N1, E15): every run of the corpus, disturbed at its appends, ends as the undisturbed one does.
//!
//! `BATON_REHEARSAL="one_turn KillAfter(3)" cargo test -p sim --test rehearsal` replays one and prints its log.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and a replayed one shows its log"
)]
#![expect(clippy::disallowed_methods, reason = "a failing case is replayed by a variable of the environment")]

use sim::stage::{Disturbance, Report, Stage};

/// A run of the corpus: its name, its script, what is sent, and how each run is expected to end.
type Case = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const CORPUS: [Case; 7] = [
    ("answer", include_str!("../corpus/answer.yaml"), &["what is this?"], &["run_completed done"]),
    (
        "one_turn",
        include_str!("../corpus/one_turn.yaml"),
        &["a page", "make it dark"],
        &["run_completed done", "run_completed done"],
    ),
    ("mended", include_str!("../corpus/mended.yaml"), &["an app"], &["run_completed done"]),
    ("hard_luck", include_str!("../corpus/hard_luck.yaml"), &["an app"], &["run_completed done"]),
    ("never_builds", include_str!("../corpus/never_builds.yaml"), &["an app"], &["run_failed build_failed"]),
    (
        "too_many_tools",
        include_str!("../corpus/too_many_tools.yaml"),
        &["an app"],
        &["run_completed turn_tool_budget_exceeded"],
    ),
    (
        "todo",
        include_str!("../../../demo/todo.yaml"),
        &["a to-do list", "make it dark", "add a search box"],
        &["run_completed done", "run_completed done", "run_completed done"],
    ),
];

fn rehearse(case: &Case, disturbance: Disturbance) -> Report {
    let (name, script, messages, _) = case;
    let replay = format!("BATON_REHEARSAL=\"{name} {disturbance:?}\" cargo test -p sim --test rehearsal");
    let report = Stage::new(script, 42, disturbance).and_then(|stage| stage.rehearse(messages));
    let report = report.unwrap_or_else(|error| panic!("{error}\nreplay with: {replay}"));
    if std::env::var("BATON_REHEARSAL").is_ok() {
        report.log.iter().for_each(|event| println!("{event}"));
    }
    report
}

fn wanted(case: &Case, disturbance: Disturbance) -> bool {
    std::env::var("BATON_REHEARSAL").map_or(true, |only| only == format!("{} {disturbance:?}", case.0))
}

fn rehearse_everywhere(name: &str) {
    let case = CORPUS.iter().find(|c| c.0 == name).expect("a case of the corpus");
    let quiet = rehearse(case, Disturbance::None);
    assert_eq!(quiet.outcome.ends, case.3, "{name}, undisturbed");
    // The long demo conversation shows what the short ones cannot, but not at each of its hundreds of appends.
    const MOST_PLACES: usize = 60;
    for n in (1..=quiet.appends).step_by(quiet.appends.div_ceil(MOST_PLACES)) {
        for disturbance in [Disturbance::KillAfter(n), Disturbance::Refuse(n), Disturbance::LoseAnswer(n)] {
            if !wanted(case, disturbance) {
                continue;
            }
            let disturbed = rehearse(case, disturbance);
            let replay = format!("BATON_REHEARSAL=\"{name} {disturbance:?}\" cargo test -p sim --test rehearsal");
            assert_eq!(
                disturbed.outcome, quiet.outcome,
                "{disturbance:?} changed what came of it; replay with: {replay}"
            );
            let twice = ran_again(&quiet, &disturbed);
            assert!(
                twice.is_empty(),
                "{disturbance:?}: {twice:?} ran to their end and then again; replay with: {replay}"
            );
        }
    }
}

/// Commands that ran to their end more often than in the undisturbed run. A build may, since it is no keyed effect: its output
/// is a function of the files.
fn ran_again(quiet: &Report, disturbed: &Report) -> Vec<String> {
    let finished =
        |report: &Report, line: &str| report.executed.iter().filter(|e| e.line == line && e.end.is_some()).count();
    let mut lines: Vec<String> =
        disturbed.executed.iter().map(|e| e.line.clone()).filter(|l| !l.starts_with("node ")).collect();
    lines.dedup();
    lines.into_iter().filter(|line| finished(disturbed, line) > finished(quiet, line) + 1).collect()
}

macro_rules! rehearsals {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            rehearse_everywhere(stringify!($name));
        }
    )*};
}

rehearsals!(answer, one_turn, mended, hard_luck, never_builds, too_many_tools, todo);

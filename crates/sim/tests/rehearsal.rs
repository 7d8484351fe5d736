//! The crash rehearsal (N1, E15, E4, D6): every run of the corpus, disturbed at every place, ends as the undisturbed one does.
//!
//! A failing rehearsal prints the command that replays it: `scripts/sim --case NAME --plan "…"`, or `scripts/sim --seed N`.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use sim::servers;
use sim::stage::{
    CALLS, CORPUS, Case, House, InPostgres, InSqlite, Plan, Report, Strike, Trouble, Weather, judge, plan_of_seed,
    rehearse, rehearse_in,
};
use tokio::runtime::Handle;

fn case(name: &str) -> &'static Case {
    CORPUS.iter().find(|case| case.name == name).expect("a case of the corpus")
}

/// The undisturbed rehearsal, which ends as the corpus says and breaks no rule.
fn quiet(case: &Case) -> Report {
    let plan = Plan::default();
    let report = rehearse(case, &plan).unwrap_or_else(|error| panic!("{}, undisturbed: {error}", case.name));
    let expected: Vec<&str> = case.ends.iter().filter_map(|end| end.split('|').next()).collect();
    assert_eq!(report.outcome.ends, expected, "{}, undisturbed", case.name);
    let faults = judge(case, &plan, &report, &report);
    assert!(faults.is_empty(), "{}, undisturbed: {faults:#?}", case.name);
    report
}

/// What is wrong with what came of it, with the command that replays it.
fn faults(case: &Case, plan: &Plan, quiet: &Report, seen: Result<Report, String>) -> Option<String> {
    let faults = match seen {
        Ok(report) => judge(case, plan, quiet, &report),
        Err(error) => vec![error],
    };
    let replay = format!("scripts/sim --case {} --plan \"{plan}\"", case.name);
    (!faults.is_empty()).then(|| format!("{replay}\n  {}", faults.join("\n  ")))
}

/// Fails with the first few of what is wrong: one cause often shows in many places.
fn assert_none(found: &[String]) {
    const SHOWN: usize = 3;
    let shown = found.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("\n");
    assert!(found.is_empty(), "{} rehearsals went wrong; the first of them:\n{shown}", found.len());
}

/// Up to so many numbers from 1 to `count`, spread over all of them, the first and the last included.
fn spread(count: u32, most: u32) -> BTreeSet<u32> {
    match count <= most {
        true => (1..=count).collect(),
        false => (0..most).map(|n| 1 + n * (count - 1) / (most - 1).max(1)).collect(),
    }
}

/// A plan of one strike.
fn plan(call: &'static str, nth: u32, trouble: Trouble, snapshots: u64) -> Plan {
    plan_of(vec![Strike { call, nth, trouble }], snapshots)
}

/// Where another machine has to be there to take over, or to be of another mind about the time, there is one.
fn plan_of(strikes: Vec<Strike>, snapshots: u64) -> Plan {
    let two = |strike: &Strike| match strike.trouble {
        Trouble::StopBefore(_) | Trouble::StopAfter(_) | Trouble::Late(_) | Trouble::Clock(_) => true,
        Trouble::KillBefore
        | Trouble::KillAfter
        | Trouble::Fail(_)
        | Trouble::Full(_)
        | Trouble::Lose(_)
        | Trouble::Repeat
        | Trouble::Drain
        | Trouble::Cancel => false,
    };
    let machines = if strikes.iter().any(two) { 2 } else { 1 };
    Plan { machines, snapshots, strikes, ..Plan::default() }
}

/// Longer than a lease.
const LONG: u64 = 20_000;
/// What happens to appends, and with how many events between snapshots. The first happens to each of them.
const TO_APPENDS: [(Trouble, u64); 13] = [
    (Trouble::KillAfter, 500),
    (Trouble::KillBefore, 500),
    (Trouble::KillAfter, 3),
    (Trouble::Fail(1), 3),
    (Trouble::Lose(1), 500),
    (Trouble::Repeat, 3),
    (Trouble::Full(2), 500),
    (Trouble::StopBefore(LONG), 3),
    (Trouble::StopAfter(LONG), 500),
    (Trouble::Late(LONG), 3),
    (Trouble::Clock(20_000), 500),
    (Trouble::Clock(-20_000), 3),
    (Trouble::Cancel, 500),
];
/// What happens to each effect: what a run does to the world beside its log.
const TO_EFFECTS: [(Trouble, u64); 2] = [(Trouble::Fail(1), 500), (Trouble::Repeat, 3)];
const EFFECTS: [&str; 9] = ["ask", "put", "open", "write", "remove", "rename", "exec", "collect", "close"];
/// What happens to each other call.
const TO_OTHERS: [(Trouble, u64); 10] = [
    (Trouble::KillBefore, 3),
    (Trouble::KillAfter, 500),
    (Trouble::Fail(1), 500),
    (Trouble::Fail(3), 3),
    (Trouble::Lose(1), 3),
    (Trouble::Repeat, 500),
    (Trouble::StopBefore(LONG), 500),
    (Trouble::Late(LONG), 500),
    (Trouble::Clock(-20_000), 3),
    (Trouble::Drain, 3),
];
/// How much of a case is struck.
struct Most {
    /// Appends that are killed after, and appends that all the rest happens to.
    appends: (u32, u32),
    /// Calls of each effect that all the troubles of effects happen to.
    effects: u32,
    /// Places of each call, and troubles there.
    others: (u32, usize),
}
const MOST: Most = Most { appends: (u32::MAX, 8), effects: 4, others: (2, 2) };
/// The longest conversation shows what the short ones cannot, but not at each of its hundreds of calls.
const LONGEST: Most = Most { appends: (24, 3), effects: 2, others: (1, 1) };

fn disturb_everywhere(name: &str) {
    let case = case(name);
    let quiet = quiet(case);
    let mut plans = vec![];
    let most = if name == "todo" { LONGEST } else { MOST };
    for (turn, (call, count)) in quiet.calls.iter().enumerate() {
        if *call == "append" {
            let [always, rest @ ..] = &TO_APPENDS;
            plans.extend(spread(*count, most.appends.0).into_iter().map(|nth| plan(call, nth, always.0, always.1)));
            for nth in spread(*count, most.appends.1) {
                plans.extend(rest.iter().map(|(trouble, snapshots)| plan(call, nth, *trouble, *snapshots)));
            }
            continue;
        }
        if EFFECTS.contains(call) {
            for nth in spread(*count, most.effects) {
                plans.extend(TO_EFFECTS.iter().map(|(trouble, snapshots)| plan(call, nth, *trouble, *snapshots)));
            }
        }
        for (n, nth) in spread(*count, most.others.0).into_iter().enumerate() {
            // Each call meets others of the troubles, and over the corpus every call meets all of them.
            let from = (turn * 7 + n * 3 + name.len()) % TO_OTHERS.len();
            let some = TO_OTHERS.iter().cycle().skip(from).take(most.others.1);
            plans.extend(some.map(|(trouble, snapshots)| plan(call, nth, *trouble, *snapshots)));
        }
    }
    // Several at once from the beginning, whatever the bus does.
    for (machines, bus) in [(2, Weather::Calm), (2, Weather::Wild), (3, Weather::Dead), (1, Weather::Wild)] {
        plans.push(Plan { machines, bus, snapshots: 3, ..Plan::default() });
    }
    let found = plans.iter().filter_map(|plan| faults(case, plan, &quiet, rehearse(case, plan)));
    assert_none(&found.collect::<Vec<_>>());
}

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];
        mod disturbed {
            $(
                #[test]
                fn $name() {
                    super::disturb_everywhere(stringify!($name));
                }
            )*
        }
    };
}

cases!(
    answer,
    one_turn,
    mended,
    hard_luck,
    broken_off,
    never_builds,
    too_many_tools,
    seen_at_once,
    todo,
    edits,
    moves,
    collisions,
    refused_paths,
    commands,
    twice_on_purpose,
    too_slow,
    installs,
    not_set_up,
    cut_off,
    rate_limited,
    overloaded,
    tried_again,
    no_key,
    filtered,
    silent,
    garbled,
    idles,
    empty,
    all_turns,
    all_tools,
    just_enough_tools,
    too_long,
    in_circles,
    too_large,
    out_of_time,
    slips,
    blank,
    throws,
    by_hand,
    after_a_failure,
    long_talk,
    stopped_while_writing,
    stopped_while_running,
    stopped_while_building,
    queue,
    stopped_in_the_queue,
    side_by_side,
    chain,
    fan,
    diamond,
    unknown_skill,
    circle,
    child,
    child_graph,
    stopped_with_its_child,
    fork,
);

#[test]
fn every_case_of_the_corpus_is_disturbed() {
    let names: Vec<&str> = CORPUS.iter().map(|case| case.name).collect();
    assert_eq!(names, TESTED);
}

/// What seeds plan, a part of them to each test, so that they run at once.
fn seeds(part: u64) {
    const OF_A_PART: u64 = 60;
    let mut known: BTreeMap<&str, OnceCell<Report>> = BTreeMap::new();
    let mut found = vec![];
    for seed in part * OF_A_PART..(part + 1) * OF_A_PART {
        let planned = plan_of_seed(seed, None, |case| {
            Ok(known.entry(case.name).or_default().get_or_init(|| quiet(case)).calls.clone())
        });
        let (case, plan) = planned.unwrap();
        let usual = known.get(case.name).and_then(OnceCell::get).expect("planned from it");
        let wrong = faults(case, &plan, usual, rehearse(case, &plan));
        found.extend(wrong.map(|why| format!("scripts/sim --seed {seed}\n{why}")));
    }
    assert_none(&found);
}

macro_rules! seeded {
    ($($name:ident: $part:literal),*) => {
        mod seeded {
            $(
                #[test]
                fn $name() {
                    super::seeds($part);
                }
            )*
        }
    };
}

seeded!(part_0: 0, part_1: 1, part_2: 2, part_3: 3, part_4: 4, part_5: 5, part_6: 6, part_7: 7);

/// A failing seed is of use only if it fails again: the same plan gives the same rehearsal, event by event.
#[test]
fn a_rehearsal_is_the_same_every_time() {
    for (name, plan) in [
        ("mended", ""),
        ("todo", "snapshots=3 append:40=kill-after hear:100=fail*1"),
        ("side_by_side", "machines=3 bus=wild seed=9 append:9=kill-after claim:7=stop-after*20000"),
        ("queue", "machines=2 bus=dead seed=3 append:12=lose*1 put:9=late*3000"),
    ] {
        let plan: Plan = plan.parse().unwrap();
        let again: Plan = plan.to_string().parse().unwrap();
        assert_eq!(plan, again, "a plan is read as it is written");
        let [first, second] = [plan, again].map(|plan| rehearse(case(name), &plan).unwrap());
        assert_eq!(first.log, second.log, "{name}");
        assert_eq!((first.calls, first.took_ms), (second.calls, second.took_ms), "{name}");
    }
}

#[test]
fn every_trouble_is_read_as_it_is_written() {
    let troubles = TO_APPENDS.iter().chain(&TO_OTHERS).map(|(trouble, _)| *trouble);
    for (trouble, call) in troubles.zip(CALLS.into_iter().cycle()) {
        let strike = Strike { call, nth: 7, trouble };
        assert_eq!(strike.to_string().parse::<Strike>().unwrap(), strike);
    }
    for bad in ["append=fail", "append:x=fail", "jump:1=fail", "append:1=vanish", "append:1=fail*x"] {
        assert!(bad.parse::<Strike>().is_err(), "{bad}");
    }
}

/// N2: on a real store the same comes of every case, or of those in every so many. `plans` are made from the case's number in the
/// corpus and how many appends it has.
fn on_a_real_store(
    (part, parts): (usize, usize),
    plans: impl Fn(usize, u32) -> Vec<Plan>,
    house: impl Fn(&Handle) -> Box<dyn House>,
) {
    let real = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut found = vec![];
    for (n, case) in CORPUS.iter().enumerate().skip(part).step_by(parts).filter(|(_, case)| case.name != "todo") {
        let quiet = quiet(case);
        for plan in plans(n, quiet.calls.get("append").copied().unwrap_or(1)) {
            found.extend(faults(case, &plan, &quiet, rehearse_in(case, &plan, house(real.handle()))));
        }
    }
    assert_none(&found);
}

/// Undisturbed, and when the process is killed: in the first third of its appends, and in the last.
fn on_sqlite(part: usize) {
    let plans = |_, appends| {
        let kills = [
            plan("append", appends / 3 + 1, Trouble::KillAfter, 3),
            plan("append", appends * 2 / 3 + 1, Trouble::KillBefore, 3),
        ];
        std::iter::once(Plan::default()).chain(kills).collect()
    };
    on_a_real_store((part, 2), plans, |real| Box::new(InSqlite::new(real.clone()).unwrap()));
}

#[test]
fn one_half_ends_the_same_on_sqlite() {
    on_sqlite(0);
}

#[test]
fn the_other_half_ends_the_same_on_sqlite() {
    on_sqlite(1);
}

/// What happens to an append in the first third of a case, and to one in the last. An undisturbed rehearsal makes no statement that a
/// disturbed one does not make, and PostgreSQL is slow: so each case is rehearsed once, and meets one of these. Over the corpus each meets
/// every kind of statement, with a process that dies, one that is fenced by another, and answers that are lost.
const ON_POSTGRESQL: [[Trouble; 2]; 5] = [
    [Trouble::KillAfter, Trouble::KillBefore],
    [Trouble::StopAfter(LONG), Trouble::KillAfter],
    [Trouble::Lose(1), Trouble::Repeat],
    [Trouble::KillBefore, Trouble::StopBefore(LONG)],
    [Trouble::Fail(1), Trouble::Drain],
];

fn on_postgresql(part: usize) {
    let server = servers::Postgres::start();
    let plans = |n: usize, appends: u32| {
        let places = [appends / 3 + 1, appends * 2 / 3 + 1];
        let strikes = ON_POSTGRESQL[n % ON_POSTGRESQL.len()].into_iter().zip(places);
        vec![plan_of(strikes.map(|(trouble, nth)| Strike { call: "append", nth, trouble }).collect(), 3)]
    };
    on_a_real_store((part, 2), plans, |real| Box::new(InPostgres::new(server.new_database(), real.clone())));
}

#[test]
fn one_half_ends_the_same_on_postgresql() {
    on_postgresql(0);
}

#[test]
fn the_other_half_ends_the_same_on_postgresql() {
    on_postgresql(1);
}

/// N7: the page is in the log before the build is, once for each state of the files that can be shown; what is half done is not.
#[test]
fn a_page_is_shown_while_it_is_written() {
    let events: Vec<serde_json::Value> =
        quiet(case("seen_at_once")).log.iter().filter_map(|e| serde_json::from_str(e).ok()).collect();
    let story: Vec<String> = events
        .iter()
        .filter_map(|e| match e["type"].as_str()? {
            "preview_url" => Some(format!("{} page", e["kind"].as_str()?)),
            "preview_problem" => Some(format!("{} {}", e["code"].as_str()?, e["place"]["path"].as_str()?)),
            "step_state" if e["id"].as_str()?.starts_with("check") && e["state"] != "running" => {
                Some(format!("check {}", e["state"].as_str()?))
            }
            "build_status" if e["status"] != "building" => Some(format!("build {}", e["status"].as_str()?)),
            _ => None,
        })
        .collect();
    let built = ["check completed", "build succeeded", "built page"];
    let slips = ["syntax_error src/App.tsx", "missing_import src/App.tsx", "check failed"];
    let first = [&["instant page"][..], &slips, &["instant page"]].concat();
    let second = ["instant page"];
    assert_eq!(story, [&first[..], &built, &second, &built].concat());
}

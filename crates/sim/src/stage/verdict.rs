//! The verdict: is what came of a disturbed rehearsal what came of the undisturbed one, as far as the plan and the case ask for it?
//! And what a seed plans.

use std::collections::BTreeMap;

use super::case::{Case, Strict};
use super::oracle::Outcome;
use super::plan::{Plan, Strike, Trouble, Weather};
use super::world::Dice;
use super::{CORPUS, Report};

/// Attempts of a step, as the limit `step_attempts` has them.
const ATTEMPTS: u32 = 3;

/// What is wrong with a rehearsal, compared with the undisturbed one; nothing if all is well.
pub fn judge(case: &Case, plan: &Plan, quiet: &Report, seen: &Report) -> Vec<String> {
    let mut faults = seen.faults.clone();
    if plan.strikes.is_empty() {
        faults.extend(taken_for_nothing(seen));
    }
    let may_fail = plan.failures() + case.failures >= ATTEMPTS;
    let ends = &seen.outcome.ends;
    for n in 0..case.ends.len().max(ends.len()) {
        let end = ends.get(n).map_or("-", String::as_str);
        let expected = case.ends.get(n).copied().unwrap_or("no run");
        let good = expected.split('|').any(|good| good == end);
        let stopped = plan.cancels() && (end == "run_cancelled" || n > 0);
        let failed = may_fail && (end.starts_with("run_failed") || n > 0);
        if !good && !stopped && !failed {
            faults.push(format!("run {} ended as `{end}` and not as `{expected}`", n + 1));
        }
    }
    let strict = match case.strict {
        Strict::Always => true,
        Strict::UnlessTold => !seen.told,
        Strict::Ends => false,
    };
    if strict && !plan.cancels() && !seen.unrecorded && *ends == quiet.outcome.ends {
        faults.extend(differences(&quiet.outcome, &seen.outcome, seen.told));
    }
    faults
}

/// Runs that were claimed again although nothing had happened to whoever had them: a claim that is renewed is kept.
fn taken_for_nothing(seen: &Report) -> Option<String> {
    let events = seen.log.iter().filter_map(|event| serde_json::from_str::<serde_json::Value>(event).ok());
    let again = events.filter(|event| event["type"] == "run_started" && event["epoch"] != 1);
    again.map(|event| format!("a run was taken from a worker that was well: {event}")).next()
}

fn differences(quiet: &Outcome, seen: &Outcome, told: bool) -> Vec<String> {
    let mut found = vec![];
    let mut compare = |what: &str, a: &dyn std::fmt::Debug, b: &dyn std::fmt::Debug, same: bool| {
        if !same {
            found.push(format!("{what} differ:\n  undisturbed {a:?}\n  disturbed   {b:?}"));
        }
    };
    compare("files", &quiet.files, &seen.files, quiet.files == seen.files);
    compare("previews", &quiet.preview, &seen.preview, quiet.preview == seen.preview);
    let (before, after) = (said(quiet, told), said(seen, told));
    compare("messages", &before, &after, before == after);
    compare("rows", &quiet.rows, &seen.rows, quiet.rows == seen.rows);
    compare("calls", &quiet.calls, &seen.calls, told || quiet.calls == seen.calls);
    found
}

/// What was said. A turn more, to do again what was interrupted, may hold an empty line.
fn said(outcome: &Outcome, told: bool) -> Vec<Vec<String>> {
    let lines = |text: &String| match told {
        true => text.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>().join("\n"),
        false => text.clone(),
    };
    outcome.talk.iter().map(|chat| chat.iter().map(lines).collect()).collect()
}

/// Calls that are struck more often than others: what they do is what a run is made of.
const FAVOURITES: [&str; 12] =
    ["append", "append", "append", "append", "ask", "hear", "exec", "exec", "claim", "renew", "put", "put_snapshot"];

/// What a seed plans: a case of the corpus, and up to four things that go wrong at calls that the undisturbed rehearsal makes.
///
/// # Errors
/// Of the undisturbed rehearsal.
pub fn plan_of_seed(
    seed: u64,
    only: Option<&Case>,
    mut calls: impl FnMut(&'static Case) -> Result<BTreeMap<&'static str, u32>, String>,
) -> Result<(&'static Case, Plan), String> {
    let mut dice = Dice::new(seed);
    let cases: Vec<&'static Case> =
        CORPUS.iter().filter(|case| only.is_none_or(|only| only.name == case.name)).collect();
    let case = dice.one_of(&cases).ok_or("there is no such case")?;
    let calls = calls(case)?;
    let machines = dice.one_of(&[1, 1, 1, 2, 2, 2, 3]).unwrap_or(1);
    let snapshots = dice.one_of(&[500, 1, 3, 3, 10]).unwrap_or(500);
    let bus = dice.one_of(&[Weather::Calm, Weather::Calm, Weather::Wild, Weather::Wild, Weather::Dead]);
    let made: Vec<&'static str> = calls.keys().copied().collect();
    let favourites: Vec<&'static str> = FAVOURITES.into_iter().filter(|call| calls.contains_key(call)).collect();
    let mut strikes = vec![];
    for _ in 0..=dice.below(4) {
        let from = if dice.chance(60) { &favourites } else { &made };
        let Some(call) = dice.one_of(from) else { continue };
        let count = calls.get(call).copied().unwrap_or(1);
        // Some come after what the undisturbed one has: a disturbed one is longer.
        let nth = 1 + u32::try_from(dice.below(u64::from(count + count / 4 + 1))).unwrap_or(0);
        strikes.push(Strike { call, nth, trouble: trouble(&mut dice) });
    }
    Ok((case, Plan { machines, snapshots, bus: bus.unwrap_or(Weather::Calm), seed, strikes }))
}

fn trouble(dice: &mut Dice) -> Trouble {
    let times = 1 + u32::from(dice.chance(20)) + u32::from(dice.chance(10));
    let long = 1_000 + dice.below(39_000);
    match dice.below(100) {
        0..12 => Trouble::KillBefore,
        12..34 => Trouble::KillAfter,
        34..46 => Trouble::Fail(times),
        46..50 => Trouble::Full(times),
        50..60 => Trouble::Lose(times),
        60..66 => Trouble::Repeat,
        66..73 => Trouble::StopBefore(long),
        73..80 => Trouble::StopAfter(long),
        80..87 => Trouble::Late(long),
        87..93 => Trouble::Clock(if dice.chance(50) { 1 } else { -1 } * i64::try_from(long).unwrap_or(0)),
        93..97 => Trouble::Drain,
        _ => Trouble::Cancel,
    }
}

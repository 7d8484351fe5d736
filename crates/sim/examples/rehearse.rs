//! Rehearsals by hand: `scripts/sim` calls it, and `--help` says what it can do.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]
#![expect(clippy::disallowed_methods, reason = "takes its arguments, the time and the processors from the system")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use sim::stage::{CORPUS, Case, House, InMemory, InSqlite, Plan, Report, judge, plan_of_seed, rehearse, rehearse_in};

const HELP: &str = "Rehearses runs of the corpus while things go wrong, and says what came out differently.

  scripts/sim --seed N [--case NAME]      plans what N stands for, rehearses it and prints the logs
  scripts/sim --seeds N [--from M]        rehearses N seeds from M on [0] and prints those that fail, each with its command
  scripts/sim --case NAME [--plan PLAN]   rehearses one case, undisturbed or under a plan, and prints the logs
  scripts/sim --list                      names the cases

Also:
  --case NAME       with --seeds: this case alone
  --store KIND      memory [default], or sqlite: a real one in a folder of its own
  --jobs N          with --seeds: so many at once [as many as there are processors]
  --release         compiled for speed, which takes a while the first time
  --quiet           without the logs

A plan is a line of words, all of which may be left out:
  machines=2        doors and workers on one store [1]
  snapshots=3       the limit snapshot_events [500]
  bus=wild          loses, repeats, delays and reorders; bus=dead delivers nothing [calm]
  seed=7            for the dice [42]
  append:7=TROUBLE  what happens to the seventh append of all processes; other calls are those of the ports
where TROUBLE is one of
  kill-before kill-after         the process dies (kill -9) before the call, or after it and before its answer is used
  fail*2 full*1 lose*1           the call and those after it fail: nothing done; no room; done, and its answer lost
  repeat                         done twice
  stop-before*20000 stop-after*… the process is stopped (SIGSTOP) for milliseconds
  late*20000                     the call takes longer
  clock*-30000                   the machine's clock is set
  drain                          the process is asked to end (SIGTERM)
  cancel                         the person stops all runs";

#[derive(Default)]
struct Asked {
    seed: Option<u64>,
    seeds: Option<u64>,
    from: u64,
    case: Option<&'static Case>,
    plan: Option<Plan>,
    sqlite: bool,
    jobs: Option<usize>,
    quiet: bool,
    list: bool,
}

fn main() -> ExitCode {
    let asked = match read(std::env::args().skip(1)) {
        Ok(Some(asked)) => asked,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("{why}\nscripts/sim --help says what there is.");
            return ExitCode::from(2);
        }
    };
    let done = match (asked.seeds, asked.seed) {
        _ if asked.list => {
            CORPUS.iter().for_each(|case| println!("{}", case.name));
            Ok(true)
        }
        (Some(seeds), _) => many(&asked, seeds),
        (None, Some(seed)) => plan_of_seed(seed, asked.case, |case| Ok(quiet(case)?.calls))
            .and_then(|(case, plan)| one(&asked, case, &plan)),
        (None, None) => match asked.case {
            Some(case) => one(&asked, case, &asked.plan.clone().unwrap_or_default()),
            None => Err("Which one? --seed, --seeds or --case.".into()),
        },
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

fn read(mut words: impl Iterator<Item = String>) -> Result<Option<Asked>, String> {
    let mut asked = Asked::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value."));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("`{text}` is not a number."));
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--seed" => asked.seed = Some(number(value()?)?),
            "--seeds" => asked.seeds = Some(number(value()?)?),
            "--from" => asked.from = number(value()?)?,
            "--jobs" => asked.jobs = Some(usize::try_from(number(value()?)?).unwrap_or(1)),
            "--quiet" => asked.quiet = true,
            "--list" => asked.list = true,
            "--plan" => asked.plan = Some(value()?.parse()?),
            "--case" => {
                let name = value()?;
                let case = CORPUS.iter().find(|case| case.name == name);
                asked.case = Some(case.ok_or_else(|| format!("There is no case {name}; --list names them."))?);
            }
            "--store" => match value()?.as_str() {
                "memory" => asked.sqlite = false,
                "sqlite" => asked.sqlite = true,
                other => return Err(format!("There is no store {other} here.")),
            },
            other => return Err(format!("What is {other}?")),
        }
    }
    Ok(Some(asked))
}

fn quiet(case: &Case) -> Result<Report, String> {
    rehearse(case, &Plan::default()).map_err(|error| format!("{}, undisturbed: {error}", case.name))
}

fn disturbed(asked: &Asked, case: &Case, plan: &Plan) -> Result<Report, String> {
    if !asked.sqlite {
        return rehearse_in(case, plan, Box::new(InMemory::new()));
    }
    let real = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let real = real.map_err(|error| error.to_string())?;
    let house: Box<dyn House> = Box::new(InSqlite::new(real.handle().clone())?);
    rehearse_in(case, plan, house)
}

/// Rehearses one and prints everything. Gives whether all is well.
fn one(asked: &Asked, case: &Case, plan: &Plan) -> Result<bool, String> {
    eprintln!("{} under `{plan}`", case.name);
    let usual = quiet(case)?;
    let report = disturbed(asked, case, plan)?;
    if !asked.quiet {
        report.log.iter().for_each(|event| println!("{event}"));
        for ran in &report.executed {
            println!("ran {:?}: {}", ran.end, ran.line);
        }
    }
    println!("ends {:?} after {} ms; calls {:?}", report.outcome.ends, report.took_ms, report.calls);
    let faults = judge(case, plan, &usual, &report);
    faults.iter().for_each(|fault| println!("FAULT {fault}"));
    Ok(faults.is_empty())
}

/// Rehearses many and prints what is wrong. Gives whether all is well.
fn many(asked: &Asked, seeds: u64) -> Result<bool, String> {
    let began = Instant::now();
    let mut usual = BTreeMap::new();
    for case in CORPUS.iter().filter(|case| asked.case.is_none_or(|only| only.name == case.name)) {
        usual.insert(case.name, quiet(case)?);
    }
    let (next, bad) = (AtomicU64::new(0), Mutex::new(0_u64));
    let calls = |case: &Case| usual.get(case.name).map(|report| report.calls.clone()).ok_or("no such case".to_owned());
    let work = || {
        loop {
            let seed = asked.from + next.fetch_add(1, Ordering::Relaxed);
            if seed >= asked.from + seeds {
                return;
            }
            let Ok((case, plan)) = plan_of_seed(seed, asked.case, calls) else { return };
            let faults = match (disturbed(asked, case, &plan), usual.get(case.name)) {
                (Ok(report), Some(usual)) => judge(case, &plan, usual, &report),
                (Ok(_), None) => vec![],
                (Err(error), _) => vec![error],
            };
            if !faults.is_empty() {
                let mut bad = bad.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                *bad += 1;
                let only = asked.case.map(|case| format!(" --case {}", case.name)).unwrap_or_default();
                println!("scripts/sim --seed {seed}{only}   # {} under `{plan}`", case.name);
                faults.iter().for_each(|fault| println!("  {fault}"));
            }
        }
    };
    let jobs = asked.jobs.or_else(|| std::thread::available_parallelism().ok().map(Into::into)).unwrap_or(1);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    let bad = bad.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    eprintln!("{seeds} seeds in {:.1} s, {bad} of them fail", began.elapsed().as_secs_f64());
    Ok(bad == 0)
}

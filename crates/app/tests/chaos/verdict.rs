//! The end: everything is mended, everything that was accepted has to have ended, and all witnesses have to agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use adapters::store::postgres::{Postgres, PostgresOptions};
use contract::RunId;
use reqwest::StatusCode;
use serde_json::Value;

use crate::load::{Book, Kind, Run};
use crate::log::{self, Done, Told};
use crate::town::{Blow, DATABASE, PREVIEWS, Town};
use crate::view::{Seen, View};
use crate::villain;
use crate::wire::{Borne, Wire};
use crate::witness::{self, Append, bits_of};

/// How long after a blow at the database it counts as being away: until then nobody is taken for dead.
const DATABASE_IS_BACK_MS: u64 = 5_000;
/// Runs whose logs are looked at together.
const CHUNK: usize = 100;
/// How long the servers may take to show what is there.
const SHOWS: Duration = Duration::from_secs(20);
/// Everything that a run leaves when it ends, counted in rows that may not be left.
const LEFT: &str = "SELECT (SELECT count(*) FROM claims), (SELECT count(*) FROM inbox), (SELECT count(*) FROM prose),
    (SELECT coalesce(sum(active), 0) FROM users), (SELECT coalesce(sum(active), 0) FROM chats),
    (SELECT coalesce(sum(active), 0) FROM slots), (SELECT count(*) FROM runs WHERE ended_at IS NULL)";

/// How long runs took to go on elsewhere, by what had happened to their worker.
pub type Takeovers = BTreeMap<(&'static str, bool), Vec<u64>>;

/// What was found.
#[derive(Default)]
pub struct Verdict {
    pub faults: Vec<String>,
    pub events: u64,
    /// Claims after the first of a run.
    pub recoveries: u64,
    pub commands: Done,
    /// Commands of which nobody knows what they did, and that left their line in the project.
    pub half_done: u32,
    pub replayed: u32,
    pub takeovers: Takeovers,
    pub previews: u32,
    ran: usize,
    asked: u32,
    ends: BTreeMap<String, u32>,
}

/// Judges a town in which nothing is broken any more and all drivers have come to an end.
pub async fn judge(town: &Town, wire: &Wire, book: &Book, seen: &witness::Seen) -> Verdict {
    let mut verdict = Verdict { faults: book.faults.clone(), ..Verdict::default() };
    verdict.faults.extend(seen.faults.iter().cloned());
    verdict.ran = seen.commands.values().map(BTreeSet::len).sum();
    verdict.asked = seen.asked.values().sum();
    let url = town.postgres.url();
    let left = town.postgres.ask(&url, LEFT);
    if left != "0|0|0|0|0|0|0" {
        verdict.faults.push(format!("left over (claims, inbox, prose, counters of users, chats, slots, runs): {left}"));
    }
    let invariants = async {
        let store = Postgres::open(&url, &PostgresOptions::default()).await.map_err(|error| error.to_string())?;
        let faults = store.check().await.map_err(|error| error.to_string());
        store.close().await;
        faults
    };
    verdict.faults.extend(invariants.await.unwrap_or_else(|error| vec![error]));
    verdict.admissions(town, book);
    let mut lines: BTreeMap<String, Done> = BTreeMap::new();
    let mut appends: BTreeMap<u128, Vec<Append>> = BTreeMap::new();
    for runs in book.runs.chunks(CHUNK) {
        verdict.logs(town, runs, seen, &mut lines, &mut appends);
    }
    verdict.one_writer(book, &appends);
    verdict.shown(wire, book).await;
    verdict.drawn(wire, book).await;
    verdict.projects(wire, book, &lines).await;
    verdict.processes(town);
    verdict
}

fn bits(run: &Run) -> u128 {
    run.id.parse::<RunId>().unwrap().bits()
}

fn uuid(run: &Run) -> String {
    format!("'{:032x}'::uuid", bits(run))
}

impl Verdict {
    fn fault(&mut self, what: impl Into<String>) {
        self.faults.push(what.into());
    }

    /// One run for each key that was accepted, and nothing of what was refused (E1, promise 1).
    fn admissions(&mut self, town: &Town, book: &Book) {
        let ask = |sql: &str| town.postgres.ask(&town.postgres.url(), sql);
        let expected: BTreeMap<u128, &Run> = book.runs.iter().map(|run| (bits(run), run)).collect();
        let stored = ask("SELECT r.id, m.text FROM runs r JOIN messages m ON m.run_id = r.id AND m.role = 'user'");
        let stored: Vec<_> =
            stored.lines().filter_map(|line| line.split_once('|')).map(|(id, text)| (bits_of(id), text)).collect();
        for (id, text) in &stored {
            match expected.get(id) {
                Some(run) if run.kind == Kind::Hand || *text == run.request() => {}
                other => self.fault(format!("there is a run {id:032x} for `{text}`; accepted was {other:?}")),
            }
        }
        let ids: BTreeSet<u128> = stored.iter().map(|(id, _)| *id).collect();
        for lost in book.runs.iter().filter(|run| !ids.contains(&bits(run))) {
            self.fault(format!("{} was accepted and is not there", lost.id));
        }
        if stored.len() != book.runs.len() {
            self.fault(format!("{} runs for {} accepted messages", stored.len(), book.runs.len()));
        }
        let keys = ask("SELECT key FROM idempotency");
        let keys: BTreeSet<&str> = keys.lines().collect();
        for refused in book.refused.iter().filter(|key| keys.contains(key.as_str())) {
            self.fault(format!("{refused} was refused and is there"));
        }
        if keys.len() != book.runs.len() {
            self.fault(format!("{} keys for {} runs", keys.len(), book.runs.len()));
        }
    }

    /// Logs against themselves, their readers, and the witnesses.
    fn logs(
        &mut self,
        town: &Town,
        runs: &[Run],
        seen: &witness::Seen,
        lines: &mut BTreeMap<String, Done>,
        appends: &mut BTreeMap<u128, Vec<Append>>,
    ) {
        let ids: Vec<_> = runs.iter().map(uuid).collect();
        let mut logs = stored(town, runs, &ids.join(","));
        let noted = witness::appends(&town.postgres, &ids.join(","));
        let blows = town.blows.lock().unwrap().clone();
        for run in runs {
            let log = logs.remove(&run.id).unwrap_or_else(|| View::of(&run.id));
            match run.seen {
                Some((digest, last)) if digest == log.digest() && last == log.last() => {}
                Some((_, last)) => {
                    self.fault(format!("{}: readers saw {last} events and the log has other {}", run.id, log.last()));
                }
                None => self.fault(format!("{}: nobody saw it to its end", run.id)),
            }
            let told = log::read(run, &log);
            let own = noted.get(&bits(run)).map_or(&[][..], Vec::as_slice);
            self.faults.extend(log::check_appends(run, &told, &log, own));
            self.witnessed(run, &told, seen);
            takeovers(&told, own, &blows, &mut self.takeovers);
            self.events += log.last();
            self.recoveries += told.starts.len().saturating_sub(1) as u64;
            self.replayed += told.replayed;
            if let Some(end) = log.events.last() {
                *self.ends.entry(end.kind().to_owned()).or_default() += 1;
            }
            for (label, done) in &told.commands {
                self.commands.started += done.started;
                self.commands.succeeded += done.succeeded;
                self.commands.interrupted += done.interrupted;
                lines.insert(label.clone(), *done);
            }
            self.faults.extend(told.faults);
            appends.insert(bits(run), own.to_vec());
        }
    }

    /// Nothing ran and nobody was asked without that being in the log before.
    fn witnessed(&mut self, run: &Run, told: &Told, seen: &witness::Seen) {
        for (label, done) in &told.commands {
            let ran = seen.commands.get(label).map_or(0, BTreeSet::len);
            if ran > done.started as usize {
                let processes = &seen.commands[label];
                let fault = format!("the command {label} ran {ran} times, as {processes:?}, and was begun: {done:?}");
                self.fault(format!("{}: {fault}", run.id));
            }
        }
        let of_run = seen.commands.keys().filter(|label| label.split('.').next() == Some(&run.key));
        let unknown: Vec<_> = of_run.filter(|label| !told.commands.contains_key(*label)).collect();
        if !unknown.is_empty() {
            self.fault(format!("{}: {unknown:?} ran and are not in the log", run.id));
        }
        let request = run.request();
        for ((_, turn), asked) in seen.asked.range((request.clone(), 0)..=(request, u32::MAX)) {
            let begun = told.turns.get(turn).copied().unwrap_or_default();
            if *asked > begun {
                self.fault(format!(
                    "{}: the model was asked {asked} times for turn {turn}, which was begun {begun} times",
                    run.id
                ));
            }
        }
    }

    /// Of a project's runs one was worked on at a time, in the order of their admission (promise 7).
    fn one_writer(&mut self, book: &Book, appends: &BTreeMap<u128, Vec<Append>>) {
        let mut before: BTreeMap<&str, (&Run, u64)> = BTreeMap::new();
        for run in &book.runs {
            let Some(own) = appends.get(&bits(run)).filter(|own| own.len() > 1) else { continue };
            if let Some((former, end)) = before.get(run.project.as_str()).filter(|(_, end)| own[1].n < *end) {
                let what = format!("{} began at {} before {} had ended at {end}", run.id, own[1].n, former.id);
                self.fault(what);
            }
            before.insert(&run.project, (run, own.last().map_or(0, |append| append.n)));
        }
    }

    /// Both servers show every run as ended, and where its log ends.
    async fn shown(&mut self, wire: &Wire, book: &Book) {
        for server in 0..wire.servers.len() {
            for run in &book.runs {
                let path = format!("/v1/runs/{}", run.id);
                let answer = wire.once(reqwest::Method::GET, server, &path, "", &Value::Null).await;
                let Some((StatusCode::OK, view)) = answer else {
                    self.fault(format!("server {server} shows {} as {answer:?}", run.id));
                    continue;
                };
                let status = view["status"].as_str().unwrap_or_default();
                let last = run.seen.map(|(_, last)| last);
                if !matches!(status, "completed" | "cancelled") || view["last_seq"].as_u64() != last {
                    self.fault(format!("server {server} shows {}, which ends at {last:?}, as {view}", run.id));
                }
            }
        }
    }

    /// What is stored of every run is what its log comes to.
    async fn drawn(&mut self, wire: &Wire, book: &Book) {
        for run in &book.runs {
            let (status, found) = wire.get(&format!("/v1/runs/{}/verify", run.id)).await;
            if status != StatusCode::OK || found["differences"] != serde_json::json!([]) {
                self.fault(format!("{} ({}) is other than its log says: {status} {found}", run.id, run.request()));
            }
        }
    }

    /// Projects are what their runs made of them, and both servers show that.
    async fn projects(&mut self, wire: &Wire, book: &Book, lines: &BTreeMap<String, Done>) {
        let mut projects: BTreeMap<&str, (&str, String)> = BTreeMap::new();
        for run in &book.runs {
            let (_, page) = projects.entry(&run.project).or_insert((&run.chat, String::new()));
            *page = run.kind.page_after(page, &run.key);
        }
        for (project, (chat, page)) in &projects {
            let found = wire.file(project, "src/App.tsx").await;
            if found.as_ref() != Some(page) {
                self.fault(format!("{project}: its page is {found:?} and should be {page:?}"));
            }
            let ledger = wire.file(project, "ledger.txt").await.unwrap_or_default();
            self.ledger(project, book, &ledger, lines);
            let (_, detail) = wire.get(&format!("/v1/chats/{chat}")).await;
            let host = detail["preview"]["host"].as_str().unwrap_or_default().to_owned();
            if !host.ends_with(&format!(".{PREVIEWS}")) {
                self.fault(format!("{chat} has no preview: {detail}"));
            }
            for server in 0..wire.servers.len() {
                for (path, expected) in [("/app.txt", page.as_str()), ("/", "<title>Miniature</title>")] {
                    self.preview(wire, server, &host, path, expected).await;
                }
            }
        }
        for run in book.runs.iter().filter(|run| run.kind == Kind::Steps) {
            let found = wire.file(&run.project, &format!("src/{}.txt", run.key)).await;
            if found != Some(format!("made by {}", run.key)) {
                self.fault(format!("{}: src/{}.txt is {found:?}", run.id, run.key));
            }
        }
    }

    async fn preview(&mut self, wire: &Wire, server: usize, host: &str, path: &str, expected: &str) {
        self.previews += 1;
        let since = Instant::now();
        loop {
            match wire.preview(server, host, path).await {
                Some((StatusCode::OK, bytes)) => {
                    let text = String::from_utf8_lossy(&bytes);
                    if if path == "/" { !text.contains(expected) } else { text != expected } {
                        self.fault(format!("server {server} shows {host}{path} as {text:?} and not as {expected:?}"));
                    }
                    return;
                }
                other if since.elapsed() > SHOWS => {
                    let status = other.map(|(status, _)| status);
                    return self.fault(format!("server {server} shows {host}{path} as {status:?}"));
                }
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// What commands left in a project: a line for each that has succeeded, and for one that was cut off at the most one.
    fn ledger(&mut self, project: &str, book: &Book, ledger: &str, lines: &BTreeMap<String, Done>) {
        let mut counted: BTreeMap<&str, u32> = BTreeMap::new();
        for line in ledger.lines() {
            *counted.entry(line).or_default() += 1;
        }
        let keys: BTreeSet<_> = book.runs.iter().filter(|run| run.project == project).map(|run| &run.key).collect();
        let is_here = |label: &str| label.split('.').next().is_some_and(|key| keys.contains(&key.to_owned()));
        for (label, done) in lines.iter().filter(|(label, _)| is_here(label)) {
            let count = counted.remove(label.as_str()).unwrap_or_default();
            if !(done.succeeded..=done.succeeded + done.interrupted).contains(&count) {
                self.fault(format!("{project}: {label} stands {count} times in the ledger: {done:?}"));
            }
            self.half_done += count.saturating_sub(done.succeeded);
        }
        if !counted.is_empty() {
            self.fault(format!("{project}: nobody asked for {counted:?}"));
        }
    }

    /// A town that nothing has hit proves nothing: every kind of blow was dealt, runs were taken over from the dead and from the paused,
    /// commands were cut off, and the load met a limit.
    pub fn was_hurt(&mut self, dealt: &BTreeMap<villain::Blow, u32>, borne: &Borne) {
        let missed =
            villain::DECK.iter().filter(|(blow, _)| !dealt.contains_key(blow)).map(|(blow, _)| format!("{blow:?}"));
        let taken =
            ["kill -9", "SIGSTOP", "SIGTERM"].into_iter().filter(|how| !self.takeovers.keys().any(|(by, _)| by == how));
        let mut missed: Vec<String> = missed.chain(taken.map(|how| format!("a takeover after {how}"))).collect();
        for (what, times) in [
            ("an interrupted command", u64::from(self.commands.interrupted)),
            ("a stream that broke", borne.reconnects.load(Relaxed)),
            ("an answer that did not come", borne.unanswered.load(Relaxed)),
            ("a refusal at a limit", borne.limited.load(Relaxed)),
        ] {
            missed.extend((times == 0).then(|| what.to_owned()));
        }
        if !missed.is_empty() {
            self.fault(format!("nothing came of all the blows: {missed:?} is missing"));
        }
    }

    /// Nothing runs in any sandbox, and no process broke down.
    fn processes(&mut self, town: &Town) {
        let running = witness::processes_with("ledger.txt");
        if !running.is_empty() {
            self.fault(format!("commands still run: {running:?}"));
        }
        for seat in &town.seats {
            let said = std::fs::read_to_string(town.log(seat)).unwrap_or_default();
            if let Some(line) = said.lines().find(|line| line.contains("panicked at") || line.contains("broke down")) {
                self.fault(format!("{} broke down: {line}", seat.name));
            }
        }
        self.faults.extend(town.take_faults());
    }

    /// A few lines for a person.
    pub fn words(&self, book: &Book, borne: &Borne) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "  runs        {} {:?}", book.runs.len(), self.ends);
        let _ = writeln!(text, "  events      {}", self.events);
        let _ = writeln!(
            text,
            "  recoveries  {} claims after the first, {} results taken over",
            self.recoveries, self.replayed
        );
        let Done { started, succeeded, interrupted } = self.commands;
        let _ = writeln!(
            text,
            "  commands    {started} begun, {succeeded} succeeded, {interrupted} interrupted, of which {} left their line",
            self.half_done
        );
        let _ = writeln!(
            text,
            "  clients     {} events received, {} streams taken up again, {} answers missed, {} over a limit, {} sent again",
            borne.events.load(Relaxed),
            borne.reconnects.load(Relaxed),
            borne.unanswered.load(Relaxed),
            borne.limited.load(Relaxed) + book.refused.len() as u64,
            book.repeated
        );
        let _ = writeln!(text, "  previews    {} looked at", self.previews);
        let _ =
            writeln!(text, "  witnesses   {} commands seen to run, {} questions to the model", self.ran, self.asked);
        for ((how, database), times) in &self.takeovers {
            let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
            let also = if *database { ", the database away as well" } else { "" };
            let _ = writeln!(
                text,
                "  takeovers   {:>4} after {how}: median {median} ms, slowest {most} ms{also}",
                times.len()
            );
        }
        text
    }
}

/// How long runs lay still before another worker had them, from what happened to theirs; apart, when the database was away as well.
fn takeovers(told: &Told, appends: &[Append], blows: &[Blow], found: &mut Takeovers) {
    let at =
        |seq: u64| appends.iter().find(|append| (append.first..=append.last).contains(&seq)).map(|append| append.at_ms);
    for pair in told.starts.windows(2) {
        let (Some(from), Some(to)) = (at(pair[0].seq), at(pair[1].seq)) else { continue };
        let is_its = |blow: &&Blow| blow.worker == pair[0].worker && (from..=to).contains(&blow.at_ms);
        let Some(blow) = blows.iter().rev().find(is_its) else { continue };
        let about = blow.at_ms.saturating_sub(DATABASE_IS_BACK_MS)..=to;
        let database = blows.iter().any(|other| other.how == DATABASE && about.contains(&other.at_ms));
        let times = found.entry((blow.how, database)).or_default();
        times.push(to - blow.at_ms);
        times.sort_unstable();
    }
}

/// Logs as the database has them.
fn stored(town: &Town, runs: &[Run], ids: &str) -> BTreeMap<String, View> {
    let ask = format!(
        "SELECT run_id, seq, at, step_id, attempt, payload FROM events WHERE run_id IN ({ids}) ORDER BY run_id, seq"
    );
    let names: BTreeMap<u128, &str> = runs.iter().map(|run| (bits(run), run.id.as_str())).collect();
    let mut logs: BTreeMap<String, View> = BTreeMap::new();
    for line in town.postgres.ask(&town.postgres.url(), &ask).lines() {
        let [run, seq, at, step, attempt, payload] = line.splitn(6, '|').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let id = names[&bits_of(run)];
        let mut json: Value = serde_json::from_str(payload).unwrap();
        for (field, value) in [("v", "1"), ("at", at), ("attempt", attempt)] {
            if !value.is_empty() {
                json[field] = value.parse::<u64>().unwrap().into();
            }
        }
        for (field, value) in [("stream_id", id), ("run_id", id), ("step_id", step)] {
            if !value.is_empty() {
                json[field] = value.into();
            }
        }
        let log = logs.entry(id.to_owned()).or_insert_with(|| View::of(id));
        log.events.push(Seen { seq: seq.parse().unwrap(), json });
    }
    logs
}

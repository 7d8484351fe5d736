//! Taking over a run whose worker died: does a long log cost more than a short one?

use std::path::Path;
use std::time::{Duration, Instant};

use contract::RunId;
use contract::event::Work;

use super::figures::{ROUNDS, median, tell};
use super::house::{Admitted, House, Place, Site, limits, tokio};
use super::talker::{Talk, Talker};

/// Events of the logs that are compared.
const EVENTS: [u64; 2] = [1_000, 100_000];
/// How often is looked whether the log has grown.
const LOOK: Duration = Duration::from_millis(2);

/// A process dies in the middle of a run; another one opens the store, takes the run and ends it.
pub fn measure(site: &Site) {
    let mut first = None;
    for events in EVENTS {
        let origin = site.place(&format!("long-{events}"));
        let run = prepare(&origin, events);
        let (mut started, mut ended) = (vec![], vec![]);
        for round in 0..=ROUNDS {
            let place = copy(site, &origin, &format!("long-{events}-{round}"));
            let (start, end) = resume(&place, run, events);
            if round > 0 {
                started.push(start);
                ended.push(end);
            }
        }
        let (started, ended) = (median(&mut started), median(&mut ended));
        let case = format!("resume of a run with {events} events");
        tell(&format!("{case}, start → run_started"), started, "ms", &site.setting);
        tell(&format!("{case}, start → end"), ended, "ms", &site.setting);
        match first {
            None => first = Some((started, ended)),
            Some((few, end)) => {
                let case = format!("resume: {events} events to {}", EVENTS[0]);
                tell(&format!("{case}, run_started"), started / few, "times", &site.setting);
                tell(&format!("{case}, end"), ended / end, "times", &site.setting);
            }
        }
    }
}

/// Makes a run with that many events, and drops its process in the middle of it.
fn prepare(place: &Place, events: u64) -> RunId {
    let tokio = tokio();
    tokio.block_on(async {
        let model = Talker::new(Talk::Turns(events / 4), false);
        let house = House::open(place, model.clone(), limits(), Some("first")).await;
        let Admitted { user, run } = house.admit(Work::Message).await;
        model.open();
        let mut seen = 0;
        while seen < events {
            tokio::time::sleep(LOOK * 10).await;
            seen = house.runtime.ports.store.run(user, run).await.expect("an answer").expect("a run").last_seq;
        }
        // A snapshot is put beside the run.
        tokio::time::sleep(LOOK * 100).await;
        run
    })
}

/// The same again, so that every round takes over the same run.
fn copy(site: &Site, from: &Place, name: &str) -> Place {
    let Some((postgres, _)) = &site.servers else {
        let to = site.place(name);
        copy_folder(&from.folder, &to.folder);
        return to;
    };
    let (database, redis) = from.shared.clone().expect("a database");
    let (copy, desk) = (postgres.new_database(), postgres.new_database());
    postgres.ask(&desk, &format!("DROP DATABASE {}", name_of(&copy)));
    postgres.ask(&desk, &format!("CREATE DATABASE {} TEMPLATE {}", name_of(&copy), name_of(&database)));
    Place { folder: from.folder.clone(), shared: Some((copy, redis)) }
}

/// A database's name.
fn name_of(url: &str) -> &str {
    url.rsplit('/').next().and_then(|rest| rest.split('?').next()).unwrap_or_default()
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).expect("a copy")),
        }
    }
}

/// Milliseconds from opening the store to the new worker's first event, and to the end.
fn resume(place: &Place, run: RunId, events: u64) -> (f64, f64) {
    let tokio = tokio();
    tokio.block_on(async {
        let model = Talker::new(Talk::Prose(0), true);
        model.open();
        let start = Instant::now();
        let house = House::open(place, model, limits(), Some("second")).await;
        let mut ends = house.ends();
        let store = &house.runtime.ports.store;
        let mut after = events;
        let started = loop {
            let page = store.read_after(run, after, 100).await.expect("read");
            if page.iter().any(|event| event.kind == "run_started") {
                break start.elapsed().as_secs_f64() * 1e3;
            }
            after = page.last().map_or(after, |event| event.head.seq);
            tokio::time::sleep(LOOK).await;
        };
        house.ended(Admitted { user: house.user(), run }, &mut ends, Duration::ZERO).await;
        let ended = start.elapsed().as_secs_f64() * 1e3;
        house.close().await;
        (started, ended)
    })
}

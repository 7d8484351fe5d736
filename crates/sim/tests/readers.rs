//! Readers of a run's events (E21): whoever writes the log, in whatever process, and whatever becomes of wake-ups, each reader
//! sees the whole log once and in order, and all of them together cost the store little.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "readers are tasks of the test")]

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use contract::event::{FileDelta, Head, NewEvent, OutputStream, Status, TextDelta, ThinkingDelta, ToolOutput};
use contract::{CallId, Event, Limits, ProjectPath, RunId, StepId};
use futures::FutureExt as _;
use runtime::ports::bus::{Exchange, Listener};
use runtime::ports::store::{AppendError, StoredEvent};
use runtime::ports::{Bus, Store, Wake, World};
use runtime::{Frame, Runtime};
use sim::conformance::store::Clerk;
use sim::memory::{Hook, MemoryStore, Moment};
use sim::scribe::{Scribe, desk};
use sim::stage::SeededWorld;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Random worlds that the property is tried in.
const SEEDS: u64 = 150;
/// Processes that write and read.
const PROCESSES: u64 = 3;
/// Readers at once.
const READERS: u64 = 8;
/// Longer than any of it takes, by the paused clock.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// Longer than a lease of the clerk's, so that the next claim takes the run over.
const TAKEOVER_MS: u64 = 10_000;

/// Small, so that rings move on, pages end and deltas become too large to be joined.
fn limits() -> Limits {
    Limits {
        live_ring_bytes: 3_000,
        read_page: 7,
        reader_page_bytes: 2_000,
        merged_delta_bytes: 300,
        ..Limits::default()
    }
}

/// Numbers that a seed decides.
struct Dice(SeededWorld);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(SeededWorld::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1))
    }

    fn below(&self, most: u64) -> u64 {
        u64::try_from(self.0.random() >> 64).unwrap() % most
    }

    fn one_in(&self, most: u64) -> bool {
        self.below(most) == 0
    }
}

/// What carries wake-ups between processes and does it badly: a third is lost, some come twice, all come late and in any order.
#[derive(Default)]
struct Post {
    houses: Mutex<Vec<Weak<Exchange>>>,
    dice: Mutex<Option<Dice>>,
}

struct BadBus {
    post: Arc<Post>,
    own: Arc<Exchange>,
}

impl Post {
    fn bus(self: &Arc<Self>) -> BadBus {
        let own = Arc::default();
        self.houses.lock().unwrap().push(Arc::downgrade(&own));
        BadBus { post: self.clone(), own }
    }

    /// How late a wake-up comes: never, at once or some time.
    fn delays(&self) -> Vec<u64> {
        let dice = self.dice.lock().unwrap();
        let Some(dice) = dice.as_ref() else { return vec![0] };
        match dice.below(6) {
            0 | 1 => vec![],
            2 => vec![0, dice.below(3_000)],
            3 => vec![dice.below(5_000)],
            _ => vec![dice.below(40)],
        }
    }
}

impl Bus for BadBus {
    fn send(&self, wake: Wake) {
        for house in self.post.houses.lock().unwrap().iter().filter_map(Weak::upgrade) {
            for delay in self.post.delays() {
                let house = house.clone();
                tokio::spawn(async move {
                    sleep(Duration::from_millis(delay)).await;
                    house.wake(wake);
                });
            }
        }
    }

    fn listen(&self, wake: Wake) -> Listener {
        self.own.listen(wake)
    }
}

/// A few processes on one store.
struct Village {
    store: MemoryStore,
    processes: Vec<Arc<Runtime>>,
}

impl Village {
    /// With dice, wake-ups suffer.
    fn new(processes: u64, limits: &Limits, hook: Hook, dice: Option<Dice>) -> Self {
        let (store, post) = (MemoryStore::new(hook), Arc::new(Post { dice: Mutex::new(dice), ..Post::default() }));
        let process = |n| {
            let world = Arc::new(SeededWorld::new(n, 1));
            desk(Arc::new(store.clone()), Arc::new(post.bus()), world, limits.clone()).unwrap()
        };
        let processes = (0..processes).map(process).collect();
        Self { store, processes }
    }

    async fn run(&self) -> Scribe {
        let clerk = Clerk::new();
        let (_, claim) = clerk.running(&self.store).await;
        Scribe { claim, end: 2 }
    }

    async fn log(&self, run: RunId) -> Vec<StoredEvent> {
        let mut log = vec![];
        loop {
            match self.store.read_after(run, log.len() as u64, 1_000).await {
                Ok(page) if page.is_empty() => return log,
                Ok(page) => log.extend(page),
                Err(_) => {}
            }
        }
    }
}

/// A few events of one step, as they come from a turn: mostly pieces of one stream.
fn some_events(dice: &Dice) -> Vec<NewEvent> {
    let step = (StepId::new(["turn-1", "turn-2"][usize::try_from(dice.below(2)).unwrap()]), 1 + dice.below(2));
    let step = (step.0, u32::try_from(step.1).unwrap());
    let kind = dice.below(6);
    let count = 1 + dice.below(if dice.one_in(4) { 30 } else { 4 });
    let event = |n: u64| {
        let size = if dice.one_in(12) { dice.below(2_500) } else { dice.below(60) };
        let text = "é\"\n".repeat(usize::try_from(size / 4).unwrap());
        let path = |name| ProjectPath::parse(name).unwrap();
        let output = |stream| ToolOutput { call_id: CallId::new("call"), stream, text: text.clone() };
        match kind {
            _ if dice.one_in(9) => Status { message: format!("{n}") }.into(),
            0 | 1 => TextDelta { text }.into(),
            2 => ThinkingDelta { text }.into(),
            3 => FileDelta { path: path(["a", "b"][usize::from(dice.one_in(5))]), offset: n, text }.into(),
            _ => Event::from(output(if dice.one_in(5) { OutputStream::Stderr } else { OutputStream::Stdout })),
        }
    };
    (0..count).map(|n| NewEvent { at: 10 + n, step: Some(step.clone()), event: event(n) }).collect()
}

/// Writes a log from one process and another, each of which may die before anybody hears of what it appended.
async fn write(village: &Village, mut scribe: Scribe, dice: &Dice) {
    let mut now = 0;
    let mut process = 0;
    for _ in 0..20 + dice.below(30) {
        if dice.one_in(6) {
            let stale = Scribe { claim: scribe.claim, end: scribe.end };
            now += TAKEOVER_MS;
            let claims = village.store.claim("another", 1, now, 1_000).await.unwrap();
            scribe.claim = claims[0];
            fenced(&village.processes[process], stale, dice).await;
            process = usize::try_from(dice.below(PROCESSES)).unwrap();
        }
        let (desk, events) = (&village.processes[process], some_events(dice));
        match dice.one_in(8) {
            true => drop(scribe.append(desk, &events).await.unwrap()),
            false => scribe.write(desk, &events).await.unwrap(),
        }
        sleep(Duration::from_millis(if dice.one_in(5) { dice.below(2_000) } else { dice.below(30) })).await;
    }
    scribe.write(&village.processes[process], &[Scribe::last(99)]).await.unwrap();
}

/// A worker that does not know yet that another one has the run writes nothing that anybody reads.
async fn fenced(desk: &Runtime, mut stale: Scribe, dice: &Dice) {
    let refused = stale.write(desk, &some_events(dice)).await;
    assert!(matches!(refused, Err(AppendError::Fenced)), "{refused:?}");
}

/// Reads a run to its end, from a place on: leaves and comes back, elsewhere too, stands still, and does not mind errors.
async fn read(village: &Village, run: RunId, after: u64, dice: &Dice) -> Vec<Frame> {
    let mut seen: Vec<Frame> = vec![];
    loop {
        let place = seen.last().map_or(after, |last| last.seq);
        let process = &village.processes[usize::try_from(dice.below(PROCESSES)).unwrap()];
        let mut reader = process.events(run, place).within(usize::try_from(100 + dice.below(3_000)).unwrap());
        if !dice.one_in(3) {
            reader = reader.merged();
        }
        let stays = if dice.one_in(3) { u64::MAX } else { 1 + dice.below(40) };
        for _ in 0..stays {
            let next = match dice.one_in(10) {
                // Whoever asks and does not wait loses nothing.
                true => match reader.next().now_or_never() {
                    Some(next) => next,
                    None => continue,
                },
                false => reader.next().await,
            };
            match next {
                Ok(Some(frame)) => seen.push(frame),
                Ok(None) => return seen,
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
            if dice.one_in(15) {
                sleep(Duration::from_millis(dice.below(4_000))).await;
            }
        }
        drop(reader);
        sleep(Duration::from_millis(dice.below(200))).await;
    }
}

/// Checks what a reader saw against the log: all of it from its place on, once, in order. Gives how many events were joined to others.
fn check(log: &[StoredEvent], after: u64, seen: &[Frame], limits: &Limits) -> usize {
    let mut last = after;
    let mut joined = 0;
    for frame in seen {
        assert_eq!(frame.first(), last + 1, "a gap, a repeat or another order");
        let events = &log[usize::try_from(last).unwrap()..usize::try_from(frame.seq).unwrap()];
        let first = &events[0];
        let mut whole: Event = serde_json::from_slice(&first.payload).unwrap();
        for next in &events[1..] {
            assert_eq!((&next.head.step_id, next.head.attempt), (&first.head.step_id, first.head.attempt));
            let piece = serde_json::from_slice(&next.payload).unwrap();
            let most = usize::try_from(limits.merged_delta_bytes).unwrap();
            assert_eq!(whole.merge(piece, most), None, "joined what does not belong together");
        }
        joined += events.len() - 1;
        let head =
            Head { seq: frame.seq, from_seq: (events.len() > 1).then_some(first.head.seq), ..first.head.clone() };
        let payload = serde_json::to_string(&whole).unwrap();
        assert_eq!(frame.json, head.encode(&payload).into_bytes());
        assert_eq!((&*frame.kind, frame.terminal), (whole.kind(), whole.is_terminal()));
        last = frame.seq;
    }
    assert_eq!(last, log.len() as u64, "the whole log, and the end");
    joined
}

async fn world(seed: u64) -> usize {
    let dice = Dice::new(seed);
    let failing = Mutex::new(Dice::new(seed ^ 0xff));
    let hook = Hook::new(move |moment, op| {
        let fails = op.name == "read_after" && moment == Moment::Before && failing.lock().unwrap().one_in(25);
        if fails { Err("now and then".into()) } else { Ok(()) }
    });
    let limits = limits();
    let village = Arc::new(Village::new(PROCESSES, &limits, hook, Some(Dice::new(seed ^ 0xf0f0))));
    let scribe = village.run().await;
    let run = scribe.claim.run_id;
    let mut readers = JoinSet::new();
    for n in 0..READERS {
        let (village, dice, late) = (village.clone(), Dice::new(seed ^ (n << 32)), dice.below(9_000));
        readers.spawn(async move {
            sleep(Duration::from_millis(late)).await;
            let end = village.log(run).await.len() as u64;
            let after = if dice.one_in(2) { 0 } else { dice.below(end + 1) };
            (after, read(&village, run, after, &dice).await)
        });
    }
    write(&village, scribe, &dice).await;
    let seen = readers.join_all().await;
    let log = village.log(run).await;
    let joined = seen.iter().map(|(after, seen)| check(&log, *after, seen, &limits)).sum();
    for process in &village.processes {
        assert!(!process.live.is_read(run), "a ring ends with its last reader");
        let mut late = process.events(run, log.len() as u64);
        while let Err(_) | Ok(Some(_)) = late.next().await {}
    }
    joined
}

#[test]
fn every_reader_sees_the_whole_log_once_whoever_writes_it_and_whatever_becomes_of_wake_ups() {
    let joined = AtomicUsize::new(0);
    for seed in 0..SEEDS {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            tokio
                .block_on(async { tokio::time::timeout(PATIENCE, world(seed)).await })
                .expect("everyone comes to the end")
        }));
        match tried {
            Ok(count) => joined.fetch_add(count, Ordering::SeqCst),
            Err(panic) => {
                eprintln!("seed {seed}");
                std::panic::resume_unwind(panic);
            }
        };
    }
    assert!(joined.into_inner() > 1_000, "deltas are joined now and then, or this tries nothing");
}

/// Counts how often the store is asked for events.
fn counting() -> (Arc<AtomicU64>, Hook) {
    let reads = Arc::new(AtomicU64::new(0));
    let count = reads.clone();
    let hook = Hook::new(move |moment, op| {
        count.fetch_add(u64::from(op.name == "read_after" && moment == Moment::Before), Ordering::SeqCst);
        Ok(())
    });
    (reads, hook)
}

fn text(size: usize) -> NewEvent {
    NewEvent { at: 7, step: Some((StepId::new("turn-1"), 1)), event: TextDelta { text: "x".repeat(size) }.into() }
}

/// Readers that have seen everything so far, each a task that tells how many events it has seen when the run is over.
async fn at_the_end(desk: &Arc<Runtime>, scribe: &Scribe, count: usize) -> JoinSet<u64> {
    let mut readers = JoinSet::new();
    for _ in 0..count {
        let mut reader = desk.events(scribe.claim.run_id, scribe.end);
        readers.spawn(async move {
            let mut seen = 0;
            while reader.next().await.unwrap().is_some() {
                seen += 1;
            }
            seen
        });
    }
    sleep(Duration::from_millis(50)).await;
    readers
}

#[tokio::test(start_paused = true)]
async fn readers_of_a_run_that_another_process_performs_share_one_who_reads() {
    const APPENDS: u64 = 100;
    let (reads, hook) = counting();
    let village = Village::new(2, &Limits::default(), hook, None);
    let mut scribe = village.run().await;
    let [here, there] = [&village.processes[0], &village.processes[1]];
    let readers = at_the_end(there, &scribe, 200).await;
    let before = reads.load(Ordering::SeqCst);
    for _ in 0..APPENDS {
        scribe.write(here, &[text(20)]).await.unwrap();
        sleep(Duration::from_millis(20)).await;
    }
    let live = reads.load(Ordering::SeqCst) - before;
    scribe.write(here, &[Scribe::last(9)]).await.unwrap();
    assert_eq!(readers.join_all().await, [APPENDS + 1; 200]);
    // One for each wake-up, and the looks that nobody asked for.
    assert!(live <= APPENDS + APPENDS / 10, "{live} reads for {APPENDS} appends");
}

#[tokio::test(start_paused = true)]
async fn readers_of_a_run_that_is_performed_here_read_nothing() {
    const APPENDS: u64 = 100;
    let (reads, hook) = counting();
    let village = Village::new(1, &Limits::default(), hook, None);
    let mut scribe = village.run().await;
    let readers = at_the_end(&village.processes[0], &scribe, 50).await;
    let before = reads.load(Ordering::SeqCst);
    for _ in 0..APPENDS {
        scribe.write(&village.processes[0], &[text(20)]).await.unwrap();
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(reads.load(Ordering::SeqCst) - before, 0);
    scribe.write(&village.processes[0], &[Scribe::last(9)]).await.unwrap();
    assert_eq!(readers.join_all().await, [APPENDS + 1; 50]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stands_still_holds_no_more_than_its_page() {
    let limits = Limits { reader_page_bytes: 10_000, live_ring_bytes: 6_000, ..Limits::default() };
    let shut = Arc::new(AtomicBool::new(false));
    let is_shut = shut.clone();
    let hook = Hook::new(move |_, op| match op.name == "read_after" && is_shut.load(Ordering::SeqCst) {
        true => Err("shut".into()),
        false => Ok(()),
    });
    let village = Village::new(2, &limits, hook, None);
    let [here, there] = [&village.processes[0], &village.processes[1]];
    let mut scribe = village.run().await;
    let run = scribe.claim.run_id;
    for size in [10, 300, 4_000, 40_000] {
        let mut readers = [
            (there.events(run, scribe.end), 10_000),
            (there.events(run, scribe.end).merged().within(3_000), 3_000),
            // It is at the end, and takes from the ring.
            (here.events(run, scribe.end).within(3_000), 3_000),
        ];
        tokio::select! {
            _ = readers[2].0.next() => panic!("there is nothing yet"),
            () = sleep(Duration::from_millis(10)) => {}
        }
        scribe.write(here, &vec![text(size); 15]).await.unwrap();
        let mut firsts = vec![];
        for (reader, _) in &mut readers {
            firsts.push(reader.next().await.unwrap().unwrap());
        }
        // Now the ring moves on, and the store does not answer: what they still give is what they hold.
        scribe.write(here, &vec![text(size); 200]).await.unwrap();
        sleep(Duration::from_millis(10)).await;
        shut.store(true, Ordering::SeqCst);
        for ((reader, most), first) in readers.iter_mut().zip(firsts) {
            let mut held = vec![first];
            while let Ok(Some(frame)) = reader.next().await {
                held.push(frame);
            }
            let bytes: usize = held.iter().map(|frame| frame.json.len()).sum();
            assert!(bytes <= *most || held.len() == 1, "{} events with {bytes} bytes", held.len());
        }
        shut.store(false, Ordering::SeqCst);
    }
}

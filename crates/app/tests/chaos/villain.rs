//! What happens to the town: one blow after the other, in an order that the seed decides, from a deck that holds every kind.
//! What a blow has broken is mended a while later, often in the middle of the next one.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::dice::Dice;
use crate::town::{Role, Seat, Town};

/// How often is looked after what has to be mended.
const LOOK: Duration = Duration::from_millis(20);
/// How long a process may take to stop when it is told to: `shutdown_ms`, and what a busy machine adds.
const STOPS: Duration = Duration::from_secs(30);

/// A kind of blow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blow {
    KillWorker,
    KillBothWorkers,
    KillServer,
    StopWorker,
    StopServer,
    /// For longer than its leases, so that others have its runs when it goes on.
    PauseWorkerPastLease,
    PauseWorker,
    PauseServer,
    KillPostgres,
    RestartPostgres,
    /// All connections of the database break, in the middle of whatever they do.
    CutConnections,
    PausePostgres,
    FlushRedis,
    StopRedis,
    PauseRedis,
}

/// The deck: what happens often stands here often. One of each kind is dealt before any comes twice.
pub const DECK: [(Blow, usize); 15] = [
    (Blow::KillWorker, 6),
    (Blow::KillBothWorkers, 1),
    (Blow::KillServer, 3),
    (Blow::StopWorker, 3),
    (Blow::StopServer, 1),
    (Blow::PauseWorkerPastLease, 4),
    (Blow::PauseWorker, 1),
    (Blow::PauseServer, 1),
    (Blow::KillPostgres, 1),
    (Blow::RestartPostgres, 1),
    (Blow::CutConnections, 2),
    (Blow::PausePostgres, 1),
    (Blow::FlushRedis, 1),
    (Blow::StopRedis, 1),
    (Blow::PauseRedis, 1),
];

/// What has to be done later.
#[derive(Debug, Clone)]
enum Mend {
    Resume(String),
    StartPostgres,
    ResumePostgres(u32),
    StartRedis,
    ResumeRedis(u32),
    /// Ends a process that was told to stop and did not.
    MustHaveStopped(String),
}

/// The villain, who also mends.
pub struct Villain<'a> {
    town: &'a Town,
    dice: Dice,
    deck: Vec<Blow>,
    mends: Vec<(Instant, Mend)>,
    /// Blows that were dealt.
    pub dealt: BTreeMap<Blow, u32>,
}

impl<'a> Villain<'a> {
    pub fn new(town: &'a Town, seed: u64) -> Self {
        Self { town, dice: Dice::new(seed, 1), deck: vec![], mends: vec![], dealt: BTreeMap::new() }
    }

    /// Deals blows for that long, then mends everything.
    pub fn rage(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            let rest = self.dice.millis(300, 2_400);
            self.wait(rest);
            self.deal();
        }
        while self.is_broken(|mend| !self.is_done(mend)) {
            self.wait(LOOK);
        }
        self.town.seats.iter().for_each(|seat| self.town.until_ready(seat));
    }

    fn is_done(&self, mend: &Mend) -> bool {
        matches!(mend, Mend::MustHaveStopped(name) if !self.town.is_stopping(self.town.seat(name)))
    }

    /// Waits and mends.
    fn wait(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            let now = Instant::now();
            let (due, later) = std::mem::take(&mut self.mends).into_iter().partition(|(at, _)| *at <= now);
            self.mends = later;
            for (_, mend) in due {
                self.mend(&mend);
            }
            self.town.look_after();
            if Instant::now() >= until {
                return;
            }
            sleep(LOOK);
        }
    }

    fn later(&mut self, after: Duration, mend: Mend) {
        self.mends.push((Instant::now() + after, mend));
    }

    fn mend(&mut self, mend: &Mend) {
        let town = self.town;
        town.tell(mend);
        if matches!(mend, Mend::StartPostgres | Mend::ResumePostgres(_)) {
            town.database();
        }
        match mend {
            Mend::Resume(name) => town.resume(town.seat(name)),
            Mend::StartPostgres => town.postgres.start_again(),
            Mend::ResumePostgres(pid) => family(*pid).into_iter().for_each(|pid| signal(pid, Signal::CONT)),
            Mend::StartRedis => town.redis.start_again(),
            Mend::ResumeRedis(pid) => signal(*pid, Signal::CONT),
            Mend::MustHaveStopped(name) => {
                let seat = town.seat(name);
                if town.is_stopping(seat) {
                    town.fault(format!("{name} was told to stop and has not, {STOPS:?} later"));
                    town.kill(seat, Some(Duration::ZERO));
                }
            }
        }
    }

    fn is_broken(&self, what: impl Fn(&Mend) -> bool) -> bool {
        self.mends.iter().any(|(_, mend)| what(mend))
    }

    /// Deals the next blow of the deck that can be dealt now.
    fn deal(&mut self) {
        if self.deck.is_empty() {
            let mut more: Vec<_> =
                DECK.iter().flat_map(|(blow, times)| std::iter::repeat_n(*blow, times - 1)).collect();
            self.deck = DECK.iter().map(|(blow, _)| *blow).collect();
            self.dice.shuffle(&mut self.deck);
            self.dice.shuffle(&mut more);
            self.deck.extend(more);
        }
        let postgres = self.is_broken(|mend| matches!(mend, Mend::StartPostgres | Mend::ResumePostgres(_)));
        let redis = self.is_broken(|mend| matches!(mend, Mend::StartRedis | Mend::ResumeRedis(_)));
        let can = |blow: &Blow| match blow {
            Blow::KillPostgres | Blow::RestartPostgres | Blow::CutConnections | Blow::PausePostgres => !postgres,
            Blow::FlushRedis | Blow::StopRedis | Blow::PauseRedis => !redis,
            Blow::KillWorker | Blow::StopWorker | Blow::PauseWorker | Blow::PauseWorkerPastLease => {
                self.victim(Role::Worker, 0).is_some()
            }
            Blow::KillBothWorkers => true,
            Blow::KillServer | Blow::StopServer | Blow::PauseServer => self.victim(Role::Server, 0).is_some(),
        };
        let Some(at) = self.deck.iter().position(can) else { return };
        let blow = self.deck.remove(at);
        *self.dealt.entry(blow).or_default() += 1;
        self.strike(blow);
    }

    /// A process that is at work.
    fn victim(&self, role: Role, n: usize) -> Option<&'a Seat> {
        let fit = |seat: &&Seat| self.town.is_ready(seat) && !self.town.is_paused(seat) && !self.town.is_stopping(seat);
        let fit: Vec<_> = self.town.of(role).filter(fit).collect();
        fit.get(n.checked_rem(fit.len())?).copied()
    }

    fn any(&mut self, role: Role) -> Option<&'a Seat> {
        let n = usize::try_from(self.dice.below(64)).unwrap_or(0);
        self.victim(role, n)
    }

    fn strike(&mut self, blow: Blow) {
        let town = self.town;
        town.tell(blow);
        let (short, long) = (self.dice.millis(0, 600), self.dice.millis(500, 2_500));
        match blow {
            Blow::KillWorker | Blow::KillServer => {
                let role = if blow == Blow::KillWorker { Role::Worker } else { Role::Server };
                let after = if self.dice.once_in(2) { short } else { long };
                self.any(role).into_iter().for_each(|seat| town.kill(seat, Some(after)));
            }
            Blow::KillBothWorkers => {
                let workers: Vec<_> = town.of(Role::Worker).collect();
                self.mends.retain(|(_, mend)| !workers.iter().any(|seat| is_about(mend, &seat.name)));
                workers.iter().for_each(|seat| town.kill(seat, Some(short)));
            }
            Blow::StopWorker | Blow::StopServer => {
                let role = if blow == Blow::StopWorker { Role::Worker } else { Role::Server };
                if let Some(seat) = self.any(role) {
                    town.terminate(seat, true);
                    self.later(STOPS, Mend::MustHaveStopped(seat.name.clone()));
                }
            }
            Blow::PauseWorkerPastLease => {
                if let Some(seat) = self.any(Role::Worker) {
                    town.pause(seat);
                    // About when the other one looks, and takes its runs.
                    let lease = self.lease_of(seat);
                    let after = lease + self.dice.millis(0, 1_600);
                    self.later(after, Mend::Resume(seat.name.clone()));
                }
            }
            Blow::PauseWorker | Blow::PauseServer => {
                let role = if blow == Blow::PauseWorker { Role::Worker } else { Role::Server };
                if let Some(seat) = self.any(role) {
                    town.pause(seat);
                    self.later(long, Mend::Resume(seat.name.clone()));
                }
            }
            Blow::KillPostgres => {
                town.database();
                town.postgres.kill9();
                self.later(short, Mend::StartPostgres);
            }
            Blow::RestartPostgres => {
                town.database();
                town.postgres.stop();
                self.later(long, Mend::StartPostgres);
            }
            Blow::CutConnections => cut(town),
            Blow::PausePostgres => {
                town.database();
                let pid = town.postgres.pid();
                family(pid).into_iter().for_each(|pid| signal(pid, Signal::STOP));
                self.later(long, Mend::ResumePostgres(pid));
            }
            Blow::FlushRedis => town.redis.flush(),
            Blow::StopRedis => {
                town.redis.stop();
                self.later(long, Mend::StartRedis);
            }
            Blow::PauseRedis => {
                let pid = town.redis.pid();
                signal(pid, Signal::STOP);
                self.later(long, Mend::ResumeRedis(pid));
            }
        }
    }

    /// How long the leases of a worker still last, as the database says; 3 s if it does not.
    fn lease_of(&self, seat: &Seat) -> Duration {
        const USUAL: Duration = Duration::from_secs(3);
        if self.is_broken(|mend| matches!(mend, Mend::StartPostgres | Mend::ResumePostgres(_))) {
            return USUAL;
        }
        let ask = format!(
            "SELECT max(claimable_at) - (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM claims WHERE worker = '{}'",
            self.town.called(seat)
        );
        let left = self.town.postgres.try_ask(&self.town.postgres.url(), &ask);
        let left = left.and_then(|left| left.parse::<i64>().ok()).and_then(|left| u64::try_from(left).ok());
        left.map_or(USUAL, Duration::from_millis)
    }
}

fn is_about(mend: &Mend, name: &str) -> bool {
    matches!(mend, Mend::Resume(about) | Mend::MustHaveStopped(about) if about == name)
}

fn cut(town: &Town) {
    town.database();
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'baton'";
    // If the server is in the middle of its start, there is nothing to cut.
    let _ = town.postgres.try_ask(&town.postgres.url(), cut);
}

/// A process and its children.
fn family(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    std::iter::once(pid).chain(children).collect()
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // One that is gone needs none.
        let _ = kill_process(pid, signal);
    }
}

//! What stands between a process and everything outside of it: a process that is dead gets no answer, and one that is stopped gets it
//! when it goes on. All that a process does to the world passes here.

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::director::Director;
use super::plan::Trouble;
use super::world::SeededWorld;

/// What has become of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It goes on.
    Lives,
    /// It is gone, and nothing of it runs any more.
    Dead,
    /// It is stopped for so many milliseconds.
    Stopped(u64),
    /// It was asked to end, and has.
    Ended,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// What is behind it cannot be reached.
    Broken,
    /// There is no room.
    Full,
}

/// What failed calls say, so that a script can answer to it.
pub(super) const WHY: &str = "the rehearsal struck";

/// A process's way to the outside.
pub(super) struct Gate {
    pub(super) director: Arc<Director>,
    world: Arc<SeededWorld>,
    /// Where calls of a store that lives in real time are made; none for one that lives on the stage.
    real: Option<Handle>,
    fate: Mutex<Fate>,
    struck: Notify,
    open: Notify,
    /// Asks the process to end.
    pub(super) end: CancellationToken,
}

impl Gate {
    pub(super) fn new(director: Arc<Director>, world: Arc<SeededWorld>, real: Option<Handle>) -> Self {
        Self {
            director,
            world,
            real,
            fate: Mutex::new(Fate::Lives),
            struck: Notify::new(),
            open: Notify::new(),
            end: CancellationToken::new(),
        }
    }

    /// One that nothing happens at.
    pub(super) fn calm() -> Self {
        Self::new(Arc::default(), Arc::new(SeededWorld::new(0, 0)), None)
    }

    fn fate(&self) -> MutexGuard<'_, Fate> {
        self.fate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the process was struck, with how.
    pub(super) async fn struck(&self) -> Fate {
        loop {
            let struck = self.struck.notified();
            let fate = *self.fate();
            if fate != Fate::Lives {
                return fate;
            }
            struck.await;
        }
    }

    fn strike(&self, fate: Fate) {
        let mut now = self.fate();
        if *now != Fate::Dead {
            *now = fate;
        }
        drop(now);
        self.struck.notify_one();
    }

    /// A stopped process goes on.
    pub(super) fn go_on(&self) {
        *self.fate() = Fate::Lives;
        self.open.notify_waiters();
    }

    /// Passes if the process lives; waits for ever if it is dead, and if it is stopped until it goes on.
    async fn pass(&self) {
        loop {
            let open = self.open.notified();
            let fate = *self.fate();
            match fate {
                Fate::Lives | Fate::Ended => return,
                Fate::Dead => return pending().await,
                Fate::Stopped(_) => {}
            }
            open.await;
        }
    }

    /// Makes a call, and lets happen to it what the director says. It is done even if the caller does not wait for it.
    pub(super) async fn call<T, E, F>(
        &self,
        name: &'static str,
        fail: impl Fn(Failure) -> E,
        work: impl Fn() -> F,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let troubles = self.begin(name).await;
        if let Some(failure) = failure(&troubles) {
            return Err(fail(failure));
        }
        let mut answer = self.made(late(&troubles), work()).await;
        if troubles.contains(&Trouble::Repeat) {
            answer = self.made(Duration::ZERO, work()).await;
        }
        self.finish(&troubles).await;
        if is_lost(&troubles) { Err(fail(Failure::Broken)) } else { answer }
    }

    /// What happens to a call before it is made.
    pub(super) async fn begin(&self, name: &'static str) -> Vec<Trouble> {
        self.pass().await;
        let troubles = self.director.cue(name);
        for trouble in &troubles {
            match trouble {
                Trouble::KillBefore => self.strike(Fate::Dead),
                Trouble::StopBefore(ms) => self.strike(Fate::Stopped(*ms)),
                Trouble::Clock(ms) => self.world.set(*ms),
                Trouble::Drain => self.end.cancel(),
                _ => {}
            }
        }
        self.pass().await;
        troubles
    }

    /// What happens when a call is done.
    pub(super) async fn finish(&self, troubles: &[Trouble]) {
        for trouble in troubles {
            match trouble {
                Trouble::KillAfter => self.strike(Fate::Dead),
                Trouble::StopAfter(ms) => self.strike(Fate::Stopped(*ms)),
                Trouble::Cancel => self.director.stop.notify_one(),
                _ => {}
            }
        }
        self.pass().await;
    }

    /// Does it where dropping the caller does not undo it.
    #[expect(clippy::disallowed_methods, reason = "a request that is under way does not end with who waits for it")]
    async fn made<T: Send + 'static>(&self, late: Duration, work: impl Future<Output = T> + Send + 'static) -> T {
        let done = match &self.real {
            // The stage's clock stands still while a thread of its own waits for what is real.
            Some(real) => {
                let real = real.clone();
                tokio::task::spawn_blocking(move || real.block_on(work))
            }
            None => tokio::spawn(async move {
                if !late.is_zero() {
                    tokio::time::sleep(late).await;
                }
                work.await
            }),
        };
        match done.await {
            Ok(answer) => answer,
            // The process is gone, and whoever asked with it.
            Err(_gone) => pending().await,
        }
    }
}

/// How a call fails before it is made, if it does.
pub(super) fn failure(troubles: &[Trouble]) -> Option<Failure> {
    troubles.iter().find_map(|trouble| match trouble {
        Trouble::Fail(_) => Some(Failure::Broken),
        Trouble::Full(_) => Some(Failure::Full),
        _ => None,
    })
}

/// Whether a call is done and fails all the same.
pub(super) fn is_lost(troubles: &[Trouble]) -> bool {
    troubles.iter().any(|trouble| matches!(trouble, Trouble::Lose(_)))
}

/// How late a call is made.
pub(super) fn late(troubles: &[Trouble]) -> Duration {
    let late = troubles.iter().filter_map(|trouble| if let Trouble::Late(ms) = trouble { Some(*ms) } else { None });
    Duration::from_millis(late.sum())
}

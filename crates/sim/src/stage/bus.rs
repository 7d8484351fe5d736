//! A bus between the processes of a stage that loses, repeats, delays and reorders what it is given, as the plan says. It carries
//! wake-ups and no facts, so nothing but time may come of that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runtime::ports::Bus;
use runtime::ports::bus::{Exchange, Listener, Wake};

use super::plan::Weather;
use super::world::Dice;

/// How late a letter may come in wild weather, in milliseconds.
const LATEST: u64 = 4_000;
/// Letters that are on their way at once at the most; more are lost, as on any bus.
const LETTERS: usize = 1_000;

/// What is between the processes.
pub(super) struct Network(Mutex<State>);

struct State {
    weather: Weather,
    dice: Dice,
    now: u64,
    /// Of each machine's process.
    exchanges: Vec<Arc<Exchange>>,
    /// When, to which machine, what.
    letters: Vec<(u64, usize, Wake)>,
}

impl Network {
    pub(super) fn new(weather: Weather, seed: u64, machines: usize) -> Self {
        let exchanges = (0..machines).map(|_| Arc::default()).collect();
        Self(Mutex::new(State { weather, dice: Dice::new(seed), now: 0, exchanges, letters: vec![] }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new process of a machine listens here; what is on its way comes to it.
    pub(super) fn connect(self: &Arc<Self>, machine: usize) -> StageBus {
        let exchange = Arc::<Exchange>::default();
        if let Some(place) = self.state().exchanges.get_mut(machine) {
            *place = exchange.clone();
        }
        StageBus { network: self.clone(), exchange, machine }
    }

    /// Delivers what is due.
    pub(super) fn deliver(&self, now: u64) {
        let mut state = self.state();
        state.now = now;
        let (due, later) = std::mem::take(&mut state.letters).into_iter().partition(|(at, _, _)| *at <= now);
        state.letters = later;
        let due: Vec<(u64, usize, Wake)> = due;
        let woken = due.into_iter().filter_map(|(_, to, wake)| Some((state.exchanges.get(to)?.clone(), wake)));
        let woken: Vec<_> = woken.collect();
        drop(state);
        woken.into_iter().for_each(|(exchange, wake)| exchange.wake(wake));
    }

    /// When the next letter is due.
    pub(super) fn next(&self) -> Option<u64> {
        self.state().letters.iter().map(|(at, _, _)| *at).min()
    }

    fn post(&self, from: usize, wake: Wake) {
        let mut state = self.state();
        let mut at_once = None;
        for to in 0..state.exchanges.len() {
            let (mut copies, mut late) = (1, 0);
            match state.weather {
                Weather::Calm => {}
                Weather::Dead => copies = 0,
                Weather::Wild => {
                    copies = match state.dice.below(10) {
                        0..3 => 0,
                        3..5 => 2,
                        _ => 1,
                    };
                    late = if state.dice.chance(40) { state.dice.below(LATEST) } else { 0 };
                }
            }
            for _ in 0..copies {
                if to == from && late == 0 {
                    at_once = state.exchanges.get(to).cloned();
                } else if state.letters.len() < LETTERS {
                    let due = state.now + late;
                    state.letters.push((due, to, wake));
                }
            }
        }
        drop(state);
        if let Some(exchange) = at_once {
            exchange.wake(wake);
        }
    }
}

/// The bus as one process has it.
pub(super) struct StageBus {
    network: Arc<Network>,
    exchange: Arc<Exchange>,
    machine: usize,
}

impl Bus for StageBus {
    fn send(&self, wake: Wake) {
        self.network.post(self.machine, wake);
    }

    fn listen(&self, wake: Wake) -> Listener {
        self.exchange.listen(wake)
    }
}

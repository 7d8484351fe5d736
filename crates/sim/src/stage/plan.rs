//! What goes wrong in a rehearsal, written so that one line replays it.
//!
//! A plan is made by hand, by a test that goes through all places, or by a seed. It knows calls by name and number and nothing of
//! what they do.

use std::fmt;
use std::str::FromStr;

/// The calls of ports that can be struck, in the order in which they are listed.
pub const CALLS: [&str; 38] = [
    // the store
    "admit",
    "claim",
    "claim_stopped",
    "renew",
    "release",
    "append",
    "put_snapshot",
    "snapshot",
    "read_after",
    "put_inbox",
    "inbox",
    "owner",
    "run",
    "runs",
    "chats",
    "project_of",
    "chat",
    "project",
    "project_by_slug",
    "unpublished_runs",
    "versions",
    "version",
    "drawn",
    "put_session",
    "session",
    // the objects
    "put",
    "get",
    // the model: a question, and each piece of the answer
    "ask",
    "hear",
    // the sandbox
    "open",
    "write",
    "remove",
    "rename",
    "read",
    "scan",
    "exec",
    "collect",
    "close",
];

/// What can happen to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The process is killed before anything is done.
    KillBefore,
    /// The process is killed when it is done and before its answer is used.
    KillAfter,
    /// It fails and nothing is done, and so do the next calls of its kind: as many in all.
    Fail(u32),
    /// The same, for want of room.
    Full(u32),
    /// It is done and its answer is lost, so that nobody knows: as many calls in all.
    Lose(u32),
    /// It is done, its answer is lost below the port, and it is made again.
    Repeat,
    /// The process stops before it (SIGSTOP), for so many milliseconds.
    StopBefore(u64),
    /// The process stops when it is done.
    StopAfter(u64),
    /// It takes so many milliseconds more, and is done even if nobody waits for it any more.
    Late(u64),
    /// The machine's clock is set by so many milliseconds.
    Clock(i64),
    /// The process is asked to end (SIGTERM), and starts again.
    Drain,
    /// The person stops every run when it is done.
    Cancel,
}

/// A trouble and where it strikes: at the call with that name and number, counted over all processes from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strike {
    /// The call, one of [`CALLS`].
    pub call: &'static str,
    /// Which of them.
    pub nth: u32,
    /// What happens to it.
    pub trouble: Trouble,
}

/// How the bus delivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    /// Everything, at once.
    Calm,
    /// Some of it is lost, some comes twice, some late and in another order.
    Wild,
    /// Nothing.
    Dead,
}

/// All that is chosen for a rehearsal, its run of the corpus aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Machines, each with a door and a worker.
    pub machines: usize,
    /// The limit `snapshot_events`.
    pub snapshots: u64,
    /// How the bus delivers.
    pub bus: Weather,
    /// What the dice are made from.
    pub seed: u64,
    /// What goes wrong.
    pub strikes: Vec<Strike>,
}

impl Default for Plan {
    /// One machine on which nothing goes wrong.
    fn default() -> Self {
        Self { machines: 1, snapshots: 500, bus: Weather::Calm, seed: 42, strikes: vec![] }
    }
}

impl Plan {
    /// One machine on which one thing goes wrong.
    pub fn of(call: &'static str, nth: u32, trouble: Trouble) -> Self {
        Self { strikes: vec![Strike { call, nth, trouble }], ..Self::default() }
    }

    /// Whether the person stops the runs.
    pub fn cancels(&self) -> bool {
        self.strikes.iter().any(|strike| strike.trouble == Trouble::Cancel)
    }

    /// How many calls fail that may count as a failed attempt of a step.
    pub fn failures(&self) -> u32 {
        let count = |strike: &Strike| match strike.trouble {
            Trouble::Fail(n) | Trouble::Full(n) | Trouble::Lose(n) => n,
            // A model's silence is a failure too.
            Trouble::Late(_) | Trouble::StopBefore(_) | Trouble::StopAfter(_) => 1,
            _ => 0,
        };
        self.strikes.iter().map(count).sum()
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KillBefore => f.write_str("kill-before"),
            Self::KillAfter => f.write_str("kill-after"),
            Self::Fail(n) => write!(f, "fail*{n}"),
            Self::Full(n) => write!(f, "full*{n}"),
            Self::Lose(n) => write!(f, "lose*{n}"),
            Self::Repeat => f.write_str("repeat"),
            Self::StopBefore(ms) => write!(f, "stop-before*{ms}"),
            Self::StopAfter(ms) => write!(f, "stop-after*{ms}"),
            Self::Late(ms) => write!(f, "late*{ms}"),
            Self::Clock(ms) => write!(f, "clock*{ms}"),
            Self::Drain => f.write_str("drain"),
            Self::Cancel => f.write_str("cancel"),
        }
    }
}

impl FromStr for Trouble {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        fn number<T: FromStr>(digits: &str) -> Result<T, String> {
            digits.parse().map_err(|_| format!("`{digits}` is not a number"))
        }
        let (name, digits) = text.split_once('*').unwrap_or((text, "1"));
        Ok(match name {
            "kill-before" => Self::KillBefore,
            "kill-after" => Self::KillAfter,
            "fail" => Self::Fail(number(digits)?),
            "full" => Self::Full(number(digits)?),
            "lose" => Self::Lose(number(digits)?),
            "repeat" => Self::Repeat,
            "stop-before" => Self::StopBefore(number(digits)?),
            "stop-after" => Self::StopAfter(number(digits)?),
            "late" => Self::Late(number(digits)?),
            "clock" => Self::Clock(number(digits)?),
            "drain" => Self::Drain,
            "cancel" => Self::Cancel,
            other => return Err(format!("there is no trouble called `{other}`")),
        })
    }
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}={}", self.call, self.nth, self.trouble)
    }
}

impl FromStr for Strike {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').and_then(|(place, trouble)| Some((place.split_once(':')?, trouble)));
        let ((call, nth), trouble) = parts.ok_or_else(|| format!("`{text}` is not like append:7=kill-after"))?;
        let known = CALLS.into_iter().find(|known| *known == call);
        Ok(Self {
            call: known.ok_or_else(|| format!("there is no call `{call}`; there are: {}", CALLS.join(", ")))?,
            nth: nth.parse().map_err(|_| format!("`{nth}` is not a number"))?,
            trouble: trouble.parse()?,
        })
    }
}

impl fmt::Display for Plan {
    /// Without what is as usual, and in a form that [`Plan::from_str`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        let mut words = vec![];
        if self.machines != usual.machines {
            words.push(format!("machines={}", self.machines));
        }
        if self.snapshots != usual.snapshots {
            words.push(format!("snapshots={}", self.snapshots));
        }
        match self.bus {
            Weather::Calm => {}
            Weather::Wild => words.push("bus=wild".into()),
            Weather::Dead => words.push("bus=dead".into()),
        }
        if self.seed != usual.seed {
            words.push(format!("seed={}", self.seed));
        }
        words.extend(self.strikes.iter().map(ToString::to_string));
        f.write_str(&words.join(" "))
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut plan = Self::default();
        for word in text.split_whitespace() {
            let number = |digits: &str| digits.parse::<u64>().map_err(|_| format!("`{word}` has no number"));
            match word.split_once('=') {
                Some(("machines", n)) => plan.machines = number(n)?.clamp(1, 4) as usize,
                Some(("snapshots", n)) => plan.snapshots = number(n)?,
                Some(("seed", n)) => plan.seed = number(n)?,
                Some(("bus", "calm")) => plan.bus = Weather::Calm,
                Some(("bus", "wild")) => plan.bus = Weather::Wild,
                Some(("bus", "dead")) => plan.bus = Weather::Dead,
                _ => plan.strikes.push(word.parse()?),
            }
        }
        Ok(plan)
    }
}

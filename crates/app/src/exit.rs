//! How the program ends: exit codes that scripts rely on, and errors that say what to do.
//!
//! Nothing else in `app` knows a number of an exit code.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use contract::event::StopReason;

/// How a command ended. The numbers are an interface (issue 2, point 11) and never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: what was asked is done.
    Done,
    /// 1: it is not, and trying again may help or not.
    Failed,
    /// 2: it was asked in a way that cannot be understood: a flag, a setting, an id.
    Usage,
    /// 3: a limit stopped it or did not let it begin.
    Limit,
    /// 130: somebody stopped it (128 + SIGINT, as shells have it).
    Cancelled,
}

impl Exit {
    /// The number that the shell sees.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Limit => 3,
            Self::Cancelled => 130,
        }
    }

    /// How a run that stopped for this reason is told to the shell: a limit is never shown as success (E14).
    pub fn of(reason: StopReason) -> Self {
        match reason {
            StopReason::Done => Self::Done,
            StopReason::Cancelled => Self::Cancelled,
            StopReason::Failed | StopReason::NoToolResults => Self::Failed,
            StopReason::MaxTurnsReached
            | StopReason::TurnToolBudgetExceeded
            | StopReason::RunToolBudgetExceeded
            | StopReason::ContextLimitExceeded
            | StopReason::ToolPayloadBudgetExceeded
            | StopReason::ContinuationBudgetExceeded
            | StopReason::ResponseSizeExceeded
            | StopReason::CostBudgetExceeded
            | StopReason::LoopDetected
            | StopReason::TimedOut => Self::Limit,
        }
    }
}

/// An error for a person: what happened, what to do, and how the program ends.
#[derive(Debug)]
pub struct Refusal {
    /// How the program ends.
    pub exit: Exit,
    /// What happened.
    pub what: String,
    /// What the person can do.
    pub action: String,
}

impl Refusal {
    /// An error that ends the program with 1.
    pub fn failed(what: impl Into<String>, action: impl Into<String>) -> anyhow::Error {
        Self { exit: Exit::Failed, what: what.into(), action: action.into() }.into()
    }

    /// An error that ends the program with 2.
    pub fn usage(what: impl Into<String>, action: impl Into<String>) -> anyhow::Error {
        Self { exit: Exit::Usage, what: what.into(), action: action.into() }.into()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if self.action.is_empty() { Ok(()) } else { write!(f, "\n  {}", self.action) }
    }
}

impl std::error::Error for Refusal {}

/// Tells an error on standard error and turns the outcome into the process' exit code.
pub fn finish(outcome: anyhow::Result<Exit>) -> ExitCode {
    let exit = outcome.unwrap_or_else(|error| {
        if is_closed_pipe(&error) {
            // Whoever read our output has seen enough (`| head`).
            return Exit::Done;
        }
        // Nobody may be listening there either.
        let _ = writeln!(io::stderr(), "baton: {error:#}");
        error.downcast_ref::<Refusal>().map_or(Exit::Failed, |refusal| refusal.exit)
    });
    ExitCode::from(exit.code())
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_that_scripts_rely_on() {
        let table = [
            (StopReason::Done, 0),
            (StopReason::Failed, 1),
            (StopReason::NoToolResults, 1),
            (StopReason::MaxTurnsReached, 3),
            (StopReason::LoopDetected, 3),
            (StopReason::TimedOut, 3),
            (StopReason::Cancelled, 130),
        ];
        for (reason, code) in table {
            assert_eq!(Exit::of(reason).code(), code, "{reason:?}");
        }
        assert_eq!(Exit::Usage.code(), 2);
    }

    #[test]
    fn a_closed_pipe_is_no_failure_and_nothing_else_is_taken_for_one() {
        let closed = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("writing");
        assert!(is_closed_pipe(&closed));
        assert!(!is_closed_pipe(&Refusal::failed("a", "b")));
        assert!(!is_closed_pipe(&io::Error::from(io::ErrorKind::NotFound).into()));
    }
}

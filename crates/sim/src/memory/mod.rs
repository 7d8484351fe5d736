//! Stand-ins for the outside, in memory: they promise what the real adapters promise (`conformance`), and fail where they are told.

mod objects;
mod rules;
mod store;

use std::fmt;
use std::sync::Arc;

use contract::RunId;

pub use objects::MemoryObjects;
pub use store::MemoryStore;

/// One call of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    /// The method's name, such as `append`.
    pub name: &'static str,
    /// The run that it is about.
    pub run: Option<RunId>,
}

/// Where in a call a failure strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before anything was done: a failure means that nothing is.
    Before,
    /// After all was done: a failure loses the answer.
    After,
}

/// Decides which calls fail: called before and after each call, with no lock held; an error is what the caller then gets.
#[derive(Clone)]
pub struct Hook(Arc<dyn Fn(Moment, Op) -> Result<(), String> + Send + Sync>);

impl Hook {
    /// A hook that decides by a closure.
    pub fn new(decide: impl Fn(Moment, Op) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(decide))
    }

    fn ask(&self, moment: Moment, op: Op) -> Result<(), String> {
        (self.0)(moment, op)
    }
}

impl Default for Hook {
    /// Lets everything pass.
    fn default() -> Self {
        Self::new(|_, _| Ok(()))
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

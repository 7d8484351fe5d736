//! A run of the corpus: what a person does, what the model answers, and how it is expected to end.

use contract::Limits;

/// A run of the corpus, or several that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// What the scripted model says.
    pub script: &'static str,
    /// What the person does, one after the other, each when the runs of the one before have ended.
    pub acts: &'static [Act],
    /// How each run ends, in the order in which they were accepted: the terminal event and why. After `|` stands what is as good if
    /// something went wrong on the way; `-` means that there is no such run.
    pub ends: &'static [&'static str],
    /// How the limits differ from the usual ones.
    pub limits: fn(&mut Limits),
    /// What is compared with the undisturbed run beyond the ends.
    pub strict: Strict,
    /// Failed attempts of one step that the script itself brings about.
    pub failures: u32,
}

/// How much of what comes of a case depends on nothing but the case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strict {
    /// All of it: what is told as interrupted or failed, the script does again.
    Always,
    /// All of it, unless a call was told as interrupted or failed: the script goes on without.
    UnlessTold,
    /// The ends alone: the person acts while the run goes on, and what comes of it depends on who is faster.
    Ends,
}

/// Something that a person does.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    /// Sends messages, all at once.
    Say(&'static [Message]),
    /// Changes files by hand: path and text, or none to delete it.
    Change(&'static [(&'static str, Option<&'static str>)]),
    /// Makes the files what they were in the n-th version of the project, from 0.
    Restore(usize),
    /// Asks for the run that was accepted as the n-th, from 0, once more.
    Retry(usize),
    /// Starts a graph: step, skill, and the steps that it depends on.
    Graph(&'static [(&'static str, &'static str, &'static [&'static str])]),
    /// Forks the run that was accepted as the n-th, from 0, at a step.
    Fork(usize, &'static str),
}

/// A message, and what the person does while its run goes on.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    /// What it says.
    pub text: &'static str,
    /// Whether it begins a chat, and is not sent to the latest one.
    pub new_chat: bool,
    /// What is done when something is seen.
    pub during: &'static [During],
}

/// What is done once an event of that kind was seen that holds these words.
#[derive(Debug, Clone, Copy)]
pub struct During {
    /// The event's type.
    pub kind: &'static str,
    /// Words in its JSON.
    pub holds: &'static str,
    /// What is done.
    pub deed: Deed,
}

/// What is done while a run goes on.
#[derive(Debug, Clone, Copy)]
pub enum Deed {
    /// Stops the run.
    Stop,
    /// Stops the run of the n-th message of the same act, from 0.
    StopOther(usize),
    /// Says, as a browser does, that the page that the event names shows nothing.
    Blank(&'static str),
    /// Says that the page threw something.
    Exception(&'static str),
    /// Starts a run from this one, in a chat of its own.
    Start(&'static str),
    /// Starts a graph from this run, in the same chat.
    StartGraph(&'static [(&'static str, &'static str, &'static [&'static str])]),
}

/// The limits as they are.
fn usual(_: &mut Limits) {}

impl Case {
    /// A case that says one thing after the other and is the same whatever goes wrong.
    pub const fn new(
        name: &'static str,
        script: &'static str,
        acts: &'static [Act],
        ends: &'static [&'static str],
    ) -> Self {
        Self { name, script, acts, ends, limits: usual, strict: Strict::Always, failures: 0 }
    }

    /// The same under other limits.
    #[must_use]
    pub const fn under(self, limits: fn(&mut Limits)) -> Self {
        Self { limits, ..self }
    }

    /// The same, compared less.
    #[must_use]
    pub const fn strict(self, strict: Strict) -> Self {
        Self { strict, ..self }
    }

    /// The same, whose script makes a step fail so often by itself.
    #[must_use]
    pub const fn failing(self, failures: u32) -> Self {
        Self { failures, ..self }
    }
}

impl Message {
    /// A message in the latest chat, or in a new one if there is none.
    pub const fn new(text: &'static str) -> Self {
        Self { text, new_chat: false, during: &[] }
    }

    /// The same, in a chat of its own.
    #[must_use]
    pub const fn apart(self) -> Self {
        Self { new_chat: true, ..self }
    }

    /// The same, during which something is done.
    #[must_use]
    pub const fn during(self, during: &'static [During]) -> Self {
        Self { during, ..self }
    }
}

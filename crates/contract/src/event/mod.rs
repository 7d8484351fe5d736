//! Events: the one thing that Baton stores about a run. One file per family; the envelope is added when an event is encoded.
//!
//! Stored is the payload alone (`Event` as JSON). `encode` joins it to its envelope as text, so that readers cost no
//! serialising. Nothing here decides what an event means: that is the engine's.

mod files;
mod graph;
mod meters;
mod output;
mod run;
mod session;
mod tools;
mod trouble;
mod turn;

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use files::*;
pub use graph::*;
pub use meters::*;
pub use output::*;
pub use run::*;
pub use session::*;
pub use tools::*;
pub use trouble::*;
pub use turn::*;

use crate::id::{RunId, StepId, StreamId};

/// Version of the envelope and of the payloads, raised when a reader must know the difference.
pub const EVENT_VERSION: u16 = 1;

macro_rules! events {
    ($($(#[$doc:meta])* $variant:ident = $name:tt,)*) => {
        /// Everything that can happen to a run, told apart by `type` (contracts.md § 1).
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
        #[serde(tag = "type")]
        pub enum Event {
            $($(#[$doc])* #[serde(rename = $name)] $variant($variant),)*
        }

        impl Event {
            /// The value of `type`, which is also the name of the SSE event.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)*
                }
            }

            /// Every value that `type` can have.
            pub const KINDS: &'static [&'static str] = &[$($name),*];
        }

        $(impl From<$variant> for Event {
            fn from(event: $variant) -> Self {
                Self::$variant(event)
            }
        })*
    };
}

events! {
    /// The run was admitted.
    RunQueued = "run_queued",
    /// A worker took the run, for the first time or after another one died.
    RunStarted = "run_started",
    /// Somebody asked for the run to stop.
    CancelRequested = "cancel_requested",
    /// A timer of the run was due.
    TimerFired = "timer_fired",
    /// The run entered a phase that a person can name.
    PhaseChange = "phase_change",
    /// A sentence about what is going on.
    Status = "status",
    /// The run ended well, or at a limit that `stop_reason` names.
    RunCompleted = "run_completed",
    /// The run could not be finished.
    RunFailed = "run_failed",
    /// The run was stopped on request.
    RunCancelled = "run_cancelled",
    /// The graph grew by a step.
    StepAdded = "step_added",
    /// A step changed its state.
    StepState = "step_state",
    /// A step will be tried again.
    StepRetry = "step_retry",
    /// What the run is about: chat, messages, model.
    Session = "session",
    /// A model is about to be asked.
    TurnStarted = "turn_started",
    /// Prose of the model.
    TextDelta = "text_delta",
    /// The model began to think.
    ThinkingStarted = "thinking_started",
    /// A piece of the model's reasoning.
    ThinkingDelta = "thinking_delta",
    /// The model stopped thinking.
    ThinkingEnded = "thinking_ended",
    /// The model's stream ended.
    TurnCompleted = "turn_completed",
    /// Something the model wrote cannot be acted on; nothing was done for it, and the model is told.
    ElementRejected = "element_rejected",
    /// The model opened its bracket round files.
    SandboxStarted = "sandbox_started",
    /// The model closed its bracket round files.
    SandboxEnded = "sandbox_ended",
    /// A file is being written.
    FileStarted = "file_started",
    /// A piece of a file's text.
    FileDelta = "file_delta",
    /// A file is whole.
    FileCompleted = "file_completed",
    /// A file was patched.
    FileEdited = "file_edited",
    /// A file was deleted.
    FileDeleted = "file_deleted",
    /// A file was renamed.
    FileRenamed = "file_renamed",
    /// A change to a file was refused or cut off; the file is as it was.
    FileRejected = "file_rejected",
    /// The model asked for a tool.
    ToolRequested = "tool_requested",
    /// The tool is running.
    ToolStarted = "tool_started",
    /// The tool printed something.
    ToolOutput = "tool_output",
    /// The tool's result, which the model will read.
    ToolFinished = "tool_finished",
    /// A build was queued, started or ended.
    BuildStatus = "build_status",
    /// A preview can be opened.
    PreviewUrl = "preview_url",
    /// The files cannot be shown at once as they are now, or what is shown threw an exception. What was shown before stays.
    PreviewProblem = "preview_problem",
    /// A version of the project was published.
    VersionCreated = "version_created",
    /// Tokens that a call to a model used, and what they cost.
    Usage = "usage",
    /// What the model's provider still allows, as it said when it took the call.
    RateLimit = "rate_limit",
    /// A limit was reached; the run finishes what it has and stops.
    Budget = "budget",
    /// The model went round in circles for the first time: it is told so, and asked for another approach.
    LoopBroken = "loop_broken",
    /// Something that a person should know and that did not stop the run.
    Warning = "warning",
    /// Something went wrong.
    Error = "error",
}

impl Event {
    /// Whether this event ends its run: nothing is appended after it.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::RunCompleted(_) | Self::RunFailed(_) | Self::RunCancelled(_))
    }

    /// The paths at which a file is other than before.
    pub fn changed_paths(&self) -> impl Iterator<Item = &crate::ProjectPath> {
        let (one, two) = match self {
            Self::FileCompleted(done) => (Some(&done.path), None),
            Self::FileEdited(edit) => (Some(&edit.path), None),
            Self::FileDeleted(gone) => (Some(&gone.path), None),
            Self::FileRenamed(renamed) => (Some(&renamed.from), Some(&renamed.to)),
            _ => (None, None),
        };
        one.into_iter().chain(two)
    }

    /// Joins `next` to this event if both are pieces of one stream, so that a batch holds one event where two came in
    /// (architecture.md, idea 1). Gives `next` back if they do not belong together or would pass `most` bytes.
    pub fn merge(&mut self, next: Self, most: usize) -> Option<Self> {
        match (self, next) {
            (Self::TextDelta(a), Self::TextDelta(b)) if a.text.len() + b.text.len() <= most => a.text.push_str(&b.text),
            (Self::ThinkingDelta(a), Self::ThinkingDelta(b)) if a.text.len() + b.text.len() <= most => {
                a.text.push_str(&b.text);
            }
            (Self::FileDelta(a), Self::FileDelta(b)) if a.path == b.path && a.text.len() + b.text.len() <= most => {
                a.text.push_str(&b.text);
            }
            (Self::ToolOutput(a), Self::ToolOutput(b))
                if a.call_id == b.call_id && a.stream == b.stream && a.text.len() + b.text.len() <= most =>
            {
                a.text.push_str(&b.text);
            }
            (_, next) => return Some(next),
        }
        None
    }
}

/// An event with its place in its stream, as readers get it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Envelope {
    /// Version of the envelope and of the payload.
    pub v: u16,
    /// The stream that `seq` counts in.
    pub stream_id: StreamId,
    /// The run that the event belongs to.
    pub run_id: RunId,
    /// Place in the stream: starts at 1 and has no gaps (E21).
    pub seq: u64,
    /// If deltas were merged for a slow reader: the first of them. The reader checks that this, or else `seq`, is its last plus one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_seq: Option<u64>,
    /// When the event was made, in milliseconds since the Unix epoch.
    pub at: u64,
    /// The step that the event belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
    /// Which attempt of the step, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The payload.
    #[serde(flatten)]
    pub event: Event,
}

/// An event that is to be appended: not yet in a log, so without a place in one.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// When it was made, in milliseconds since the Unix epoch.
    pub at: u64,
    /// The step that it belongs to, with the attempt.
    pub step: Option<(StepId, u32)>,
    /// What happened.
    pub event: Event,
}

/// What stands before the payload in an encoded event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The run, which is also the stream.
    pub run_id: RunId,
    /// Place in the stream.
    pub seq: u64,
    /// The first of several merged deltas.
    pub from_seq: Option<u64>,
    /// Milliseconds since the Unix epoch.
    pub at: u64,
    /// The step.
    pub step_id: Option<StepId>,
    /// The attempt of the step.
    pub attempt: Option<u32>,
}

impl Head {
    /// Encodes an event as an [`Envelope`] is serialised, without parsing its stored payload again.
    ///
    /// `payload` is the JSON object that an [`Event`] was stored as.
    pub fn encode(&self, payload: &str) -> String {
        let mut text = String::with_capacity(payload.len() + 160);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            r#"{{"v":{EVENT_VERSION},"stream_id":"{}","run_id":"{}","seq":{}"#,
            self.run_id, self.run_id, self.seq
        );
        if let Some(from) = self.from_seq {
            let _ = write!(text, r#","from_seq":{from}"#);
        }
        let _ = write!(text, r#","at":{}"#, self.at);
        if let Some(step) = &self.step_id {
            // Step ids are Baton's own words: letters, digits, `-` and `.`.
            let _ = write!(text, r#","step_id":"{step}""#);
        }
        if let Some(attempt) = self.attempt {
            let _ = write!(text, r#","attempt":{attempt}"#);
        }
        text.push(',');
        text.push_str(payload.strip_prefix('{').unwrap_or(payload));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_by_joining_equals_serialising_the_envelope() {
        let event = Event::from(TextDelta { text: "a \"quoted\"\n line".into() });
        let payload = serde_json::to_string(&event).unwrap();
        let run = RunId::from_bits(99);
        for (from_seq, step) in [(None, None), (Some(3), Some(StepId::new("turn-1")))] {
            let head =
                Head { run_id: run, seq: 4, from_seq, at: 5, step_id: step.clone(), attempt: step.as_ref().map(|_| 2) };
            let whole = Envelope {
                v: EVENT_VERSION,
                stream_id: run,
                run_id: run,
                seq: 4,
                from_seq,
                at: 5,
                step_id: head.step_id.clone(),
                attempt: head.attempt,
                event: event.clone(),
            };
            assert_eq!(head.encode(&payload), serde_json::to_string(&whole).unwrap());
        }
    }

    /// One JSON object, no key twice: what a strict reader refuses and a lenient one reads as it likes.
    #[test]
    fn no_payload_has_a_key_of_the_envelope() {
        let step = StepId::new("turn-1");
        let state = StepState { id: step.clone(), state: StepStatus::Running, attempt: 2, reason: None, output: None };
        let retry = StepRetry { id: step.clone(), attempt: 3, delay_ms: 1, error: "e".into() };
        let run = RunStarted { worker: "w".into(), epoch: 1 };
        for event in [Event::from(state), retry.into(), run.into()] {
            let head = Head {
                run_id: RunId::from_bits(1),
                seq: 1,
                from_seq: Some(1),
                at: 1,
                step_id: Some(step.clone()),
                attempt: Some(2),
            };
            let json = head.encode(&serde_json::to_string(&event).unwrap());
            for key in ["v", "stream_id", "run_id", "seq", "from_seq", "at", "step_id", "attempt", "type"] {
                assert_eq!(json.matches(&format!("\"{key}\":")).count(), 1, "{key} in {json}");
            }
        }
    }

    #[test]
    fn deltas_of_one_stream_merge_and_others_do_not() {
        let delta = |path: &str, text: &str| {
            Event::from(FileDelta { path: crate::ProjectPath::parse(path).unwrap(), offset: 0, text: text.into() })
        };
        let mut first = delta("a", "x");
        assert_eq!(first.merge(delta("a", "y"), 8), None);
        assert_eq!(first, delta("a", "xy"));
        assert_eq!(first.merge(delta("b", "z"), 8), Some(delta("b", "z")), "another file");
        assert_eq!(first.merge(delta("a", "1234567"), 8), Some(delta("a", "1234567")), "too large");
    }
}

//! A model made of rules: what conversation it meets decides what it answers, piece by piece.
//!
//! It stands in for real models where those cannot be had or cannot be trusted to misbehave on demand: the built-in demo, the
//! tests of everything above a model, and anybody's client of OpenAI's, Anthropic's or Gemini's wire format. `format` is what scripts
//! say, `tongue` how each vendor says it. Performed they are either in process ([`ScriptedModel`]) or over HTTP ([`serve`]); both
//! perform the same plan. It is never shown as a real
//! model: its reference says what it is.

mod body;
mod compile;
mod converse;
mod demo;
mod door;
mod expect;
pub mod format;
mod ledger;
mod model;
mod plan;
mod respond;
mod scripts;
mod serve;
mod tongue;
mod vendor;
mod words;

pub use compile::{CHUNK_CHARS, DELAY_MOST_MS, SCRIPT_BYTES, SCRIPT_RULES, Script, ScriptError};
pub use demo::{DEMO_MODEL, demo_model, demo_scripts};
pub use ledger::{Entry, LEDGER_ENTRIES, LEDGER_TEXT_BYTES, Ledger, Said, Way};
pub use model::ScriptedModel;
pub use respond::{PartText, Respond};
pub use scripts::Scripts;
pub use serve::{ANSWERS, REQUEST_BYTES, STOP_MS, ServeOptions, serve};
pub use words::{TITLE_CHARS, WORD_CHARS, WORDS};

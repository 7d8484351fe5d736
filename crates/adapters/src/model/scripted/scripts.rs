//! A list of scripts that answers conversations: the first rule of the first script that fits.

use super::compile::{Script, ScriptError};
use super::converse::Heard;
use super::expect::Asked;
use super::plan::Plan;
use super::vendor::VendorError;

/// Scripts in the order in which they are tried.
#[derive(Debug)]
pub struct Scripts {
    scripts: Vec<Script>,
}

/// What a conversation is answered, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) script: String,
    pub(super) rule: String,
    pub(super) turn: u32,
    pub(super) plan: Plan,
}

impl Scripts {
    /// Scripts that were read.
    pub fn new(scripts: Vec<Script>) -> Self {
        Self { scripts }
    }

    /// Reads scripts, each with what errors call it, such as its file's name.
    ///
    /// # Errors
    /// The first script that cannot be used.
    pub fn read<'a>(sources: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, ScriptError> {
        let scripts = sources.into_iter().map(|(place, text)| Script::read(place, text));
        Ok(Self { scripts: scripts.collect::<Result<_, _>>()? })
    }

    /// The same scripts with every delay and pause divided by `factor`; 0 takes them away. What is said stays the same.
    #[must_use]
    pub fn at_speed(mut self, factor: f64) -> Self {
        self.scripts.iter_mut().for_each(|script| script.set_speed(factor));
        self
    }

    /// What the scripts are called, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.scripts.iter().map(Script::name)
    }

    /// Answers, or says what is wrong with the request.
    pub(super) fn answer(&self, asked: &Asked) -> Result<Answered, VendorError> {
        asked.check()?;
        let heard = Heard::read(&asked.messages);
        for script in &self.scripts {
            let Some(play) = script.rules.iter().find(|play| play.takes(&heard)) else { continue };
            let held = script.expect.check(asked).and_then(|()| play.expect.check(asked));
            if let Err(violation) = held {
                let message = format!("script `{}`, rule `{}`: {}", script.name, play.name, violation.message);
                tracing::warn!(%message, "a request violates a script's expectation");
                return Err(VendorError { message, ..violation });
            }
            let plan = Plan::of(play, asked, &heard);
            return Ok(Answered { script: script.name.clone(), rule: play.name.clone(), turn: heard.turn, plan });
        }
        let names: Vec<&str> = self.names().collect();
        let message =
            format!("No rule of the scripts ({}) answers turn {} of this conversation.", names.join(", "), heard.turn);
        tracing::warn!(%message, "a request fits no script");
        Err(VendorError::bad_request("no_rule_fits", Some("messages"), message))
    }
}

//! Checks on requests: what every conversation must be, and what a script expects beyond that.
//!
//! A server that answers everything proves nothing about its client. So each request is held against the rules that the strictest
//! real servers have (their chat templates raise errors), and a script can add its own.

use regex::Regex;
use runtime::ports::model::{PromptMessage, Speaker};

use super::compile::{Wrong, pattern};
use super::format::Expect;
use super::vendor::VendorError;

/// A request to a scripted model, whichever way it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) model: String,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) messages: Vec<PromptMessage>,
}

impl Asked {
    /// Bytes of all texts.
    pub(super) fn prompt_bytes(&self) -> u64 {
        self.messages.iter().map(|message| message.text.len() as u64).sum()
    }

    /// System messages first, then user and assistant in turns, the user first and last, and none of them empty.
    pub(super) fn check(&self) -> Result<(), VendorError> {
        let refuse = |index: usize, message: &str| {
            Err(VendorError::bad_request("invalid_conversation", Some(&format!("messages[{index}]")), message))
        };
        let mut expected = Speaker::User;
        let mut begun = false;
        for (index, PromptMessage { speaker, text, images, .. }) in self.messages.iter().enumerate() {
            if text.trim().is_empty() && images.is_empty() {
                return refuse(index, "A message must have a text.");
            }
            if *speaker == Speaker::System {
                if begun {
                    return refuse(index, "System messages must come before all others.");
                }
                continue;
            }
            begun = true;
            if *speaker != expected {
                return refuse(
                    index,
                    "After the system messages, conversation roles must alternate user/assistant/user/assistant.",
                );
            }
            expected = if expected == Speaker::User { Speaker::Assistant } else { Speaker::User };
        }
        match expected {
            Speaker::Assistant => Ok(()),
            Speaker::User | Speaker::System => {
                refuse(self.messages.len().saturating_sub(1), "The last message must be the user's.")
            }
        }
    }
}

/// A script's expectation.
#[derive(Debug)]
pub(super) struct Expectation {
    plain: Expect,
    contains: Vec<Regex>,
    lacks: Vec<Regex>,
}

impl Expectation {
    pub(super) fn compile(expect: Expect) -> Result<Self, Wrong> {
        let compile = |field: &str, patterns: &[String]| -> Result<Vec<Regex>, Wrong> {
            let compiled = patterns.iter().map(|text| pattern(field, Some(text)));
            Ok(compiled.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
        };
        Ok(Self {
            contains: compile("contains", &expect.contains)?,
            lacks: compile("lacks", &expect.lacks)?,
            plain: expect,
        })
    }

    /// Holds a request against it.
    pub(super) fn check(&self, asked: &Asked) -> Result<(), VendorError> {
        match self.violation(asked) {
            None => Ok(()),
            Some(violation) => Err(VendorError::bad_request("expectation_violated", None, violation)),
        }
    }

    fn violation(&self, asked: &Asked) -> Option<String> {
        let Expect {
            model,
            stream,
            include_usage,
            system,
            messages_at_least,
            messages_at_most,
            prompt_bytes_at_most,
            images,
            ..
        } = &self.plain;
        let count = asked.messages.len() as u64;
        let differs = |what: &str, expected: &Option<bool>, is: bool| {
            expected.filter(|expected| *expected != is).map(|expected| format!("expected {what} to be {expected}"))
        };
        let has_system = asked.messages.first().is_some_and(|first| first.speaker == Speaker::System);
        let occurs = |pattern: &Regex| asked.messages.iter().any(|message| pattern.is_match(&message.text));
        let numbers = || {
            let few = messages_at_least
                .filter(|least| count < *least)
                .map(|least| format!("expected at least {least} messages, got {count}"));
            let many = messages_at_most
                .filter(|most| count > *most)
                .map(|most| format!("expected at most {most} messages, got {count}"));
            let bytes = asked.prompt_bytes();
            let long = prompt_bytes_at_most.filter(|most| bytes > *most);
            let seen = asked.messages.iter().map(|message| message.images.len() as u64).sum::<u64>();
            let seen =
                images.filter(|images| *images != seen).map(|images| format!("expected {images} images, got {seen}"));
            let long = long.map(|most| format!("expected at most {most} bytes of messages, got {bytes}"));
            few.or(many).or(long).or(seen)
        };
        let patterns = || {
            let missing = self.contains.iter().find(|pattern| !occurs(pattern));
            let present = self.lacks.iter().find(|pattern| occurs(pattern));
            let missing = missing.map(|pattern| format!("expected the messages to contain /{pattern}/"));
            missing.or(present.map(|pattern| format!("expected the messages not to contain /{pattern}/")))
        };
        let name = model.as_ref().filter(|model| **model != asked.model);
        name.map(|model| format!("expected the model `{model}`"))
            .or_else(|| differs("`stream`", stream, asked.stream))
            .or_else(|| differs("`stream_options.include_usage`", include_usage, asked.include_usage))
            .or_else(|| differs("a first message of the system's", system, has_system))
            .or_else(numbers)
            .or_else(patterns)
    }
}

//! A rule's answer to one conversation as a list of steps, which is all there is to perform: in process or over HTTP, the same.

use std::time::Duration;

use contract::event::TokenCount;
use runtime::ports::model::ModelFinish;

use super::compile::{Break, Part, Play, Reported, Trouble};
use super::converse::Heard;
use super::expect::Asked;
use super::vendor::VendorError;

/// Characters of one token, where tokens are estimated.
const TOKEN_CHARS: u64 = 4;

/// An answer before it is performed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// Before anything at all.
    pub(super) first_delay: Duration,
    /// Bytes of one write over HTTP.
    pub(super) wire_bytes: Option<usize>,
    pub(super) outcome: Outcome,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// An error; with a body of its own, or the vendor's.
    Refused { error: VendorError, retry_after: Option<String>, body: Option<String> },
    /// A stream. It ends with `Finish` or with `Break`.
    Steps(Vec<Step>),
}

/// One step of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Wait(Duration),
    Reasoning(String),
    Text(String),
    Usage(TokenCount),
    Finish(ModelFinish),
    Break(Break),
}

impl Plan {
    /// What `play` answers.
    pub(super) fn of(play: &Play, asked: &Asked, heard: &Heard<'_>) -> Self {
        let outcome = match &play.trouble {
            Some(Trouble::Status { error, retry_after, body }) => {
                Outcome::Refused { error: error.clone(), retry_after: retry_after.clone(), body: body.clone() }
            }
            Some(Trouble::After(bytes, how)) => Outcome::Steps(steps(play, asked, heard, Some((*bytes, how)))),
            None => Outcome::Steps(steps(play, asked, heard, None)),
        };
        Self { first_delay: play.first_delay, wire_bytes: play.wire_bytes, outcome }
    }
}

fn steps(play: &Play, asked: &Asked, heard: &Heard<'_>, trouble: Option<(usize, &Break)>) -> Vec<Step> {
    let words = play.words(heard);
    let mut steps = Vec::new();
    let mut text_room = trouble.map_or(usize::MAX, |(bytes, _)| bytes);
    let (mut text_chars, mut reasoning_chars) = (0, 0);
    for part in &play.parts {
        match part {
            Part::Pause(pause) => wait(&mut steps, *pause),
            Part::Reasoning(template) => {
                let reasoning = template.fill(&words);
                reasoning_chars += chunks(&mut steps, play, &reasoning, Step::Reasoning);
            }
            Part::Text(template) => {
                let text = template.fill(&words);
                let whole = text.len() <= text_room;
                let kept = &text[..text.floor_char_boundary(text_room)];
                text_chars += chunks(&mut steps, play, kept, Step::Text);
                text_room -= kept.len();
                if !whole {
                    break;
                }
            }
        }
    }
    if let Some((_, how)) = trouble {
        // Paid for, though it broke.
        if let Reported::Exactly(tokens) = play.usage {
            steps.push(Step::Usage(tokens));
        }
        steps.push(Step::Break(how.clone()));
        return steps;
    }
    match play.usage {
        Reported::Nothing => {}
        Reported::Exactly(tokens) => steps.push(Step::Usage(tokens)),
        Reported::Estimated => {
            let reasoning = reasoning_chars.div_ceil(TOKEN_CHARS);
            let output = text_chars.div_ceil(TOKEN_CHARS) + reasoning;
            steps.push(Step::Usage(TokenCount { input: prompt_tokens(asked), cached: 0, output, reasoning }));
        }
    }
    steps.push(Step::Finish(play.finish));
    steps
}

/// The tokens of a prompt, estimated.
pub(super) fn prompt_tokens(asked: &Asked) -> u64 {
    let chars = asked.messages.iter().map(|message| message.text.chars().count() as u64).sum::<u64>();
    chars.div_ceil(TOKEN_CHARS)
}

/// Adds `text` in chunks with the rule's delay before each but the stream's first; gives its characters.
fn chunks(steps: &mut Vec<Step>, play: &Play, text: &str, step: fn(String) -> Step) -> u64 {
    let mut chars = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.char_indices().nth(play.chunk_chars).map_or(rest.len(), |(end, _)| end);
        let (chunk, after) = rest.split_at(end);
        if !steps.is_empty() {
            wait(steps, play.delay);
        }
        chars += chunk.chars().count() as u64;
        steps.push(step(chunk.to_owned()));
        rest = after;
    }
    chars
}

/// Waits in a row are one, so that a silence is as long as it is.
fn wait(steps: &mut Vec<Step>, time: Duration) {
    match steps.last_mut() {
        _ if time.is_zero() => {}
        Some(Step::Wait(before)) => *before += time,
        _ => steps.push(Step::Wait(time)),
    }
}

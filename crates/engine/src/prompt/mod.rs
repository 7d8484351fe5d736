//! What the model is shown (E5, E6): a pure function of the run's state, the project and the chat, in an order that keeps the
//! beginning stable, so that providers can cache it.
//!
//! Untrusted text stands in a fence that is longer than any run of backticks inside, so it cannot close it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use contract::event::{Finish, ToolInput, ToolStatus};
use contract::{Limits, ProjectPath};

use crate::circle;
use crate::state::{Call, Cause, Part, RunState, Turn};

/// The instructions, the same for every run.
pub const SYSTEM: &str = include_str!("system.md");

/// Who speaks in a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// Baton's instructions.
    System,
    /// The person, and Baton on the person's behalf.
    User,
    /// The model, earlier.
    Assistant,
}

/// One message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptMessage {
    /// Who speaks.
    pub speaker: Speaker,
    /// What they say.
    pub text: String,
    /// What they show with it. Images stay with their message.
    pub images: Vec<Image>,
    /// Whether all up to the end of this message will be sent again as it is, so that a provider may keep it.
    pub stable: bool,
}

/// A picture in a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its format.
    pub format: ImageFormat,
    /// Its bytes, shared by the copies of a prompt.
    pub bytes: Arc<[u8]>,
}

/// Formats that every provider takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageFormat {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// WebP.
    Webp,
}

impl ImageFormat {
    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
        }
    }

    /// The format of a media type.
    pub fn of_media_type(media_type: &str) -> Option<Self> {
        [Self::Png, Self::Jpeg, Self::Webp].into_iter().find(|format| format.media_type() == media_type)
    }
}

impl PromptMessage {
    /// A message of text.
    pub fn new(speaker: Speaker, text: impl Into<String>) -> Self {
        Self { speaker, text: text.into(), images: Vec::new(), stable: false }
    }

    /// The same message, at whose end a stable beginning of the prompt ends.
    #[must_use]
    pub fn stable(self) -> Self {
        Self { stable: true, ..self }
    }

    /// The same message with images.
    #[must_use]
    pub fn with_images(self, images: Vec<Image>) -> Self {
        Self { images, ..self }
    }
}

/// What a prompt is made of.
pub struct Material<'a> {
    /// The limits in force.
    pub limits: &'a Limits,
    /// The run.
    pub state: &'a RunState,
    /// Earlier messages of the chat, oldest first.
    pub history: &'a [PromptMessage],
    /// The project as it was when the run began; none for a file that is not text.
    pub files: BTreeMap<&'a ProjectPath, Option<&'a str>>,
    /// The text with a hash that a turn of this run wrote.
    pub text_of: &'a dyn Fn(&str) -> Option<&'a str>,
}

/// A prompt that would pass `prompt_bytes`: E6 refuses it before it is paid for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooLarge {
    /// Bytes of the whole prompt.
    pub bytes: u64,
    /// The largest part, by name.
    pub largest: &'static str,
}

/// Composes the prompt of the run's latest turn.
pub fn compose(material: &Material<'_>) -> Result<Vec<PromptMessage>, TooLarge> {
    let mut messages = vec![PromptMessage::new(Speaker::System, SYSTEM).stable()];
    for earlier in recent(material.history, material.limits.history_prompt_bytes) {
        answered(&mut messages, earlier.speaker);
        messages.push(earlier);
    }
    answered(&mut messages, Speaker::User);
    let said = messages.len();
    messages.push(PromptMessage::new(Speaker::User, request(material)).stable());
    if let Some((latest, former)) = material.state.turns.split_last() {
        let kept: Vec<&Turn> = former.iter().filter(|turn| !is_circle(material.state, turn)).collect();
        for (n, turn) in kept.iter().enumerate() {
            messages.push(PromptMessage::new(Speaker::Assistant, transcript(material, turn)));
            let cause = kept.get(n + 1).map_or(&latest.cause, |next| &next.cause);
            messages.push(PromptMessage::new(Speaker::User, results(material, turn, cause)));
        }
    }
    // The next turn sends all of this again, and adds to it.
    if let Some(last) = messages.last_mut() {
        last.stable = true;
    }
    let size = |part: &[PromptMessage]| part.iter().map(|m| m.text.len() as u64).sum::<u64>();
    let bytes = size(&messages);
    if bytes <= material.limits.prompt_bytes {
        return Ok(messages);
    }
    let (project, turns) = messages[said..].split_at(1);
    let largest = if size(project) >= size(turns) { "the project's files" } else { "this run's turns and results" };
    Err(TooLarge { bytes, largest })
}

/// Puts an answer where there was none, since many models refuse a conversation in which one side speaks twice in a row.
fn answered(messages: &mut Vec<PromptMessage>, next: Speaker) {
    let silent = next == Speaker::User && messages.last().is_some_and(|m| m.speaker == Speaker::User);
    if silent {
        messages.push(PromptMessage::new(Speaker::Assistant, "(stopped before an answer)"));
    }
}

/// The latest messages that fit the budget; the oldest are left out first.
fn recent(history: &[PromptMessage], budget: u64) -> impl Iterator<Item = PromptMessage> + '_ {
    let mut left = budget;
    let fits = |m: &&PromptMessage| {
        let fits = m.text.len() as u64 <= left;
        left = left.saturating_sub(m.text.len() as u64);
        fits
    };
    let from = history.len() - history.iter().rev().take_while(fits).count();
    // A prompt that begins with an answer would confuse: begin with the person.
    let from = from + history[from..].iter().take_while(|m| m.speaker == Speaker::Assistant).count();
    history[from..].iter().cloned()
}

fn request(material: &Material<'_>) -> String {
    let mut text = String::from("# Project files\n\n");
    let mut left = material.limits.project_prompt_bytes;
    if material.files.is_empty() {
        text.push_str("(no files yet)\n");
    }
    for (path, content) in &material.files {
        match content {
            Some(content) if content.len() as u64 <= left && path.as_str() != "package-lock.json" => {
                left -= content.len() as u64;
                let _ = write!(text, "## {path}\n\n{}\n", fenced(content));
            }
            Some(content) => {
                let _ = writeln!(text, "## {path}\n\n({} bytes, not shown)\n", content.len());
            }
            None => {
                let _ = writeln!(text, "## {path}\n\n(not text)\n");
            }
        }
    }
    let request = material.state.session.as_ref().map_or("", |s| s.request.as_str());
    let _ = write!(text, "\n# Request\n\n{}", fenced(request));
    text
}

/// Whether a turn did nothing but go round: it is left out, so that the model does not go on as it did.
fn is_circle(state: &RunState, turn: &Turn) -> bool {
    let Some(looped) = &state.looped else { return false };
    let Some(first) = state.calls.iter().find(|call| call.id == looped.first) else { return false };
    let same = |id: &contract::CallId| {
        let at = state.calls.iter().position(|call| call.id == *id).filter(|at| *at < looped.calls);
        at.is_some_and(|at| state.calls[at].input == first.input)
    };
    let only = turn.parts.iter().all(|part| match part {
        Part::Text(_) => true,
        Part::Call(id) => same(id),
        Part::File { .. }
        | Part::Edit { .. }
        | Part::Delete(_)
        | Part::Rename(..)
        | Part::Changed(..)
        | Part::Rejected(..) => false,
    });
    let begins = turn.step == first.step;
    let called = turn.parts.iter().any(|part| matches!(part, Part::Call(_)));
    only && called && !begins
}

/// What a former turn said, in the tags in which it said it.
fn transcript(material: &Material<'_>, turn: &Turn) -> String {
    let mut text = String::new();
    for part in &turn.parts {
        let written = match part {
            Part::Text(prose) => prose.clone(),
            Part::File { path, sha256 } => match (material.text_of)(sha256) {
                Some(content) => format!("\n<file path=\"{path}\">\n{content}\n</file>\n"),
                None => format!("\n(wrote {path})\n"),
            },
            Part::Edit { path, blocks } => {
                let mut edit = format!("\n<edit path=\"{path}\">\n");
                for block in blocks {
                    let _ =
                        write!(edit, "<<<<<<< SEARCH\n{}\n=======\n{}\n>>>>>>> REPLACE\n", block.search, block.replace);
                }
                edit.push_str("</edit>\n");
                edit
            }
            Part::Delete(path) => format!("\n<delete path=\"{path}\"/>\n"),
            Part::Rename(from, to) => format!("\n<rename from=\"{from}\" to=\"{to}\"/>\n"),
            Part::Call(id) => call(material, id).map(|c| tag(&c.input)).unwrap_or_default(),
            Part::Rejected(path, ..) => format!("\n(tried to change {path})\n"),
            Part::Changed(..) => continue,
        };
        text.push_str(&written);
    }
    if turn.done {
        text.push_str("\n<done/>");
    }
    if text.trim().is_empty() { "(nothing)".to_owned() } else { text }
}

/// What is added to a prompt whose answer reached the model's output limit.
pub fn carry_on(said: &str) -> [PromptMessage; 2] {
    const GO_ON: &str = "# Results\n\n## Your answer was cut off\n\nIt reached your output limit. Go on with the very next character, \
        in the middle of a word or a file if that is where it stopped. Repeat nothing, and say nothing about this.";
    [PromptMessage::new(Speaker::Assistant, said), PromptMessage::new(Speaker::User, GO_ON)]
}

fn call<'a>(material: &Material<'a>, id: &contract::CallId) -> Option<&'a Call> {
    material.state.calls.iter().find(|c| c.id == *id)
}

fn tag(input: &ToolInput) -> String {
    let json = |value: &[String]| serde_json::to_string(value).unwrap_or_default().replace('\'', "\\u0027");
    match input {
        ToolInput::Install { packages, .. } => format!("\n<install>\npackages: {}\n</install>\n", packages.join(", ")),
        ToolInput::Command { command, args } => format!("\n<command command=\"{command}\" args='{}'/>\n", json(args)),
        ToolInput::WebSearch { query, .. } => format!("\n<web_search query={:?}/>\n", query),
        ToolInput::UrlScrape { url } => format!("\n<url_scrape url={url:?}/>\n"),
        ToolInput::Skill { name, input } => format!("\n<skill name={name:?}>{input}</skill>\n"),
    }
}

/// What came of a turn, and what to do next.
fn results(material: &Material<'_>, turn: &Turn, cause: &Cause) -> String {
    let mut text = String::from("# Results\n\n");
    let mut left = usize::try_from(material.limits.tool_payload_bytes).unwrap_or(usize::MAX);
    let most = usize::try_from(material.limits.tool_result_bytes).unwrap_or(usize::MAX);
    for part in &turn.parts {
        match part {
            Part::Call(id) => {
                if let Some((call, result)) = call(material, id).and_then(|c| Some((c, c.result.as_ref()?))) {
                    let output = shorten(&result.output, most.min(left));
                    left -= output.len().min(left);
                    let _ =
                        write!(text, "## {}\n\n{}\n", heading(&call.input), status(result.status, result.exit_code));
                    if let Some(error) = &result.error {
                        let _ = write!(text, "{}\n\n", fenced(error));
                    }
                    if !output.is_empty() {
                        let _ = writeln!(text, "{}", fenced(&output));
                    }
                }
            }
            Part::Rejected(path, code, reason) => {
                let _ = write!(
                    text,
                    "## {} was not changed ({code})\n\n{}\n",
                    one_line(path, LINE_CHARS).trim(),
                    fenced(reason)
                );
            }
            Part::Changed(path, sha256) => {
                let content = sha256.as_deref().and_then(material.text_of).map(|text| shorten(text, most.min(left)));
                left -= content.as_ref().map_or(0, String::len).min(left);
                let what = if sha256.is_some() { "was changed by a command" } else { "was deleted by a command" };
                let _ = write!(text, "## {path} {what}\n\n{}\n", content.map(|c| fenced(&c)).unwrap_or_default());
            }
            Part::Text(_) | Part::File { .. } | Part::Edit { .. } | Part::Delete(_) | Part::Rename(..) => {}
        }
    }
    if matches!(turn.finish, Some(Finish::Length | Finish::Limit)) {
        text.push_str("## Your answer was cut off\n\nWhat was complete is kept. A file that was not closed was dropped: write it again.\n\n");
    }
    match cause {
        Cause::Mend(why) => {
            let again = circle::same_error(material.limits, material.state).map(|times| {
                format!("This is the same error for the {times}th time: your repairs did not touch its cause. Leave that approach. Read the files that it names again, doubt what you took for granted, and do it another way.\n")
            });
            let _ = write!(
                text,
                "## The project does not build or does not run\n\n{}\n{}Find the cause and mend it, then say <done/>.",
                fenced(why),
                again.unwrap_or_default()
            );
        }
        Cause::Circle(what) => {
            let _ = write!(
                text,
                "## You went round in circles\n\nThis gave the same result again and again, and was left out above:\n\n{}\nDo not do it again. Choose another approach; if there is none, say so and say <done/>.",
                fenced(what)
            );
        }
        Cause::Nudge => {
            text.push_str("You did nothing that Baton can act on. Use the tags: write the files, then say <done/>.")
        }
        Cause::Request | Cause::Results => text.push_str("Go on. When everything is written, say <done/>."),
    }
    text
}

/// Characters of a heading that a model or a person chose.
const LINE_CHARS: usize = 120;

fn heading(input: &ToolInput) -> String {
    let (kind, what) = words(input);
    format!("{kind} {}", one_line(&what, LINE_CHARS).trim())
}

/// What a call is in words: its kind, and what it is about.
pub(crate) fn words(input: &ToolInput) -> (&'static str, String) {
    match input {
        ToolInput::Install { packages, .. } => ("install", packages.join(", ")),
        ToolInput::Command { command, args } => ("command", format!("{command} {}", args.join(" "))),
        ToolInput::WebSearch { query, .. } => ("web search", query.clone()),
        ToolInput::UrlScrape { url } => ("page", url.clone()),
        ToolInput::Skill { name, .. } => ("skill", name.clone()),
    }
}

fn status(status: ToolStatus, exit_code: Option<i32>) -> String {
    let said = match status {
        ToolStatus::Succeeded => "succeeded",
        ToolStatus::Failed => "failed",
        ToolStatus::Refused => "was refused and not run",
        ToolStatus::Unavailable => "is not set up here and was not run",
        ToolStatus::TimedOut => "was stopped: its time was up",
        ToolStatus::Cancelled => "was not finished: the run was stopped or the turn given up",
        ToolStatus::Interrupted => "was interrupted: what it did is not known",
    };
    exit_code.map_or_else(|| format!("It {said}.\n"), |code| format!("It {said} (exit code {code}).\n"))
}

/// So many characters of a text, as one line.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(most).collect()
}

/// Puts text into a fence that it cannot close.
pub fn fenced(text: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for byte in text.bytes() {
        run = if byte == b'`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}\n{text}{end}{fence}\n")
}

/// Head and tail of a text that is too long, with a line that says how much is left out.
pub fn shorten(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let half = most.saturating_sub(64) / 2;
    let head = text.floor_char_boundary(half);
    let tail = text.ceil_char_boundary(text.len() - half);
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Untrusted text is data: it cannot close its fence (architecture.md, invariants).
        #[test]
        fn no_text_closes_its_fence(text in "[`\na ]{0,40}") {
            let shown = fenced(&text);
            let mut lines = shown.lines();
            let fence = lines.next().unwrap().to_owned();
            let closing = shown.lines().enumerate().skip(1).find(|(_, line)| line.trim() == fence).unwrap().0;
            prop_assert_eq!(closing, shown.lines().count() - 1);
        }

        #[test]
        fn shortening_keeps_within_its_bound(text in ".{0,400}", most in 80usize..200) {
            prop_assert!(shorten(&text, most).len() <= most.max(text.len().min(most)) + 8);
        }
    }

    #[test]
    fn history_is_cut_from_the_old_end_and_begins_with_the_person() {
        let message = PromptMessage::new;
        let history =
            [message(Speaker::User, "one"), message(Speaker::Assistant, "two"), message(Speaker::User, "three")];
        let kept = |budget| recent(&history, budget).map(|m| m.text).collect::<Vec<_>>();
        assert_eq!(kept(100), ["one", "two", "three"]);
        assert_eq!(kept(8), ["three"], "an answer without its question is left out");
        assert_eq!(kept(4), Vec::<String>::new());
    }
}

//! Reads a conversation as a script's conditions see it. The reading is part of the format; see `format`.
//!
//! It follows fences, because what stands in one is a person's or a program's text: a file that contains a line `# Request` is
//! not a request.

use runtime::ports::model::{PromptMessage, Speaker};

/// How the messages begin that bring results and ask for nothing new.
const RESULTS: &str = "# Results";

/// What a conversation is, to a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Heard<'a> {
    /// What the person asks for.
    pub(super) request: &'a str,
    /// The project files that the request message shows.
    pub(super) project: Option<&'a str>,
    /// The last message.
    pub(super) last: &'a str,
    /// All system messages.
    pub(super) system: String,
    /// 1 plus the answers after the request message.
    pub(super) turn: u32,
}

impl<'a> Heard<'a> {
    /// Reads `messages`.
    pub(super) fn read(messages: &'a [PromptMessage]) -> Self {
        let is_asking =
            |message: &PromptMessage| message.speaker == Speaker::User && !message.text.starts_with(RESULTS);
        let asked = messages.iter().rposition(|message| is_asking(message) && request_at(&message.text).is_some());
        let at = asked.or_else(|| messages.iter().rposition(is_asking));
        let text = at.map_or("", |at| messages[at].text.as_str());
        let (request, project) = match request_at(text) {
            Some(heading) => (request_of(&text[heading.end..]), project_of(&text[..heading.start])),
            None => (text, None),
        };
        let answers =
            messages.iter().skip(at.map_or(0, |at| at + 1)).filter(|message| message.speaker == Speaker::Assistant);
        let systems = messages.iter().filter(|message| message.speaker == Speaker::System);
        Self {
            request,
            project,
            last: messages.last().map_or("", |message| message.text.as_str()),
            system: systems.map(|message| message.text.as_str()).collect::<Vec<_>>().join("\n"),
            turn: u32::try_from(answers.count()).unwrap_or(u32::MAX).saturating_add(1),
        }
    }
}

/// A line of a text: where it starts and where the next one does.
#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    start: usize,
    end: usize,
    text: &'a str,
    /// The number of backticks if the line opens or closes a fenced block.
    fence: usize,
    /// Whether the line stands within a block, or is its fence.
    fenced: bool,
}

fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut start = 0;
    let mut open = 0; // backticks of the block that is open
    text.split_inclusive('\n').map(move |whole| {
        let line = whole.trim_end_matches(['\n', '\r']);
        let ticks = line.bytes().take_while(|byte| *byte == b'`').count();
        let info = &line[ticks..];
        let fence = match open {
            0 if ticks >= 3 && !info.contains('`') => ticks,
            0 => 0,
            open if ticks >= open && info.trim().is_empty() => ticks,
            _ => 0,
        };
        let fenced = open > 0 || fence > 0;
        if fence > 0 {
            open = if open == 0 { fence } else { 0 };
        }
        let at = start;
        start += whole.len();
        Line { start: at, end: start, text: line, fence, fenced }
    })
}

/// Where the last `# Request` of a message is.
fn request_at(text: &str) -> Option<Line<'_>> {
    lines(text).filter(|line| !line.fenced && line.text.trim_end() == "# Request").last()
}

/// The fenced block after the heading, without its fences; without a block all that follows.
fn request_of(after: &str) -> &str {
    let mut fences = lines(after).filter(|line| line.fence > 0);
    let Some(opening) = fences.next() else { return after.trim() };
    let end = fences.next().map_or(after.len(), |closing| closing.start);
    let block = &after[opening.end..end];
    block.strip_suffix('\n').unwrap_or(block)
}

fn project_of(before: &str) -> Option<&str> {
    lines(before)
        .find(|line| !line.fenced && line.text.trim_end() == "# Project files")
        .map(|line| &before[line.start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(speaker: Speaker, text: &str) -> PromptMessage {
        PromptMessage::new(speaker, text)
    }

    const ASK: &str = "# Project files\n\n## src/a.md\n````\n# Request\n```\nnot this\n```\n````\n\n# Request\n\n```\nmake it\n\n dark\n```\n";

    #[test]
    fn the_request_is_what_the_person_typed_and_the_turn_counts_the_answers_since() {
        let mut messages = vec![
            message(Speaker::System, "one"),
            message(Speaker::User, "# Request\nearlier"),
            message(Speaker::Assistant, "done"),
            message(Speaker::User, ASK),
        ];
        let heard = Heard::read(&messages);
        assert_eq!((heard.request, heard.turn, heard.last, heard.system.as_str()), ("make it\n\n dark", 1, ASK, "one"));
        assert_eq!(heard.project, ASK.strip_suffix("# Request\n\n```\nmake it\n\n dark\n```\n"));
        messages.push(message(Speaker::Assistant, "# Request\n```\nfrom the model\n```"));
        messages.push(message(Speaker::User, "# Results\n\n# Request\n```\nfrom a build\n```"));
        let heard = Heard::read(&messages);
        assert_eq!((heard.request, heard.turn), ("make it\n\n dark", 2));
        assert!(heard.last.starts_with("# Results"));
    }

    #[test]
    fn a_fence_is_closed_by_one_as_long_and_hostile_text_stays_inside() {
        let table = [
            ("# Request\n````\n```\n# Request\n```\n````", "```\n# Request\n```"),
            ("# Request\n```text\na\n``` no end\n```\nafter", "a\n``` no end"),
            ("# Request\n```\nnever closed", "never closed"),
            ("# Request\n```\n```\n", ""),
            ("# Request\r\n```\r\na\r\n```\r\n", "a\r"),
            ("# Request\n\n no fence \n", "no fence"),
            ("just a sentence", "just a sentence"),
            ("a\n  # Request\nb", "a\n  # Request\nb"),
        ];
        for (text, request) in table {
            assert_eq!(Heard::read(&[message(Speaker::User, text)]).request, request, "{text:?}");
        }
        assert_eq!(Heard::read(&[]).turn, 1);
    }
}

//! A run as a story: events in, lines out. Pure, so that what a person reads is tested without a terminal.

use std::collections::HashMap;

use contract::event::{
    Author, BuildState, ModelRef, Phase, PreviewKind, PreviewProblem, Provider, StepStatus, StopReason, ToolFinished,
    ToolInput, ToolStatus,
};
use contract::{CallId, Event};

use crate::output::visible;

/// Lines of a failed build's or command's output that are shown.
const OUTPUT_LINES: usize = 12;
/// How an install is told from a command.
const INSTALL: &str = "install ";

/// What is known of a run while its events come in.
#[derive(Debug, Default)]
pub struct Story {
    /// The model's prose since its last line break.
    prose: String,
    thinking_since: Option<u64>,
    calls: HashMap<CallId, String>,
    started: Option<u64>,
    now: String,
    preview: Option<String>,
    /// Whether an instant preview was told of.
    instant: bool,
    ended: Option<Ending>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Why it stopped.
    pub reason: StopReason,
}

impl Story {
    /// How the run ended, once it has.
    pub fn ending(&self) -> Option<&Ending> {
        self.ended.as_ref()
    }

    /// What is going on, in a few words.
    pub fn now(&self) -> &str {
        &self.now
    }

    /// Takes the next event and gives the lines that it adds.
    pub fn tell(&mut self, at: u64, event: &Event) -> Vec<String> {
        let mut lines = Vec::new();
        if let Event::TextDelta(delta) = event {
            self.prose.push_str(&delta.text);
            while let Some((line, rest)) = self.prose.split_once('\n') {
                if !line.trim().is_empty() {
                    lines.push(format!("  {}", visible(line)));
                }
                self.prose = rest.to_owned();
            }
            return lines;
        }
        if !self.prose.trim().is_empty() {
            lines.push(format!("  {}", visible(&self.prose)));
        }
        self.prose.clear();
        match event {
            Event::RunStarted(_) => {
                self.started.get_or_insert(at);
            }
            Event::PhaseChange(phase) => self.now.clone_from(&phase_words(phase.phase).to_owned()),
            Event::Status(status) => self.now = visible(&status.message),
            Event::Session(session) => lines.push(model_line(&session.model)),
            Event::TurnStarted(turn) => self.now = format!("Turn {}: waiting for the model", turn.turn),
            Event::ThinkingStarted(_) => {
                self.thinking_since = Some(at);
                self.now = "Thinking".into();
            }
            Event::ThinkingEnded(_) => {
                let took = at.saturating_sub(self.thinking_since.take().unwrap_or(at));
                lines.push(format!("· thought for {}", seconds(took)));
            }
            Event::StepState(step) if step.state == StepStatus::Running && step.attempt > 1 => {
                lines.push(format!("↻ {} begins again (attempt {})", step.id, step.attempt));
            }
            Event::StepRetry(retry) => {
                lines.push(format!("↻ {} in {}: {}", retry.id, seconds(retry.delay_ms), visible(&retry.error)));
            }
            Event::RunCompleted(_) | Event::RunFailed(_) | Event::RunCancelled(_) => self.end(at, event, &mut lines),
            _ => self.work(event, &mut lines),
        }
        lines
    }

    /// Files, tools, builds, previews and trouble.
    fn work(&mut self, event: &Event, lines: &mut Vec<String>) {
        match event {
            Event::FileStarted(file) => self.now = format!("Writing {}", file.path),
            Event::FileCompleted(file) => match file.by {
                Author::Model | Author::Command | Author::Person => {
                    lines.push(format!("+ {}  {}", file.path, bytes(file.bytes)))
                }
                Author::Template | Author::Restored => {}
            },
            Event::FileEdited(file) => {
                let count = file.blocks.len();
                let plural = if count == 1 { "" } else { "s" };
                lines.push(format!("~ {}  {count} change{plural}", file.path));
            }
            Event::FileDeleted(file) => lines.push(format!("- {}", file.path)),
            Event::FileRenamed(file) => lines.push(format!("→ {} is {} now", file.from, file.to)),
            Event::FileRejected(file) => lines.push(format!("! {}: {}", visible(&file.path), visible(&file.reason))),
            Event::ElementRejected(no) => lines.push(format!("! {}: {}", visible(&no.element), visible(&no.reason))),
            Event::Budget(budget) => lines.push(format!("! {}: {} of {}", budget.limit, budget.used, budget.value)),
            Event::ToolRequested(tool) => {
                self.calls.insert(tool.call_id.clone(), tool_words(&tool.input));
            }
            Event::ToolStarted(tool) => {
                self.now = format!("Running {}", self.calls.get(&tool.call_id).map_or("a tool", String::as_str));
            }
            Event::ToolFinished(tool) => {
                let words = self.calls.remove(&tool.call_id).unwrap_or_else(|| tool.call_id.to_string());
                lines.push(format!("$ {words}  {}", outcome(tool)));
                // What a command printed when all went well is nobody's concern; what an install found is its result.
                if tool.status == ToolStatus::Failed || words.starts_with(INSTALL) {
                    lines.extend(tail(&tool.output));
                }
            }
            Event::BuildStatus(build) => match build.status {
                BuildState::Building => self.now = "Building".into(),
                BuildState::Succeeded => lines.push(format!("✓ built  {}", seconds(build.duration_ms.unwrap_or(0)))),
                BuildState::Failed => {
                    let error = build.error.as_ref();
                    lines.push(format!(
                        "✗ build failed: {}",
                        error.map_or("no reason given".into(), |error| visible(&error.message))
                    ));
                    lines.extend(error.map(|error| tail(&error.log_tail)).unwrap_or_default());
                }
            },
            Event::PreviewUrl(preview) => match preview.kind {
                PreviewKind::Built => self.preview = Some(preview.url.clone()),
                PreviewKind::Instant if self.instant => {}
                PreviewKind::Instant => {
                    self.instant = true;
                    lines.push(format!("◌ on screen, not built yet: {}", preview.url));
                }
            },
            Event::PreviewProblem(problem) => lines.push(format!("! {}", visible(&problem_words(problem)))),
            Event::VersionCreated(version) => lines.push(format!("✓ {}  {} files", version.version, version.files)),
            Event::LoopBroken(broken) => {
                lines.push(format!(
                    "! Going round in circles ({} times): {}. Asked for another approach.",
                    broken.times,
                    visible(&broken.what)
                ));
            }
            Event::Warning(warning) => lines.push(format!("! {}", visible(&warning.message))),
            Event::Error(error) => lines.push(format!("✗ {}", visible(&error.message))),
            _ => {}
        }
    }

    fn end(&mut self, at: u64, event: &Event, lines: &mut Vec<String>) {
        let took = self.started.map(|started| format!("  {}", seconds(at.saturating_sub(started)))).unwrap_or_default();
        let (reason, line) = match event {
            Event::RunCompleted(end) if end.stop_reason == StopReason::Done => {
                (StopReason::Done, format!("✓ {}{took}", visible(&end.result)))
            }
            Event::RunCompleted(end) => (end.stop_reason, format!("✗ stopped: {}{took}", visible(&end.result))),
            Event::RunFailed(end) => {
                let reason = if end.code == "timed_out" { StopReason::TimedOut } else { StopReason::Failed };
                (reason, format!("✗ {} [{}]{took}\n  {}", visible(&end.message), end.code, visible(&end.action)))
            }
            _ => (StopReason::Cancelled, format!("✗ stopped on request{took}")),
        };
        lines.push(line);
        if let Some(preview) = &self.preview {
            lines.push(preview.clone());
        }
        self.ended = Some(Ending { reason });
    }
}

/// One line about an event, for `baton events`: what matters of its payload.
pub fn summary(event: &Event) -> String {
    let words = match event {
        Event::TextDelta(delta) => format!("{:?}", delta.text),
        Event::ThinkingDelta(delta) => format!("{:?}", delta.text),
        Event::FileDelta(delta) => format!("{} at {}: {} bytes", delta.path, delta.offset, delta.text.len()),
        Event::ToolOutput(output) => format!("{}: {:?}", output.call_id, output.text),
        Event::StepAdded(step) => format!("{}: {}", step.id, step.title),
        Event::StepState(step) => format!("{} {}", step.id, json_word(&step.state)),
        Event::FileStarted(file) => file.path.to_string(),
        Event::ToolRequested(tool) => format!("{}: {}", tool.call_id, tool_words(&tool.input)),
        Event::ToolStarted(tool) => tool.call_id.to_string(),
        Event::TurnCompleted(turn) => format!("turn {}: {}, {}", turn.turn, json_word(&turn.finish), bytes(turn.bytes)),
        Event::PreviewUrl(preview) => format!("{}: {}", json_word(&preview.kind), preview.url),
        Event::Usage(usage) => format!("{}: {} in, {} out", usage.model, usage.tokens.input, usage.tokens.output),
        Event::PhaseChange(phase) => phase.message.clone(),
        Event::Status(status) => status.message.clone(),
        _ => Story::default().tell(0, event).join("; "),
    };
    const MOST: usize = 100;
    let words = visible(&words);
    if words.chars().count() <= MOST { words } else { words.chars().take(MOST - 1).chain(['…']).collect() }
}

/// What keeps an instant preview from being shown, or what it threw.
fn problem_words(problem: &PreviewProblem) -> String {
    let place = problem.place.as_ref().map(|at| format!("{at} ")).unwrap_or_default();
    match problem.code.as_str() {
        "unsupported" => format!("shown after the build: {place}{}", problem.message),
        "exception" | "blank_page" => format!("the page says: {place}{}", problem.message),
        _ => format!("{place}{}", problem.message),
    }
}

/// A size for a person.
pub fn bytes(count: u64) -> String {
    const KIB: f64 = 1024.0;
    match count as f64 {
        small if small < KIB => format!("{count} B"),
        some if some < KIB * KIB => format!("{:.1} KB", some / KIB),
        many if many < KIB * KIB * KIB => format!("{:.1} MB", many / KIB / KIB),
        most => format!("{:.1} GB", most / KIB / KIB / KIB),
    }
}

/// A time for a person.
pub fn seconds(ms: u64) -> String {
    if ms < 1_000 { format!("{ms} ms") } else { format!("{:.1} s", ms as f64 / 1_000.0) }
}

/// The end of some output, indented; where a program was inside itself says nothing to a person.
fn tail(text: &str) -> Vec<String> {
    let lines: Vec<_> = text
        .lines()
        .map(|line| (visible(line), line))
        .filter(|(seen, _)| !seen.is_empty() && !seen.starts_with("at "))
        .collect();
    let last = &lines[lines.len().saturating_sub(OUTPUT_LINES)..];
    last.iter().map(|(seen, line)| format!("    {}{seen}", indent(line))).collect()
}

/// The blanks that a line begins with, which place markers below what they mark.
fn indent(line: &str) -> String {
    line.chars().take_while(|c| *c == ' ').collect()
}

fn model_line(model: &ModelRef) -> String {
    match model.provider {
        Provider::Demo => "Model: demo, a built-in script and no AI model (set BATON_MODEL for a real one)".into(),
        Provider::Openai | Provider::Anthropic | Provider::Gemini | Provider::Compatible => {
            format!("Model: {}", visible(&model.name))
        }
    }
}

fn phase_words(phase: Phase) -> &'static str {
    match phase {
        Phase::Generating => "Generating",
        Phase::Checking => "Checking",
        Phase::Building => "Building",
        Phase::Publishing => "Publishing",
    }
}

/// How a call ended, and how long it took.
fn outcome(tool: &ToolFinished) -> String {
    let how = match (tool.status, tool.exit_code) {
        (ToolStatus::Succeeded, _) if tool.replayed => "already done".to_owned(),
        (ToolStatus::Succeeded, _) => "ok".to_owned(),
        (ToolStatus::Failed, Some(code)) => format!("exit {code}"),
        (status, _) => {
            format!("{}: {}", status_words(status), visible(tool.error.as_deref().unwrap_or("no reason given")))
        }
    };
    // How long a call ran whose end nobody saw may not be known.
    match tool.duration_ms {
        0 if tool.status == ToolStatus::Interrupted => how,
        ms => format!("{how}  {}", seconds(ms)),
    }
}

fn status_words(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Succeeded => "ok",
        ToolStatus::Failed => "failed",
        ToolStatus::Refused => "refused",
        ToolStatus::Unavailable => "not available",
        ToolStatus::TimedOut => "timed out",
        ToolStatus::Cancelled => "stopped",
        ToolStatus::Interrupted => "interrupted",
    }
}

fn tool_words(input: &ToolInput) -> String {
    visible(&match input {
        ToolInput::Install { packages, .. } => format!("{INSTALL}{}", packages.join(" ")),
        ToolInput::Command { command, args } => [std::slice::from_ref(command), args].concat().join(" "),
        ToolInput::WebSearch { query, .. } => format!("search {query}"),
        ToolInput::UrlScrape { url } => format!("read {url}"),
        ToolInput::Skill { name, .. } => format!("skill {name}"),
    })
}

/// The word by which a value without fields is serialised.
fn json_word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(events: &[(u64, Value)]) -> (Vec<String>, Story) {
        let mut story = Story::default();
        let event = |value: &Value| serde_json::from_value::<Event>(value.clone()).unwrap();
        let lines = events.iter().flat_map(|(at, value)| story.tell(*at, &event(value))).collect();
        (lines, story)
    }

    #[test]
    fn a_run_reads_as_a_story() {
        let sha = "0".repeat(64);
        let (lines, story) = told(&[
            (0, json!({"type": "run_started", "worker": "w", "epoch": 1})),
            (0, json!({"type": "text_delta", "text": "I will build\nyour li"})),
            (1, json!({"type": "text_delta", "text": "st."})),
            (10, json!({"type": "thinking_started"})),
            (1_210, json!({"type": "thinking_ended"})),
            (
                1_300,
                json!({"type": "file_completed", "path": "package.json", "bytes": 9, "sha256": sha, "by": "template"}),
            ),
            (
                1_300,
                json!({"type": "file_completed", "path": "src/App.tsx", "bytes": 2_048, "sha256": sha, "by": "model"}),
            ),
            (
                1_400,
                json!({"type": "tool_requested", "call_id": "t.1", "ordinal": 1,
                "input": {"tool": "command", "command": "npx", "args": ["tsc", "\u{1b}[31m"]}}),
            ),
            (
                2_000,
                json!({"type": "tool_finished", "call_id": "t.1", "status": "failed", "exit_code": 2,
                "output": "one\ntwo\n", "duration_ms": 600, "replayed": false}),
            ),
            (
                3_000,
                json!({"type": "preview_url", "url": "http://a.localhost:1/", "host": "a.localhost:1",
                "version": "ver_00000000000000000000000001", "kind": "built"}),
            ),
            (3_500, json!({"type": "run_completed", "stop_reason": "done", "result": "It works."})),
        ]);
        let expected = [
            "  I will build",
            "  your list.",
            "· thought for 1.2 s",
            "+ src/App.tsx  2.0 KB",
            "$ npx tsc  exit 2  600 ms",
            "    one",
            "    two",
            "✓ It works.  3.5 s",
            "http://a.localhost:1/",
        ];
        assert_eq!(lines, expected);
        assert_eq!(story.ending(), Some(&Ending { reason: StopReason::Done }));
    }

    #[test]
    fn a_limit_is_told_as_a_limit() {
        // E14
        let (lines, story) = told(&[(
            0,
            json!({"type": "run_completed", "stop_reason": "max_turns_reached", "result": "12 turns are used up"}),
        )]);
        assert_eq!(lines, ["✗ stopped: 12 turns are used up"]);
        assert_eq!(story.ending().map(|end| end.reason), Some(StopReason::MaxTurnsReached));
    }

    #[test]
    fn a_summary_is_one_short_line_without_control_characters() {
        let event: Event =
            serde_json::from_value(json!({"type": "text_delta", "text": "\u{1b}[2J".repeat(80)})).unwrap();
        let line = summary(&event);
        assert!(line.chars().count() <= 100 && !line.contains(char::is_control), "{line}");
    }
}

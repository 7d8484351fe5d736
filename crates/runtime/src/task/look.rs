//! What a run's files show without being built: the instant page (N7), and what a check finds.
//!
//! Both are drawn from the project as the task has it, between two commits. They say what they see and decide nothing.

use contract::ProjectPath;
use contract::event::{Author, PreviewKind, PreviewUrl, StepState, StepStatus};
use source::Problem;

use super::{Round, Task};
use crate::instant::told;
use crate::perform::{Report, StepRef};

/// Problems of the code that one check tells.
const FINDINGS: usize = 20;
/// Problems that are told while the model writes: more than a person reads at once helps nobody.
const TOLD: usize = 5;

impl Task {
    /// Shows the files at once if they changed and make a page (N7). If they do not, what was shown stays, and what will not become
    /// right by the files that are still to come is told: a missing file may just not be written yet.
    pub(super) fn show(&mut self, round: &mut Round) {
        let changed = round.events.iter().any(|entry| entry.event.changed_paths().next().is_some());
        let of_template = |path: &ProjectPath| self.project.file(path).is_none_or(|f| f.by == Author::Template);
        if !changed || self.project.files().keys().all(of_template) {
            return;
        }
        match self.runtime.page(&self.project) {
            Ok(page) => {
                self.told.clear();
                // A new project's first page is not the template's placeholder in other colours.
                let is_script = |path: &&String| !path.ends_with(".css") && !path.ends_with(".html");
                let mut scripts = page.files.keys().filter(is_script).filter_map(|path| ProjectPath::parse(path).ok());
                if scripts.all(|path| of_template(&path)) || self.state.instant.as_ref() == Some(&page.revision) {
                    return;
                }
                let url = self.runtime.preview.instant_url(&self.slug, &page.revision);
                let host = self.runtime.preview.host(&self.slug);
                let revision = Some(page.revision);
                let shown = PreviewUrl { url, host, kind: PreviewKind::Instant, version: None, revision };
                self.push(round, None, shown.into(), None);
            }
            Err(mut problems) => {
                problems.retain(|p| matches!(p.code, source::Code::SyntaxError | source::Code::Unsupported));
                self.tell_problems(round, problems);
            }
        }
    }

    fn tell_problems(&mut self, round: &mut Round, problems: Vec<Problem>) {
        for problem in problems.iter().filter(|p| !self.told.contains(p)).take(TOLD).cloned().collect::<Vec<_>>() {
            self.push(round, None, told(&problem).into(), None);
        }
        self.told = problems;
    }

    pub(super) fn check(&mut self, step: StepRef) {
        let read = |path: &str| {
            let path = ProjectPath::parse(path).ok()?;
            self.project.text(&path).map(str::to_owned)
        };
        let structure = engine::check::project(self.project.files().keys(), &read).into_iter().map(|f| f.message);
        let problems = self.runtime.instant.check(&self.project);
        let blank = engine::playbook::app::blank(&self.runtime.limits, &self.state);
        let blank = blank.map(|why| format!("The app loads and shows nothing. The browser says: {why}"));
        let findings: Vec<String> =
            structure.chain(problems.iter().take(FINDINGS).map(Problem::to_string)).chain(blank).collect();
        let (state, reason) = match findings.is_empty() {
            true => (StepStatus::Completed, None),
            false => (StepStatus::Failed, Some(findings.join("\n"))),
        };
        let problems = problems.iter().filter(|p| !self.told.contains(p)).take(FINDINGS).map(|p| told(p).into());
        let ended = StepState { id: step.0.clone(), state, attempt: step.1, reason }.into();
        let events = problems.chain([ended]).collect();
        self.hands.tell(Report::Events(step, events, None));
    }
}

//! What a run's files show without being built: the instant page (N7), and what a check finds.
//!
//! Both are drawn from the project as the task has it, between two commits, and beside the tasks of other runs: reading code takes
//! the processor. They say what they see and decide nothing.

use contract::ProjectPath;
use contract::event::{Author, PreviewKind, PreviewUrl};
use source::{Code, Page, Problem};

use super::{Round, Task};
use crate::RuntimeError;
use crate::instant::told;
use crate::perform::Examination;

/// Problems that are told at once while the model writes: more than a person reads helps nobody.
const TOLD: usize = 5;

impl Task {
    /// Shows the files at once if they changed and make a page (N7). If they do not, what was shown stays, and what will not become
    /// right by the files that are still to come is told: a missing file may just not be written yet.
    pub(super) async fn show(&mut self, round: &mut Round) -> Result<(), RuntimeError> {
        let changed = round.events.iter().any(|entry| entry.event.changed_paths().next().is_some());
        if !changed || self.state.ended || self.project.files().values().all(|file| file.by == Author::Template) {
            return Ok(());
        }
        match self.runtime.page(self.project.clone()).await? {
            Ok(page) => {
                if !self.is_placeholder(&page) {
                    let url = self.runtime.preview.instant_url(&self.slug, &page.revision);
                    let host = self.runtime.preview.host(&self.slug);
                    let revision = Some(page.revision);
                    let shown = PreviewUrl { url, host, kind: PreviewKind::Instant, version: None, revision };
                    self.push(round, None, shown.into(), None);
                }
            }
            Err(mut problems) => {
                problems.retain(|p| matches!(p.code, Code::SyntaxError | Code::Unsupported));
                self.tell(round, &problems);
            }
        }
        Ok(())
    }

    /// Whether what runs in a page is still the template's, if only in other colours.
    fn is_placeholder(&self, page: &Page) -> bool {
        let of_template = |path: &&String| {
            let path = ProjectPath::parse(path).ok();
            path.and_then(|path| self.project.file(&path)).is_none_or(|file| file.by == Author::Template)
        };
        let runs = |path: &&String| !path.ends_with(".css") && !path.ends_with(".html");
        let mut scripts = page.files.keys().filter(runs).peekable();
        match scripts.peek() {
            Some(_) => scripts.all(|path| of_template(&path)),
            None => page.files.keys().all(|path| of_template(&path)),
        }
    }

    /// Tells what was not told yet. What does not hold any more may be told again.
    fn tell(&mut self, round: &mut Round, problems: &[Problem]) {
        let fresh: Vec<_> = problems.iter().map(told).filter(|p| !self.told.contains(p)).take(TOLD).collect();
        for problem in fresh {
            self.push(round, None, problem.into(), None);
        }
    }

    /// What a check looks at.
    pub(super) fn examination(&self) -> Examination {
        let blank = engine::playbook::app::blank(&self.runtime.limits, &self.state);
        Examination { project: self.project.clone(), told: self.told.clone(), blank: blank.map(str::to_owned) }
    }
}

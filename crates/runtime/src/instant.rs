//! Instant previews (N7): what a project's files show as they are, without a build.
//!
//! A page is a projection of the log: the project as of the last `preview_url` of kind `instant` among the runs that are not
//! published yet. The worker that appends that event and the server that answers a browser draw it from the same files with the
//! same pure crate, so they need not be one process.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contract::api::{PreviewReport, ScriptPlace};
use contract::event::{Author, Event, Place, PreviewKind, PreviewProblem};
use contract::{Limits, ProjectId, ProjectPath, RunId, UserId, VersionId};
use source::{Leaf, Page, Problem, Reader, ReaderLimits, Served, Settings, Tree};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::ports::store::{InboxItem, ProjectRow};
use crate::project::sha256;
use crate::{Project, Runtime, RuntimeError, Template, replay};

impl Tree for Project {
    fn file(&self, path: &str) -> Option<Leaf<'_>> {
        let file = self.file(&ProjectPath::parse(path).ok()?)?;
        Some(Leaf { sha256: &file.sha256, content: &file.content })
    }
}

/// A page and the files that it is made of.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The page.
    pub page: Page,
    files: Project,
}

/// A project that is followed through the logs of its unpublished runs.
#[derive(Debug, Clone)]
struct Draft {
    /// The published version that it stands on.
    version: Option<VersionId>,
    /// The runs since, each with the last event that was taken in.
    runs: Vec<(RunId, u64)>,
    /// The files after these.
    now: Project,
    /// The latest page.
    shown: Option<Arc<Shown>>,
    /// Whether nothing newer is published. A page that was loaded just before a build came may still ask for its modules.
    current: bool,
}

impl Draft {
    /// Whether it stands on the same version and has read more.
    fn is_after(&self, other: &Self) -> bool {
        let runs = self.runs.iter().zip(&other.runs);
        self.version == other.version
            && self.runs.len() >= other.runs.len()
            && runs.clone().all(|(mine, theirs)| mine.0 == theirs.0 && mine.1 >= theirs.1)
    }
}

/// What instant previews keep in memory. All of it can be drawn again.
pub(crate) struct Instant {
    reader: Reader,
    drafts: Mutex<VecDeque<(ProjectId, Arc<Draft>)>>,
    most: usize,
}

impl Instant {
    /// Nothing is kept yet.
    pub(crate) fn new(limits: &Limits, template: &Template) -> Self {
        let size = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        let limits_of_reader = ReaderLimits {
            module_bytes: size(limits.instant_module_bytes),
            modules: size(limits.instant_modules),
            cache_bytes: size(limits.instant_cache_bytes),
        };
        let mut scaffold = Project::default();
        for (path, content) in &template.files {
            scaffold.put(path.clone(), content.clone(), sha256(content), Author::Template);
        }
        let reader = Reader::new(limits_of_reader, Settings::of(&scaffold));
        Self { reader, drafts: Mutex::default(), most: size(limits.instant_drafts) }
    }

    fn drafts(&self) -> MutexGuard<'_, VecDeque<(ProjectId, Arc<Draft>)>> {
        // The list is whole between its calls, so a panic elsewhere leaves it usable.
        self.drafts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self, project: ProjectId) -> Option<Arc<Draft>> {
        self.drafts().iter().find(|(id, _)| *id == project).map(|(_, draft)| draft.clone())
    }

    /// Keeps the newer of two drafts of a project, and gives it.
    fn keep(&self, project: ProjectId, draft: Draft) -> Arc<Draft> {
        let mut drafts = self.drafts();
        let at = drafts.iter().position(|(id, _)| *id == project);
        let former = at.and_then(|at| drafts.remove(at)).map(|(_, former)| former);
        let kept = former.filter(|former| former.is_after(&draft)).unwrap_or_else(|| Arc::new(draft));
        drafts.push_front((project, kept.clone()));
        drafts.truncate(self.most);
        kept
    }
}

/// A problem as the log tells it.
pub(crate) fn told(problem: &Problem) -> PreviewProblem {
    let (code, message, place) = (problem.code.as_str().into(), problem.message.clone(), problem.place.clone());
    PreviewProblem { code, message, place, revision: None }
}

/// What becomes of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported {
    /// The run's owner will read it.
    Taken,
    /// The user has no such run.
    NoSuchRun,
    /// The run has ended: nothing is appended to it any more.
    Ended,
    /// No page is named like this.
    NoSuchPage,
    /// As many wait to be taken in as may.
    TooMany,
}

impl Runtime {
    /// The page that a project's files are, or everything that keeps them from being one.
    pub async fn page(self: &Arc<Self>, files: Project) -> Result<Result<Page, Vec<Problem>>, RuntimeError> {
        self.read(files, |runtime, files| runtime.instant.reader.page(files, &runtime.template.instant)).await
    }

    /// What a build of the files would surely trip over.
    pub(crate) async fn check(self: &Arc<Self>, files: Project) -> Result<Vec<Problem>, RuntimeError> {
        self.read(files, |runtime, files| runtime.instant.reader.check(files)).await
    }

    /// Reads code where it holds up nothing else: a large project takes a while.
    #[expect(clippy::disallowed_methods, reason = "reading code takes the processor, and there is no adapter for that")]
    async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        files: Project,
        read: impl FnOnce(&Self, &Project) -> T + Send + 'static,
    ) -> Result<T, RuntimeError> {
        if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
            // There is nothing that it would hold up less elsewhere, and a rehearsal has to be the same every time.
            return Ok(read(self, &files));
        }
        let runtime = self.clone();
        let reading = tokio::task::spawn_blocking(move || read(&runtime, &files));
        reading.await.map_err(|_broken_down| RuntimeError::Broken)
    }

    /// The instant page of the preview with this slug; none if what is published is as new.
    pub async fn instant_page(self: &Arc<Self>, slug: &str) -> Result<Option<Arc<Shown>>, RuntimeError> {
        let Some(row) = self.ports.store.project_by_slug(slug).await? else { return Ok(None) };
        Ok(self.follow(&row).await?.and_then(|draft| draft.shown.clone().filter(|_| draft.current)))
    }

    /// A file that a page names by the hash of what is in it, by the path and the query of its address.
    pub async fn instant_module(
        self: &Arc<Self>,
        slug: &str,
        path: &str,
        query: &str,
    ) -> Result<Option<Served>, RuntimeError> {
        let Some(row) = self.ports.store.project_by_slug(slug).await? else { return Ok(None) };
        let serve = |draft: &Draft| {
            let shown = draft.shown.as_ref().and_then(|shown| self.instant.reader.serve(&shown.files, path, query));
            shown.or_else(|| self.instant.reader.serve(&draft.now, path, query))
        };
        if let Some(found) = self.instant.kept(row.id).and_then(|draft| serve(&draft)) {
            return Ok(Some(found));
        }
        Ok(self.follow(&row).await?.and_then(|draft| serve(&draft)))
    }

    /// A file that the instant page asks for as it is, if nothing newer is published.
    pub async fn instant_asset(self: &Arc<Self>, slug: &str, path: &str) -> Result<Option<Served>, RuntimeError> {
        let shown = self.instant_page(slug).await?;
        Ok(shown.and_then(|shown| self.instant.reader.serve(&shown.files, path, "")))
    }

    /// The project as its logs have it by now; none if nothing happened since it was published, or at all. Two who follow at once do
    /// the same work twice, and the newer outcome is kept.
    async fn follow(self: &Arc<Self>, row: &ProjectRow) -> Result<Option<Arc<Draft>>, RuntimeError> {
        let (store, objects) = (self.ports.store.as_ref(), self.ports.objects.as_ref());
        let version = row.current.as_ref().map(|version| version.id);
        let runs = store.unpublished_runs(row.id).await?;
        let former = self.instant.kept(row.id);
        if runs.is_empty() {
            // What was loading when the build came may still ask for its modules.
            return Ok(former.map(|draft| Arc::new(Draft { current: false, ..Draft::clone(&draft) })));
        }
        let goes_on = |draft: &Draft| {
            draft.version == version
                && draft.runs.len() <= runs.len()
                && draft.runs.iter().zip(&runs).all(|(a, b)| a.0 == *b)
        };
        let mut draft = match &former {
            Some(draft) if goes_on(draft) => Draft::clone(draft),
            Some(_) | None => {
                let now = replay::published(objects, row.current.as_ref()).await?;
                let shown = former.as_ref().and_then(|draft| draft.shown.clone());
                Draft { version, runs: vec![], now, shown, current: false }
            }
        };
        let known = draft.runs.len();
        draft.runs.extend(runs[known..].iter().map(|run| (*run, 0)));
        let mut page = None;
        for (run, seq) in &mut draft.runs {
            let shows = |event: &Event, now: &Project| {
                if matches!(event, Event::PreviewUrl(preview) if preview.kind == PreviewKind::Instant) {
                    page = Some(now.clone());
                }
            };
            replay::catch_up(store, objects, *run, seq, &mut draft.now, shows).await?;
        }
        if let Some(files) = page {
            // It was one when it was shown; a newer Baton may see it otherwise, and then the build is what there is.
            let page = self.page(files.clone()).await?;
            draft.shown = page.ok().map(|page| Arc::new(Shown { page, files }));
            draft.current = draft.shown.is_some();
        }
        Ok(Some(self.instant.keep(row.id, draft)))
    }

    /// Takes in what a browser says of an instant page. What it says is data: it becomes an event when the run's owner has read it.
    pub async fn report(&self, user: UserId, run: RunId, report: PreviewReport) -> Result<Reported, RuntimeError> {
        let store = self.ports.store.as_ref();
        let Some(view) = store.run(user, run).await? else { return Ok(Reported::NoSuchRun) };
        if view.status.is_terminal() {
            return Ok(Reported::Ended);
        }
        if !source::is_hash(&report.revision) {
            return Ok(Reported::NoSuchPage);
        }
        if store.inbox(run).await?.len() as u64 >= self.limits.preview_reports {
            return Ok(Reported::TooMany);
        }
        let most = usize::try_from(self.limits.preview_report_bytes).unwrap_or(usize::MAX);
        let message = report.message[..report.message.floor_char_boundary(most)].to_owned();
        let code = if report.blank { engine::state::BLANK_PAGE } else { "exception" };
        let place = report.at.and_then(|at| self.origin(view.project_id, &at));
        let problem = PreviewProblem { code: code.into(), message, place, revision: Some(report.revision) };
        self.tell(run, InboxItem::PreviewProblem(problem)).await?;
        Ok(Reported::Taken)
    }

    /// Where in a project's file a place of a transformed module is, as far as the page is still known.
    fn origin(&self, project: ProjectId, at: &ScriptPlace) -> Option<Place> {
        let shown = self.instant.kept(project)?.shown.clone()?;
        let (_, address) = at.url.split_once("://")?;
        let (path, hash) = address[address.find('/')?..].split_once("?module=")?;
        self.instant.reader.origin(&shown.files, path, hash, at.line, at.column)
    }
}

//! Is everything whole that is stored of a user: can every event be read, is every object there that versions, logs and snapshots name, and
//! are the rows what the logs say?
//!
//! It only reads, one run at a time, and may do so beside those who work: of a run that has not ended the rows change while one looks,
//! so they are not compared. Repairs nothing.

use std::collections::{BTreeSet, HashSet};

use contract::api::RunView;
use contract::event::{Author, Event, Work};
use contract::{RunId, UserId};

use crate::bundle::IMPORTED;
use crate::ports::objects::ObjectsError;
use crate::ports::store::{StoreError, StoreFault};
use crate::ports::{Objects, Store};
use crate::recall::Recalled;
use crate::verify::verification;
use crate::{Manifest, replay};

/// Runs that are listed at once.
const RUNS: usize = 100;
/// Faults that are told; those beyond are counted.
const TOLD: usize = 1_000;
/// Objects that are known to be whole, so that they are not read again: about 20 MB of memory.
const KNOWN: usize = 200_000;

/// What was looked at and what was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Runs that were looked at.
    pub runs: u64,
    /// Events that were read.
    pub events: u64,
    /// Objects that were read.
    pub objects: u64,
    /// What is wrong, one line each.
    pub faults: Vec<String>,
    /// Further faults, which are not told.
    pub more: u64,
}

/// Reads everything that is stored of a user and says what is wrong with it. `each` is called after every run with what there is so far.
///
/// # Errors
/// The store cannot be read. What is damaged in it is no error but a fault.
pub async fn inspect(
    store: &dyn Store,
    objects: &dyn Objects,
    user: UserId,
    mut each: impl FnMut(&Inspection),
) -> Result<Inspection, StoreError> {
    let mut looking =
        Looking { store, objects, found: Inspection::default(), known: HashSet::new(), bad: BTreeSet::new() };
    let mut before = None;
    loop {
        let page = match store.runs(user, None, before, RUNS).await {
            Ok(page) => page,
            Err(error) if error.fault == StoreFault::Damaged => {
                looking.tell(format!("the list of runs cannot be read further: {error}"));
                break;
            }
            Err(error) => return Err(error),
        };
        before = page.items.last().map(|run| run.id);
        for run in &page.items {
            looking.run(user, run).await?;
            looking.found.runs += 1;
            each(&looking.found);
        }
        if page.next.is_none() {
            break;
        }
    }
    Ok(looking.found)
}

struct Looking<'a> {
    store: &'a dyn Store,
    objects: &'a dyn Objects,
    found: Inspection,
    /// Objects that are whole.
    known: HashSet<String>,
    /// Objects that are not, which were told; as many as faults are.
    bad: BTreeSet<String>,
}

impl Looking<'_> {
    fn tell(&mut self, fault: String) {
        if self.found.faults.len() < TOLD {
            self.found.faults.push(fault);
        } else {
            self.found.more += 1;
        }
    }

    /// A store that cannot be read ends it; what is damaged is a fault of the run.
    fn damaged<T>(&mut self, run: RunId, answer: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match answer {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.fault == StoreFault::Damaged => {
                self.tell(format!("{run}: what is stored of it cannot be read: {error}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn run(&mut self, user: UserId, view: &RunView) -> Result<(), StoreError> {
        let run = view.id;
        let readable = self.log(run).await?;
        let snapshot = self.store.snapshot(run).await;
        for hash in self.damaged(run, snapshot)?.flatten().iter().flat_map(Recalled::named) {
            self.object(&format!("{run}: its snapshot"), &hash).await;
        }
        let drawn = self.store.drawn(run).await;
        for version in self.damaged(run, drawn)?.map(|drawn| drawn.versions).unwrap_or_default() {
            let what = format!("{run}: {}", version.id);
            self.manifest(&what, &version.files).await;
            self.manifest(&what, &version.output).await;
        }
        if !readable || !view.status.is_terminal() {
            return Ok(());
        }
        let verified = verification(self.store, self.objects, user, view).await;
        for difference in self.damaged(run, verified)?.map(|found| found.differences).unwrap_or_default() {
            // What stands on an object that is missing is no second fault.
            if !self.bad.iter().any(|hash| difference.contains(hash.as_str())) {
                self.tell(format!("{run}: {difference}"));
            }
        }
        Ok(())
    }

    /// Reads a log. Gives whether every event can be read.
    async fn log(&mut self, run: RunId) -> Result<bool, StoreError> {
        let (mut after, mut readable, mut session, mut imported) = (0, true, None, false);
        loop {
            let page = self.store.read_after(run, after, replay::PAGE).await;
            let Some(page) = self.damaged(run, page)? else { return Ok(false) };
            if page.is_empty() {
                break;
            }
            for stored in page {
                (after, self.found.events) = (stored.head.seq, self.found.events + 1);
                let kind = stored.kind.clone();
                match replay::decode(run, stored) {
                    Ok(entry) => {
                        imported |= after == 3 && matches!(&entry.event, Event::Warning(told) if told.code == IMPORTED);
                        if let Event::Session(sealed) = entry.event {
                            session = Some(sealed.work);
                        } else {
                            self.event(&format!("{run}: event {after}"), &entry.event, imported).await;
                        }
                    }
                    Err(error) => {
                        readable = false;
                        let why = error.to_string();
                        let why = why.rsplit_once("cannot be read: ").map_or(why.as_str(), |(_, why)| why);
                        self.tell(format!("{run}: event {after} ({kind}) cannot be read: {why}"));
                    }
                }
            }
        }
        // What a run that was imported changed need not be here.
        if let Some(Work::Change { files, .. }) = session.filter(|_| !imported) {
            for file in files {
                if let Some(hash) = file.sha256 {
                    self.object(&format!("{run}: its change of `{}`", file.path), &hash).await;
                }
            }
        }
        Ok(readable)
    }

    /// Looks at what an event names. What was built where a run was imported from is not here.
    async fn event(&mut self, place: &str, event: &Event, imported: bool) {
        if let Event::FileCompleted(file) = event {
            match file.by {
                // The model's text is in the log.
                Author::Model => {}
                Author::Template | Author::Command | Author::Person | Author::Restored => {
                    self.object(&format!("{place} (`{}`)", file.path), &file.sha256).await;
                }
            }
        } else if let Event::BuildStatus(build) = event
            && let Some(output) = build.output.as_ref().filter(|_| !imported)
        {
            self.manifest(place, output).await;
        }
    }

    /// Looks at a manifest and at everything that it lists.
    async fn manifest(&mut self, what: &str, hash: &str) {
        if self.is_known(hash) || !self.object(what, hash).await {
            return;
        }
        self.known.remove(hash);
        let manifest = match Manifest::load(self.objects, hash).await {
            Ok(manifest) => manifest,
            Err(_no_manifest) => return self.tell(format!("{what}: object {hash} is no list of files")),
        };
        let mut whole = true;
        for (path, entry) in manifest.files {
            whole &= self.object(&format!("{what} (`{path}`)"), &entry.sha256).await;
        }
        if whole {
            self.know(hash);
        }
    }

    /// Looks whether an object is there and is what its hash says. It is told once if it is not.
    async fn object(&mut self, what: &str, hash: &str) -> bool {
        if self.is_known(hash) {
            return true;
        }
        if self.bad.contains(hash) {
            return false;
        }
        self.found.objects += 1;
        let fault = match self.objects.get(hash).await {
            Ok(Some(_)) => {
                self.know(hash);
                return true;
            }
            Ok(None) => format!("{what} needs object {hash}, which is missing"),
            Err(ObjectsError::Damaged(_)) => format!("{what} needs object {hash}, which is damaged"),
            Err(ObjectsError::BadHash(text)) => format!("{what} names an object `{text}`, which is no hash"),
            Err(ObjectsError::Unavailable(why)) => format!("{what} needs object {hash}, which cannot be read: {why}"),
        };
        if self.bad.len() < TOLD {
            self.bad.insert(hash.to_owned());
        }
        self.tell(fault);
        false
    }

    fn is_known(&self, hash: &str) -> bool {
        self.known.contains(hash)
    }

    fn know(&mut self, hash: &str) {
        if self.known.len() >= KNOWN {
            self.known.clear();
        }
        self.known.insert(hash.to_owned());
    }
}

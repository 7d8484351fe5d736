//! Exporting: the log and what it names are read, made clean and put together, within `bundle_bytes`.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use contract::bundle::{Bundle, BundledEvent, BundledFile, Content, FORMAT, VERSION};
use contract::event::{Author, Event, NewEvent, Session, Work};
use contract::{RunId, UserId};
use thiserror::Error;

use super::clean::Cleaner;
use super::content_of;
use crate::ports::objects::ObjectsError;
use crate::ports::store::StoreError;
use crate::{Project, Runtime, RuntimeError, history, replay};

/// Why a run was not exported.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The user has no such run.
    #[error("there is no such run")]
    NoSuchRun,
    /// Its log alone is too large.
    #[error("{limit} would be passed: {value}")]
    TooLarge {
        /// The limit's name in the limits table.
        limit: &'static str,
        /// Its value.
        value: u64,
    },
    /// It could not be read.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

impl From<StoreError> for ExportError {
    fn from(error: StoreError) -> Self {
        Self::Runtime(error.into())
    }
}

impl Runtime {
    /// A run of the user in one file, as JSON. Of an active run it is what has been stored so far. Without `files`, their contents are
    /// left out, and their hashes stay.
    pub async fn export(&self, user: UserId, run: RunId, files: bool) -> Result<Bytes, ExportError> {
        let (store, objects) = (self.ports.store.as_ref(), self.ports.objects.as_ref());
        let Some(mut view) = store.run(user, run).await? else { return Err(ExportError::NoSuchRun) };
        let log = self.log(run).await?;
        // What came after it was looked at is in the log and not yet in the row.
        view.last_seq = log.len() as u64;
        let session = session(&log).ok_or_else(|| history::unsealed(run))?;
        let earlier = history::before(store, user, session, run).await?;
        let base = match history::files_before(store, objects, user, &view).await {
            // What is broken is what is reported: the run is told as far as it can be.
            Err(error) if is_lost(&error) => Project::default(),
            other => other?,
        };
        let contents = self.contents(&base, session, &log, files).await?;
        let mut cleaner = Cleaner::new(self.private_words(), &log, contents);
        let events = cleaner.log(log, &base, files);
        let base = base
            .files()
            .iter()
            .map(|(path, file)| BundledFile { path: path.clone(), sha256: cleaner.hash(&file.sha256) });
        let base = base.collect();
        let events = events.into_iter().zip(1..).map(|(entry, seq)| {
            let (step_id, attempt) = entry.step.unzip();
            BundledEvent { seq, at: entry.at, step_id, attempt, event: entry.event }
        });
        let events = events.collect();
        let earlier = cleaner.plain(&earlier)?;
        let run = cleaner.plain(&view)?;
        let (contents, missing, redacted) = cleaner.rest();
        let bundle = Bundle {
            format: FORMAT.into(),
            version: VERSION,
            baton: env!("CARGO_PKG_VERSION").into(),
            exported_at: self.ports.world.now_ms(),
            redacted,
            files,
            run,
            limits: self.limits.rows().into_iter().map(|row| (row.name.to_owned(), row.value)).collect(),
            earlier,
            base,
            events,
            contents: BTreeMap::new(),
            missing,
        };
        self.fit(bundle, contents)
    }

    /// A run's whole log, within the limits of a bundle.
    async fn log(&self, run: RunId) -> Result<Vec<NewEvent>, ExportError> {
        let (mut bytes, mut log) = (0, vec![]);
        loop {
            let page = self.ports.store.read_after(run, log.len() as u64, replay::PAGE).await?;
            if page.is_empty() {
                return Ok(log);
            }
            for stored in page {
                bytes += stored.payload.len() as u64;
                log.push(replay::decode(run, stored)?);
            }
            for (used, limit, value) in [
                (bytes, "bundle_bytes", self.limits.bundle_bytes),
                (log.len() as u64, "bundle_events", self.limits.bundle_events),
            ] {
                if used > value {
                    return Err(ExportError::TooLarge { limit, value });
                }
            }
        }
    }

    /// What the log names and does not tell: contents by their hashes, none for those that are not stored any more.
    async fn contents(
        &self,
        base: &Project,
        session: &Session,
        log: &[NewEvent],
        files: bool,
    ) -> Result<BTreeMap<String, Option<Bytes>>, RuntimeError> {
        let mut contents: BTreeMap<String, Option<Bytes>> = BTreeMap::new();
        if !files {
            return Ok(contents);
        }
        let known = base.files().values().map(|file| (file.sha256.clone(), Some(file.content.clone())));
        contents.extend(known);
        let mut named = BTreeSet::new();
        if let Work::Change { files, .. } = &session.work {
            named.extend(files.iter().filter_map(|file| file.sha256.as_ref()));
        }
        for entry in log {
            if let Event::FileCompleted(done) = &entry.event
                && done.by != Author::Model
            {
                named.insert(&done.sha256);
            }
        }
        for sha256 in named {
            if !contents.contains_key(sha256) {
                let bytes = self.ports.objects.get(sha256).await.map_err(RuntimeError::from);
                let bytes = bytes.or_else(|error| if is_lost(&error) { Ok(None) } else { Err(error) })?;
                contents.insert(sha256.clone(), bytes);
            }
        }
        Ok(contents)
    }

    /// Adds contents as long as there is room, the smallest first; the others are told as missing.
    fn fit(&self, mut bundle: Bundle, contents: BTreeMap<String, Bytes>) -> Result<Bytes, ExportError> {
        let written = |bundle: &Bundle| {
            let text = serde_json::to_vec(bundle);
            text.map_err(|error| RuntimeError::BadManifest(format!("of a bundle: {error}")))
        };
        let value = self.limits.bundle_bytes;
        let without = written(&bundle)?.len() as u64;
        let mut left = value.checked_sub(without).ok_or(ExportError::TooLarge { limit: "bundle_bytes", value })?;
        let mut sized: Vec<(u64, String, Content)> = vec![];
        for (sha256, bytes) in contents {
            let content = content_of(&bytes);
            // With its name, quotes and commas.
            let size = serde_json::to_string(&content).map_or(u64::MAX, |text| (text.len() + sha256.len() + 4) as u64);
            sized.push((size, sha256, content));
        }
        sized.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        for (size, sha256, content) in sized {
            match left.checked_sub(size) {
                Some(rest) => {
                    left = rest;
                    bundle.contents.insert(sha256, content);
                }
                None => bundle.missing.push(sha256),
            }
        }
        Ok(written(&bundle)?.into())
    }
}

/// Whether something that was stored is not there any more, or is damaged.
fn is_lost(error: &RuntimeError) -> bool {
    matches!(
        error,
        RuntimeError::LostObject { .. }
            | RuntimeError::BadManifest(_)
            | RuntimeError::Objects(ObjectsError::Damaged(_) | ObjectsError::BadHash(_))
    )
}

/// The sealed envelope in a log.
fn session(log: &[NewEvent]) -> Option<&Session> {
    log.iter().find_map(|entry| if let Event::Session(session) = &entry.event { Some(session) } else { None })
}

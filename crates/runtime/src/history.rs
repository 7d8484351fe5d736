//! What there was before a run: what had been said in its chat, and the files of its project. A run's model is shown the first, and
//! a fork of it takes both along.

use std::collections::BTreeSet;

use contract::api::RunView;
use contract::event::{Event, Said, Session};
use contract::{RunId, UserId};

use crate::bundle::{IMPORTED, NOT_IN_BUNDLE};
use crate::ports::{Objects, Store};
use crate::{Project, RuntimeError, replay};

/// Files of which a log says that their contents are not here, since the run was imported without, and that nothing has replaced since.
#[derive(Default)]
pub(crate) struct Absent(BTreeSet<String>);

impl Absent {
    /// Takes in an event.
    pub(crate) fn take(&mut self, event: &Event) {
        if let Event::FileRejected(file) = event
            && file.code == NOT_IN_BUNDLE
        {
            self.0.insert(file.path.clone());
        } else if let Event::FileCompleted(file) = event {
            self.0.remove(file.path.as_str());
        } else if let Event::FileDeleted(file) = event {
            self.0.remove(file.path.as_str());
        } else if let Event::FileRenamed(file) = event
            && self.0.remove(file.from.as_str())
        {
            self.0.insert(file.to.to_string());
        }
    }

    /// One of them.
    pub(crate) fn any(self) -> Option<String> {
        self.0.into_iter().next()
    }
}

/// A file that a run left and whose contents are not here.
pub(crate) async fn absent(store: &dyn Store, run: RunId) -> Result<Option<String>, RuntimeError> {
    // What was imported says so before anything else.
    let told = store.read_after(run, 2, 1).await?.pop().map(|stored| replay::decode(run, stored)).transpose()?;
    if !told.is_some_and(|told| matches!(&told.event, Event::Warning(warning) if warning.code == IMPORTED)) {
        return Ok(None);
    }
    let (mut absent, mut after) = (Absent::default(), 3);
    loop {
        let page = store.read_after(run, after, replay::PAGE).await?;
        if page.is_empty() {
            return Ok(absent.any());
        }
        for stored in page {
            after = stored.head.seq;
            absent.take(&replay::decode(run, stored)?.event);
        }
    }
}

/// Messages before a run, oldest first; none that are blank. Of a chat that was forked, also what had been said before the fork.
pub(crate) async fn before(
    store: &dyn Store,
    user: UserId,
    session: &Session,
    run: RunId,
) -> Result<Vec<Said>, RuntimeError> {
    let mut said = session.fork.as_ref().map(|fork| fork.earlier.clone()).unwrap_or_default();
    if session.follow_up
        && let Some(chat) = store.chat(user, session.chat_id).await?
    {
        if session.fork.is_none()
            && let Some(first) = chat.runs.first()
            && let Some(fork) = sealed(store, first.id).await?.and_then(|session| session.fork)
        {
            said = fork.earlier;
        }
        let earlier = chat.messages.into_iter().take_while(|message| message.run_id != run);
        said.extend(earlier.map(|message| Said { role: message.role, text: message.text }));
    }
    said.retain(|message| !message.text.trim().is_empty());
    Ok(said)
}

/// A run's sealed envelope: its second event.
pub(crate) async fn sealed(store: &dyn Store, run: RunId) -> Result<Option<Session>, RuntimeError> {
    for stored in store.read_after(run, 1, 1).await? {
        if let Event::Session(session) = replay::decode(run, stored)?.event {
            return Ok(Some(session));
        }
    }
    Ok(None)
}

/// The fault of a log without one.
pub(crate) fn unsealed(run: RunId) -> RuntimeError {
    RuntimeError::BadEvent { run, seq: 2, reason: "the run has no session".into() }
}

/// The files of a run's project as they were when it began, also if it has published since: the last version before it, and what the
/// runs between have changed.
pub(crate) async fn files_before(
    store: &dyn Store,
    objects: &dyn Objects,
    user: UserId,
    run: &RunView,
) -> Result<Project, RuntimeError> {
    let chat = store.chat(user, run.chat_id).await?;
    let runs = chat.map(|chat| chat.runs).unwrap_or_default();
    let (mut version, mut between) = (None, vec![]);
    for former in runs.iter().rev().skip_while(|other| other.id != run.id).skip(1) {
        version = store.drawn(former.id).await?.versions.pop();
        if version.is_some() {
            break;
        }
        between.push(former.id);
    }
    let mut project = replay::published(objects, version.as_ref()).await?;
    for former in between.into_iter().rev() {
        replay::catch_up(store, objects, former, &mut 0, &mut project, |_, _| {}).await?;
    }
    Ok(project)
}

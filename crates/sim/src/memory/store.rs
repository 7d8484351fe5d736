//! The store in memory: each call is one piece of `rules`, and fails where the hook says. The real stores are compared with it.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use contract::api::{Accepted, ChatDetail, ChatView, Page, RunView, VersionView};
use contract::{ChatId, ProjectId, RunId, UserId, VersionId};
use runtime::ports::store::{
    Admission, AdmitError, Append, AppendError, Claim, Drawn, InboxItem, ProjectRow, PublishedVersion, Snapshot, Store,
    StoreError, StoreFault, StoredEvent,
};

use super::rules::{State, page};
use super::{Hook, Moment, Op};

/// A store that lasts as long as a handle to it does. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryStore {
    hook: Hook,
    state: Arc<Mutex<State>>,
}

impl MemoryStore {
    /// An empty store of which the hook decides what fails.
    pub fn new(hook: Hook) -> Self {
        Self { hook, state: Arc::default() }
    }

    /// What opening the store of a dead process does: every lease ends at once.
    pub fn restart(&self) {
        for claim in self.lock().runs.iter_mut().filter_map(|run| run.claim.as_mut()).filter(|claim| claim.held) {
            claim.held = false;
            claim.claimable_at = Some(0);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One call: the hook, the work in one piece, the hook.
    async fn call<T, E: From<StoreError>>(
        &self,
        name: &'static str,
        run: Option<RunId>,
        work: impl FnOnce(&mut State) -> Result<T, E> + Send,
    ) -> Result<T, E> {
        let unavailable = |message| StoreError::new(StoreFault::Unavailable, message);
        let op = Op { name, run };
        self.hook.ask(Moment::Before, op).map_err(unavailable)?;
        tokio::task::yield_now().await;
        let answer = work(&mut self.lock());
        self.hook.ask(Moment::After, op).map_err(unavailable)?;
        answer
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn admit(&self, admission: Admission) -> Result<Accepted, AdmitError> {
        self.call("admit", Some(admission.run_id), |state| state.admit(admission)).await
    }

    async fn claim(&self, _worker: &str, most: usize, now_ms: u64, lease_ms: u64) -> Result<Vec<Claim>, StoreError> {
        self.call("claim", None, |state| Ok(state.claim(|_, _| true, most, now_ms, lease_ms))).await
    }

    async fn claim_stopped(
        &self,
        _worker: &str,
        most: usize,
        now_ms: u64,
        lease_ms: u64,
    ) -> Result<Vec<Claim>, StoreError> {
        self.call("claim_stopped", None, |state| Ok(state.claim(State::is_stopped, most, now_ms, lease_ms))).await
    }

    async fn renew(&self, claims: &[Claim], now_ms: u64, lease_ms: u64) -> Result<Vec<Claim>, StoreError> {
        self.call("renew", None, |state| {
            let mut lost = vec![];
            for claim in claims {
                match state.run(claim.run_id).and_then(|run| run.held_under(claim.epoch)) {
                    Some(held) => held.claimable_at = Some(now_ms.saturating_add(lease_ms)),
                    None => lost.push(*claim),
                }
            }
            Ok(lost)
        })
        .await
    }

    async fn release(&self, claim: Claim) -> Result<(), StoreError> {
        self.call("release", Some(claim.run_id), |state| state.release(claim)).await
    }

    async fn append(&self, append: Append) -> Result<u64, AppendError> {
        self.call("append", Some(append.claim.run_id), |state| state.append(append)).await
    }

    async fn read_after(&self, run: RunId, after: u64, most: usize) -> Result<Vec<StoredEvent>, StoreError> {
        self.call("read_after", Some(run), |state| {
            let after = usize::try_from(after).unwrap_or(usize::MAX);
            Ok(state
                .run(run)
                .map(|run| run.events.iter().skip(after).take(most).cloned().collect())
                .unwrap_or_default())
        })
        .await
    }

    async fn put_snapshot(&self, claim: Claim, snapshot: Snapshot) -> Result<(), StoreError> {
        self.call("put_snapshot", Some(claim.run_id), |state| {
            if let Some(run) = state.run(claim.run_id)
                && run.held_under(claim.epoch).is_some()
                && run.snapshot.as_ref().is_none_or(|former| former.seq < snapshot.seq)
            {
                run.snapshot = Some(snapshot);
            }
            Ok(())
        })
        .await
    }

    async fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, StoreError> {
        self.call("snapshot", Some(run), |state| Ok(state.run(run).and_then(|run| run.snapshot.clone()))).await
    }

    async fn put_inbox(&self, run: RunId, item: InboxItem, _at: u64) -> Result<Vec<RunId>, StoreError> {
        self.call("put_inbox", Some(run), |state| Ok(state.put_inbox(run, &item))).await
    }

    async fn inbox(&self, run: RunId) -> Result<Vec<(u64, InboxItem)>, StoreError> {
        self.call("inbox", Some(run), |state| {
            let rows = state.inbox.iter().filter(|(_, of, _)| *of == run);
            Ok(rows.map(|(number, _, item)| (*number, item.clone())).collect())
        })
        .await
    }

    async fn owner(&self, fresh: UserId, _at: u64) -> Result<UserId, StoreError> {
        self.call("owner", None, |state| {
            let owner = *state.owner.get_or_insert(fresh);
            state.users.push(owner);
            Ok(owner)
        })
        .await
    }

    async fn run(&self, user: UserId, run: RunId) -> Result<Option<RunView>, StoreError> {
        self.call("run", Some(run), |state| {
            Ok(state.run(run).filter(|run| run.user == user).map(|run| run.view.clone()))
        })
        .await
    }

    async fn runs(
        &self,
        user: UserId,
        chat: Option<ChatId>,
        before: Option<RunId>,
        most: usize,
    ) -> Result<Page<RunView>, StoreError> {
        self.call("runs", None, |state| {
            let before = before.map(|id| state.runs.iter().position(|run| run.view.id == id).unwrap_or(0));
            let older = &state.runs[..before.unwrap_or(state.runs.len())];
            let found =
                older.iter().rev().filter(|run| run.user == user && chat.is_none_or(|chat| run.view.chat_id == chat));
            Ok(page(found.map(|run| run.view.clone()).collect(), most, |last| last.id.to_string()))
        })
        .await
    }

    async fn chats(&self, user: UserId, cursor: Option<&str>, most: usize) -> Result<Page<ChatView>, StoreError> {
        self.call("chats", None, |state| state.chats(user, cursor, most)).await
    }

    async fn project_of(&self, user: UserId, chat: ChatId) -> Result<Option<ProjectId>, StoreError> {
        self.call("project_of", None, |state| {
            Ok(state.chat(chat).filter(|chat| chat.user == user).map(|chat| chat.view.project_id))
        })
        .await
    }

    async fn chat(&self, user: UserId, chat: ChatId) -> Result<Option<ChatDetail>, StoreError> {
        self.call("chat", None, |state| Ok(state.detail(user, chat))).await
    }

    async fn project(&self, project: ProjectId) -> Result<Option<ProjectRow>, StoreError> {
        self.call("project", None, |state| Ok(state.project(|chat| chat.view.project_id == project))).await
    }

    async fn project_by_slug(&self, slug: &str) -> Result<Option<ProjectRow>, StoreError> {
        self.call("project_by_slug", None, |state| Ok(state.project(|chat| chat.slug == slug))).await
    }

    async fn unpublished_runs(&self, project: ProjectId) -> Result<Vec<RunId>, StoreError> {
        self.call("unpublished_runs", None, |state| Ok(state.unpublished_runs(project))).await
    }

    async fn versions(&self, project: ProjectId, most: usize) -> Result<Vec<VersionView>, StoreError> {
        self.call("versions", None, |state| {
            let versions = state
                .chats
                .iter()
                .filter(|chat| chat.view.project_id == project)
                .flat_map(|chat| chat.versions.iter().rev());
            let view = |version: &PublishedVersion| VersionView {
                id: version.id,
                parent: version.parent,
                run_id: version.run_id,
                summary: version.summary.clone(),
                created_at: version.at,
            };
            Ok(versions.take(most).map(view).collect())
        })
        .await
    }

    async fn version(&self, project: ProjectId, version: VersionId) -> Result<Option<PublishedVersion>, StoreError> {
        self.call("version", None, |state| {
            let chat = state.chats.iter().find(|chat| chat.view.project_id == project);
            Ok(chat.and_then(|chat| chat.versions.iter().find(|known| known.id == version).cloned()))
        })
        .await
    }

    async fn drawn(&self, run: RunId) -> Result<Drawn, StoreError> {
        self.call("drawn", Some(run), |state| Ok(state.run(run).map(|run| run.drawn.clone()).unwrap_or_default())).await
    }

    async fn put_session(&self, token_sha256: &str, user: UserId, until: u64) -> Result<(), StoreError> {
        self.call("put_session", None, |state| state.put_session(token_sha256, user, until)).await
    }

    async fn session(&self, token_sha256: &str, now_ms: u64) -> Result<Option<UserId>, StoreError> {
        self.call("session", None, |state| {
            Ok(state.sessions.get(token_sha256).filter(|(_, until)| *until > now_ms).map(|(user, _)| *user))
        })
        .await
    }
}

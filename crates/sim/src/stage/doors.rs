//! The store and the objects as a process on the stage reaches them: each call passes the gate.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use contract::api::{Accepted, ChatDetail, ChatView, Page, RunView, VersionView};
use contract::{ChatId, ProjectId, RunId, UserId, VersionId};
use runtime::ports::Objects;
use runtime::ports::objects::ObjectsError;
use runtime::ports::store::{
    Admission, AdmitError, Append, AppendError, Claim, Drawn, InboxItem, ProjectRow, PublishedVersion, Snapshot, Store,
    StoreError, StoreFault, StoredEvent,
};

use super::gate::{Failure, Gate, WHY};

/// A store behind a gate.
pub(super) struct StagedStore {
    pub(super) store: Arc<dyn Store>,
    pub(super) objects: Arc<dyn Objects>,
    pub(super) gate: Arc<Gate>,
}

impl StagedStore {
    async fn ask<T, E, F>(&self, name: &'static str, work: impl Fn(Arc<dyn Store>) -> F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let fail = |failure| {
            E::from(match failure {
                Failure::Broken => StoreError::new(StoreFault::Unavailable, WHY),
                Failure::Full => StoreError::new(StoreFault::Full, WHY),
            })
        };
        self.gate.call(name, fail, || work(self.store.clone())).await
    }
}

#[async_trait]
impl Store for StagedStore {
    async fn admit(&self, admission: Admission) -> Result<Accepted, AdmitError> {
        let director = &self.gate.director;
        self.ask("admit", |store| {
            let (admission, director) = (admission.clone(), director.clone());
            async move {
                // Whoever claims it has to find its family.
                director.admitted(&admission);
                store.admit(admission).await
            }
        })
        .await
    }

    async fn claim(&self, worker: &str, most: usize, now_ms: u64, lease_ms: u64) -> Result<Vec<Claim>, StoreError> {
        let director = &self.gate.director;
        self.ask("claim", |store| {
            let (worker, director) = (worker.to_owned(), director.clone());
            async move {
                let claims = store.claim(&worker, most, now_ms, lease_ms).await?;
                director.claimed(&claims);
                Ok(claims)
            }
        })
        .await
    }

    async fn claim_stopped(
        &self,
        worker: &str,
        most: usize,
        now_ms: u64,
        lease_ms: u64,
    ) -> Result<Vec<Claim>, StoreError> {
        let director = &self.gate.director;
        self.ask("claim_stopped", |store| {
            let (worker, director) = (worker.to_owned(), director.clone());
            async move {
                let claims = store.claim_stopped(&worker, most, now_ms, lease_ms).await?;
                director.claimed(&claims);
                Ok(claims)
            }
        })
        .await
    }

    async fn renew(&self, claims: &[Claim], now_ms: u64, lease_ms: u64) -> Result<Vec<Claim>, StoreError> {
        self.ask("renew", |store| {
            let claims = claims.to_vec();
            async move { store.renew(&claims, now_ms, lease_ms).await }
        })
        .await
    }

    async fn release(&self, claim: Claim) -> Result<(), StoreError> {
        self.ask("release", |store| async move { store.release(claim).await }).await
    }

    async fn append(&self, append: Append) -> Result<u64, AppendError> {
        let director = &self.gate.director;
        self.ask("append", |store| {
            let (append, director) = (append.clone(), director.clone());
            async move {
                let newest = director.newest(append.claim.run_id);
                let end = store.append(append.clone()).await?;
                director.appended(&append, newest);
                Ok(end)
            }
        })
        .await
    }

    async fn put_snapshot(&self, claim: Claim, snapshot: Snapshot) -> Result<(), StoreError> {
        self.ask("put_snapshot", |store| {
            let snapshot = snapshot.clone();
            async move { store.put_snapshot(claim, snapshot).await }
        })
        .await
    }

    async fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, StoreError> {
        let director = &self.gate.director;
        self.ask("snapshot", |store| {
            let (director, objects) = (director.clone(), self.objects.clone());
            async move {
                let snapshot = store.snapshot(run).await?;
                if snapshot.is_some() && director.goes_on(run) {
                    director.recalled(run, runtime::snapshot_agrees(store.as_ref(), objects.as_ref(), run).await);
                }
                Ok(snapshot)
            }
        })
        .await
    }

    async fn read_after(&self, run: RunId, after: u64, most: usize) -> Result<Vec<StoredEvent>, StoreError> {
        self.ask("read_after", |store| async move { store.read_after(run, after, most).await }).await
    }

    async fn put_inbox(&self, run: RunId, item: InboxItem, at: u64) -> Result<Vec<RunId>, StoreError> {
        self.ask("put_inbox", |store| {
            let item = item.clone();
            async move { store.put_inbox(run, item, at).await }
        })
        .await
    }

    async fn inbox(&self, run: RunId) -> Result<Vec<(u64, InboxItem)>, StoreError> {
        self.ask("inbox", |store| async move { store.inbox(run).await }).await
    }

    async fn owner(&self, fresh: UserId, at: u64) -> Result<UserId, StoreError> {
        self.ask("owner", |store| async move { store.owner(fresh, at).await }).await
    }

    async fn run(&self, user: UserId, run: RunId) -> Result<Option<RunView>, StoreError> {
        self.ask("run", |store| async move { store.run(user, run).await }).await
    }

    async fn runs(
        &self,
        user: UserId,
        chat: Option<ChatId>,
        before: Option<RunId>,
        most: usize,
    ) -> Result<Page<RunView>, StoreError> {
        self.ask("runs", |store| async move { store.runs(user, chat, before, most).await }).await
    }

    async fn chats(&self, user: UserId, cursor: Option<&str>, most: usize) -> Result<Page<ChatView>, StoreError> {
        self.ask("chats", |store| {
            let cursor = cursor.map(str::to_owned);
            async move { store.chats(user, cursor.as_deref(), most).await }
        })
        .await
    }

    async fn project_of(&self, user: UserId, chat: ChatId) -> Result<Option<ProjectId>, StoreError> {
        self.ask("project_of", |store| async move { store.project_of(user, chat).await }).await
    }

    async fn chat(&self, user: UserId, chat: ChatId) -> Result<Option<ChatDetail>, StoreError> {
        self.ask("chat", |store| async move { store.chat(user, chat).await }).await
    }

    async fn project(&self, project: ProjectId) -> Result<Option<ProjectRow>, StoreError> {
        self.ask("project", |store| async move { store.project(project).await }).await
    }

    async fn project_by_slug(&self, slug: &str) -> Result<Option<ProjectRow>, StoreError> {
        self.ask("project_by_slug", |store| {
            let slug = slug.to_owned();
            async move { store.project_by_slug(&slug).await }
        })
        .await
    }

    async fn unpublished_runs(&self, project: ProjectId) -> Result<Vec<RunId>, StoreError> {
        self.ask("unpublished_runs", |store| async move { store.unpublished_runs(project).await }).await
    }

    async fn versions(&self, project: ProjectId, most: usize) -> Result<Vec<VersionView>, StoreError> {
        self.ask("versions", |store| async move { store.versions(project, most).await }).await
    }

    async fn version(&self, project: ProjectId, version: VersionId) -> Result<Option<PublishedVersion>, StoreError> {
        self.ask("version", |store| async move { store.version(project, version).await }).await
    }

    async fn drawn(&self, run: RunId) -> Result<Drawn, StoreError> {
        self.ask("drawn", |store| async move { store.drawn(run).await }).await
    }

    async fn put_session(&self, token_sha256: &str, user: UserId, until: u64) -> Result<(), StoreError> {
        self.ask("put_session", |store| {
            let token = token_sha256.to_owned();
            async move { store.put_session(&token, user, until).await }
        })
        .await
    }

    async fn session(&self, token_sha256: &str, now_ms: u64) -> Result<Option<UserId>, StoreError> {
        self.ask("session", |store| {
            let token = token_sha256.to_owned();
            async move { store.session(&token, now_ms).await }
        })
        .await
    }
}

/// Objects behind a gate.
pub(super) struct StagedObjects {
    pub(super) objects: Arc<dyn Objects>,
    pub(super) gate: Arc<Gate>,
}

fn unavailable(_: Failure) -> ObjectsError {
    ObjectsError::Unavailable(WHY.into())
}

#[async_trait]
impl Objects for StagedObjects {
    async fn put(&self, bytes: Bytes) -> Result<String, ObjectsError> {
        let work = || {
            let (objects, bytes) = (self.objects.clone(), bytes.clone());
            async move { objects.put(bytes).await }
        };
        self.gate.call("put", unavailable, work).await
    }

    async fn get(&self, sha256: &str) -> Result<Option<Bytes>, ObjectsError> {
        let work = || {
            let (objects, sha256) = (self.objects.clone(), sha256.to_owned());
            async move { objects.get(&sha256).await }
        };
        self.gate.call("get", unavailable, work).await
    }
}

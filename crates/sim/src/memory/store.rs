//! The store in memory: the port's rules written as plainly as possible, against which the real stores are compared.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use contract::api::{Accepted, ChatDetail, ChatView, MessageView, Page, Role, RunStatus, RunView, VersionView};
use contract::event::{Head, RunQueued, Session};
use contract::{ChatId, Event, ProjectId, RunId, UserId};
use runtime::ports::store::{
    Admission, AdmitError, Append, AppendError, Claim, InboxItem, NewEvent, ProjectRow, PublishedVersion, RowChange,
    Store, StoreError, StoreFault, StoredEvent, run_title,
};

use super::{Hook, Moment, Op};

/// Browser sessions of one user; those that end first make room.
const SESSIONS_PER_USER: usize = 100;

/// A store that lasts as long as a handle to it does. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryStore {
    hook: Hook,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    owner: Option<UserId>,
    users: Vec<UserId>,
    chats: Vec<Chat>,
    /// In the order of admission.
    runs: Vec<Run>,
    inbox: Vec<(u64, RunId, InboxItem)>,
    inbox_numbers: u64,
    keys: HashMap<(UserId, String), (Fingerprint, Accepted)>,
    sessions: HashMap<String, (UserId, u64)>,
}

/// What an idempotency key was used for: a chat or none, and the text.
type Fingerprint = (Option<ChatId>, String);

/// A chat with its project.
struct Chat {
    user: UserId,
    view: ChatView,
    slug: String,
    versions: Vec<PublishedVersion>,
}

struct Run {
    user: UserId,
    view: RunView,
    session: Session,
    answer: String,
    events: Vec<StoredEvent>,
    /// None: it has ended.
    claim: Option<Ownership>,
}

/// Who has a run that has not ended.
#[derive(Default)]
struct Ownership {
    epoch: u64,
    held: bool,
    /// From when on it can be claimed; none: not before its inbox has a row.
    claimable_at: Option<u64>,
}

impl Run {
    fn push(&mut self, new: &NewEvent) -> Result<(), StoreError> {
        let payload =
            serde_json::to_vec(&new.event).map_err(|error| StoreError::new(StoreFault::Refused, error.to_string()))?;
        let (step_id, attempt) = new.step.clone().unzip();
        self.view.last_seq += 1;
        let head = Head { run_id: self.view.id, seq: self.view.last_seq, from_seq: None, at: new.at, step_id, attempt };
        self.events.push(StoredEvent { head, kind: new.event.kind().to_owned(), payload: payload.into() });
        Ok(())
    }

    fn held_under(&mut self, epoch: u64) -> Option<&mut Ownership> {
        self.claim.as_mut().filter(|claim| claim.held && claim.epoch == epoch)
    }
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

fn refused(message: &str) -> StoreError {
    StoreError::new(StoreFault::Refused, message)
}

impl State {
    fn run(&mut self, id: RunId) -> Option<&mut Run> {
        self.runs.iter_mut().find(|run| run.view.id == id)
    }

    fn chat(&mut self, id: ChatId) -> Option<&mut Chat> {
        self.chats.iter_mut().find(|chat| chat.view.id == id)
    }

    fn active(&self, of: impl Fn(&Run) -> bool) -> u64 {
        self.runs.iter().filter(|run| run.claim.is_some() && of(run)).count() as u64
    }

    fn admit(&mut self, admission: Admission) -> Result<Accepted, AdmitError> {
        let Admission { user, run_id, session, new_chat, idempotency_key, at, most_active } = admission;
        let fingerprint = (new_chat.is_none().then_some(session.chat_id), session.request.clone());
        let key = idempotency_key.map(|key| (user, key));
        if let Some((used_for, first)) = key.as_ref().and_then(|key| self.keys.get(key)) {
            return if *used_for == fingerprint { Ok(first.clone()) } else { Err(AdmitError::KeyReused) };
        }
        if new_chat.is_none() {
            match self.chat(session.chat_id) {
                Some(chat) if chat.user == user && chat.view.project_id == session.project_id => {}
                Some(chat) if chat.user == user => {
                    return Err(refused("the session names a project of another chat").into());
                }
                Some(_) | None => return Err(AdmitError::NoSuchChat),
            }
        }
        let everybody = self.active(|_| true);
        let active =
            [self.active(|run| run.view.chat_id == session.chat_id), self.active(|run| run.user == user), everybody];
        if let Some((_, (limit, value))) = active.iter().zip(most_active).find(|(active, (_, most))| *active >= most) {
            return Err(AdmitError::Limit { limit, value });
        }
        let accepted = Accepted {
            chat_id: session.chat_id,
            message_id: session.user_message_id,
            run_id,
            project_id: session.project_id,
        };
        if let Some(new) = new_chat {
            if self.chats.iter().any(|chat| chat.slug == new.slug) {
                return Err(refused("the slug is taken").into());
            }
            self.users.push(user);
            let view = ChatView {
                id: session.chat_id,
                project_id: session.project_id,
                title: new.title,
                created_at: at,
                updated_at: at,
                run: None,
            };
            self.chats.push(Chat { user, view, slug: new.slug, versions: vec![] });
        }
        self.touch(session.chat_id, at);
        let view = RunView {
            id: run_id,
            chat_id: session.chat_id,
            project_id: session.project_id,
            status: RunStatus::Queued,
            title: run_title(&session.request),
            stop_reason: None,
            error: None,
            last_seq: 0,
            created_at: at,
            started_at: None,
            ended_at: None,
        };
        let claim = Some(Ownership { claimable_at: Some(0), ..Ownership::default() });
        let mut run = Run { user, view, session: session.clone(), answer: String::new(), events: vec![], claim };
        let position = u32::try_from(everybody).unwrap_or(u32::MAX);
        for event in [Event::from(RunQueued { position }), Event::from(session)] {
            run.push(&NewEvent { at, step: None, event })?;
        }
        self.runs.push(run);
        if let Some(key) = key {
            self.keys.insert(key, (fingerprint, accepted.clone()));
        }
        Ok(accepted)
    }

    fn touch(&mut self, chat: ChatId, at: u64) {
        if let Some(chat) = self.chat(chat) {
            chat.view.updated_at = chat.view.updated_at.max(at);
        }
    }

    fn append(&mut self, append: Append) -> Result<u64, AppendError> {
        append.check()?;
        let Append { claim, after, events, rows, consumed, ends } = append;
        let run = self.run(claim.run_id).filter(|run| run.claim.is_some()).ok_or(AppendError::Fenced)?;
        run.held_under(claim.epoch).ok_or(AppendError::Fenced)?;
        if run.view.last_seq != after {
            return Err(AppendError::Conflict { at: run.view.last_seq });
        }
        let project = run.view.project_id;
        if rows.iter().any(|row| matches!(row, RowChange::Publish(version) if version.project_id != project)) {
            return Err(refused("a run can publish to its own project alone").into());
        }
        for event in &events {
            run.push(event)?;
        }
        if ends {
            run.claim = None;
        }
        let end = run.view.last_seq;
        for row in rows {
            self.change(claim.run_id, row);
        }
        self.inbox.retain(|(number, run, _)| *run != claim.run_id || !(ends || consumed.contains(number)));
        Ok(end)
    }

    fn change(&mut self, id: RunId, change: RowChange) {
        let Some(run) = self.run(id) else { return };
        let chat = run.view.chat_id;
        match change {
            RowChange::Run { status, stop_reason, error, at } => {
                run.view.status = status;
                run.view.stop_reason = stop_reason;
                run.view.error = error;
                if status == RunStatus::Running {
                    run.view.started_at.get_or_insert(at);
                }
                run.view.ended_at = status.is_terminal().then_some(at);
                self.touch(chat, at);
            }
            RowChange::AssistantText { text } => run.answer.push_str(&text),
            RowChange::AssistantReset { text } => run.answer = text,
            RowChange::Publish(version) => {
                self.touch(chat, version.at);
                if let Some(chat) = self.chat(chat) {
                    chat.versions.push(version);
                }
            }
            // No method of the port shows these.
            RowChange::ToolRequested { .. } | RowChange::ToolFinished { .. } | RowChange::Build { .. } => {}
        }
    }

    fn put_inbox(&mut self, id: RunId, item: InboxItem) -> Result<(), StoreError> {
        let there = self.inbox.iter().any(|(_, run, other)| *run == id && *other == item);
        let Some(claim) = self.run(id).and_then(|run| run.claim.as_mut()) else { return Ok(()) };
        claim.claimable_at.get_or_insert(0);
        if !there {
            self.inbox_numbers += 1;
            self.inbox.push((self.inbox_numbers, id, item));
        }
        Ok(())
    }

    fn release(&mut self, claim: Claim) -> Result<(), StoreError> {
        let wanted = self.inbox.iter().any(|(_, run, _)| *run == claim.run_id);
        let Some(run) = self.run(claim.run_id) else { return Ok(()) };
        let parked = run.view.status == RunStatus::Waiting && !wanted;
        if let Some(held) = run.held_under(claim.epoch) {
            held.held = false;
            held.claimable_at = (!parked).then_some(0);
        }
        Ok(())
    }

    fn chat_view(&self, chat: &Chat) -> ChatView {
        let run = self.runs.iter().rev().find(|run| run.view.chat_id == chat.view.id).map(|run| run.view.clone());
        ChatView { run, ..chat.view.clone() }
    }

    fn chats(&self, user: UserId, cursor: Option<&str>, most: usize) -> Result<Page<ChatView>, StoreError> {
        let after: Option<(u64, ChatId)> =
            match cursor.map(|text| text.split_once('.').map(|(at, id)| (at.parse(), id.parse()))) {
                None => None,
                Some(Some((Ok(at), Ok(id)))) => Some((at, id)),
                Some(_) => return Err(StoreError::new(StoreFault::BadCursor, "no list of chats gave this cursor")),
            };
        let mut found: Vec<_> =
            self.chats.iter().filter(|chat| chat.user == user).map(|chat| self.chat_view(chat)).collect();
        found.sort_by_key(|chat| std::cmp::Reverse((chat.updated_at, chat.id)));
        found.retain(|chat| after.is_none_or(|after| (chat.updated_at, chat.id) < after));
        Ok(page(found, most, |last| format!("{}.{}", last.updated_at, last.id)))
    }

    fn detail(&self, user: UserId, id: ChatId) -> Option<ChatDetail> {
        let chat = self.chats.iter().find(|chat| chat.view.id == id && chat.user == user)?;
        let mut detail = ChatDetail { chat: self.chat_view(chat), messages: vec![], runs: vec![], preview: None };
        for run in self.runs.iter().filter(|run| run.view.chat_id == id) {
            let message = |id, role, text: &str| MessageView {
                id,
                role,
                text: text.to_owned(),
                run_id: run.view.id,
                created_at: run.view.created_at,
            };
            detail.messages.push(message(run.session.user_message_id, Role::User, &run.session.request));
            detail.messages.push(message(run.session.assistant_message_id, Role::Assistant, &run.answer));
            detail.runs.push(run.view.clone());
        }
        Some(detail)
    }

    fn project(&self, which: impl Fn(&Chat) -> bool) -> Option<ProjectRow> {
        let chat = self.chats.iter().find(|chat| which(chat))?;
        Some(ProjectRow {
            id: chat.view.project_id,
            chat_id: chat.view.id,
            user: chat.user,
            slug: chat.slug.clone(),
            current: chat.versions.last().cloned(),
            latest_run: self.chat_view(chat).run.map(|run| run.id),
        })
    }

    fn unpublished_runs(&self, project: ProjectId) -> Vec<RunId> {
        let published = self.project(|chat| chat.view.project_id == project).and_then(|row| row.current);
        let ids = self.runs.iter().filter(|run| run.view.project_id == project).map(|run| run.view.id);
        match published {
            None => ids.collect(),
            Some(version) => ids.skip_while(|id| *id != version.run_id).skip(1).collect(),
        }
    }

    fn put_session(&mut self, token: &str, user: UserId, until: u64) -> Result<(), StoreError> {
        if until == 0 {
            self.sessions.remove(token);
            return Ok(());
        }
        if !self.users.contains(&user) {
            return Err(refused("there is no such user"));
        }
        self.sessions.insert(token.to_owned(), (user, until));
        let mut ends: Vec<_> = self.sessions.values().filter(|(of, _)| *of == user).map(|(_, until)| *until).collect();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        if let Some(soonest) = ends.get(SESSIONS_PER_USER) {
            self.sessions.retain(|_, (of, until)| *of != user || *until > *soonest);
        }
        Ok(())
    }
}

fn page<T>(mut items: Vec<T>, most: usize, cursor: impl FnOnce(&T) -> String) -> Page<T> {
    let more = items.len() > most;
    items.truncate(most);
    let next = if more { items.last().map(cursor) } else { None };
    Page { items, next }
}

#[async_trait]
impl Store for MemoryStore {
    async fn admit(&self, admission: Admission) -> Result<Accepted, AdmitError> {
        self.call("admit", Some(admission.run_id), |state| state.admit(admission)).await
    }

    async fn claim(&self, _worker: &str, most: usize, now_ms: u64, lease_ms: u64) -> Result<Vec<Claim>, StoreError> {
        self.call("claim", None, |state| {
            let mut claims = vec![];
            for run in &mut state.runs {
                let claimable = |claim: &&mut Ownership| claim.claimable_at.is_some_and(|at| at <= now_ms);
                if claims.len() < most
                    && let Some(claim) = run.claim.as_mut().filter(claimable)
                {
                    *claim = Ownership {
                        epoch: claim.epoch + 1,
                        held: true,
                        claimable_at: Some(now_ms.saturating_add(lease_ms)),
                    };
                    claims.push(Claim { run_id: run.view.id, epoch: claim.epoch });
                }
            }
            Ok(claims)
        })
        .await
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

    async fn put_inbox(&self, run: RunId, item: InboxItem, _at: u64) -> Result<(), StoreError> {
        self.call("put_inbox", Some(run), |state| state.put_inbox(run, item)).await
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

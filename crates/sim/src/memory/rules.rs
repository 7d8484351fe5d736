//! What a store has to do, as plainly as possible: everything in one piece, nothing that is fast.

use std::collections::HashMap;

use contract::api::{Accepted, ChatDetail, ChatView, ExecutionState, MessageView, Page, Role, RunStatus, RunView};
use contract::event::{Head, Parent, RunQueued, Session};
use contract::{ChatId, Event, ProjectId, RunId, UserId};
use runtime::ports::store::{
    Admission, AdmitError, Append, AppendError, Begun, Claim, Drawn, Entry, InboxItem, NewEvent, ProjectRow,
    PublishedVersion, RowChange, Snapshot, StoreError, StoreFault, StoredEvent, run_title,
};

/// Browser sessions of one user; those that end first make room.
const SESSIONS_PER_USER: usize = 100;

#[derive(Default)]
pub(super) struct State {
    pub(super) owner: Option<UserId>,
    pub(super) users: Vec<UserId>,
    pub(super) chats: Vec<Chat>,
    /// In the order of admission.
    pub(super) runs: Vec<Run>,
    pub(super) inbox: Vec<(u64, RunId, InboxItem)>,
    pub(super) inbox_numbers: u64,
    pub(super) keys: HashMap<(UserId, String), (Fingerprint, Accepted)>,
    pub(super) sessions: HashMap<String, (UserId, u64)>,
}

/// What an idempotency key was used for.
type Fingerprint = [u8; 32];

/// A chat with its project.
pub(super) struct Chat {
    pub(super) user: UserId,
    pub(super) view: ChatView,
    pub(super) slug: String,
    pub(super) versions: Vec<PublishedVersion>,
}

pub(super) struct Run {
    pub(super) user: UserId,
    pub(super) view: RunView,
    pub(super) session: Session,
    /// What it has of the run that started it.
    pub(super) parent: Option<Parent>,
    pub(super) answer: String,
    pub(super) answered: Option<(u64, u64)>,
    pub(super) drawn: Drawn,
    pub(super) snapshot: Option<Snapshot>,
    pub(super) events: Vec<StoredEvent>,
    /// None: it has ended.
    pub(super) claim: Option<Ownership>,
}

/// Who has a run that has not ended.
#[derive(Default)]
pub(super) struct Ownership {
    pub(super) epoch: u64,
    pub(super) held: bool,
    /// From when on it can be claimed; none: not before its inbox has a row.
    pub(super) claimable_at: Option<u64>,
}

impl Run {
    pub(super) fn push(&mut self, new: Entry) {
        let (step_id, attempt) = new.step.unzip();
        self.view.last_seq += 1;
        let head = Head { run_id: self.view.id, seq: self.view.last_seq, from_seq: None, at: new.at, step_id, attempt };
        self.events.push(StoredEvent { head, kind: new.kind.to_owned(), payload: new.payload.into() });
    }

    pub(super) fn root(&self) -> RunId {
        self.parent.map_or(self.view.id, |parent| parent.root_id)
    }

    pub(super) fn held_under(&mut self, epoch: u64) -> Option<&mut Ownership> {
        self.claim.as_mut().filter(|claim| claim.held && claim.epoch == epoch)
    }
}

/// A run that nobody has claimed yet.
fn queued(id: RunId, session: &Session, parent: Option<Parent>, at: u64) -> RunView {
    RunView {
        id,
        chat_id: session.chat_id,
        project_id: session.project_id,
        status: RunStatus::Queued,
        state: ExecutionState::Init,
        turn: 0,
        parent: parent.map(|parent| parent.run_id),
        title: run_title(&session.request),
        stop_reason: None,
        code: None,
        error: None,
        last_seq: 0,
        created_at: at,
        started_at: None,
        ended_at: None,
    }
}

pub(super) fn refused(message: &str) -> StoreError {
    StoreError::new(StoreFault::Refused, message)
}

impl State {
    pub(super) fn run(&mut self, id: RunId) -> Option<&mut Run> {
        self.runs.iter_mut().find(|run| run.view.id == id)
    }

    pub(super) fn chat(&mut self, id: ChatId) -> Option<&mut Chat> {
        self.chats.iter_mut().find(|chat| chat.view.id == id)
    }

    pub(super) fn active(&self, of: impl Fn(&Run) -> bool) -> u64 {
        self.runs.iter().filter(|run| run.claim.is_some() && run.parent.is_none() && of(run)).count() as u64
    }

    pub(super) fn admit(&mut self, admission: Admission) -> Result<Accepted, AdmitError> {
        let fingerprint = admission.fingerprint();
        let Admission { user, run_id, session, new_chat, idempotency_key, at, .. } = admission;
        let Admission { most_active, parent, most_depth, alone, log, .. } = admission;
        let key = idempotency_key.map(|key| (user, key));
        if let Some((used_for, first)) = key.as_ref().and_then(|key| self.keys.get(key)) {
            return if *used_for == fingerprint { Ok(first.clone()) } else { Err(AdmitError::KeyReused) };
        }
        if new_chat.is_none() {
            self.is_its_project(user, &session)?;
        }
        let parent = parent.map(|claim| self.parent(claim, most_depth)).transpose()?;
        let holds = |run: &&Run| run.claim.is_some() && run.view.project_id == session.project_id;
        if let Some(run) = self.runs.iter().find(holds).filter(|_| alone) {
            return Err(AdmitError::ProjectBusy { run: run.view.id });
        }
        let everybody = self.active(|_| true);
        let active =
            [self.active(|run| run.view.chat_id == session.chat_id), self.active(|run| run.user == user), everybody];
        let full = active.iter().zip(most_active).find(|(active, (_, most))| *active >= most);
        if let Some((_, (limit, value))) = full.filter(|_| parent.is_none() && !log.ends) {
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
        let view = queued(run_id, &session, parent, at);
        let claim = Some(Ownership { claimable_at: Some(0), ..Ownership::default() });
        let mut run = Run {
            user,
            view,
            session: session.clone(),
            parent,
            answer: String::new(),
            answered: None,
            drawn: Drawn::default(),
            snapshot: None,
            events: vec![],
            claim,
        };
        let position = u32::try_from(everybody).unwrap_or(u32::MAX);
        for event in [Event::from(RunQueued { position, parent }), Event::from(session)] {
            run.push(Entry::of(&NewEvent { at, step: None, event })?);
        }
        self.runs.push(run);
        self.begin(run_id, log);
        if let Some(key) = key {
            self.keys.insert(key, (fingerprint, accepted.clone()));
        }
        Ok(accepted)
    }

    fn is_its_project(&mut self, user: UserId, session: &Session) -> Result<(), AdmitError> {
        match self.chat(session.chat_id).filter(|chat| chat.user == user) {
            Some(chat) if chat.view.project_id == session.project_id => Ok(()),
            Some(_) => Err(refused("the session names a project of another chat").into()),
            None => Err(AdmitError::NoSuchChat),
        }
    }

    /// What a run has of the one that starts it under a claim.
    pub(super) fn parent(&mut self, claim: Claim, (limit, value): (&'static str, u64)) -> Result<Parent, AdmitError> {
        let cancelled =
            self.inbox.iter().any(|(_, run, item)| *run == claim.run_id && matches!(item, InboxItem::Cancel { .. }));
        let held = self.run(claim.run_id).filter(|run| run.claim.is_some()).filter(|_| !cancelled);
        let run = held.ok_or(AdmitError::ParentOver)?;
        run.held_under(claim.epoch).ok_or(AdmitError::ParentOver)?;
        let (root_id, depth) = (run.root(), run.parent.map_or(0, |parent| parent.depth));
        if u64::from(depth) >= value {
            return Err(AdmitError::Limit { limit, value });
        }
        let since = self.run(root_id).map_or(0, |root| root.view.created_at);
        Ok(Parent { run_id: claim.run_id, root_id, depth: depth + 1, since })
    }

    /// Takes in a log that is admitted with its run.
    pub(super) fn begin(&mut self, id: RunId, log: Begun) {
        let Some(run) = self.run(id) else { return };
        log.events.into_iter().for_each(|event| run.push(event));
        if log.ends {
            run.claim = None;
        }
        log.rows.into_iter().for_each(|row| self.change(id, row));
    }

    pub(super) fn touch(&mut self, chat: ChatId, at: u64) {
        if let Some(chat) = self.chat(chat) {
            chat.view.updated_at = chat.view.updated_at.max(at);
        }
    }

    pub(super) fn append(&mut self, append: Append) -> Result<u64, AppendError> {
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
        events.into_iter().for_each(|event| run.push(event));
        if ends {
            run.claim = None;
            self.tell_children(claim.run_id);
        }
        let run = self.run(claim.run_id).ok_or(AppendError::Fenced)?;
        let end = run.view.last_seq;
        for row in rows {
            self.change(claim.run_id, row);
        }
        self.inbox.retain(|(number, run, _)| *run != claim.run_id || !(ends || consumed.contains(number)));
        Ok(end)
    }

    pub(super) fn change(&mut self, id: RunId, change: RowChange) {
        let Some(run) = self.run(id) else { return };
        let chat = run.view.chat_id;
        match change {
            RowChange::Run { status, stop_reason, code, error, at } => {
                run.view.status = status;
                run.view.stop_reason = stop_reason;
                run.view.code = code;
                run.view.error = error;
                run.view.state = match status {
                    RunStatus::Queued | RunStatus::Running | RunStatus::Waiting => run.view.state,
                    RunStatus::Completed => ExecutionState::Complete,
                    RunStatus::Failed => ExecutionState::Failed,
                    RunStatus::Cancelled => ExecutionState::Cancelled,
                };
                if status == RunStatus::Running {
                    run.view.started_at.get_or_insert(at);
                }
                run.view.ended_at = status.is_terminal().then_some(at);
                self.touch(chat, at);
            }
            RowChange::Progress { state, turn } => (run.view.state, run.view.turn) = (state, turn),
            RowChange::Answered { tokens, duration_ms } => run.answered = Some((tokens, duration_ms)),
            RowChange::AssistantText { text } => run.answer.push_str(&text),
            RowChange::AssistantReset { text } => run.answer = text,
            RowChange::Publish(version) => {
                run.drawn.take(&RowChange::Publish(version.clone()));
                self.touch(chat, version.at);
                if let Some(chat) = self.chat(chat) {
                    chat.versions.push(version);
                }
            }
            RowChange::ToolRequested { .. }
            | RowChange::ToolFinished { .. }
            | RowChange::Build { .. }
            | RowChange::BuildShown { .. } => run.drawn.take(&change),
        }
    }

    pub(super) fn put_inbox(&mut self, id: RunId, item: &InboxItem) -> Vec<RunId> {
        let mut runs = vec![id];
        if let InboxItem::Cancel { .. } = item {
            // A run comes after the one that started it.
            for run in &self.runs {
                if run.parent.is_some_and(|parent| runs.contains(&parent.run_id)) {
                    runs.push(run.view.id);
                }
            }
        }
        runs.retain(|run| self.put_one(*run, item));
        runs
    }

    /// The runs that a run has started end with it.
    pub(super) fn tell_children(&mut self, id: RunId) {
        let children = self.runs.iter().filter(|run| run.parent.is_some_and(|parent| parent.run_id == id));
        for child in children.map(|run| run.view.id).collect::<Vec<_>>() {
            self.put_inbox(child, &InboxItem::parent_ended());
        }
    }

    pub(super) fn put_one(&mut self, id: RunId, item: &InboxItem) -> bool {
        let there = self.inbox.iter().any(|(_, run, other)| *run == id && other == item);
        let Some(claim) = self.run(id).and_then(|run| run.claim.as_mut()) else { return false };
        claim.claimable_at.get_or_insert(0);
        if !there {
            self.inbox_numbers += 1;
            self.inbox.push((self.inbox_numbers, id, item.clone()));
        }
        !there
    }

    /// Takes runs that can be claimed, oldest first, of those that are wanted.
    pub(super) fn claim(
        &mut self,
        wanted: impl Fn(&Self, &Run) -> bool,
        most: usize,
        now_ms: u64,
        lease_ms: u64,
    ) -> Vec<Claim> {
        let claimable = |run: &&Run| {
            let due = run.claim.as_ref().and_then(|claim| claim.claimable_at).is_some_and(|at| at <= now_ms);
            due && wanted(self, run) && !self.has_to_wait(run)
        };
        let due: Vec<RunId> = self.runs.iter().filter(claimable).take(most).map(|run| run.view.id).collect();
        let mut claims = vec![];
        for run in self.runs.iter_mut().filter(|run| due.contains(&run.view.id)) {
            if let Some(claim) = run.claim.as_mut() {
                let (epoch, until) = (claim.epoch + 1, now_ms.saturating_add(lease_ms));
                *claim = Ownership { epoch, held: true, claimable_at: Some(until) };
                claims.push(Claim { run_id: run.view.id, epoch });
            }
        }
        claims
    }

    /// Whether a run was told to stop.
    pub(super) fn is_stopped(&self, run: &Run) -> bool {
        self.inbox.iter().any(|(_, of, item)| *of == run.view.id && matches!(item, InboxItem::Cancel { .. }))
    }

    /// Whether another family has its project: that which has begun there, else that of the oldest run. What was stopped before it
    /// began waits for nobody.
    pub(super) fn has_to_wait(&self, run: &Run) -> bool {
        if run.claim.as_ref().is_some_and(|claim| claim.epoch == 0) && self.is_stopped(run) {
            return false;
        }
        let of_project = self.runs.iter().filter(|other| other.view.project_id == run.view.project_id);
        let active = of_project.filter_map(|other| other.claim.as_ref().map(|claim| (other, claim.epoch)));
        // Of equals the first.
        let owner = active.min_by_key(|(_, epoch)| *epoch == 0);
        owner.is_some_and(|(owner, _)| owner.root() != run.root())
    }

    pub(super) fn release(&mut self, claim: Claim) -> Result<(), StoreError> {
        let wanted = self.inbox.iter().any(|(_, run, _)| *run == claim.run_id);
        let Some(run) = self.run(claim.run_id) else { return Ok(()) };
        let parked = run.view.status == RunStatus::Waiting && !wanted;
        if let Some(held) = run.held_under(claim.epoch) {
            held.held = false;
            held.claimable_at = (!parked).then_some(0);
        }
        Ok(())
    }

    pub(super) fn chat_view(&self, chat: &Chat) -> ChatView {
        let run = self.runs.iter().rev().find(|run| run.view.chat_id == chat.view.id).map(|run| run.view.clone());
        ChatView { run, ..chat.view.clone() }
    }

    pub(super) fn chats(&self, user: UserId, cursor: Option<&str>, most: usize) -> Result<Page<ChatView>, StoreError> {
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

    pub(super) fn detail(&self, user: UserId, id: ChatId) -> Option<ChatDetail> {
        let chat = self.chats.iter().find(|chat| chat.view.id == id && chat.user == user)?;
        let mut detail = ChatDetail { chat: self.chat_view(chat), messages: vec![], runs: vec![], preview: None };
        for run in self.runs.iter().filter(|run| run.view.chat_id == id) {
            let message = |id, role, text: &str, answered: Option<(u64, u64)>| MessageView {
                id,
                role,
                text: text.to_owned(),
                run_id: run.view.id,
                created_at: run.view.created_at,
                tokens: answered.map(|(tokens, _)| tokens),
                duration_ms: answered.map(|(_, duration)| duration),
            };
            let (user, assistant) = (run.session.user_message_id, run.session.assistant_message_id);
            detail.messages.push(message(user, Role::User, &run.session.request, None));
            detail.messages.push(message(assistant, Role::Assistant, &run.answer, run.answered));
            detail.runs.push(run.view.clone());
        }
        Some(detail)
    }

    pub(super) fn project(&self, which: impl Fn(&Chat) -> bool) -> Option<ProjectRow> {
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

    pub(super) fn unpublished_runs(&self, project: ProjectId) -> Vec<RunId> {
        let published = self.project(|chat| chat.view.project_id == project).and_then(|row| row.current);
        let ids = self.runs.iter().filter(|run| run.view.project_id == project).map(|run| run.view.id);
        match published {
            None => ids.collect(),
            Some(version) => ids.skip_while(|id| *id != version.run_id).skip(1).collect(),
        }
    }

    pub(super) fn put_session(&mut self, token: &str, user: UserId, until: u64) -> Result<(), StoreError> {
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

pub(super) fn page<T>(mut items: Vec<T>, most: usize, cursor: impl FnOnce(&T) -> String) -> Page<T> {
    let more = items.len() > most;
    items.truncate(most);
    let next = if more { items.last().map(cursor) } else { None };
    Page { items, next }
}

//! What lists show, to whom and in what order; and who is signed in.

use std::sync::Arc;

use contract::api::{ChatView, Page, Role, RunView};
use contract::{ChatId, RunId, UserId};
use runtime::ports::Store;
use runtime::ports::store::StoreFault;

use super::clerk::{Clerk, end};

/// Browser sessions of one user that every store keeps at the least.
const SESSIONS_KEPT: u64 = 20;

pub(super) async fn promises(make: &impl AsyncFn() -> Arc<dyn Store>) {
    runs_are_paged_newest_first(&*make().await).await;
    chats_are_paged_by_their_last_use(&*make().await).await;
    a_cursor_that_no_page_gave_is_refused(&*make().await).await;
    a_chat_shows_its_messages_in_their_order(&*make().await).await;
    nobody_sees_what_belongs_to_another(&*make().await).await;
    there_is_one_owner(&*make().await).await;
    a_session_lasts_until_its_time(&*make().await).await;
    sessions_are_bounded_and_the_first_to_end_goes_first(&*make().await).await;
}

async fn paged_runs(store: &dyn Store, user: UserId, chat: Option<ChatId>, most: usize) -> Vec<RunView> {
    let mut found: Vec<RunView> = vec![];
    let mut before: Option<RunId> = None;
    loop {
        let page: Page<RunView> = store.runs(user, chat, before, most).await.unwrap();
        assert!(page.items.len() == most || page.next.is_none(), "a page that is not the last is full");
        found.extend(page.items);
        match page.next {
            Some(next) => before = Some(next.parse().unwrap()),
            None => return found,
        }
    }
}

async fn runs_are_paged_newest_first(store: &dyn Store) {
    let clerk = Clerk::new();
    let first = clerk.new_chat(clerk.id());
    let mut admitted = vec![store.admit(first.clone()).await.unwrap().run_id];
    for i in 0..6 {
        let next = if i % 2 == 0 { clerk.follow_up(&first) } else { clerk.new_chat(first.user) };
        admitted.push(store.admit(next).await.unwrap().run_id);
    }
    store.admit(clerk.new_chat(clerk.id())).await.unwrap();
    admitted.reverse();
    let whole = store.runs(first.user, None, None, 100).await.unwrap().items;
    assert_eq!(whole.iter().map(|run| run.id).collect::<Vec<_>>(), admitted);
    let of_chat: Vec<_> = whole.iter().filter(|run| run.chat_id == first.session.chat_id).cloned().collect();
    assert_eq!(of_chat.len(), 4);
    for most in [1, 2, 3, 7, 100] {
        assert_eq!(paged_runs(store, first.user, None, most).await, whole, "{most} a page");
        assert_eq!(paged_runs(store, first.user, Some(first.session.chat_id), most).await, of_chat, "{most} a page");
    }
}

async fn paged_chats(store: &dyn Store, user: UserId, most: usize) -> Vec<ChatView> {
    let mut found: Vec<ChatView> = vec![];
    let mut cursor: Option<String> = None;
    loop {
        let page = store.chats(user, cursor.as_deref(), most).await.unwrap();
        assert!(page.items.len() == most || page.next.is_none(), "a page that is not the last is full");
        found.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            return found;
        }
    }
}

async fn chats_are_paged_by_their_last_use(store: &dyn Store) {
    let clerk = Clerk::new();
    let user = clerk.id();
    let mut chats = vec![];
    for _ in 0..5 {
        let mut admission = clerk.new_chat(user);
        // Two by two at the same moment.
        admission.at = 1_000 + chats.len() as u64 / 2;
        store.admit(admission.clone()).await.unwrap();
        chats.push(admission);
    }
    let order = async |most| paged_chats(store, user, most).await.into_iter().map(|chat| chat.id).collect::<Vec<_>>();
    let whole = order(100).await;
    assert_eq!(whole[0], chats[4].session.chat_id);
    for most in [1, 2, 3] {
        assert_eq!(order(most).await, whole, "{most} a page");
    }
    let mut next = clerk.follow_up(&chats[0]);
    next.at = 9_000;
    store.admit(next.clone()).await.unwrap();
    let view = paged_chats(store, user, 2).await.remove(0);
    assert_eq!((view.id, view.updated_at, view.created_at), (chats[0].session.chat_id, 9_000, chats[0].at));
    assert_eq!(view.run.unwrap().id, next.run_id, "its latest run");
    assert_eq!((view.title, view.project_id), (chats[0].new_chat.clone().unwrap().title, chats[0].session.project_id));

    let claims = store.claim("worker", 9, 0, 1_000).await.unwrap();
    let claim = claims.iter().find(|claim| claim.run_id == chats[1].run_id).unwrap();
    store.append(end(*claim, 2, 9_500)).await.unwrap();
    assert_eq!(order(9).await[..2], [chats[1].session.chat_id, chats[0].session.chat_id], "a run that ends is a use");
}

async fn a_cursor_that_no_page_gave_is_refused(store: &dyn Store) {
    let clerk = Clerk::new();
    let chat: ChatId = clerk.id();
    for bad in [
        "",
        "x",
        "1",
        "1.",
        ".",
        "-1.x",
        &format!("x.{chat}"),
        &format!("1.{}", clerk.id::<RunId>()),
        &format!("1.{chat}."),
    ] {
        let error = store.chats(clerk.id(), Some(bad), 9).await.expect_err(bad);
        assert_eq!(error.fault, StoreFault::BadCursor, "`{bad}`");
    }
    store.admit(clerk.new_chat(clerk.id())).await.unwrap();
    let unknown = store.runs(clerk.id(), None, Some(clerk.id()), 9).await.unwrap();
    assert!(unknown.items.is_empty() && unknown.next.is_none());
}

async fn a_chat_shows_its_messages_in_their_order(store: &dyn Store) {
    let clerk = Clerk::new();
    let mut admissions = vec![clerk.new_chat(clerk.id())];
    admissions[0].session.request = format!("\n  {}\nsecond line", "long ".repeat(40));
    for _ in 0..3 {
        admissions.push(clerk.follow_up(&admissions[0]));
    }
    for (i, admission) in admissions.iter_mut().enumerate() {
        // The clock of the machine went back.
        admission.at = 9_000 - i as u64;
        store.admit(admission.clone()).await.unwrap();
    }
    let first = &admissions[0];
    let detail = store.chat(first.user, first.session.chat_id).await.unwrap().unwrap();
    assert_eq!(
        detail.runs.iter().map(|run| run.id).collect::<Vec<_>>(),
        admissions.iter().map(|a| a.run_id).collect::<Vec<_>>()
    );
    assert_eq!(detail.chat.run.as_ref(), detail.runs.last());
    assert_eq!(detail.chat.updated_at, 9_000);
    assert_eq!(detail.preview, None);
    assert_eq!(detail.messages.len(), 8);
    for (pair, admission) in detail.messages.chunks(2).zip(&admissions) {
        let got: Vec<_> = pair.iter().map(|m| (m.id, m.role, m.text.as_str(), m.run_id, m.created_at)).collect();
        let (session, run, at) = (&admission.session, admission.run_id, admission.at);
        let asked = (session.user_message_id, Role::User, session.request.as_str(), run, at);
        assert_eq!(got, [asked, (session.assistant_message_id, Role::Assistant, "", run, at)]);
    }
    let title = &detail.runs[0].title;
    assert!(
        title.starts_with("long long") && title.chars().count() == 81 && title.ends_with('…'),
        "one short line: {title}"
    );
}

async fn nobody_sees_what_belongs_to_another(store: &dyn Store) {
    let clerk = Clerk::new();
    let (admission, claim) = clerk.running(store).await;
    let stranger = clerk.id();
    assert!(store.run(stranger, claim.run_id).await.unwrap().is_none());
    assert!(store.runs(stranger, None, None, 9).await.unwrap().items.is_empty());
    assert!(store.runs(stranger, Some(admission.session.chat_id), None, 9).await.unwrap().items.is_empty());
    assert!(store.chats(stranger, None, 9).await.unwrap().items.is_empty());
    assert!(store.chat(stranger, admission.session.chat_id).await.unwrap().is_none());
    assert_eq!(store.run(admission.user, claim.run_id).await.unwrap().unwrap().id, claim.run_id);
    assert!(store.run(admission.user, clerk.id()).await.unwrap().is_none());
    assert!(store.chat(admission.user, clerk.id()).await.unwrap().is_none());
}

async fn there_is_one_owner(store: &dyn Store) {
    let clerk = Clerk::new();
    store.admit(clerk.new_chat(clerk.id())).await.unwrap();
    let owner = store.owner(clerk.id(), 1).await.unwrap();
    for _ in 0..2 {
        assert_eq!(store.owner(clerk.id(), 2).await.unwrap(), owner);
    }
    store.admit(clerk.new_chat(owner)).await.unwrap();
    assert_eq!(store.chats(owner, None, 9).await.unwrap().items.len(), 1);
}

async fn a_session_lasts_until_its_time(store: &dyn Store) {
    let clerk = Clerk::new();
    let owner = store.owner(clerk.id(), 1).await.unwrap();
    let found = async |token: &str, now| store.session(token, now).await.unwrap();
    store.put_session("token", owner, 100).await.unwrap();
    assert_eq!(
        (found("token", 99).await, found("token", 100).await, found("other", 1).await),
        (Some(owner), None, None)
    );
    store.put_session("token", owner, 200).await.unwrap();
    assert_eq!(found("token", 199).await, Some(owner), "stored again, it lasts longer");
    store.put_session("token", owner, 0).await.unwrap();
    assert_eq!(found("token", 0).await, None, "0 ends it");
    store.put_session("never", owner, 0).await.unwrap();
}

async fn sessions_are_bounded_and_the_first_to_end_goes_first(store: &dyn Store) {
    let clerk = Clerk::new();
    let owner = store.owner(clerk.id(), 1).await.unwrap();
    for i in 1..=1_000 {
        store.put_session(&format!("token {i}"), owner, i).await.unwrap();
    }
    let mut alive = vec![];
    for i in 1..=1_000 {
        if store.session(&format!("token {i}"), 0).await.unwrap().is_some() {
            alive.push(i);
        }
    }
    assert!((SESSIONS_KEPT..1_000).contains(&(alive.len() as u64)), "{} sessions are kept", alive.len());
    assert_eq!(alive, (1_001 - alive.len() as u64..=1_000).collect::<Vec<_>>(), "those that end last");
}

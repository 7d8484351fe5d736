//! The load: chats in which one message follows the other, each read while it is worked on and compared with the log afterwards.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::dice::Dice;
use crate::view::View;
use crate::wire::{Reading, Wire};

/// Messages of one chat that are worked on or wait at once, as the limits of the town allow.
const ACTIVE: usize = 2;
/// The same of all chats, which are one user's.
const ACTIVE_OF_USER: u64 = 12;

/// What a message asks for; the words that the script knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Page,
    Edit,
    Steps,
    Long,
    Broken,
    Unlucky,
    Ask,
    /// A person's own edit, which no model is asked about.
    Hand,
    Stop,
    Hang,
}

impl Kind {
    const BEGIN: [Self; 3] = [Self::Page, Self::Steps, Self::Broken];
    const FOLLOW: [Self; 13] = [
        Self::Page,
        Self::Edit,
        Self::Edit,
        Self::Steps,
        Self::Steps,
        Self::Steps,
        Self::Long,
        Self::Broken,
        Self::Unlucky,
        Self::Ask,
        Self::Hand,
        Self::Stop,
        Self::Hang,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Edit => "edit",
            Self::Steps => "steps",
            Self::Long => "long",
            Self::Broken => "broken",
            Self::Unlucky => "unlucky",
            Self::Ask => "ask",
            Self::Hand => "hand",
            Self::Stop => "stop",
            Self::Hang => "hang",
        }
    }

    /// Whether it ends by being stopped alone.
    pub fn is_endless(self) -> bool {
        matches!(self, Self::Stop | Self::Hang)
    }

    /// What the project's page is after it.
    pub fn page_after(self, page: &str, key: &str) -> String {
        match self {
            Self::Page | Self::Steps | Self::Unlucky | Self::Hand => format!("app {key}\n// end"),
            Self::Broken => format!("app {key}\n// mended\n// end"),
            Self::Edit => page.replace("// end", &format!("// {key}\n// end")),
            Self::Long | Self::Ask | Self::Stop | Self::Hang => page.to_owned(),
        }
    }
}

/// The label of a shell's words: what it writes into the project's ledger.
pub fn label_of(script: &str) -> Option<String> {
    let (before, _) = script.split_once(" >> ledger.txt")?;
    before.rsplit(' ').next().map(str::to_owned)
}

/// A message that was accepted.
#[derive(Debug, Clone)]
pub struct Run {
    pub key: String,
    pub kind: Kind,
    pub id: String,
    pub chat: String,
    pub project: String,
    /// What its readers saw, as a number, and where it ends.
    pub seen: Option<(u64, u64)>,
}

impl Run {
    pub fn request(&self) -> String {
        format!("{} {}", self.kind.word(), self.key)
    }
}

/// Everything that was asked for.
#[derive(Default)]
pub struct Book {
    /// The runs, those of a chat in the order in which they were accepted.
    pub runs: Vec<Run>,
    /// Keys of messages that were refused: nothing of them may be stored.
    pub refused: Vec<String>,
    /// Answers to repeated messages.
    pub repeated: u64,
    pub faults: Vec<String>,
}

/// What all drivers share.
pub struct Load {
    pub wire: Arc<Wire>,
    pub seed: u64,
    pub until: Instant,
    pub book: Mutex<Book>,
}

impl Load {
    pub fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends message after message to one chat until the time is up, and waits for the end of all its runs.
    pub async fn drive(self: Arc<Self>, n: u64) {
        let mut dice = Dice::new(self.seed, 1_000 + n);
        let mut chat: Option<(String, String)> = None;
        let mut active: Vec<JoinHandle<()>> = vec![];
        for message in 0.. {
            if Instant::now() >= self.until {
                break;
            }
            let kind = dice.one_of(if chat.is_some() { &Kind::FOLLOW[..] } else { &Kind::BEGIN[..] });
            let key = format!("k{n}m{message}");
            active.retain(|run| !run.is_finished());
            if active.len() >= ACTIVE && self.is_refused(chat.as_ref(), kind, &key).await {
                let _ = active.remove(0).await;
                continue;
            }
            let Some(run) = self.send(chat.as_ref(), kind, &key, &mut dice).await else { break };
            chat = Some((run.chat.clone(), run.project.clone()));
            let readings = [0, 1].map(|_| Reading {
                first: usize::try_from(dice.below(2)).unwrap(),
                multiplexed: dice.once_in(3),
                leaves_after: dice.once_in(3).then(|| usize::try_from(1 + dice.below(12)).unwrap()),
            });
            let (load, stops_after) = (self.clone(), dice.millis(0, 800));
            active.push(tokio::spawn(async move { load.attend(run, readings, stops_after).await }));
            // Mostly one after the other; sometimes the next waits for its turn in the project, or is one too many.
            if dice.once_in(3) {
                tokio::time::sleep(dice.millis(0, 300)).await;
            } else {
                for run in active.drain(..) {
                    let _ = run.await;
                }
            }
        }
        for run in active {
            let _ = run.await;
        }
    }

    /// One message too many; whether it was refused as such.
    async fn is_refused(&self, chat: Option<&(String, String)>, kind: Kind, key: &str) -> bool {
        let Some((chat, _)) = chat.filter(|_| kind != Kind::Hand) else { return false };
        let path = format!("/v1/chats/{chat}/messages");
        let body = serde_json::json!({"text": format!("{} {key}", kind.word())});
        let (name, server) = (self.name(key), usize::try_from(self.seed % 2).unwrap());
        match self.wire.attempt(Method::POST, server, &path, &name, &body).await {
            Some((said, rest)) if said.0 == StatusCode::TOO_MANY_REQUESTS => {
                let mut book = self.book();
                // A run of the chat may have ended meanwhile: then it is one too many of the user's.
                let refused = (said.1["code"].as_str(), said.1["limit"].as_str(), said.1["value"].as_u64());
                let of_chat = (Some("chat_busy"), Some("active_runs_per_chat"), Some(ACTIVE as u64));
                let of_user = (Some("user_busy"), Some("active_runs_per_user"), Some(ACTIVE_OF_USER));
                if ![of_chat, of_user].contains(&refused) || rest.is_none() {
                    book.faults.push(format!("{key} was refused with {said:?}, to come back after {rest:?}"));
                }
                book.refused.push(name);
                true
            }
            // It was accepted, or nobody knows; it is sent again under the same key.
            _ => false,
        }
    }

    fn name(&self, key: &str) -> String {
        format!("chaos-{}-{key}", self.seed)
    }

    /// Asks for something until it is accepted, and sometimes again, which has to give the same.
    async fn send(&self, chat: Option<&(String, String)>, kind: Kind, key: &str, dice: &mut Dice) -> Option<Run> {
        let name = self.name(key);
        let ask = async || match chat {
            Some((_, project)) if kind == Kind::Hand => {
                self.wire.put(project, "src/App.tsx", &kind.page_after("", key), &name).await
            }
            chat => self.wire.send(chat.map(|(chat, _)| chat.as_str()), &format!("{} {key}", kind.word()), &name).await,
        };
        let accepted = match ask().await {
            Ok(accepted) => accepted,
            Err(fault) => {
                self.book().faults.push(fault);
                return None;
            }
        };
        if dice.once_in(3) {
            let again = ask().await;
            let mut book = self.book();
            book.repeated += 1;
            if again.as_ref() != Ok(&accepted) {
                book.faults.push(format!("{key} was accepted as {accepted} and then as {again:?}"));
            }
        }
        let field = |name: &str| accepted[name].as_str().unwrap_or_default().to_owned();
        let (id, chat, project) = (field("run_id"), field("chat_id"), field("project_id"));
        let run = Run { key: key.to_owned(), kind, id, chat, project, seen: None };
        self.book().runs.push(run.clone());
        Some(run)
    }

    /// Reads a run to its end with two readers, stops it if it would never end, and compares what they saw with what is stored.
    async fn attend(&self, run: Run, readings: [Reading; 2], stops_after: Duration) {
        let stop = async {
            if run.kind.is_endless() {
                self.stop(&run, stops_after).await;
            }
        };
        let all = |_: &View| false;
        let (one, other, ()) = tokio::join!(
            self.wire.follow(&run.id, readings[0], all),
            self.wire.follow(&run.id, readings[1], all),
            stop
        );
        let afterwards = Reading { first: readings[0].first + 1, multiplexed: false, leaves_after: None };
        let stored = self.wire.follow(&run.id, afterwards, |_| false).await;
        let mut faults = vec![];
        let mut views = vec![];
        for view in [one, other, stored] {
            view.map_or_else(|fault| faults.push(fault), |view| views.push(view));
        }
        faults.extend(views.windows(2).filter_map(|pair| pair[0].difference(&pair[1])));
        let mut book = self.book();
        book.faults.extend(faults);
        if let (Some(view), Some(kept)) = (views.pop(), book.runs.iter_mut().find(|kept| kept.id == run.id)) {
            kept.seen = Some((view.digest(), view.last()));
        }
    }

    /// Stops a run a while after its last words have come.
    async fn stop(&self, run: &Run, after: Duration) {
        let waits = |view: &View| {
            let waits = format!("{} waits", run.key);
            view.events.iter().any(|event| match run.kind {
                Kind::Stop => event.kind() == "tool_output" && event.text("text").contains(&waits),
                _ => event.kind() == "text_delta",
            })
        };
        let reading = Reading { first: 0, multiplexed: false, leaves_after: None };
        if let Err(fault) = self.wire.follow(&run.id, reading, waits).await {
            return self.book().faults.push(fault);
        }
        tokio::time::sleep(after).await;
        let (status, said) =
            self.wire.ask(Method::POST, &format!("/v1/runs/{}/cancel", run.id), "", &Value::Null).await;
        if status != StatusCode::OK {
            self.book().faults.push(format!("stopping {} was answered with {status}: {said}", run.id));
        }
    }
}

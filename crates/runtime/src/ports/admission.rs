//! What is admitted: a request with everything that one transaction writes, and what an idempotency key stands for.
//!
//! Nothing here decides whether it is admitted; that is the store's, within the limits that stand in it.

use contract::event::{Session, Work};
use contract::{RunId, UserId};
use sha2::{Digest, Sha256};

use super::store::{Claim, Entry, RowChange};

/// A request to be admitted, with everything that one transaction writes.
#[derive(Debug, Clone)]
pub struct Admission {
    /// By which door it came in.
    pub door: Door,
    /// Who sends it.
    pub user: UserId,
    /// The run that will work on it.
    pub run_id: RunId,
    /// The run's sealed envelope; its second event, after `run_queued`, whose position the store knows.
    pub session: Session,
    /// Title of the chat and slug of the project's preview, if both are to be made.
    pub new_chat: Option<NewChat>,
    /// Makes a repeated request give the first answer.
    pub idempotency_key: Option<String>,
    /// Now, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Active root runs that are allowed: in the chat, of the user, globally. A run that is started by a run is not counted.
    pub most_active: [(&'static str, u64); 3],
    /// The claim of the run that starts this one: its child has the root's slot, deadline and cancel (E1).
    pub parent: Option<Claim>,
    /// Runs that may start one another, the root not counted.
    pub most_depth: (&'static str, u64),
    /// Whether it is refused while another run has the project, instead of waiting for its turn.
    pub alone: bool,
    /// What its log goes on with after its first two events.
    pub log: Begun,
}

impl Admission {
    /// What an idempotency key stands for: SHA-256 of the door and of what was asked there. What is tried again or imported says all by
    /// itself; else it is the words and the work, the chat unless a new one is to be made, and of a fork where it forks and whom it asks.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        match &self.door {
            Door::Retry(run) => {
                return hash.chain_update(b"retry").chain_update(run.bits().to_be_bytes()).finalize().into();
            }
            Door::Import(bundle) => return hash.chain_update(b"import").chain_update(bundle).finalize().into(),
            // As keys have stood for messages since the first release.
            Door::Message => {}
            Door::Fork => hash.update(b"fork"),
            Door::Edit => hash.update(b"edit"),
            Door::Restore => hash.update(b"restore"),
        }
        // A new chat has a new id at each repetition, so what tells the request is that it asks for one.
        let chat = if self.new_chat.is_some() { 0 } else { self.session.chat_id.bits() };
        let work = match &self.session.work {
            // Which files that changes depends on when it is asked; what is asked does not.
            Work::Change { restores: Some(version), .. } => version.to_string().into_bytes(),
            work @ (Work::Message | Work::Change { .. } | Work::Graph { .. }) => {
                serde_json::to_vec(work).unwrap_or_default()
            }
        };
        let fork = self.session.fork.as_ref().map(|fork| (fork.run_id, &fork.step_id, &self.session.model));
        let fork = fork.and_then(|fork| serde_json::to_vec(&fork).ok()).unwrap_or_default();
        let request = (self.session.request.len() as u64).to_be_bytes();
        hash.chain_update(chat.to_be_bytes())
            .chain_update(request)
            .chain_update(&self.session.request)
            .chain_update(work)
            .chain_update(fork)
            .finalize()
            .into()
    }
}

/// By which door a request came in. A key that was used at one stands for nothing else at another, however alike the two are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Door {
    /// A message, to a chat or for a new one.
    #[default]
    Message,
    /// This run is tried again.
    Retry(RunId),
    /// A run is forked.
    Fork,
    /// Files are changed by hand.
    Edit,
    /// A version's files are put back.
    Restore,
    /// A bundle with this SHA-256 is imported.
    Import([u8; 32]),
}

/// With which log a run begins, if that is not empty: of a fork, or all of one that was imported.
#[derive(Debug, Clone, Default)]
pub struct Begun {
    /// The events, in order.
    pub events: Vec<Entry>,
    /// The rows that they draw.
    pub rows: Vec<RowChange>,
    /// Whether the run has ended with them.
    pub ends: bool,
}

/// A chat that is made with its first message.
#[derive(Debug, Clone)]
pub struct NewChat {
    /// Its first words.
    pub title: String,
    /// First label of the preview's host: a DNS label, unique.
    pub slug: String,
}

/// Characters of a title.
const TITLE_CHARS: usize = 80;

/// What a run and the chat that it began are called in lists, the same in every store: the first line of what the person wrote, cut at 80 characters.
pub fn run_title(request: &str) -> String {
    let line = request.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(TITLE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

//! A model that talks as fast as it is listened to, once it is let.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use contract::event::{ModelRef, Provider};
use futures::{StreamExt as _, stream};
use runtime::ports::Model;
use runtime::ports::model::{ModelError, ModelEvent, ModelFinish, ModelRequest, ModelStream};
use tokio::sync::watch;

/// What it says.
#[derive(Debug, Clone, Copy)]
pub enum Talk {
    /// Pieces of prose, which become one event where they wait for a commit together.
    Prose(u64),
    /// Prose and thought in turns, of which no two become one: so many rounds of four events.
    Turns(u64),
}

/// The model.
pub struct Talker {
    talk: Talk,
    /// Whether it says that it is done, or falls silent instead.
    ends: bool,
    asked: AtomicU64,
    gate: watch::Sender<bool>,
}

impl Talker {
    /// One that waits to be let.
    pub fn new(talk: Talk, ends: bool) -> Arc<Self> {
        Arc::new(Self { talk, ends, asked: AtomicU64::new(0), gate: watch::Sender::new(false) })
    }

    /// Runs that have asked.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Lets it talk.
    pub fn open(&self) {
        self.gate.send_replace(true);
    }
}

#[async_trait]
impl Model for Talker {
    fn reference(&self) -> ModelRef {
        ModelRef { provider: Provider::Demo, name: "talker".into() }
    }

    fn named(&self, _: &str) -> Option<ModelRef> {
        Some(self.reference())
    }

    async fn stream(&self, _: ModelRequest) -> Result<ModelStream, ModelError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut gate = self.gate.subscribe();
        let (talk, ends) = (self.talk, self.ends);
        let opened = async move {
            // The model lives as long as its streams.
            let _ = gate.wait_for(|open| *open).await;
            stream::iter((0..).map_while(move |n| piece(talk, n)))
        };
        let end = stream::once(async move {
            match ends {
                true => ModelEvent::Text("<done/>".into()),
                false => std::future::pending().await,
            }
        });
        let whole = stream::once(opened).flatten().chain(end);
        Ok(whole.chain(stream::iter([ModelEvent::Finish(ModelFinish::Stop)])).map(Ok).boxed())
    }
}

fn piece(talk: Talk, n: u64) -> Option<ModelEvent> {
    match talk {
        Talk::Prose(pieces) if n < pieces => Some(ModelEvent::Text("a few words of prose, ".into())),
        Talk::Turns(turns) if n < 2 * turns && n.is_multiple_of(2) => Some(ModelEvent::Text("so ".into())),
        Talk::Turns(turns) if n < 2 * turns => Some(ModelEvent::Reasoning("a few words of thought, ".into())),
        Talk::Prose(_) | Talk::Turns(_) => None,
    }
}

//! The hands of Baton: claims runs, asks the engine, appends its decisions and performs its effects through ports.
//!
//! It decides nothing by itself and knows no database, vendor or operating system. A reader begins with `task`: one run, from
//! claim to end.

#![warn(clippy::wildcard_enum_match_arm)]

mod admission;
mod begun;
mod bundle;
mod edits;
mod error;
mod follow;
mod fork;
mod history;
mod ingest;
mod inspect;
mod instant;
mod live;
mod manifest;
mod merge;
mod perform;
pub mod ports;
mod project;
mod projection;
mod reader;
mod recall;
mod replay;
mod retry;
mod task;
mod verify;
mod views;
mod worker;

use std::sync::{Arc, OnceLock};

use contract::Limits;
use contract::event::ModelRef;
use engine::catalogue::{Catalogue, ModelFacts};
use tokio::sync::Semaphore;

pub use admission::MessageError;
pub use bundle::{ExportError, ImportError};
pub use edits::{ChangeError, Edit, Guard};
pub use error::RuntimeError;
pub use fork::ForkError;
pub use inspect::{Inspection, inspect};
pub use instant::{Reported, Shown};
pub use live::{Frame, Live};
pub use manifest::{Manifest, ManifestEntry};
pub use project::{Project, sha256};
pub use reader::EventReader;
pub use recall::snapshot_agrees;
pub use replay::replay;
pub use retry::RetryError;
pub use source::Packages;
pub use verify::VerifyError;
pub use worker::Worker;

use ports::{Bus, Model, Objects, Sandbox, Store, World};

/// Everything outside that the runtime needs.
#[derive(Clone)]
pub struct Ports {
    /// Logs and rows.
    pub store: Arc<dyn Store>,
    /// Wake-ups.
    pub bus: Arc<dyn Bus>,
    /// Bytes by their hash.
    pub objects: Arc<dyn Objects>,
    /// The model that runs use.
    pub model: Arc<dyn Model>,
    /// Where generated code runs.
    pub sandbox: Arc<dyn Sandbox>,
    /// Time and randomness.
    pub world: Arc<dyn World>,
}

/// Where previews are found: a project with the slug `s` is at `http://s.<suffix>:<port>/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewAddress {
    /// Such as `localhost`, below which browsers resolve every name to this machine.
    pub host_suffix: String,
    /// The server's port.
    pub port: u16,
}

impl PreviewAddress {
    /// The `Host` of a project's preview.
    pub fn host(&self, slug: &str) -> String {
        format!("{slug}.{}:{}", self.host_suffix, self.port)
    }

    /// The address of a project's preview.
    pub fn url(&self, slug: &str) -> String {
        format!("http://{}/", self.host(slug))
    }

    /// The address of an instant page of a project.
    pub fn instant_url(&self, slug: &str, revision: &str) -> String {
        format!("{}?instant={revision}", self.url(slug))
    }
}

/// What projects are made from.
#[derive(Debug, Clone)]
pub struct Template {
    /// Its name with the hash of its contents, such as `react-vite-3f2a91`.
    pub name: String,
    /// The first files of every project.
    pub files: Vec<(contract::ProjectPath, bytes::Bytes)>,
    /// Packages that it holds, with their versions: what an install of them finds already present.
    pub packages: std::collections::BTreeMap<String, String>,
    /// The same as modules that a browser can load, for instant previews.
    pub instant: source::Packages,
    /// The folder that a build writes.
    pub output_dir: contract::ProjectPath,
}

/// The runtime: shared by the doors and the worker of one process.
pub struct Runtime {
    /// Everything outside.
    pub ports: Ports,
    /// The limits in force.
    pub limits: Limits,
    /// Latest events of the runs of this process, for their readers.
    pub live: Live,
    /// Where previews are found.
    pub preview: PreviewAddress,
    /// What projects are made from.
    pub template: Template,
    published: views::Published,
    instant: instant::Instant,
    catalogue: Catalogue,
    /// Models that may be asked at once.
    model_operations: Semaphore,
    /// See [`Runtime::keep_private`].
    private: OnceLock<Vec<String>>,
}

impl Runtime {
    /// Puts a runtime together.
    pub fn new(ports: Ports, limits: Limits, preview: PreviewAddress, template: Template) -> Arc<Self> {
        let live = Live::new(size(limits.live_ring_bytes));
        let most =
            usize::try_from(limits.model_operations).unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS);
        let (published, instant) = (views::Published::default(), instant::Instant::new(&limits, &template));
        let model_operations = Semaphore::new(most);
        let private = OnceLock::new();
        let catalogue = Catalogue::own().unwrap_or_default();
        Arc::new(Self {
            ports,
            limits,
            live,
            preview,
            template,
            published,
            instant,
            catalogue,
            model_operations,
            private,
        })
    }

    /// Names words that no exported run may hold, such as the home folder and keys. The first call counts.
    pub fn keep_private(&self, words: Vec<String>) {
        // A second call finds it done.
        let _ = self.private.set(words);
    }

    /// What is known of a model.
    pub fn facts(&self, model: &ModelRef) -> ModelFacts {
        self.catalogue.find(model.provider.as_str(), &model.name)
    }

    fn private_words(&self) -> impl Iterator<Item = &str> {
        self.private.get().into_iter().flatten().map(String::as_str)
    }

    /// The model that runs use.
    pub fn model(&self) -> ModelRef {
        self.ports.model.reference()
    }
}

/// A limit of the table as a size in memory.
pub(crate) fn size(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

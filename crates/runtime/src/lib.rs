//! The hands of Baton: claims runs, asks the engine, appends its decisions and performs its effects through ports.
//!
//! It decides nothing by itself and knows no database, vendor or operating system. A reader begins with `task`: one run, from
//! claim to end.

#![warn(clippy::wildcard_enum_match_arm)]

mod admission;
mod error;
mod ingest;
mod instant;
mod live;
mod manifest;
mod perform;
pub mod ports;
mod project;
mod projection;
mod reader;
mod replay;
mod task;
mod views;
mod worker;

use std::sync::Arc;

use contract::Limits;
use contract::event::ModelRef;
use tokio::sync::Semaphore;

pub use admission::MessageError;
pub use error::RuntimeError;
pub use instant::{Reported, Shown};
pub use live::{Frame, Live};
pub use manifest::{Manifest, ManifestEntry};
pub use project::Project;
pub use reader::EventReader;
pub use replay::replay;
pub use source::Packages;
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
    /// Models that may be asked at once.
    model_operations: Semaphore,
}

impl Runtime {
    /// Puts a runtime together.
    pub fn new(ports: Ports, limits: Limits, preview: PreviewAddress, template: Template) -> Arc<Self> {
        let live = Live::new(usize::try_from(limits.live_ring_bytes).unwrap_or(usize::MAX));
        let most =
            usize::try_from(limits.model_operations).unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS);
        let (published, instant) = (views::Published::default(), instant::Instant::new(&limits, &template));
        let model_operations = Semaphore::new(most);
        Arc::new(Self { ports, limits, live, preview, template, published, instant, model_operations })
    }

    /// The model that runs use.
    pub fn model(&self) -> ModelRef {
        self.ports.model.reference()
    }
}

//! The rows of one run beside its own and its messages': calls of tools, builds and versions, as the store port shows them.
//!
//! [`Drawn::take`] says once and plainly what a change does to them. The stores that keep them in tables are held against it.

use contract::CallId;
use contract::event::{BuildState, ToolName, ToolStatus};

use super::store::{PublishedVersion, RowChange};

/// What the rows say of a run's work, each kind in the order in which it came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drawn {
    /// Its calls of tools.
    pub calls: Vec<CallRow>,
    /// Its builds.
    pub builds: Vec<BuildRow>,
    /// What it published.
    pub versions: Vec<PublishedVersion>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRow {
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: ToolName,
    /// What it was asked, as JSON.
    pub input: String,
    /// Its idempotency key; none in a log that an older Baton wrote.
    pub key: Option<String>,
    /// How it ended, once it has.
    pub status: Option<ToolStatus>,
    /// What it printed.
    pub output: Option<String>,
    /// Why it did not succeed.
    pub error: Option<String>,
    /// Milliseconds.
    pub duration_ms: Option<u64>,
}

/// A build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildRow {
    /// The build.
    pub build_id: String,
    /// Where it is.
    pub status: BuildState,
    /// Where it can be opened, once it is published.
    pub url: Option<String>,
    /// Why it failed, as JSON.
    pub error: Option<String>,
    /// When it was first told of, in milliseconds since the Unix epoch.
    pub started_at: u64,
    /// Milliseconds, once it has ended.
    pub duration_ms: Option<u64>,
}

impl Drawn {
    /// Makes a change, if it is one of these rows.
    pub fn take(&mut self, change: &RowChange) {
        match change {
            RowChange::ToolRequested { call_id, tool, input, key } => {
                let (tool, input, key) = (*tool, input.clone(), Some(key.clone()));
                match self.calls.iter_mut().find(|call| call.call_id == *call_id) {
                    Some(call) => (call.tool, call.input, call.key) = (tool, input, key),
                    None => self.calls.push(CallRow {
                        call_id: call_id.clone(),
                        tool,
                        input,
                        key,
                        status: None,
                        output: None,
                        error: None,
                        duration_ms: None,
                    }),
                }
            }
            RowChange::ToolFinished { call_id, status, output, error, duration_ms } => {
                if let Some(call) = self.calls.iter_mut().find(|call| call.call_id == *call_id) {
                    call.status = Some(*status);
                    call.output = Some(output.clone());
                    call.error.clone_from(error);
                    call.duration_ms = Some(*duration_ms);
                }
            }
            RowChange::Build { build_id, status, duration_ms, error, at } => {
                match self.builds.iter_mut().find(|build| build.build_id == *build_id) {
                    Some(build) => {
                        (build.status, build.duration_ms, build.error) = (*status, *duration_ms, error.clone());
                    }
                    None => self.builds.push(BuildRow {
                        build_id: build_id.clone(),
                        status: *status,
                        url: None,
                        error: error.clone(),
                        started_at: *at,
                        duration_ms: *duration_ms,
                    }),
                }
            }
            RowChange::BuildShown { url } => {
                let built = self.builds.iter_mut().rfind(|build| build.status == BuildState::Succeeded);
                built.into_iter().for_each(|build| build.url = Some(url.clone()));
            }
            RowChange::Publish(version) => self.versions.push(version.clone()),
            RowChange::Run { .. }
            | RowChange::Progress { .. }
            | RowChange::Answered { .. }
            | RowChange::AssistantText { .. }
            | RowChange::AssistantReset { .. } => {}
        }
    }
}

//! No sandbox, for a process that performs no runs: it says that others have one, and opens nothing.

use std::sync::Arc;

use async_trait::async_trait;
use runtime::ports::sandbox::{IsolationLevel, IsolationReport, Sandbox, SandboxError, Workspace, WorkspaceSpec};

/// The sandbox of a process that only serves.
#[derive(Debug)]
pub struct AbsentSandbox(IsolationReport);

impl AbsentSandbox {
    /// With where to look instead.
    pub fn new() -> Self {
        Self(IsolationReport {
            backend: "none".into(),
            level: IsolationLevel::Elsewhere,
            reason: Some("this process performs no runs".into()),
            remedy: vec!["Runs are isolated by the workers: each says how when it starts, and `baton doctor` on its machine says more.".into()],
            features: vec![],
        })
    }
}

impl Default for AbsentSandbox {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Sandbox for AbsentSandbox {
    fn report(&self) -> &IsolationReport {
        &self.0
    }

    async fn open(&self, _: WorkspaceSpec) -> Result<Arc<dyn Workspace>, SandboxError> {
        let reason = self.0.reason.clone().unwrap_or_default();
        Err(SandboxError::Refused { reason, remedy: self.0.remedy.clone() })
    }
}

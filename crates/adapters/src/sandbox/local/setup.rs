//! What a sandbox needs of the host before it can start: folders, whose they are, and processes that start commands.

#![expect(
    clippy::disallowed_methods,
    reason = "resolves the folders of the configuration, and reads this process's own user map"
)]

use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};

use runtime::ports::sandbox::SandboxError;
use rustix::fs::{CWD, Mode, OFlags};

use super::LocalSandboxConfig;
use super::cgroup::ControlGroups;
use super::files::{DEPENDENCIES, failed};
use super::instance::Instance;
use super::launch::Keepers;
use super::refusal::HostFacts;
use super::tree;

/// The host as the sandbox found it.
pub(super) struct Host {
    /// For refusals.
    pub facts: HostFacts,
    /// The host user to become, if we are root.
    pub become_id: Option<u32>,
    /// The data folder.
    pub data: PathBuf,
    /// The template's `node_modules`.
    pub dependencies: Option<PathBuf>,
    /// A Node that does not belong to the system.
    pub node: Option<PathBuf>,
    /// This sandbox's own folder.
    pub instance: Instance,
}

impl Host {
    /// Finds and makes the folders, and gives the dependencies to the sandbox's user.
    pub(super) fn prepare(config: &LocalSandboxConfig) -> Result<Self, SandboxError> {
        let found = |path: &Path| {
            path.canonicalize()
                .map_err(|error| failed(&format!("looking for the sandbox's folder {}", path.display()), error))
        };
        let become_id = sandbox_user(config.user);
        let dependencies =
            config.template_dir.as_ref().map(|template| found(&template.join(DEPENDENCIES))).transpose()?;
        if let (Some(dependencies), Some(id)) = (&dependencies, become_id) {
            own(dependencies, id)
                .map_err(|error| failed("giving the template's dependencies to the sandbox's user", error))?;
        }
        let node = config.node_dir.as_deref().map(found).transpose()?;
        let instance = Instance::start(&config.data_dir.join("sandbox"));
        Ok(Self {
            facts: HostFacts::read(&config.launcher),
            become_id,
            dependencies,
            // The system's own is seen anyway.
            node: node.filter(|node| !node.starts_with("/usr")),
            instance: instance.map_err(|error| failed("making the sandbox's folder", error))?,
            data: found(&config.data_dir)?,
        })
    }
}

/// The processes that start commands, in control groups if those can really be joined: a folder that can be made need not let
/// anyone in.
pub(super) async fn keepers(config: &LocalSandboxConfig) -> io::Result<Keepers> {
    let groups = if config.control_groups {
        ControlGroups::find(Path::new("/"), Path::new("/proc/self"), std::process::id())
    } else {
        ControlGroups::none("control groups are switched off in the configuration".into())
    };
    let start = |groups| Keepers::new(config.launcher.clone(), groups, config.idle_keepers);
    let keepers = start(groups)?;
    match keepers.take().await {
        Ok(keeper) => {
            keepers.keep(keeper);
            Ok(keepers)
        }
        Err(error) => start(ControlGroups::none(format!("control groups cannot be joined: {error}"))),
    }
}

/// The user to become: only root can, and only if its user namespace knows that user.
fn sandbox_user(user: u32) -> Option<u32> {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let known = map.lines().any(|line| {
        let mut numbers = line.split_whitespace().filter_map(|number| number.parse::<u64>().ok());
        let (Some(first), _, Some(count)) = (numbers.next(), numbers.next(), numbers.next()) else { return false };
        (first..first.saturating_add(count)).contains(&u64::from(user))
    });
    (known && rustix::process::geteuid().is_root()).then_some(user)
}

/// Gives the dependencies to the sandbox's user, once: the folder itself is given last and tells that it was done.
fn own(dependencies: &Path, id: u32) -> io::Result<()> {
    let path = CString::new(dependencies.as_os_str().as_encoded_bytes())?;
    let folder = rustix::fs::openat(CWD, &path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    if rustix::fs::fstat(&folder)?.st_uid == id {
        return Ok(());
    }
    tree::give_to(folder, id)
}

//! From a refused step to a sentence that helps: which switch of the system stands in the way, and the exact line that turns it.
//!
//! Pure but for [`HostFacts::read`]: the same step and facts give the same answer.

#![expect(clippy::disallowed_methods, reason = "reads the kernel's switches")]

use std::fs;
use std::path::{Path, PathBuf};

use runtime::ports::sandbox::SandboxError;

use super::spec::Stage;

/// Oldest kernel that keeps the promises: process limits per user namespace (5.14), unprivileged overlays (5.11), `mount_setattr` (5.12).
const OLDEST_KERNEL: (u32, u32) = (5, 14);

/// What decides whether namespaces are given.
#[derive(Debug, Clone, Default)]
pub(super) struct HostFacts {
    /// Such as `6.1.0-18-amd64`.
    pub kernel: String,
    /// `user.max_user_namespaces`.
    pub most_user_namespaces: Option<u64>,
    /// `kernel.unprivileged_userns_clone`, on Debian's older kernels.
    pub unprivileged_userns_clone: Option<u64>,
    /// `kernel.apparmor_restrict_unprivileged_userns`, on Ubuntu from 23.10.
    pub apparmor_restricts: Option<u64>,
    /// Whether this runs in a container.
    pub in_container: bool,
    /// Whether this is root, which a container may have robbed of its rights.
    pub is_root: bool,
    /// The launcher's program, which an AppArmor profile names.
    pub program: PathBuf,
}

impl HostFacts {
    /// Reads them.
    pub(super) fn read(program: &Path) -> Self {
        let switch = |name: &str| fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?.trim().parse().ok();
        Self {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            most_user_namespaces: switch("user/max_user_namespaces"),
            unprivileged_userns_clone: switch("kernel/unprivileged_userns_clone"),
            apparmor_restricts: switch("kernel/apparmor_restrict_unprivileged_userns"),
            in_container: ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| Path::new(mark).exists()),
            is_root: rustix::process::geteuid().is_root(),
            program: fs::read_link(program).unwrap_or_else(|_| program.to_owned()),
        }
    }

    /// Whether the kernel is too old, with the refusal.
    pub(super) fn too_old(&self) -> Option<SandboxError> {
        let mut numbers = self.kernel.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
        let version = (numbers.next()?, numbers.next()?);
        let (major, minor) = OLDEST_KERNEL;
        (version < OLDEST_KERNEL).then(|| SandboxError::Refused {
            reason: format!("Linux {} is older than {major}.{minor}", self.kernel),
            remedy: vec![format!("Use a system with Linux {major}.{minor} or newer.")],
        })
    }

    fn namespaces_refused(&self) -> (String, Vec<String>) {
        if self.most_user_namespaces == Some(0) {
            let line = "sudo sysctl -w user.max_user_namespaces=15000";
            return ("user namespaces are switched off (user.max_user_namespaces = 0)".into(), vec![line.into()]);
        }
        if self.unprivileged_userns_clone == Some(0) {
            let line = "sudo sysctl -w kernel.unprivileged_userns_clone=1";
            return ("unprivileged user namespaces are switched off".into(), vec![line.into()]);
        }
        if self.apparmor_restricts.is_some_and(|restricts| restricts != 0) {
            let program = self.program.display();
            return (
                "AppArmor does not allow this program user namespaces (usual on Ubuntu from 23.10)".into(),
                vec![
                    format!(
                        "printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile baton {program} flags=(unconfined) {{ userns, }}\\n' \
                         | sudo tee /etc/apparmor.d/baton && sudo apparmor_parser -r /etc/apparmor.d/baton"
                    ),
                    "Or for every program: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0".into(),
                ],
            );
        }
        if self.in_container {
            let options = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined";
            let mut remedy = vec![format!("Start the container with: {options}")];
            if self.is_root {
                remedy.push("and as an ordinary user (--user 1000), or with --cap-add SYS_ADMIN".into());
            }
            return ("this container does not allow namespaces".into(), remedy);
        }
        (
            "the kernel does not allow this user new namespaces".into(),
            vec!["sudo sysctl -w user.max_user_namespaces=15000".into()],
        )
    }
}

/// The error for a step that the system refused.
pub(super) fn explain(stage: Stage, errno: i32, what: &str, facts: &HostFacts) -> SandboxError {
    let cause = if errno == 0 { String::new() } else { format!(": {}", std::io::Error::from_raw_os_error(errno)) };
    let refused = |reason: String, remedy: Vec<String>| SandboxError::Refused {
        reason: format!("{reason} ({what}{cause})"),
        remedy,
    };
    match stage {
        Stage::LeaveNamespaces | Stage::MapUser => {
            let (reason, remedy) = facts.namespaces_refused();
            refused(reason, remedy)
        }
        // With the switches of AppArmor or a container, the namespace is given but nothing may be done in it.
        Stage::TakeFolders | Stage::BuildRoot | Stage::SwitchRoot | Stage::Network | Stage::StartInit
            if matches!(errno, libc::EPERM | libc::EACCES) =>
        {
            let (reason, remedy) = facts.namespaces_refused();
            refused(reason, remedy)
        }
        Stage::MountProc => refused(
            "a new /proc may not be mounted here; usually a container hides parts of its own".into(),
            vec!["Start the container with: --security-opt systempaths=unconfined".into()],
        ),
        Stage::MountDependencies => refused(
            "the data folder's file system cannot hold a layer over the dependencies".into(),
            vec!["Put the data folder on ext4, XFS, Btrfs or tmpfs: --data DIR. In a container, use a volume.".into()],
        ),
        Stage::BecomeUser => refused(
            "this root may not become the sandbox's user".into(),
            vec!["Run Baton as an ordinary user, or give the container the capabilities SETUID and SETGID.".into()],
        ),
        Stage::FilterCalls => refused(
            "the kernel does not filter system calls".into(),
            vec!["Use a kernel with CONFIG_SECCOMP_FILTER.".into()],
        ),
        Stage::ReadSpec
        | Stage::JoinGroups
        | Stage::TakeFolders
        | Stage::StartInit
        | Stage::Network
        | Stage::BuildRoot
        | Stage::SwitchRoot
        | Stage::DropCapabilities
        | Stage::Landlock
        | Stage::StartPayload => SandboxError::Failed { doing: format!("{stage:?}"), cause: format!("{what}{cause}") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// N9: whoever is refused is told the line that helps.
    #[test]
    fn a_refusal_names_the_switch_that_stands_in_the_way() {
        let facts = |change: fn(&mut HostFacts)| {
            let mut facts = HostFacts { kernel: "6.8.0".into(), most_user_namespaces: Some(9), ..HostFacts::default() };
            change(&mut facts);
            facts
        };
        let table: [(Stage, i32, HostFacts, &str); 7] = [
            (
                Stage::LeaveNamespaces,
                libc::ENOSPC,
                facts(|f| f.most_user_namespaces = Some(0)),
                "user.max_user_namespaces=15000",
            ),
            (
                Stage::LeaveNamespaces,
                libc::EPERM,
                facts(|f| f.unprivileged_userns_clone = Some(0)),
                "unprivileged_userns_clone=1",
            ),
            (Stage::LeaveNamespaces, libc::EPERM, facts(|f| f.in_container = true), "seccomp=unconfined"),
            (Stage::TakeFolders, libc::EACCES, facts(|f| f.apparmor_restricts = Some(1)), "apparmor_parser -r"),
            (Stage::BuildRoot, libc::EPERM, facts(|f| f.apparmor_restricts = Some(1)), "apparmor_parser -r"),
            (Stage::MountProc, libc::EPERM, facts(|f| f.in_container = true), "systempaths=unconfined"),
            (Stage::MountDependencies, libc::EINVAL, facts(|_| {}), "--data DIR"),
        ];
        for (stage, errno, facts, expected) in table {
            let error = explain(stage, errno, "something", &facts);
            assert!(matches!(error, SandboxError::Refused { .. }), "{stage:?}");
            assert!(error.action().contains(expected), "{stage:?}: {}", error.action());
        }
    }

    #[test]
    fn a_fault_of_ours_is_not_called_a_refusal_of_the_system() {
        let facts = HostFacts::default();
        for (stage, errno) in
            [(Stage::TakeFolders, libc::ENOENT), (Stage::JoinGroups, libc::ENOENT), (Stage::ReadSpec, 0)]
        {
            assert!(matches!(explain(stage, errno, "x", &facts), SandboxError::Failed { .. }), "{stage:?}");
        }
    }

    #[test]
    fn old_kernels_are_refused_by_number() {
        for (kernel, old) in
            [("5.10.0-8-amd64", true), ("5.14.0", false), ("6.18.44-fc", false), ("4.19", true), ("odd", false)]
        {
            let facts = HostFacts { kernel: kernel.into(), ..HostFacts::default() };
            assert_eq!(facts.too_old().is_some(), old, "{kernel}");
        }
    }
}

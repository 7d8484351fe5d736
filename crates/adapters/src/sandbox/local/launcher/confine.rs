//! What a process inside may do: capabilities, Landlock and the limits that each process carries.

use std::io;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::super::spec::{ProcessLimits, Stage};
use super::{At, StageError};

/// Newest Landlock version whose rights are asked for; a kernel that knows fewer gives what it knows.
const LANDLOCK: ABI = ABI::V6;
/// Folders that may be read and executed. The root itself is not among them: what has no rule cannot be listed.
const READABLE: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/gnu", "/opt", "/etc", "/proc", "/dev"];
/// Folders that may be written.
const WRITABLE: &[&str] = &["/workspace", "/tmp"];
/// Devices that may be written.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Open files of one process.
const OPEN_FILES: u64 = 4_096;
/// Bytes of one process that cannot be swapped out.
const LOCKED_BYTES: u64 = 64 * 1024;

/// Gives up every capability of the user namespace, for good, and the way to get any by executing a file.
pub(super) fn drop_capabilities() -> Result<(), StageError> {
    drop_all().at(Stage::DropCapabilities, "capabilities")
}

fn drop_all() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    for capability in CapabilitySet::all().iter() {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // A capability that this kernel does not know.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

/// A second wall behind the mounts. Kernels without Landlock have the mounts alone; the probe tells which it is.
pub(super) fn landlock() -> Result<(), StageError> {
    restrict().map_err(io::Error::other).at(Stage::Landlock, "ruleset")
}

fn restrict() -> Result<(), landlock::RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?;
    let read = AccessFs::from_read(LANDLOCK);
    let device = AccessFs::ReadFile | AccessFs::WriteFile;
    let rules: [(&[&str], BitFlags<AccessFs>); 3] =
        [(READABLE, read), (WRITABLE, AccessFs::from_all(LANDLOCK)), (DEVICES, device)];
    for (path, access) in rules.into_iter().flat_map(|(paths, access)| paths.iter().map(move |path| (path, access))) {
        // Not every system has every folder.
        if let Ok(fd) = PathFd::new(Path::new(path)) {
            ruleset = ruleset.add_rule(PathBeneath::new(fd, access))?;
        }
    }
    ruleset.restrict_self().map(drop)
}

/// Sets the limits of the calling process, which its children inherit and nobody inside can raise.
pub(super) fn limit(limits: &ProcessLimits) -> Result<(), StageError> {
    let fixed = [
        (Resource::Core, 0),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Nproc, limits.pids),
        (Resource::Cpu, limits.cpu_seconds),
        (Resource::Nofile, OPEN_FILES),
        (Resource::Memlock, LOCKED_BYTES),
        (Resource::Msgqueue, 0),
        (Resource::Nice, 0),
        (Resource::Rtprio, 0),
    ];
    for (resource, most) in fixed {
        let most = rustix::process::getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
        // The kernel says "time is up" (SIGXCPU) at the first and kills at the second.
        let maximum = if resource == Resource::Cpu { most.saturating_add(1) } else { most };
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(maximum) })
            .at(Stage::StartPayload, format!("limit {resource:?}"))?;
    }
    Ok(())
}

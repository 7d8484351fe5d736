//! From what was seen inside to the isolation report: which claims hold, what is missing, and how to get it (N9).
//!
//! A claim that isolation stands on refuses the sandbox when it does not hold. The report never says more than was verified.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use runtime::ports::sandbox::{IsolationFeature, IsolationLevel, IsolationReport, ResourceLimits, SandboxError};

use super::Shared;
use super::cgroup::Controller;
use super::exec;
use super::files::failed;
use super::spec::{FileView, Finding, LaunchSpec, Payload, ProbeSpec, ProcessLimits};

/// How long the probe may take. It takes about 10 ms.
const WITHIN: Duration = Duration::from_secs(20);
/// Claims that add depth, or serve convenience; the others must all hold.
const OPTIONAL: &[&str] = &["landlock", "node"];
/// Namespaces that must not be the host's.
const NAMESPACES: &[&str] = &["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
/// Host paths that must have no name inside, beside the data folder.
const HIDDEN: &[&str] = &["/root", "/home", "/var", "/run", "/sys", "/etc/shadow", "/etc/ssh", "/boot"];

/// Limits for the probe itself; also what is written into a control group to see that it takes limits.
const PROBE_LIMITS: ResourceLimits = ResourceLimits {
    memory_bytes: 256 * 1024 * 1024,
    cpu_percent: 100,
    pids: 64,
    file_bytes: 1024 * 1024,
    disk_bytes: 16 * 1024 * 1024,
    tmp_bytes: 1024 * 1024,
};

/// Looks, and writes the report. An error of the launcher is a refusal, with its reason and remedy.
pub(super) async fn report(shared: &Shared, project: &Path) -> IsolationReport {
    match verify(shared, project).await {
        Ok(features) => judge(features, shared.keepers.groups().problems()),
        Err(error) => refused(&error),
    }
}

/// The report of a sandbox that could not even be tried.
pub(super) fn refused(error: &SandboxError) -> IsolationReport {
    let (reason, remedy) = match error {
        SandboxError::Refused { reason, remedy } => (reason.clone(), remedy.clone()),
        other => (other.to_string(), vec![other.action()]),
    };
    IsolationReport {
        backend: super::BACKEND.into(),
        level: IsolationLevel::Refused,
        reason: Some(reason),
        remedy,
        features: Vec::new(),
    }
}

async fn verify(shared: &Shared, project: &Path) -> Result<Vec<IsolationFeature>, SandboxError> {
    // Accepts nothing; that it can be reached at all would be the fault.
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| failed("listening for the probe", error))?;
    let port = listener.local_addr().map_err(|error| failed("listening for the probe", error))?.port();
    let mut keeper = shared.keepers.take().await.map_err(|error| failed("starting a keeper", error))?;
    let limited = keeper.group.limit(&PROBE_LIMITS);
    let kept = limited.is_ok() && keeper.group.has_member(keeper.process());
    let found = exec::look(&mut keeper, &shared.host.facts, &spec(shared, project, port), WITHIN).await?;
    let mut features: Vec<_> = found.into_iter().map(feature).collect();
    features.extend([Controller::Memory, Controller::Pids, Controller::Cpu].map(|c| limit(shared, c, kept)));
    shared.keepers.keep(keeper);
    Ok(features)
}

fn spec(shared: &Shared, project: &Path, host_port: u16) -> LaunchSpec {
    let link = |name: &&str| Some(((*name).to_owned(), namespace(name)?));
    let hidden = HIDDEN.iter().map(PathBuf::from).chain([shared.host.data.clone()]).collect();
    LaunchSpec {
        become_id: shared.host.become_id,
        view: FileView {
            project: project.to_owned(),
            dependencies: None,
            node: shared.host.node.clone(),
            tmp_bytes: PROBE_LIMITS.tmp_bytes,
        },
        limits: ProcessLimits {
            file_bytes: PROBE_LIMITS.file_bytes,
            pids: PROBE_LIMITS.pids,
            cpu_seconds: WITHIN.as_secs(),
            watched_memory_bytes: None,
        },
        payload: Payload::Probe(ProbeSpec {
            host_namespaces: NAMESPACES.iter().filter_map(link).collect(),
            host_port,
            hidden,
            node: shared.host.node.is_some(),
        }),
    }
}

#[expect(clippy::disallowed_methods, reason = "reads this process's own namespaces")]
fn namespace(name: &str) -> Option<PathBuf> {
    std::fs::read_link(Path::new("/proc/self/ns").join(name)).ok()
}

fn feature(finding: Finding) -> IsolationFeature {
    IsolationFeature { feature: finding.feature, in_force: finding.holds, detail: finding.detail }
}

/// Whether a limit is kept by the kernel, and by what otherwise.
fn limit(shared: &Shared, controller: Controller, kept: bool) -> IsolationFeature {
    let in_force = kept && shared.keepers.groups().has(controller);
    let (name, otherwise) = match controller {
        Controller::Memory => ("memory_limit", "a watcher adds up the memory of all processes every 50 ms"),
        Controller::Pids => ("process_limit", "the kernel counts per user namespace (RLIMIT_NPROC)"),
        Controller::Cpu => ("cpu_limit", "processor seconds per process (RLIMIT_CPU); no share of the machine"),
    };
    let detail = if in_force { format!("control group ({})", controller.name()) } else { otherwise.to_owned() };
    IsolationFeature { feature: name.into(), in_force, detail }
}

/// The level that the features make.
fn judge(features: Vec<IsolationFeature>, group_problems: &[String]) -> IsolationReport {
    const LIMITS: [&str; 3] = ["memory_limit", "process_limit", "cpu_limit"];
    let missing: Vec<_> = features.iter().filter(|feature| !feature.in_force).map(|f| f.feature.as_str()).collect();
    let soft = |name: &&str| OPTIONAL.contains(name) || LIMITS.contains(name);
    let fatal: Vec<_> = missing.iter().copied().filter(|name| !soft(name)).collect();
    let depth: Vec<_> = missing.iter().copied().filter(|name| soft(name) && *name != "node").collect();

    let mut remedy = Vec::new();
    if missing.iter().any(|name| LIMITS.contains(name)) {
        remedy.push(
            "For limits that the kernel keeps, run Baton where control groups can be written: \
             systemd-run --user --scope -p Delegate=yes baton up"
                .to_owned(),
        );
        remedy.extend(group_problems.iter().map(|problem| format!("Seen: {problem}")));
    }
    if missing.contains(&"landlock") {
        remedy
            .push("For Landlock, use Linux 5.13 or newer with lsm=landlock,… on the kernel's command line.".to_owned());
    }
    if missing.contains(&"node") {
        remedy.push("For builds, set up Node 22 or newer; scripts/up does it.".to_owned());
    }
    let (level, reason) = if !fatal.is_empty() {
        (IsolationLevel::Refused, Some(format!("not in force: {}", fatal.join(", "))))
    } else if !depth.is_empty() {
        (IsolationLevel::Soft, Some(format!("nothing reaches outside, but not in force: {}", depth.join(", "))))
    } else {
        (IsolationLevel::Full, None)
    };
    IsolationReport { backend: super::BACKEND.into(), level, reason, remedy, features }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(missing: &[&str]) -> Vec<IsolationFeature> {
        [
            "namespaces",
            "no_network",
            "system_calls_filtered",
            "landlock",
            "node",
            "memory_limit",
            "process_limit",
            "cpu_limit",
        ]
        .into_iter()
        .map(|name| IsolationFeature {
            feature: name.into(),
            in_force: !missing.contains(&name),
            detail: String::new(),
        })
        .collect()
    }

    /// N9: the level is what was verified; what isolation stands on is never optional.
    #[test]
    fn the_level_follows_from_what_is_missing() {
        let table: &[(&[&str], IsolationLevel)] = &[
            (&[], IsolationLevel::Full),
            (&["node"], IsolationLevel::Full),
            (&["landlock"], IsolationLevel::Soft),
            (&["memory_limit", "cpu_limit"], IsolationLevel::Soft),
            (&["no_network"], IsolationLevel::Refused),
            (&["namespaces", "landlock"], IsolationLevel::Refused),
        ];
        for (missing, level) in table {
            let report = judge(features(missing), &[]);
            assert_eq!(report.level, *level, "{missing:?}");
            assert_eq!(report.reason.is_none(), *level == IsolationLevel::Full);
            assert!(
                missing.is_empty() || *level == IsolationLevel::Refused || !report.remedy.is_empty(),
                "{missing:?}"
            );
        }
    }
}

//! Control groups: limits on memory, processes and processor time that the kernel keeps for all processes of a command together.
//!
//! Both versions are used where they can be written; which of the three limits that gives is found by trying, once. The host makes a
//! group for each keeper, which joins it, and removes it afterwards. Groups of a Baton that was killed are removed by the next one. This
//! file must not decide what to do without a limit: it only says which there are.

#![expect(clippy::disallowed_methods, reason = "control groups are folders and files")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use runtime::ports::sandbox::ResourceLimits;

/// The folder of one sandbox in each hierarchy is this, its process id and a number.
const PREFIX: &str = "baton-";
/// Numbers the sandboxes of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// Where a Baton moves itself in version 2, where a group with processes of its own may not divide its resources.
const SELF_LEAF: &str = "baton-self";
/// Length of the period in which processor time is shared out, in microseconds.
const CPU_PERIOD_US: u64 = 100_000;
/// Memory and swap together, in multiples of memory (contracts.md § 3: 1 GB, 3 GB with swap).
const WITH_SWAP: u64 = 3;

/// A limit that control groups can keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Controller {
    /// Memory.
    Memory,
    /// Processes and threads.
    Pids,
    /// Processor time.
    Cpu,
}

const CONTROLLERS: [Controller; 3] = [Controller::Memory, Controller::Pids, Controller::Cpu];

impl Controller {
    /// Its name in the kernel.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A place where groups can be made.
#[derive(Debug)]
struct Hierarchy {
    version: Version,
    controllers: Vec<Controller>,
    /// This Baton's folder.
    base: PathBuf,
}

/// All places where groups can be made.
#[derive(Debug)]
pub(super) struct ControlGroups {
    hierarchies: Vec<Hierarchy>,
    /// Why a limit is not kept by the kernel.
    problems: Vec<String>,
}

impl ControlGroups {
    /// Finds what can be written. `proc_self` and `root` are `/proc/self` and `/` but for tests; `process` is this process's id.
    pub(super) fn find(root: &Path, proc_self: &Path, process: u32) -> Self {
        let mounts = fs::read_to_string(proc_self.join("mountinfo")).unwrap_or_default();
        let own = fs::read_to_string(proc_self.join("cgroup")).unwrap_or_default();
        let name = format!("{PREFIX}{process}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let mut found = Self { hierarchies: Vec::new(), problems: Vec::new() };
        for mount in mounts.lines().filter_map(Mount::parse) {
            let wanted: Vec<_> = match mount.version {
                Version::One => {
                    CONTROLLERS.into_iter().filter(|c| mount.options.iter().any(|o| o == c.name())).collect()
                }
                Version::Two => CONTROLLERS.to_vec(),
            };
            let missing: Vec<_> = wanted.into_iter().filter(|c| !found.has(*c)).collect();
            if missing.is_empty() {
                continue;
            }
            match Hierarchy::open(root, &mount, &own, missing, process, &name) {
                Ok(hierarchy) => found.hierarchies.push(hierarchy),
                Err(problem) => found.problems.push(problem),
            }
        }
        found
    }

    /// Where none are used, and why.
    pub(super) fn none(problem: String) -> Self {
        Self { hierarchies: Vec::new(), problems: vec![problem] }
    }

    /// Whether the kernel keeps this limit.
    pub(super) fn has(&self, controller: Controller) -> bool {
        self.hierarchies.iter().any(|hierarchy| hierarchy.controllers.contains(&controller))
    }

    /// What stood in the way, for the report.
    pub(super) fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Makes an empty group in each hierarchy.
    pub(super) fn create(&self, name: &str) -> io::Result<Group> {
        let mut group = Group { parts: Vec::new() };
        for hierarchy in &self.hierarchies {
            let folder = hierarchy.base.join(name);
            fs::create_dir(&folder)?;
            group.parts.push(Part { version: hierarchy.version, controllers: hierarchy.controllers.clone(), folder });
        }
        Ok(group)
    }
}

impl Drop for ControlGroups {
    fn drop(&mut self) {
        for hierarchy in &self.hierarchies {
            // Not empty only if a command still runs; the next Baton tries again.
            let _ = fs::remove_dir(&hierarchy.base);
        }
    }
}

/// A line of `mountinfo` that is a control group hierarchy.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// Which part of the hierarchy is mounted.
    top: String,
    /// Where.
    at: PathBuf,
    options: Vec<String>,
}

impl Mount {
    /// `36 35 0:29 /top /at rw,nosuid - cgroup cgroup rw,memory`; before the dash there may be more fields.
    fn parse(line: &str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let place: Vec<_> = place.split(' ').collect();
        let kind: Vec<_> = kind.split(' ').collect();
        let version = match *kind.first()? {
            "cgroup" => Version::One,
            "cgroup2" => Version::Two,
            _ => return None,
        };
        Some(Self {
            version,
            top: (*place.get(3)?).to_owned(),
            at: PathBuf::from(place.get(4)?),
            options: kind.get(2)?.split(',').map(str::to_owned).collect(),
        })
    }

    /// The group that this process is in, as a folder. A line of `cgroup` is `4:memory:/path` or, for version 2, `0::/path`.
    fn own_folder(&self, own: &str) -> Option<PathBuf> {
        let path = own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let ours = match self.version {
                Version::One => controllers.split(',').any(|c| self.options.iter().any(|o| o == c)),
                Version::Two => controllers.is_empty(),
            };
            ours.then_some(path)
        })?;
        // What is mounted may be only a part, and we may be outside of it.
        let below = Path::new(path).strip_prefix(&self.top).ok()?;
        let folder = self.at.join(below);
        // We may have stepped aside before.
        if folder.ends_with(SELF_LEAF) { folder.parent().map(Path::to_owned) } else { Some(folder) }
    }
}

impl Hierarchy {
    fn open(
        root: &Path,
        mount: &Mount,
        own: &str,
        wanted: Vec<Controller>,
        process: u32,
        name: &str,
    ) -> Result<Self, String> {
        let under_root = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
        let own_folder = mount.own_folder(own).map(|path| under_root(&path)).filter(|path| path.is_dir());
        let top = under_root(&mount.at);
        let names: Vec<_> = wanted.iter().map(|controller| controller.name()).collect();
        let mut last = String::new();
        // Our own group first: whoever put us there may have limited it, and that must go on to hold.
        for parent in own_folder.into_iter().chain([top]) {
            let opened = match mount.version {
                Version::One => Self::make(Version::One, &parent, wanted.clone(), name),
                Version::Two => Self::divide(&parent, &wanted, process)
                    .and_then(|controllers| Self::make(Version::Two, &parent, controllers, name)),
            };
            match opened {
                Ok(hierarchy) => return Ok(hierarchy),
                Err(error) => last = format!("{} ({}): {error}", parent.display(), names.join(", ")),
            }
        }
        Err(last)
    }

    fn make(version: Version, parent: &Path, controllers: Vec<Controller>, name: &str) -> io::Result<Self> {
        remove_leftovers(parent);
        let base = parent.join(name);
        fs::create_dir(&base)?;
        if version == Version::Two {
            enable(&base, &controllers)?;
        }
        Ok(Self { version, controllers, base })
    }

    /// Makes a version 2 group hand its controllers down to groups below.
    fn divide(parent: &Path, wanted: &[Controller], process: u32) -> io::Result<Vec<Controller>> {
        let offered = fs::read_to_string(parent.join("cgroup.controllers"))?;
        let controllers: Vec<_> =
            wanted.iter().copied().filter(|c| offered.split_whitespace().any(|name| name == c.name())).collect();
        if controllers.is_empty() {
            return Err(io::Error::other("the group has none of these controllers"));
        }
        if let Err(error) = enable(parent, &controllers) {
            let members = fs::read_to_string(parent.join("cgroup.procs"))?;
            let alone = members.split_whitespace().eq([process.to_string().as_str()]);
            if error.raw_os_error() != Some(libc::EBUSY) || !alone {
                return Err(error);
            }
            // Only we are in the way: step aside into a leaf.
            let leaf = parent.join(SELF_LEAF);
            fs::create_dir_all(&leaf)?;
            fs::write(leaf.join("cgroup.procs"), process.to_string())?;
            enable(parent, &controllers)?;
        }
        Ok(controllers)
    }
}

fn enable(group: &Path, controllers: &[Controller]) -> io::Result<()> {
    let names: Vec<_> = controllers.iter().map(|controller| format!("+{}", controller.name())).collect();
    fs::write(group.join("cgroup.subtree_control"), names.join(" "))
}

/// Removes what Batons that were killed left. A group with processes cannot be removed, so a living one loses nothing.
fn remove_leftovers(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse::<u32>().ok());
        let Some(process) = process else { continue };
        if Path::new("/proc").join(process.to_string()).exists() {
            continue;
        }
        for group in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(group.path());
        }
        let _ = fs::remove_dir(entry.path());
    }
}

/// The group of one keeper, and so of one command at a time.
#[derive(Debug, Default)]
pub(super) struct Group {
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    version: Version,
    controllers: Vec<Controller>,
    folder: PathBuf,
}

impl Group {
    /// The files that a process writes itself into to join.
    pub(super) fn to_join(&self) -> Vec<PathBuf> {
        self.parts.iter().map(|part| part.folder.join("cgroup.procs")).collect()
    }

    /// Whether a process is a member everywhere.
    pub(super) fn has_member(&self, process: u32) -> bool {
        let process = process.to_string();
        self.to_join()
            .iter()
            .all(|file| fs::read_to_string(file).is_ok_and(|members| members.split_whitespace().any(|m| m == process)))
    }

    /// Whether it has no member anywhere. Where there is no group, nothing can be told, and this is true.
    pub(super) fn is_empty(&self) -> bool {
        self.to_join().iter().all(|file| fs::read_to_string(file).is_ok_and(|members| members.trim().is_empty()))
    }

    /// Sets the limits.
    pub(super) fn limit(&self, limits: &ResourceLimits) -> io::Result<()> {
        for part in &self.parts {
            for controller in &part.controllers {
                part.limit(*controller, limits)?;
            }
        }
        Ok(())
    }

    /// How many processes the kernel killed because the group's memory was used up.
    pub(super) fn memory_kills(&self) -> u64 {
        let count = |part: &Part| {
            let file = match part.version {
                Version::One => "memory.oom_control",
                Version::Two => "memory.events",
            };
            let text = fs::read_to_string(part.folder.join(file)).ok()?;
            text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok())
        };
        self.parts.iter().filter(|part| part.controllers.contains(&Controller::Memory)).filter_map(count).sum()
    }
}

impl Part {
    fn limit(&self, controller: Controller, limits: &ResourceLimits) -> io::Result<()> {
        let set = |file: &str, value: String| fs::write(self.folder.join(file), value);
        // Swap accounting is often off; then there is no such file.
        let set_if_there = |file: &str, value: String| match set(file, value) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => Ok(()),
            result => result,
        };
        let with_swap = |times: u64| limits.memory_bytes.saturating_mul(times).to_string();
        let quota = CPU_PERIOD_US * u64::from(limits.cpu_percent) / 100;
        match (controller, self.version) {
            (Controller::Memory, Version::One) => {
                // The smaller of the two may at no moment be above the other.
                set_if_there("memory.memsw.limit_in_bytes", "-1".into())?;
                set("memory.limit_in_bytes", limits.memory_bytes.to_string())?;
                set_if_there("memory.memsw.limit_in_bytes", with_swap(WITH_SWAP))
            }
            (Controller::Memory, Version::Two) => {
                set("memory.max", limits.memory_bytes.to_string())?;
                // The command fails as one.
                set("memory.oom.group", "1".into())?;
                set_if_there("memory.swap.max", with_swap(WITH_SWAP - 1))
            }
            (Controller::Pids, Version::One | Version::Two) => set("pids.max", limits.pids.to_string()),
            (Controller::Cpu, Version::One) => {
                set("cpu.cfs_period_us", CPU_PERIOD_US.to_string())?;
                set("cpu.cfs_quota_us", quota.to_string())
            }
            (Controller::Cpu, Version::Two) => set("cpu.max", format!("{quota} {CPU_PERIOD_US}")),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for part in &self.parts {
            // Its processes are gone by now; should one linger, the next Baton removes the group.
            let _ = fs::remove_dir(&part.folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ResourceLimits =
        ResourceLimits { memory_bytes: 1_000, cpu_percent: 50, pids: 7, file_bytes: 0, disk_bytes: 0, tmp_bytes: 0 };

    /// A root folder in which the hierarchies are plain folders, and what a process in it would read.
    fn system(mounts: &str, own: &str, folders: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let proc_self = root.path().join("proc-self");
        fs::create_dir(&proc_self).unwrap();
        fs::write(proc_self.join("mountinfo"), mounts).unwrap();
        fs::write(proc_self.join("cgroup"), own).unwrap();
        for folder in folders {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        (root, proc_self)
    }

    fn written(root: &Path, group: &Group, file: &str) -> Option<(String, String)> {
        let part = group.parts.iter().find(|part| part.folder.join(file).exists())?;
        let place = part.folder.parent()?.parent()?.strip_prefix(root).ok()?;
        Some((place.display().to_string(), fs::read_to_string(part.folder.join(file)).ok()?))
    }

    #[test]
    fn version_one_uses_a_group_of_ours_below_our_own_in_each_hierarchy() {
        let mounts = "31 30 0:26 / /cg/memory rw,relatime - cgroup cgroup rw,memory\n\
                      32 30 0:27 /outer /cg/cpu rw shared:7 - cgroup cgroup rw,cpu,cpuacct\n\
                      33 30 0:28 / /cg/pids rw - cgroup cgroup rw,pids\n\
                      34 30 0:29 / /cg/unified rw - cgroup2 cgroup2 rw\n";
        let own = "4:memory:/user/baton\n3:cpu,cpuacct:/outer/inner\n2:pids:/gone\n0::/\n";
        let (root, proc_self) = system(mounts, own, &["cg/memory/user/baton", "cg/cpu/inner", "cg/pids"]);
        let groups = ControlGroups::find(root.path(), &proc_self, 42);
        assert!(CONTROLLERS.iter().all(|controller| groups.has(*controller)), "{groups:?}");

        let group = groups.create("0").unwrap();
        group.limit(&LIMITS).unwrap();
        let at = |file: &str| written(root.path(), &group, file).map(|(place, value)| format!("{place}={value}"));
        assert_eq!(at("memory.limit_in_bytes").as_deref(), Some("cg/memory/user/baton=1000"));
        assert_eq!(at("memory.memsw.limit_in_bytes").as_deref(), Some("cg/memory/user/baton=3000"));
        assert_eq!(at("cpu.cfs_quota_us").as_deref(), Some("cg/cpu/inner=50000"));
        // Ours is outside of what is mounted, so it is made at the top.
        assert_eq!(at("pids.max").as_deref(), Some("cg/pids=7"));

        assert_eq!(group.memory_kills(), 0);
        let memory = &group.parts[0].folder;
        fs::write(memory.join("memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n").unwrap();
        assert_eq!(group.memory_kills(), 3);
        assert_eq!(group.to_join().len(), 3);
    }

    #[test]
    fn version_two_divides_its_own_group_and_takes_what_it_offers() {
        let mounts = "34 30 0:29 / /cg rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        let (root, proc_self) = system(mounts, "0::/user.slice/me\n", &["cg/user.slice/me"]);
        let own = root.path().join("cg/user.slice/me");
        fs::write(own.join("cgroup.controllers"), "cpu memory hugetlb\n").unwrap();
        let groups = ControlGroups::find(root.path(), &proc_self, 42);
        assert!(groups.has(Controller::Memory) && groups.has(Controller::Cpu) && !groups.has(Controller::Pids));
        assert_eq!(fs::read_to_string(own.join("cgroup.subtree_control")).unwrap(), "+memory +cpu");

        let group = groups.create("0").unwrap();
        group.limit(&LIMITS).unwrap();
        let at = |file: &str| written(root.path(), &group, file).map(|(_, value)| value);
        assert_eq!(at("memory.max").as_deref(), Some("1000"));
        assert_eq!(at("memory.swap.max").as_deref(), Some("2000"));
        assert_eq!(at("memory.oom.group").as_deref(), Some("1"));
        assert_eq!(at("cpu.max").as_deref(), Some("50000 100000"));
        assert_eq!(at("pids.max"), None);
    }

    #[test]
    fn without_control_groups_the_reason_is_told() {
        let mounts = "34 30 0:29 / /cg rw - cgroup2 cgroup2 rw\n";
        let (root, proc_self) = system(mounts, "0::/\n", &["cg"]);
        fs::write(root.path().join("cg/cgroup.controllers"), "hugetlb\n").unwrap();
        let groups = ControlGroups::find(root.path(), &proc_self, 42);
        assert!(!CONTROLLERS.iter().any(|controller| groups.has(*controller)));
        assert!(groups.problems()[0].contains("memory, pids, cpu"), "{:?}", groups.problems());
    }

    #[test]
    fn groups_of_a_dead_baton_are_removed() {
        let mounts = "33 30 0:28 / /cg/pids rw - cgroup cgroup rw,pids\n";
        // No process can have such a number; this one has ours.
        let ours = format!("cg/pids/baton-{}-9", std::process::id());
        let (root, proc_self) = system(mounts, "2:pids:/\n", &["cg/pids/baton-4194305-0/1", &ours, "cg/pids/batonist"]);
        let _groups = ControlGroups::find(root.path(), &proc_self, 42);
        assert!(!root.path().join("cg/pids/baton-4194305-0").exists());
        assert!(root.path().join(ours).exists() && root.path().join("cg/pids/batonist").exists());
    }
}

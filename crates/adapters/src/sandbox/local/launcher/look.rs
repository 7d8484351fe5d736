//! The probe's eyes: runs where a program would run and with a program's rights, and tells what is there and what is possible.
//!
//! Every claim of the isolation report is tested here by trying it. Nothing here may rely on what the launcher believes it has done.

#![expect(
    clippy::disallowed_methods,
    reason = "the probe tries to read, write and connect; that it fails is the point"
)]

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};

use super::super::spec::{Finding, INSIDE_ID, NODE_DIR, PROJECT_DIR, ProbeSpec};
use super::kernel::{Forbidden, attempt};

/// A refused connection answers at once; only a leak could take this long.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// Looks at everything.
pub(super) fn around(spec: &ProbeSpec) -> Vec<Finding> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    vec![
        namespaces(spec),
        identity(&status),
        capabilities(&status),
        processes(),
        interfaces(),
        internet(),
        host_loopback(spec),
        system_is_read_only(),
        host_is_hidden(spec),
        project_is_writable(),
        calls_are_filtered(&status),
        sockets_are_filtered(),
        landlock(),
        node(spec),
    ]
}

fn finding(feature: &str, holds: bool, detail: impl Into<String>) -> Finding {
    Finding { feature: feature.into(), holds, detail: detail.into() }
}

/// A claim with the reasons against it; it holds if there are none.
fn unless(feature: &str, against: &[String], detail: &str) -> Finding {
    let holds = against.is_empty();
    finding(feature, holds, if holds { detail.to_owned() } else { against.join(", ") })
}

fn status_field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map_or("", str::trim)
}

fn namespaces(spec: &ProbeSpec) -> Finding {
    let shared =
        |(name, host): &(String, std::path::PathBuf)| match fs::read_link(Path::new("/proc/self/ns").join(name)) {
            Ok(own) if own != *host => None,
            Ok(_) => Some(format!("{name} is the host's")),
            Err(error) => Some(format!("{name}: {error}")),
        };
    let mut against: Vec<_> = spec.host_namespaces.iter().filter_map(shared).collect();
    if spec.host_namespaces.is_empty() {
        against.push("the host's namespaces could not be read".into());
    }
    let names: Vec<_> = spec.host_namespaces.iter().map(|(name, _)| name.as_str()).collect();
    unless("namespaces", &against, &format!("own {}", names.join(", ")))
}

fn identity(status: &str) -> Finding {
    let ids = status_field(status, "Uid");
    let all_inside = ids.split_whitespace().all(|id| id.parse() == Ok(INSIDE_ID));
    finding("not_root", all_inside && !ids.is_empty(), format!("user ids {}", ids.replace('\t', " ")))
}

fn capabilities(status: &str) -> Finding {
    let sets = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    let mut against: Vec<_> = sets
        .iter()
        .map(|set| (set, status_field(status, set)))
        .filter(|(_, value)| value.is_empty() || value.bytes().any(|digit| digit != b'0'))
        .map(|(set, value)| format!("{set} {value}"))
        .collect();
    if status_field(status, "NoNewPrivs") != "1" {
        against.push("new privileges are possible".into());
    }
    unless("no_capabilities", &against, "none, and no_new_privs is set")
}

fn processes() -> Finding {
    let is_process = |name: &std::ffi::OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    match fs::read_dir("/proc") {
        Ok(entries) => {
            let seen = entries.flatten().filter(|entry| is_process(&entry.file_name())).count();
            finding("own_processes_only", seen == 2, format!("{seen} processes are visible, init and the probe"))
        }
        Err(error) => finding("own_processes_only", false, format!("/proc: {error}")),
    }
}

fn interfaces() -> Finding {
    let table = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let names: Vec<_> =
        table.lines().skip(2).filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim()).collect();
    finding("loopback_only", names == ["lo"], format!("interfaces: {}", names.join(", ")))
}

fn internet() -> Finding {
    let address = SocketAddr::from((Ipv4Addr::new(1, 1, 1, 1), 443));
    match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
        Err(error) if error.kind() == io::ErrorKind::NetworkUnreachable => {
            finding("no_network", true, "connecting outside: network unreachable")
        }
        Err(error) => finding("no_network", false, format!("connecting outside: {error}")),
        Ok(_) => finding("no_network", false, "connecting outside succeeded"),
    }
}

fn host_loopback(spec: &ProbeSpec) -> Finding {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, spec.host_port));
    match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            finding("host_loopback_unreachable", true, "a listener of the host: connection refused")
        }
        Err(error) => finding("host_loopback_unreachable", false, error.to_string()),
        Ok(_) => finding("host_loopback_unreachable", false, "a listener of the host was reached"),
    }
}

fn system_is_read_only() -> Finding {
    let folders = ["/", "/usr", "/usr/bin", "/etc", "/dev", "/opt"];
    let written = |folder: &&&str| fs::write(Path::new(folder).join(".probe"), "").is_ok();
    let against: Vec<_> = folders.iter().filter(written).map(|folder| format!("{folder} is writable")).collect();
    unless("system_read_only", &against, "nothing outside the project and /tmp could be written")
}

fn host_is_hidden(spec: &ProbeSpec) -> Finding {
    let visible = |path: &&std::path::PathBuf| fs::symlink_metadata(path).is_ok();
    let against: Vec<_> =
        spec.hidden.iter().filter(visible).map(|path| format!("{} is visible", path.display())).collect();
    unless("host_files_hidden", &against, "the data folder and the home folders have no name inside")
}

fn project_is_writable() -> Finding {
    let against: Vec<_> = [PROJECT_DIR, "/tmp"]
        .iter()
        .filter_map(|folder| {
            let path = Path::new(folder).join(".probe");
            let tried = fs::write(&path, "probe").and_then(|()| fs::metadata(&path)).and_then(|file| {
                fs::remove_file(&path)?;
                if file.uid() == INSIDE_ID { Ok(()) } else { Err(io::Error::other("files belong to someone else")) }
            });
            tried.err().map(|error| format!("{folder}: {error}"))
        })
        .collect();
    unless("project_writable", &against, "the project and /tmp can be written")
}

fn calls_are_filtered(status: &str) -> Finding {
    let forbidden = [
        (Forbidden::Unshare, libc::EPERM),
        (Forbidden::Mount, libc::EPERM),
        (Forbidden::Ptrace, libc::EPERM),
        (Forbidden::Keyctl, libc::EPERM),
        (Forbidden::Bpf, libc::EPERM),
        (Forbidden::IoUring, libc::EPERM),
        (Forbidden::Userfaultfd, libc::EPERM),
        (Forbidden::Clone3, libc::ENOSYS),
    ];
    let mut against: Vec<_> = forbidden
        .iter()
        .filter(|(call, expected)| attempt(*call) != *expected)
        .map(|(call, _)| format!("{call:?} is not refused"))
        .collect();
    if status_field(status, "Seccomp") != "2" {
        against.push("no filter".into());
    }
    unless("system_calls_filtered", &against, "mounts, namespaces, ptrace, bpf, io_uring and others are refused")
}

fn sockets_are_filtered() -> Finding {
    let families = [("vsock", AddressFamily::VSOCK), ("packet", AddressFamily::PACKET), ("tipc", AddressFamily::TIPC)];
    let open = |(_, family): &&(&str, AddressFamily)| rustix::net::socket(*family, SocketType::STREAM, None).is_ok();
    let against: Vec<_> = families.iter().filter(open).map(|(name, _)| format!("{name} sockets can be made")).collect();
    unless("sockets_filtered", &against, "only unix, inet and netlink sockets")
}

/// The mounts allow the root folder to be listed; only Landlock does not.
fn landlock() -> Finding {
    match fs::read_dir("/") {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            finding("landlock", true, "listing the root folder is refused")
        }
        Err(error) => finding("landlock", false, error.to_string()),
        Ok(_) => finding("landlock", false, "this kernel has no Landlock, or it is switched off"),
    }
}

fn node(spec: &ProbeSpec) -> Finding {
    let places = [Path::new(NODE_DIR).join("bin/node"), "/usr/local/bin/node".into(), "/usr/bin/node".into()];
    let runs = |path: &&std::path::PathBuf| rustix::fs::access(path.as_path(), rustix::fs::Access::EXEC_OK).is_ok();
    match places.iter().find(runs) {
        Some(path) => finding("node", true, format!("{} can be executed", path.display())),
        None if spec.node => finding("node", false, "the configured Node cannot be executed inside"),
        None => finding("node", false, "no Node is set up, and the system has none"),
    }
}

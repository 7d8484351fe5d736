//! The system call filter: what a build tool has no use for, and what kernels were broken through most often, is refused.
//!
//! Three programs, all of which must let a call pass: *unknown* answers "no such call" to numbers newer than this list (so a kernel's
//! news are not open by default, and programs fall back); *absent* does the same for `clone3`, whose flags lie in memory where a
//! filter cannot see them, so that the C library falls back to `clone`; *denied* refuses the rest with "not permitted".

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::super::spec::Stage;
use super::{At, StageError};

#[cfg(target_arch = "x86_64")]
const ARCH: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCH: TargetArch = TargetArch::aarch64;

/// First number beyond the calls that were looked at for this list (up to `mseal` of Linux 6.10); the same on every architecture.
/// Also closes x86's second table (x32, from 1 << 30).
const FIRST_UNKNOWN: u32 = 463;

/// Refused whatever their arguments.
const DENIED: &[libc::c_long] = &[
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Large, young or rarely used parts of the kernel.
    libc::SYS_bpf,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_fanotify_init,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_lookup_dcookie,
    libc::SYS_memfd_secret,
    libc::SYS_vhangup,
    // The machine.
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Memory that belongs to no process: the launcher's own count would not see it. Refused only where that count is the limit.
const UNCOUNTED: &[libc::c_long] = &[libc::SYS_memfd_create, libc::SYS_shmget];

/// `clone` with any of these makes a namespace.
const NAMESPACE_FLAGS: &[libc::c_int] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
/// Socket families with a use inside. Others leave the network namespace (VSOCK reaches a virtual machine's host) or are seldom looked
/// after.
const SOCKET_FAMILIES: &[libc::c_int] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// Terminal controls that type for the user.
const TERMINAL_INJECTION: &[libc::c_ulong] = &[libc::TIOCSTI as libc::c_ulong, libc::TIOCLINUX as libc::c_ulong];

/// Installs the filter, for good, for this process and all that it starts.
pub(super) fn install(count_is_limit: bool) -> Result<(), StageError> {
    let programs = programs(count_is_limit).map_err(io::Error::other).at(Stage::FilterCalls, "compile")?;
    for program in &programs {
        seccompiler::apply_filter(program).map_err(io::Error::other).at(Stage::FilterCalls, "install")?;
    }
    Ok(())
}

fn programs(count_is_limit: bool) -> Result<[BpfProgram; 3], BackendError> {
    let absent = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    Ok([
        unknown(),
        compile(absent, SeccompAction::Errno(libc::ENOSYS.cast_unsigned()))?,
        compile(denied(count_is_limit)?, SeccompAction::Errno(libc::EPERM.cast_unsigned()))?,
    ])
}

fn compile(rules: BTreeMap<i64, Vec<SeccompRule>>, action: SeccompAction) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(rules, SeccompAction::Allow, action, ARCH)?.try_into()
}

/// By hand, because a rule names one number: load the number, compare, answer. Runs on the native table only, since the other two
/// programs kill a process that uses a foreign one.
fn unknown() -> BpfProgram {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    const NO_SUCH_CALL: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    vec![
        sock_filter { code: LOAD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: FIRST_UNKNOWN },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: NO_SUCH_CALL },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ]
}

fn denied(count_is_limit: bool) -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    let uncounted = UNCOUNTED.iter().filter(|_| count_is_limit);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        DENIED.iter().chain(uncounted).map(|call| (*call, Vec::new())).collect();

    let any_flag = |flag: &libc::c_int| {
        let bit = u64::from(flag.cast_unsigned());
        SeccompRule::new(vec![SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(bit), bit)?])
    };
    rules.insert(libc::SYS_clone, NAMESPACE_FLAGS.iter().map(any_flag).collect::<Result<_, _>>()?);

    let not_family = |family: &libc::c_int| {
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, u64::from(family.cast_unsigned()))
    };
    let no_family = SeccompRule::new(SOCKET_FAMILIES.iter().map(not_family).collect::<Result<_, _>>()?)?;
    rules.insert(libc::SYS_socket, vec![no_family.clone()]);
    rules.insert(libc::SYS_socketpair, vec![no_family]);

    let request = |request: &libc::c_ulong| {
        SeccompRule::new(vec![SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, *request)?])
    };
    rules.insert(libc::SYS_ioctl, TERMINAL_INJECTION.iter().map(request).collect::<Result<_, _>>()?);
    Ok(rules)
}

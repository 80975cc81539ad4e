//! Profile `RuntimeDefault`: the rules of containerd's and moby's default profile (`seccomp_default.go`,
//! `default.json`) for system calls of 64-bit programs. As there, some calls need a capability.

use super::profile::{Action, Comparison, Condition, Profile, Rule};
use crate::confinement::capabilities::CapabilityBits;

/// Calls that are always allowed. `ptrace` is among them: the kernel lets a process trace only those without more
/// privileges.
const ALLOWED: &str = "accept accept4 access adjtimex alarm bind brk cachestat capget capset chdir chmod chown \
     clock_adjtime clock_getres clock_gettime clock_nanosleep close close_range connect copy_file_range \
     creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 \
     epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2 \
     fadvise64 fallocate fanotify_mark fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync \
     fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex \
     futex_requeue futex_wait futex_waitv futex_wake futimesat getcpu getcwd getdents getdents64 getegid \
     geteuid getgid getgroups getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom \
     getresgid getresuid getrlimit get_robust_list getrusage getsid getsockname getsockopt \
     get_thread_area gettid gettimeofday getuid getxattr inotify_add_watch inotify_init inotify_init1 \
     inotify_rm_watch io_cancel ioctl io_destroy io_getevents io_pgetevents ioprio_get ioprio_set \
     io_setup io_submit kill landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown \
     lgetxattr link linkat listen listxattr llistxattr lremovexattr lseek lsetxattr lstat madvise \
     map_shadow_stack membarrier memfd_create memfd_secret mincore mkdir mkdirat mknod mknodat mlock \
     mlock2 mlockall mmap mprotect mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink \
     mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall munmap name_to_handle_at nanosleep \
     newfstatat open openat openat2 pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free \
     pkey_mprotect poll ppoll prctl pread64 preadv preadv2 prlimit64 process_mrelease process_vm_readv \
     process_vm_writev pselect6 ptrace pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv \
     recvfrom recvmmsg recvmsg remap_file_pages removexattr rename renameat renameat2 restart_syscall \
     rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend \
     rt_sigtimedwait rt_tgsigqueueinfo sched_getaffinity sched_getattr sched_getparam \
     sched_get_priority_max sched_get_priority_min sched_getscheduler sched_rr_get_interval \
     sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select semctl \
     semget semop semtimedop sendfile sendmmsg sendmsg sendto setfsgid setfsuid setgid setgroups \
     setitimer setpgid setpriority setregid setresgid setresuid setreuid setrlimit set_robust_list setsid \
     setsockopt set_thread_area set_tid_address setuid setxattr shmat shmctl shmdt shmget shutdown \
     sigaltstack signalfd signalfd4 socketpair splice stat statfs statx symlink symlinkat sync \
     sync_file_range syncfs sysinfo tee tgkill time timer_create timer_delete timer_getoverrun \
     timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times tkill truncate \
     umask uname unlink unlinkat utime utimensat utimes vfork vmsplice wait4 waitid write writev";
/// Further allowed calls, which only some architectures have.
const ARCHITECTURE: &str = "arch_prctl modify_ldt";
/// Calls that are allowed with a capability.
const BY_CAPABILITY: &[(&str, &str)] = &[
    ("DAC_READ_SEARCH", "open_by_handle_at"),
    (
        "SYS_ADMIN",
        "bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie mount mount_setattr \
     move_mount open_tree perf_event_open quotactl quotactl_fd setdomainname sethostname setns syslog \
     umount2 unshare",
    ),
    ("SYS_BOOT", "reboot"),
    ("SYS_CHROOT", "chroot"),
    ("SYS_MODULE", "delete_module init_module finit_module"),
    ("SYS_PACCT", "acct"),
    ("SYS_PTRACE", "kcmp pidfd_getfd process_madvise"),
    ("SYS_RAWIO", "iopl ioperm"),
    ("SYS_TIME", "settimeofday clock_settime"),
    ("SYS_TTY_CONFIG", "vhangup"),
    (
        "SYS_NICE",
        "get_mempolicy mbind set_mempolicy set_mempolicy_home_node",
    ),
    ("SYSLOG", "syslog"),
    ("BPF", "bpf"),
    ("PERFMON", "perf_event_open"),
];
/// Arguments of `personality`: 0xffffffff (query), and Linux or 32-bit Linux with or without `UNAME26`.
const PERSONALITIES: [u64; 5] = [0, 0x8, 0x20000, 0x20008, 0xffff_ffff];
/// `AF_VSOCK` of `socket.h`: sockets to the hypervisor.
const HYPERVISOR_SOCKETS: u64 = 40;
/// Flags of `clone` that create namespaces (`CLONE_NEW*` of `sched.h`). `clone` has no flag for time namespaces.
const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWCGROUP) as u64;

/// Returns the profile for a container with at most these capabilities.
pub fn runtime_default(capabilities: CapabilityBits) -> Profile {
    let mut allowed: Vec<String> = words(ALLOWED).chain(words(ARCHITECTURE)).collect();
    for (capability, calls) in BY_CAPABILITY {
        if capabilities.has(capability) {
            allowed.extend(words(calls));
        }
    }
    let mut rules = vec![Rule::allow(allowed)];
    let condition = |comparison, value| Condition {
        index: 0,
        value,
        value_two: 0,
        comparison,
    };
    let allow_if = |call: &str, condition| Rule {
        args: vec![condition],
        ..Rule::allow(vec![call.to_owned()])
    };
    rules.push(allow_if(
        "socket",
        condition(Comparison::NotEqual, HYPERVISOR_SOCKETS),
    ));
    rules.extend(PERSONALITIES.map(|value| allow_if("personality", condition(Comparison::Equal, value))));
    if !capabilities.has("SYS_ADMIN") {
        rules.push(allow_if("clone", condition(Comparison::MaskedEqual, NAMESPACES)));
        // The flags of `clone3` are in memory, which a filter cannot read. Libraries fall back to `clone` on this
        // error.
        rules.push(Rule {
            action: Action::Errno,
            errno_ret: Some(libc::ENOSYS.cast_unsigned()),
            ..Rule::allow(vec!["clone3".to_owned()])
        });
    }
    Profile {
        default_action: Action::Errno,
        default_errno_ret: Some(libc::EPERM.cast_unsigned()),
        syscalls: rules,
    }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split_whitespace().map(str::to_owned)
}

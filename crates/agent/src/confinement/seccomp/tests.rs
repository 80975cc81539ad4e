use std::collections::BTreeSet;

use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition};
use serde_json::json;

use super::*;
use crate::object::Capabilities;

fn allowed(capabilities: CapabilityBits) -> BTreeSet<String> {
    let rules = runtime_default(capabilities).syscalls;
    let allowing = rules
        .into_iter()
        .filter(|rule| rule.action == Action::Allow && rule.args.is_empty());
    allowing.flat_map(|rule| rule.names).collect()
}

#[test]
fn default_profile_allows_by_capability() {
    let usual = CapabilityBits::of(&Capabilities::default()).unwrap();
    let all = allowed(usual);
    for refused in [
        "kexec_load",
        "kexec_file_load",
        "bpf",
        "mount",
        "umount2",
        "unshare",
        "setns",
        "keyctl",
        "add_key",
        "request_key",
        "init_module",
        "finit_module",
        "delete_module",
        "open_by_handle_at",
        "perf_event_open",
        "userfaultfd",
        "reboot",
        "swapon",
        "io_uring_setup",
        "syslog",
        "clone",
        "clone3",
        "iopl",
        "pivot_root",
        "move_mount",
        "open_tree",
    ] {
        assert!(!all.contains(refused), "{refused}");
    }
    assert!(all.contains("chroot"), "with SYS_CHROOT, which is usual");
    let admin = allowed(
        CapabilityBits::of(&Capabilities {
            add: vec!["SYS_ADMIN".to_owned()],
            drop: Vec::new(),
        })
        .unwrap(),
    );
    for call in ["mount", "bpf", "clone", "clone3", "setns"] {
        assert!(admin.contains(call), "{call}");
    }
    assert!(!admin.contains("kexec_load") && !admin.contains("keyctl"));
}

#[test]
fn all_names_of_default_profile_exist() {
    // An architecture lacks only a few of the calls; a misspelt name would be one more.
    let unknown = |name: &String| syscall_numbers::number(name).is_none();
    let unknown: Vec<String> = allowed(CapabilityBits::ALL).into_iter().filter(unknown).collect();
    if cfg!(target_arch = "x86_64") {
        assert_eq!(unknown, Vec::<String>::new());
    }
    assert_eq!(syscall_numbers::number("read"), Some(libc::SYS_read));
}

#[test]
fn kernel_accepts_filters_of_default_profile() {
    let programs = Seccomp::RuntimeDefault.filters(CapabilityBits(0)).unwrap();
    assert_eq!(
        programs.len(),
        2,
        "one for the calls that are allowed, one for the error of clone3"
    );
    assert!(programs.iter().all(|program| program.len() < 4096));
    assert!(Seccomp::Unconfined.filters(CapabilityBits(0)).unwrap().is_empty());
}

/// Calls of the x32 ABI fail in a thread with the filter, and other calls succeed.
#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_x32_do_not_exist() {
    let filtered = std::thread::spawn(|| {
        // SAFETY: the call takes no pointer.
        let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        assert_eq!(result, 0);
        install(&[profile::without_x32()]).unwrap();
        // SAFETY: the calls take no pointer.
        let [of_x32, usual] = [libc::SYS_getppid | 0x4000_0000, libc::SYS_getppid]
            .map(|number| unsafe { libc::syscall(number) });
        (of_x32, usual >= 0)
    });
    assert_eq!(filtered.join().unwrap(), (-1, true));
}

/// The kernel takes the lower 32 bits of the first argument of socket(2).
#[test]
fn higher_bits_of_an_argument_evade_no_rule() {
    let text = json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["socket"], "action": "SCMP_ACT_ERRNO",
        "args": [{"index": 0, "value": libc::AF_UNIX, "op": "SCMP_CMP_EQ"}]}]});
    let filters = Profile::parse(text.to_string().as_bytes())
        .unwrap()
        .filters()
        .unwrap();
    let filtered = std::thread::spawn(move || {
        // SAFETY: the call takes no pointer.
        let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        assert_eq!(result, 0);
        install(&filters).unwrap();
        let family = libc::c_long::from(libc::AF_UNIX);
        [family, family | 1 << 32].map(|family| {
            // SAFETY: the call takes no pointer.
            let result = unsafe { libc::syscall(libc::SYS_socket, family, libc::SOCK_STREAM, 0) };
            (result, io::Error::last_os_error().raw_os_error())
        })
    });
    assert_eq!(filtered.join().unwrap(), [(-1, Some(libc::EPERM)); 2]);
}

#[test]
fn conditions_compare_the_bits_that_permit_less() {
    for (comparison, operator) in [
        (Comparison::NotEqual, SeccompCmpOp::Ne),
        (Comparison::Greater, SeccompCmpOp::Gt),
        (Comparison::GreaterOrEqual, SeccompCmpOp::Ge),
        (Comparison::Equal, SeccompCmpOp::Eq),
        (Comparison::Less, SeccompCmpOp::Lt),
        (Comparison::LessOrEqual, SeccompCmpOp::Le),
    ] {
        let matches_less = matches!(
            comparison,
            Comparison::NotEqual | Comparison::Greater | Comparison::GreaterOrEqual
        );
        for (action, permits) in [(Action::Allow, true), (Action::Log, true), (Action::Errno, false)] {
            let given = |value| Condition {
                index: 1,
                value,
                value_two: 0,
                comparison,
            };
            let expected = |length, value| SeccompCondition::new(1, length, operator.clone(), value).unwrap();
            let length = if matches_less == permits {
                SeccompCmpArgLen::Dword
            } else {
                SeccompCmpArgLen::Qword
            };
            let subject = format!("{comparison:?}, {action:?}");
            let short = profile::condition(&given(40), action).unwrap();
            assert_eq!(short, expected(length, 40), "{subject}");
            let long = profile::condition(&given(1 << 32), action).unwrap();
            assert_eq!(long, expected(SeccompCmpArgLen::Qword, 1 << 32), "{subject}");
        }
    }
}

#[test]
fn parses_profiles_of_the_runtime_specification() {
    let text = json!({"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"], "syscalls": [
        {"names": ["mkdir", "mkdirat", "no_such_call"], "action": "SCMP_ACT_ERRNO", "errnoRet": 30},
        {"names": ["socket"], "action": "SCMP_ACT_KILL",
         "args": [{"index": 0, "value": 16, "valueTwo": 0, "op": "SCMP_CMP_EQ"}]},
    ]});
    let profile = Profile::parse(text.to_string().as_bytes()).unwrap();
    assert_eq!(profile.syscalls[1].action, Action::KillThread);
    let filters = profile.filters().unwrap();
    if cfg!(target_arch = "x86_64") {
        // Otherwise `mkdir` of the x32 ABI, which has another number, would be allowed.
        assert_eq!((filters.len(), &filters[0]), (3, &profile::without_x32()));
    } else {
        assert_eq!(filters.len(), 2);
    }
    assert!(Profile::parse(b"{}").is_err());
    assert!(Profile::parse(br#"{"defaultAction": "SCMP_ACT_NOTIFY"}"#).is_err());
}

#[test]
fn denied_calls_are_known_before_the_filter_is_installed() {
    let all = CapabilityBits::ALL;
    assert!(Seccomp::RuntimeDefault.denies(all, "keyctl"));
    assert!(!Seccomp::RuntimeDefault.denies(all, "read"));
    assert!(!Seccomp::Unconfined.denies(all, "keyctl"));
    let localhost = |default: &str, syscalls: serde_json::Value| {
        let json = json!({"defaultAction": default, "syscalls": syscalls});
        let profile = Profile::parse(json.to_string().as_bytes()).unwrap();
        Seccomp::Localhost(profile).denies(all, "keyctl")
    };
    let rule = |action: &str, args: serde_json::Value| json!([{"names": ["keyctl"], "action": action, "args": args}]);
    let first_is_1 = json!([{"index": 0, "value": 1, "op": "SCMP_CMP_EQ"}]);
    assert!(localhost("SCMP_ACT_ERRNO", json!([])));
    assert!(localhost("SCMP_ACT_ALLOW", rule("SCMP_ACT_ERRNO", json!([]))));
    assert!(!localhost("SCMP_ACT_ALLOW", json!([])));
    assert!(!localhost(
        "SCMP_ACT_ALLOW",
        rule("SCMP_ACT_ERRNO", first_is_1.clone())
    ));
    assert!(!localhost("SCMP_ACT_ERRNO", rule("SCMP_ACT_ALLOW", first_is_1)));
}

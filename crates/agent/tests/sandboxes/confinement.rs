//! Confinement of containers towards their node.

use std::fs;
use std::path::Path;

use agent::confinement::seccomp::Seccomp;
use agent::resources::cgroups::{Cgroups, Limits};
use agent::sandbox::SELF_EXE;
use agent::sandbox::protocol::{Confinement, Mount, Program};

use crate::fixture::{Outcome, Pod, SLEEP, check, default_confinement, shell};
use crate::user_namespaces::has_user;

/// Supplementary group of the agent.
const GROUP: u32 = 43_210;
/// Hidden subcommand that attempts system calls.
pub(crate) const CALLS_SUBCOMMAND: &str = "attempt-calls";
/// Attempts system calls that the filter rejects, and prints the error of each.
pub(crate) fn attempt_calls() {
    let pid_1 = 1;
    let attach = libc::PTRACE_ATTACH;
    let none = 0usize;
    let calls: [(&str, libc::c_long, [usize; 4]); 12] = [
        ("kexec_load", libc::SYS_kexec_load, [0; 4]),
        ("bpf", libc::SYS_bpf, [0; 4]),
        ("mount", libc::SYS_mount, [none; 4]),
        (
            "unshare",
            libc::SYS_unshare,
            [libc::CLONE_NEWUSER as usize, 0, 0, 0],
        ),
        ("keyctl", libc::SYS_keyctl, [0; 4]),
        ("add_key", libc::SYS_add_key, [0; 4]),
        ("ptrace", libc::SYS_ptrace, [attach as usize, pid_1, 0, 0]),
        ("init_module", libc::SYS_init_module, [0; 4]),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, [0; 4]),
        (
            "socket",
            libc::SYS_socket,
            [libc::AF_VSOCK as usize, libc::SOCK_STREAM as usize, 0, 0],
        ),
        ("clone", libc::SYS_clone, [libc::CLONE_NEWUSER as usize, 0, 0, 0]),
        ("clone3", libc::SYS_clone3, [0; 4]),
    ];
    for (name, number, [a, b, c, d]) in calls {
        // SAFETY: none of the calls receives an address of this process; those that need one fail.
        let result = unsafe { libc::syscall(number, a, b, c, d) };
        let error = std::io::Error::last_os_error().raw_os_error();
        println!("{name} {}", if result < 0 { error.unwrap_or(0) } else { 0 });
    }
    // /proc/PID/exe leads to the mount from which the program was executed.
    let mount = rustix::fs::statvfs(SELF_EXE);
    let is_read_only = mount.is_ok_and(|mount| mount.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY));
    println!("program {}", if is_read_only { "read-only" } else { "writable" });
}

pub(crate) async fn node_credentials_are_hidden() -> Outcome {
    let pod = Pod::start().await?;
    let root = pod.root.path().to_owned();
    fs::write(root.join("ca.key"), "the cluster's key")?;
    let secret = root.join("ca.key").display().to_string();
    pod.confined("main", SLEEP, default_confinement()).await?;
    pod.confined("other", SLEEP, default_confinement()).await?;
    for path in [
        secret.clone(),
        format!("/proc/1/root{secret}"),
        format!("/proc/1/cwd{secret}"),
    ] {
        let output = pod.output("main", &format!("cat {path} 2>&1")).await?;
        check(!output.contains("the cluster's key"), format!("{path}: {output}"))?;
    }
    let all_processes = format!("cat /proc/[0-9]*/root{secret} /proc/[0-9]*/fd/*/ca.key 2>&1");
    let output = pod.output("main", &all_processes).await?;
    check(!output.contains("the cluster's key"), output)?;
    // The sandbox still writes the log of the container.
    check(pod.directory.log("main", 0).exists(), "no log")?;
    pod.end().await
}

pub(crate) async fn node_files_and_devices_are_protected() -> Outcome {
    let pod = Pod::start().await?;
    pod.confined("main", SLEEP, default_confinement()).await?;
    for (subject, script) in [
        ("a file", "echo x >/etc/portolan-probe"),
        ("a program", ": >>/bin/sh"),
        (
            "a program by its process",
            "for p in /proc/[0-9]*/exe; do (: >>$p) && exit 0; done; exit 1",
        ),
        ("a device", "mknod /tmp/disk b 7 0 && head -c 1 /tmp/disk"),
        ("the disks", "ls /dev | grep -E 'loop|vd|sd|nvme|mem|kmsg'"),
        ("a mount", "mount -t tmpfs none /mnt"),
        ("a cover", "umount -l /proc/kcore"),
        ("a namespace", "unshare -U true"),
        ("a setting", "echo 1 >/proc/sys/vm/drop_caches"),
        ("magic keys", "echo h >/proc/sysrq-trigger"),
        ("the kernel's memory", "test -s /proc/kcore"),
        ("a control group", "mkdir /sys/fs/cgroup/portolan-probe"),
        ("the mode of a device", "chmod 0666 /dev/null"),
        ("the owner of a device", "chown 0 /dev/zero"),
        ("the times of a device", "touch -d @1 /dev/full"),
    ] {
        pod.check_failure("main", subject, script).await?;
    }
    let status = pod
        .output(
            "main",
            "grep -E 'CapBnd|CapEff|NoNewPrivs|Seccomp:' /proc/self/status",
        )
        .await?;
    for line in [
        "CapEff:\t00000000a80425fb",
        "CapBnd:\t00000000a80425fb",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
    ] {
        check(status.contains(line), &status)?;
    }
    for script in [
        "echo x >/tmp/a && cat /tmp/a",
        "echo x >/run/a",
        "echo x >/dev/shm/a",
        "echo x >/dev/null",
        "head -c 1 /dev/urandom",
        "echo x | cat /dev/stdin",
        "bash -c 'cat <(echo x)'",
        "ls /sys/class/net/eth0",
        "test -r /sys/fs/cgroup/cgroup.controllers || ls /sys/fs/cgroup",
        "echo 5 >/proc/self/oom_score_adj",
    ] {
        pod.check_success("main", script).await?;
    }
    // The enclosure of a user other than root has one user.
    if has_user(1234) && has_user(65534) {
        let script = "chown 1234 /tmp/a && setpriv --reuid=65534 --clear-groups true";
        pod.check_success("main", script).await?;
    }
    pod.end().await
}

/// Adds a group to this thread, whose groups later threads have. Returns false if the host forbids it.
pub(crate) fn join_group() -> bool {
    let group = rustix::process::Gid::from_raw(GROUP);
    has_user(GROUP) && rustix::thread::set_thread_groups(&[group]).is_ok()
}

pub(crate) async fn groups_of_the_agent_are_not_inherited() -> Outcome {
    let pod = Pod::start().await?;
    let print = "grep Groups: /proc/self/status";
    pod.confined("main", &format!("{print}; {SLEEP}"), default_confinement())
        .await?;
    let of_first = pod.log_when("main", "Groups:").await?;
    let of_command = pod.output("main", print).await?;
    for output in [of_first, of_command] {
        // The time in the log can contain the number, too.
        let (_, groups) = output.split_once("Groups:").ok_or("no groups")?;
        check(!groups.contains(&GROUP.to_string()), groups)?;
    }
    pod.end().await
}

pub(crate) async fn control_groups_of_the_node_are_hidden() -> Outcome {
    let uid = "3f2c7a9e-0000-4000-8000-000000000002";
    let pod = Pod::start().await?;
    let cgroups = Cgroups::open();
    let limits = Limits {
        pids_max: 123,
        ..Limits::default()
    };
    let groups = match &cgroups {
        Ok(cgroups) => cgroups.prepare(uid, "main", &limits)?,
        Err(error) => {
            println!("skipped: control groups of a container: {error}");
            Vec::new()
        }
    };
    let has_groups = !groups.is_empty();
    let confinement = Confinement {
        cgroups: groups,
        ..default_confinement()
    };
    pod.confined("main", "cat /proc/self/cgroup; exec sleep 1000", confinement)
        .await?;
    // The first process of the container, and a command that is executed in it.
    let of_first = pod.log_when("main", ":/").await?;
    let of_command = pod.output("main", "cat /proc/self/cgroup").await?;
    for groups in [of_first, of_command] {
        check(groups.contains(":/\n"), &groups)?;
        check(!groups.contains("portolan") && !groups.contains(".."), &groups)?;
    }
    let others = pod
        .output("main", "find /sys/fs/cgroup | grep -e portolan -e 3f2c7a9e")
        .await?;
    check(others.trim().is_empty(), others)?;
    let limit = "cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max 2>/dev/null";
    let limit = pod.output("main", limit).await?;
    check(limit == if has_groups { "123\n" } else { "" }, limit)?;
    let change = "for f in /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max; do (echo 5 >$f) && exit; done; exit 1";
    pod.check_failure("main", "a limit", change).await?;
    pod.end().await?;
    if let Ok(cgroups) = cgroups {
        cgroups.remove_pod(uid);
    }
    Ok(())
}

pub(crate) async fn system_calls_are_filtered() -> Outcome {
    let mut pod = Pod::start().await?;
    let program = |confinement| Program {
        command: vec![SELF_EXE.to_owned(), CALLS_SUBCOMMAND.to_owned()],
        confinement,
        ..Program::default()
    };
    pod.start_container("calls", program(default_confinement()))
        .await?;
    pod.sandbox.next_event().await;
    let output = pod.log_when("calls", "program ").await?;
    check(output.ends_with("program read-only\n"), &output)?;
    let output: String = output.lines().take(12).map(|line| format!("{line}\n")).collect();
    let rejected = output.lines().filter(|line| line.contains(" F ")).count();
    check(rejected == 12, &output)?;
    for line in output.lines() {
        let is_expected = line.ends_with("clone3 38") || (line.ends_with(" 1") && !line.contains("clone3"));
        check(is_expected, format!("{line}\n{output}"))?;
    }
    // Without the filter, the call itself fails, with another error.
    let unconfined = Confinement {
        seccomp: Seccomp::Unconfined,
        ..default_confinement()
    };
    pod.start_container("free", program(unconfined)).await?;
    pod.sandbox.next_event().await;
    let output = pod.log_when("free", "clone3 ").await?;
    check(output.contains("clone3 22"), output)?;
    pod.end().await
}

/// Hidden subcommand that attempts to read processes that start programs.
pub(crate) const WATCH_SUBCOMMAND: &str = "watch-starts";
/// Commands that are executed while another process watches.
const STARTS: usize = 32;

/// Searches processes that start a program, and attempts to read their environment. Prints a line at the first one that
/// it can read.
pub(crate) fn watch_starts() {
    println!("watching");
    let is_starting = |process: &Path| {
        let command = fs::read(process.join("cmdline")).unwrap_or_default();
        command.starts_with(b"portolan-container")
    };
    loop {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        for process in processes.map(|entry| entry.path()) {
            // Between the first two steps, the process may have executed the program, which may be read.
            if is_starting(&process) && fs::read(process.join("environ")).is_ok() && is_starting(&process) {
                println!("reachable");
                return;
            }
        }
    }
}

/// A process that starts a program has the privileges of the container for a moment, but not yet its filter.
pub(crate) async fn starting_processes_cannot_be_read() -> Outcome {
    let pod = Pod::start().await?;
    let watch = Program {
        command: vec![SELF_EXE.to_owned(), WATCH_SUBCOMMAND.to_owned()],
        environment: shell("").environment,
        confinement: default_confinement(),
        ..Program::default()
    };
    pod.start_container("main", watch).await?;
    pod.log_when("main", "watching").await?;
    for _ in 0..STARTS {
        pod.check_success("main", "true").await?;
    }
    let log = fs::read_to_string(pod.directory.log("main", 0))?;
    check(!log.contains("reachable"), log)?;
    pod.end().await
}

pub(crate) async fn privileged_container_can_change_the_node() -> Outcome {
    let pod = Pod::start().await?;
    let confinement = Confinement {
        is_privileged: true,
        has_unmasked_proc: true,
        seccomp: Seccomp::Unconfined,
        ..Confinement::default()
    };
    pod.confined("main", SLEEP, confinement).await?;
    let path = format!("{}/portolan-probe", testbed::RUN_DIRECTORY);
    let script = format!("mount -t tmpfs none /mnt && umount /mnt && echo x >{path} && unshare -m true");
    pod.check_success("main", &script).await?;
    check(fs::read_to_string(&path)? == "x\n", "the file on the node")?;
    fs::remove_file(&path)?;
    pod.end().await
}

/// A container may create symbolic links in a volume, in which root of the node later creates mount points.
pub(crate) async fn nested_mount_points_follow_no_symbolic_link() -> Outcome {
    let pod = Pod::start().await?;
    let outside = tempfile::tempdir_in(testbed::RUN_DIRECTORY)?;
    let volumes = tempfile::tempdir_in(testbed::RUN_DIRECTORY)?;
    let (outer, inner) = (volumes.path().join("outer"), volumes.path().join("inner"));
    fs::create_dir_all(&outer)?;
    fs::create_dir_all(&inner)?;
    std::os::unix::fs::symlink(outside.path(), outer.join("link"))?;
    let mount = |source: &std::path::Path, target: &str| Mount {
        source: source.to_owned(),
        target: target.into(),
        ..Mount::default()
    };
    let nested = |target: &str| Confinement {
        mounts: vec![mount(&outer, "/mnt"), mount(&inner, target)],
        ..default_confinement()
    };
    let linked = pod.confined("linked", SLEEP, nested("/mnt/link/made")).await;
    check(linked.is_err(), "a mount point behind a symbolic link")?;
    check(
        fs::read_dir(outside.path())?.count() == 0,
        "a directory was created behind the symbolic link",
    )?;
    pod.confined("plain", SLEEP, nested("/mnt/plain/made")).await?;
    pod.check_success("plain", "echo x >/mnt/plain/made/y").await?;
    check(inner.join("y").exists(), "the file is not in the inner volume")?;
    pod.end().await
}

/// A Pod chooses its mount paths, and root of the node creates missing ones. `/proc/1` is the sandbox, which has the files
/// of the node.
pub(crate) async fn mount_paths_reach_no_file_of_the_node() -> Outcome {
    let pod = Pod::start().await?;
    let node = tempfile::tempdir_in(testbed::RUN_DIRECTORY)?;
    let volume = tempfile::tempdir_in(testbed::RUN_DIRECTORY)?;
    let confined_at = |target: String| Confinement {
        mounts: vec![Mount {
            source: volume.path().to_owned(),
            target: target.into(),
            ..Mount::default()
        }],
        ..default_confinement()
    };
    let of_sandbox = format!("/proc/1/root{}/made", node.path().display());
    let started = pod.confined("of-sandbox", SLEEP, confined_at(of_sandbox)).await;
    check(
        started.is_err(),
        "a volume is mounted in the files of the sandbox",
    )?;
    for descriptor in 0..16 {
        let target = format!("/proc/self/fd/{descriptor}/made");
        let name = format!("descriptor-{descriptor}");
        // A descriptor that is not open is a missing mount point.
        pod.confined(&name, SLEEP, confined_at(target)).await.ok();
    }
    check(
        fs::read_dir(node.path())?.count() == 0,
        "a directory was created on the node",
    )?;
    let of_agent = [pod.directory.path().to_owned(), pod.root.path().join("images")];
    check(
        of_agent.iter().all(|directory| !directory.join("made").exists()),
        "a directory was created in the directory of the Pod or of images",
    )?;
    pod.end().await
}

/// A working directory may be any path in the container, and `/proc/self/fd` has descriptors of the starting process.
/// `/proc/1` is the sandbox, which has the files of the node.
pub(crate) async fn working_directory_reaches_no_agent_file() -> Outcome {
    let pod = Pod::start().await?;
    fs::write(pod.root.path().join("pods/secret"), "another Pod's secret")?;
    let own = (0..32).map(|descriptor| format!("/proc/self/fd/{descriptor}"));
    let of_sandbox = ["/proc/1/root", "/proc/1/cwd", "/proc/1/fd/3"].map(str::to_owned);
    for (number, directory) in own.chain(of_sandbox).enumerate() {
        let program = Program {
            directory: directory.clone(),
            confinement: default_confinement(),
            ..shell("cat ../secret")
        };
        let started = pod.start_container(&format!("in-{number}"), program).await;
        check(started.is_err(), format!("a program starts in {directory}"))?;
    }
    let program = Program {
        command: vec!["/proc/1/root/bin/true".to_owned()],
        confinement: default_confinement(),
        ..shell("true")
    };
    let started = pod.start_container("program", program).await;
    check(started.is_err(), "a program of the sandbox starts")?;
    pod.end().await
}

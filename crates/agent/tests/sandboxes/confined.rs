//! What a container that asks for nothing cannot do to its node, and what it can do still.

use std::fs;

use agent::runtime::Execution;
use agent::sandbox::OWN_PROGRAM;
use agent::sandbox::protocol::{Confinement, Mount, Program};
use agent::seccomp::Seccomp;

use super::{Outcome, PATIENCE, Pod, check, shell};

/// The hidden subcommand that makes system calls.
pub const CALLS_SUBCOMMAND: &str = "attempt-calls";
/// The usual capabilities (containerd's).
const USUAL: u64 = 0xa804_25fb;
/// Does nothing until it is killed.
pub const SLEEP: &str = "exec sleep 1000";

/// Makes system calls that a filter refuses, and prints the error of each.
pub fn attempt_calls() {
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
        // SAFETY: none of the calls gets an address of this process; those that want one fail.
        let result = unsafe { libc::syscall(number, a, b, c, d) };
        let error = std::io::Error::last_os_error().raw_os_error();
        println!("{name} {}", if result < 0 { error.unwrap_or(0) } else { 0 });
    }
    // Whoever opens this program by /proc/PID/exe has it on the mount that it was executed from.
    let mount = rustix::fs::statvfs(OWN_PROGRAM);
    let is_read_only = mount.is_ok_and(|mount| mount.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY));
    println!("program {}", if is_read_only { "read-only" } else { "writable" });
}

pub fn usual() -> Confinement {
    Confinement {
        capabilities: Some(USUAL),
        has_no_new_privileges: true,
        ..Confinement::default()
    }
}

impl Pod {
    pub async fn confined(&self, name: &str, script: &str, confinement: Confinement) -> Outcome {
        let log = self.directory.prepare_log(name, 0)?;
        let program = Program {
            confinement,
            ..shell(script)
        };
        Ok(self.sandbox.start_container(name, program, &log).await?)
    }

    /// What a script prints in a container.
    pub async fn says(&self, container: &str, script: &str) -> Result<String, Box<dyn std::error::Error>> {
        let command = shell(script).command;
        let executed = self
            .sandbox
            .executor()
            .execute(container, command, PATIENCE)
            .await?;
        let Execution { exit, output } = executed;
        check(exit.is_some(), format!("{script} takes too long: {output}"))?;
        Ok(output)
    }
}

pub async fn credentials_of_the_node_are_out_of_sight() -> Outcome {
    let pod = Pod::start().await?;
    let root = pod.root.path().to_owned();
    fs::write(root.join("ca.key"), "the cluster's key")?;
    let secret = root.join("ca.key").display().to_string();
    pod.confined("main", SLEEP, usual()).await?;
    pod.confined("other", SLEEP, usual()).await?;
    for path in [
        secret.clone(),
        format!("/proc/1/root{secret}"),
        format!("/proc/1/cwd{secret}"),
    ] {
        let said = pod.says("main", &format!("cat {path} 2>&1")).await?;
        check(!said.contains("the cluster's key"), format!("{path}: {said}"))?;
    }
    let every_process = format!("cat /proc/[0-9]*/root{secret} /proc/[0-9]*/fd/*/ca.key 2>&1");
    let said = pod.says("main", &every_process).await?;
    check(!said.contains("the cluster's key"), said)?;
    // The Pod's own output is written all the same.
    check(pod.directory.log("main", 0).exists(), "no log")?;
    pod.end().await
}

pub async fn the_nodes_files_and_devices_stay_as_they_are() -> Outcome {
    let pod = Pod::start().await?;
    pod.confined("main", SLEEP, usual()).await?;
    for (what, script) in [
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
    ] {
        let said = pod
            .says("main", &format!("({script}) 2>&1; echo status $?"))
            .await?;
        check(!said.contains("status 0"), format!("{what}: {said}"))?;
    }
    let rights = pod
        .says(
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
        check(rights.contains(line), &rights)?;
    }
    for works in [
        "echo x >/tmp/a && cat /tmp/a",
        "echo x >/run/a",
        "echo x >/dev/shm/a",
        "echo x >/dev/null",
        "head -c 1 /dev/urandom",
        "echo x | cat /dev/stdin",
        "bash -c 'cat <(echo x)'",
        "ls /sys/class/net/eth0",
        "test -r /sys/fs/cgroup/cgroup.controllers || ls /sys/fs/cgroup",
        "chown 1234 /tmp/a && setpriv --reuid=65534 --clear-groups true",
        "echo 5 >/proc/self/oom_score_adj",
    ] {
        let said = pod
            .says("main", &format!("({works}) 2>&1; echo status $?"))
            .await?;
        check(said.contains("status 0"), format!("{works}: {said}"))?;
    }
    pod.end().await
}

pub async fn system_calls_are_filtered() -> Outcome {
    let pod = Pod::start().await?;
    let program = |confinement| Program {
        command: vec![OWN_PROGRAM.to_owned(), CALLS_SUBCOMMAND.to_owned()],
        confinement,
        ..Program::default()
    };
    let mut pod = pod;
    let log = pod.directory.prepare_log("calls", 0)?;
    pod.sandbox
        .start_container("calls", program(usual()), &log)
        .await?;
    pod.sandbox.next().await;
    let said = pod.log_when("calls", "program ").await?;
    check(said.ends_with("program read-only\n"), &said)?;
    let said: String = said.lines().take(12).map(|line| format!("{line}\n")).collect();
    let refused = said.lines().filter(|line| line.contains(" F ")).count();
    check(refused == 12, &said)?;
    for line in said.lines() {
        let is_right = line.ends_with("clone3 38") || (line.ends_with(" 1") && !line.contains("clone3"));
        check(is_right, format!("{line}\n{said}"))?;
    }
    // Without the filter it is the kernel that answers, most often with another error.
    let unconfined = Confinement {
        seccomp: Seccomp::Unconfined,
        ..usual()
    };
    let log = pod.directory.prepare_log("free", 0)?;
    pod.sandbox
        .start_container("free", program(unconfined), &log)
        .await?;
    pod.sandbox.next().await;
    let said = pod.log_when("free", "clone3 ").await?;
    check(said.contains("clone3 22"), said)?;
    pod.end().await
}

pub async fn privileged_containers_have_the_node() -> Outcome {
    let pod = Pod::start().await?;
    let confinement = Confinement {
        is_privileged: true,
        has_unmasked_proc: true,
        seccomp: Seccomp::Unconfined,
        ..Confinement::default()
    };
    pod.confined("main", SLEEP, confinement).await?;
    let probe = format!("{}/portolan-probe", testbed::RUN_DIRECTORY);
    let script = format!(
        "(mount -t tmpfs none /mnt && umount /mnt && echo x >{probe} && unshare -m true) 2>&1; echo status $?"
    );
    let said = pod.says("main", &script).await?;
    check(said.contains("status 0"), &said)?;
    check(fs::read_to_string(&probe)? == "x\n", "the node's file")?;
    fs::remove_file(&probe)?;
    pod.end().await
}

/// A container may leave links in a volume; the next container's volumes within it are made by root of the node.
pub async fn places_in_volumes_are_made_through_no_link() -> Outcome {
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
    let with = |target: &str| Confinement {
        mounts: vec![mount(&outer, "/mnt"), mount(&inner, target)],
        ..usual()
    };
    let refused = pod.confined("linked", SLEEP, with("/mnt/link/made")).await;
    check(refused.is_err(), "a place behind a link")?;
    check(
        fs::read_dir(outside.path())?.count() == 0,
        "something was made behind the link",
    )?;
    pod.confined("plain", SLEEP, with("/mnt/plain/made")).await?;
    let said = pod
        .says("plain", "echo x >/mnt/plain/made/y; echo status $?")
        .await?;
    check(said.contains("status 0") && inner.join("y").exists(), said)?;
    pod.end().await
}

/// A working directory may be any path that the container sees, and `/proc/self/fd` has the descriptors of whoever starts it.
pub async fn working_directories_lead_to_no_file_of_the_agent() -> Outcome {
    let pod = Pod::start().await?;
    fs::write(pod.root.path().join("pods/secret"), "another Pod's secret")?;
    for descriptor in 0..32 {
        let program = Program {
            directory: format!("/proc/self/fd/{descriptor}"),
            confinement: usual(),
            ..shell("cat ../secret")
        };
        let name = format!("fd-{descriptor}");
        let log = pod.directory.prepare_log(&name, 0)?;
        let started = pod.sandbox.start_container(&name, program, &log).await;
        check(
            started.is_err(),
            format!("descriptor {descriptor} is a directory"),
        )?;
    }
    pod.end().await
}

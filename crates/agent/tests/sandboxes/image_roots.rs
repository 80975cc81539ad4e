//! Containers from images: roots, users, processes. The images are directories of a static shell.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use agent::confinement::user_namespaces::Holder;
use agent::sandbox::protocol::{Confinement, ImageRoot, Mount, Program};

use crate::fixture::{self, Outcome, Pod, SLEEP, check, default_confinement};
use crate::user_namespaces;

/// Tools of the shell that the tests use.
const TOOLS: [&str; 19] = [
    "sh", "cat", "ls", "id", "sleep", "stat", "touch", "mkdir", "echo", "head", "mount", "umount", "ps",
    "kill", "mknod", "readlink", "hostname", "grep", "chown",
];

/// Writes the lowest layer of an image into the store of a Pod and returns its path.
pub(crate) fn write_layer(pod: &Pod, shell: &Path) -> std::io::Result<PathBuf> {
    let layer = pod.root.path().join("images/layers/base");
    fs::create_dir_all(layer.join("bin"))?;
    fs::copy(shell, layer.join("bin/busybox"))?;
    for tool in TOOLS {
        symlink("busybox", layer.join("bin").join(tool))?;
    }
    fs::create_dir(layer.join("etc"))?;
    fs::write(
        layer.join("etc/passwd"),
        "root:x:0:0::/root:/bin/sh\nweb:x:101:102::/srv:/bin/sh\n",
    )?;
    fs::write(layer.join("etc/group"), "web:x:102:\nlogs:x:103:web\n")?;
    for (directory, mode) in [("tmp", 0o1777), ("root", 0o700), ("srv", 0o755)] {
        fs::create_dir(layer.join(directory))?;
        fs::set_permissions(layer.join(directory), fs::Permissions::from_mode(mode))?;
    }
    Ok(layer)
}

/// Root of a container named `main` with these layers.
pub(crate) fn root(pod: &Pod, layers: &[&Path], run: u32) -> Result<ImageRoot, Box<dyn std::error::Error>> {
    Ok(ImageRoot {
        layers: layers.iter().map(|layer| layer.to_path_buf()).collect(),
        writable: pod.directory.prepare_writable_layer("main", run)?,
        directories: vec!["/srv/work".into()],
        merges_groups: true,
        ..ImageRoot::default()
    })
}

/// Confinement with a root and processes of its own.
pub(crate) fn in_root(root: ImageRoot) -> Confinement {
    Confinement {
        root: Some(root),
        has_own_processes: true,
        ..default_confinement()
    }
}

pub(crate) async fn root_is_the_image(shell: &Path) -> Outcome {
    let pod = Pod::start().await?;
    let base = write_layer(&pod, shell)?;
    let upper = pod.root.path().join("images/layers/upper");
    fs::create_dir_all(upper.join("etc"))?;
    fs::write(upper.join("etc/motd"), "upper layer\n")?;
    let hosts = pod.directory.write("hosts", "127.0.0.1 localhost\n")?;
    let confinement = Confinement {
        mounts: vec![Mount {
            source: hosts,
            target: "/etc/hosts".into(),
            ..Mount::default()
        }],
        ..in_root(root(&pod, &[&base, &upper], 0)?)
    };
    pod.confined("main", SLEEP, confinement).await?;
    let names = pod.output("main", "ls /").await?;
    let expected = ["bin", "dev", "etc", "proc", "root", "srv", "sys", "tmp"];
    check(names.split_whitespace().eq(expected), names)?;
    let output = pod
        .output(
            "main",
            "cat /etc/motd /etc/hosts; hostname; echo $HOME; ls -d /srv/work",
        )
        .await?;
    check(
        output == "upper layer\n127.0.0.1 localhost\nweb-0\n/root\n/srv/work\n",
        output,
    )?;
    pod.check_success(
        "main",
        "touch /etc/new /bin/new && mkdir /opt && cat /dev/null && ls /dev/shm /dev/fd",
    )
    .await?;
    check(
        !base.join("etc/new").exists() && !upper.join("etc/new").exists(),
        "a layer was written",
    )?;
    for (subject, script) in [
        ("a setting of the kernel", "echo 1 >/proc/sys/vm/drop_caches"),
        ("/sys", "touch /sys/x || mkdir /sys/fs/cgroup/x"),
        ("a device", "mknod /tmp/memory c 1 1 && head -c 1 /tmp/memory"),
        ("the old root", "ls /dev/root || ls /dev/layers || ls /oldroot"),
        ("a new mount", "mount -t tmpfs none /tmp"),
    ] {
        pod.check_failure("main", subject, script).await?;
    }
    let mounts = pod.output("main", "cat /proc/1/mountinfo").await?;
    let images = pod.root.path().to_string_lossy().into_owned();
    check(!mounts.contains(&images), "the mounts name the store of the node")?;
    pod.check_failure(
        "main",
        "a masked file",
        "cat /proc/keys /proc/timer_list 2>/dev/null | grep .",
    )
    .await?;
    pod.end().await
}

pub(crate) async fn writable_layer_is_fresh_in_each_run(shell: &Path) -> Outcome {
    let pod = Pod::start().await?;
    let base = write_layer(&pod, shell)?;
    for run in 0..2 {
        let confinement = in_root(root(&pod, &[&base], run)?);
        let script = "ls /state; touch /state; echo done";
        let program = Program {
            confinement,
            ..fixture::shell(script)
        };
        let log = pod.directory.prepare_log("main", run)?;
        pod.sandbox.start_container("main", program, &log).await?;
        fixture::wait_for_log(&log, "done").await?;
        let text = fs::read_to_string(&log)?;
        check(text.contains("No such file"), format!("run {run}: {text}"))?;
        // The sandbox reaps the first process after its output was read.
        while pod.output("main", "true").await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
    let writable = pod.directory.path().join("writable/main");
    check(fs::read_dir(&writable)?.count() == 1, "an earlier layer stays")?;
    pod.end().await
}

pub(crate) async fn read_only_root_has_writable_volumes(shell: &Path) -> Outcome {
    let pod = Pod::start().await?;
    let base = write_layer(&pod, shell)?;
    let volume = pod.directory.path().join("volumes/data");
    fs::create_dir_all(&volume)?;
    let confinement = Confinement {
        has_read_only_root: true,
        mounts: vec![
            Mount {
                source: volume.clone(),
                target: "/srv/data/deep".into(),
                ..Mount::default()
            },
            Mount {
                source: volume.clone(),
                target: "/dev/shm".into(),
                ..Mount::default()
            },
        ],
        ..in_root(root(&pod, &[&base], 0)?)
    };
    pod.confined("main", SLEEP, confinement).await?;
    pod.check_success("main", "touch /srv/data/deep/a && ls /dev/shm/a")
        .await?;
    pod.check_failure("main", "the root", "touch /srv/b || touch /b")
        .await?;
    check(volume.join("a").exists(), "the volume has no file")?;
    pod.end().await
}

pub(crate) async fn users_come_from_the_image(shell: &Path) -> Outcome {
    if !user_namespaces::has_user(101) {
        println!(
            "skipped: image_roots::users_come_from_the_image: {}",
            user_namespaces::TOO_FEW_IDS
        );
        return Ok(());
    }
    let pod = Pod::start().await?;
    let base = write_layer(&pod, shell)?;
    let named = ImageRoot {
        user: "web".to_owned(),
        ..root(&pod, &[&base], 0)?
    };
    pod.confined("main", SLEEP, in_root(named)).await?;
    let output = pod.output("main", "id -u; id -g; id -G; echo $HOME").await?;
    check(output == "101\n102\n102 103\n/srv\n", output)?;
    let unknown = ImageRoot {
        user: "none".to_owned(),
        ..root(&pod, &[&base], 1)?
    };
    let failure = pod.confined("other", SLEEP, in_root(unknown)).await;
    let message = failure.err().map(|error| error.to_string()).unwrap_or_default();
    check(message.contains("unable to find user none"), message)?;
    // A container that changes its users does not change those of later commands.
    let by_name = ImageRoot {
        user: "root".to_owned(),
        ..root(&pod, &[&base], 2)?
    };
    pod.confined("changed", SLEEP, in_root(by_name)).await?;
    pod.check_success("changed", "echo root:x:101:102::/srv:/bin/sh >/etc/passwd")
        .await?;
    let output = pod.output("changed", "id -u; echo $HOME").await?;
    check(output == "0\n/root\n", output)?;
    pod.end().await
}

pub(crate) async fn processes_of_other_containers_are_hidden(shell: &Path) -> Outcome {
    let pod = Pod::start().await?;
    let base = write_layer(&pod, shell)?;
    pod.shell("other", "exec sleep 4321").await?;
    pod.confined("main", SLEEP, in_root(root(&pod, &[&base], 0)?))
        .await?;
    let output = pod.output("main", "readlink /proc/1/exe; ps").await?;
    check(
        output.starts_with("/bin/busybox\n") && !output.contains("4321"),
        output,
    )?;
    let shared = Confinement {
        has_own_processes: false,
        ..in_root(root(&pod, &[&base], 1)?)
    };
    pod.confined("shared", SLEEP, shared).await?;
    let output = pod.output("shared", "ps").await?;
    check(output.contains("4321"), output)?;
    pod.end().await
}

pub(crate) async fn files_have_the_ids_of_the_pod(shell: &Path) -> Outcome {
    let Some(range) = user_namespaces::allocate() else {
        println!(
            "skipped: image_roots::files_have_the_ids_of_the_pod: {}",
            user_namespaces::TOO_FEW_IDS
        );
        return Ok(());
    };
    let holder = tokio::task::spawn_blocking(move || Holder::start(range)).await??;
    let pod = Pod::start_with(Some(holder)).await?;
    let base = write_layer(&pod, shell)?;
    chown(base.join("srv"), Some(101), Some(102))?;
    let confinement = Confinement {
        users: Some(range),
        ..in_root(root(&pod, &[&base], 0)?)
    };
    pod.confined("main", SLEEP, confinement).await?;
    let output = pod
        .output("main", "stat -c %u:%g / /bin/busybox /srv /srv/work /tmp; id -u")
        .await?;
    check(output == "0:0\n0:0\n101:102\n0:0\n0:0\n0\n", output)?;
    pod.check_success("main", "touch /root/a /srv/b && chown 101 /root/a")
        .await?;
    let written = pod.directory.path().join("writable/main/0/upper/root/a");
    check(
        Some(fs::metadata(written)?.uid()) == range.host_id(101),
        "owner on the node",
    )?;
    pod.end().await
}

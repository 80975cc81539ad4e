//! Pods with user namespaces.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use agent::confinement::user_namespaces::ranges::{IdRange, RangePool};
use agent::confinement::user_namespaces::{Holder, IdMap, IdMaps};
use agent::sandbox::protocol::{Confinement, Mount};
use agent::volumes::file_owners::{Owners, VolumeOwners};

use crate::fixture::{Outcome, Pod, SLEEP, check, default_confinement};

/// Allocates host IDs; `None` if the namespace of this process has too few.
/// Reason to skip a test. The enclosure of a user other than root has one ID.
pub(crate) const TOO_FEW_IDS: &str = "the namespace of this process has too few IDs";

/// Returns true if the processes of a test can have this user. The enclosure has the same groups as users.
pub(crate) fn has_user(id: u32) -> bool {
    IdMap::own_users().contains(id, 1)
}

pub(crate) fn allocate() -> Option<IdRange> {
    RangePool::new(2, &IdMaps::own()).allocate().ok()
}

fn in_range(range: IdRange) -> Confinement {
    Confinement {
        users: Some(range),
        ..default_confinement()
    }
}

async fn start(range: IdRange) -> Result<Pod, Box<dyn std::error::Error>> {
    let holder = tokio::task::spawn_blocking(move || Holder::start(range)).await??;
    Pod::start_with(Some(holder)).await
}

fn mount(source: &Path, target: &str) -> Mount {
    Mount {
        source: source.to_owned(),
        target: target.into(),
        is_id_mapped: true,
        ..Mount::default()
    }
}

pub(crate) async fn root_is_unprivileged_on_the_node(range: IdRange) -> Outcome {
    let pod = start(range).await?;
    let host = tempfile::tempdir_in(testbed::RUN_DIRECTORY)?;
    fs::set_permissions(host.path(), fs::Permissions::from_mode(0o755))?;
    let secret = host.path().join("of-root");
    fs::write(&secret, "root's")?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
    // Files of the node outside of volumes are not ID-mapped either.
    let confinement = Confinement {
        mounts: vec![Mount {
            is_id_mapped: false,
            ..mount(host.path(), "/mnt")
        }],
        ..in_range(range)
    };
    pod.confined("main", SLEEP, confinement).await?;
    let output = pod.output("main", "id -u; id -g; cat /proc/self/uid_map").await?;
    let words: Vec<&str> = output.split_whitespace().collect();
    let first = range.first().to_string();
    check(words == ["0", "0", "0", &first, "65536"], &output)?;
    let read = pod
        .output("main", "stat -c %u /mnt/of-root; cat /mnt/of-root 2>&1")
        .await?;
    check(read.starts_with("65534\n") && !read.contains("root's"), read)?;
    // Processes of the host are protected, including the sandbox process.
    let owners = pod
        .output(
            "main",
            "stat -c %u /proc/1 /proc/self/; ls /proc/1/root/ 2>&1; kill -9 1 2>&1",
        )
        .await?;
    check(owners.starts_with("65534\n0\n"), &owners)?;
    check(owners.matches("ermi").count() == 2, owners)?;
    // Processes of the container have host IDs of the range.
    let user = Confinement {
        user: Some(1000),
        group: Some(1000),
        ..in_range(range)
    };
    pod.confined("user", "exec sleep 2000", user).await?;
    let is_in_use = |id: u32| {
        let id = range.host_id(id);
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut owners = entries.filter_map(|entry| entry.metadata().ok().map(|entry| entry.uid()));
        owners.any(|owner| Some(owner) == id)
    };
    check(
        is_in_use(0) && is_in_use(1000) && !is_in_use(7),
        "host IDs of the Pod",
    )?;
    pod.end().await
}

pub(crate) async fn capabilities_apply_in_the_pod_only(range: IdRange) -> Outcome {
    let pod = start(range).await?;
    let all = Confinement {
        capabilities: Some(u64::MAX),
        ..in_range(range)
    };
    pod.confined("main", SLEEP, all).await?;
    for (subject, script) in [
        ("the clock", "date -s @0"),
        ("a setting of the kernel", "echo 1 >/proc/sys/vm/drop_caches"),
        ("a cover", "umount /proc/kcore"),
        ("the node's files", "mount -o remount,rw / && touch /etc/x"),
        ("a device", "mknod /tmp/memory c 1 1 && head -c 1 /tmp/memory"),
    ] {
        pod.check_failure("main", subject, script).await?;
    }
    for script in [
        "! command -v hostname || { hostname other && test $(hostname) = other; }",
        "! command -v ip || { ip link set lo down && ip link set lo up; }",
        "mount -t tmpfs none /mnt && umount /mnt",
        "touch /run/a /tmp/a /dev/shm/a && chown 65535:1 /run/a && test $(stat -c %u:%g /run/a) = 65535:1",
        "test $(stat -c %u /run /tmp /dev /dev/shm | sort -u) = 0",
        "touch /dev/mqueue/a",
    ] {
        pod.check_success("main", script).await?;
    }
    pod.end().await
}

pub(crate) async fn volumes_keep_their_owners(range: IdRange) -> Outcome {
    let pod = start(range).await?;
    let volumes = tempfile::tempdir_in(testbed::RUN_DIRECTORY)?;
    let (outer, inner) = (volumes.path().join("outer"), volumes.path().join("inner"));
    fs::create_dir(&outer)?;
    fs::create_dir(&inner)?;
    fs::write(outer.join("of-root"), "x")?;
    fs::set_permissions(outer.join("of-root"), fs::Permissions::from_mode(0o600))?;
    fs::write(outer.join("of-user"), "x")?;
    chown(outer.join("of-user"), Some(1000), Some(2000))?;
    let mounts = vec![mount(&outer, "/mnt"), mount(&inner, "/mnt/made/inner")];
    let confinement = Confinement {
        mounts,
        ..in_range(range)
    };
    pod.confined("main", SLEEP, confinement).await?;
    let output = pod
        .output(
            "main",
            "stat -c %u:%g /mnt/of-root /mnt/of-user /mnt/made /mnt/made/inner; cat /mnt/of-root; \
             touch /mnt/a /mnt/made/inner/b && chown 7:8 /mnt/made/inner/b",
        )
        .await?;
    check(output == "0:0\n1000:2000\n0:0\n0:0\nx", output)?;
    let owner = |path: &Path| fs::metadata(path).map(|file| (file.uid(), file.gid()));
    check(owner(&outer.join("a"))? == (0, 0), "a file of root")?;
    check(owner(&inner.join("b"))? == (7, 8), "a file of user 7")?;
    pod.end().await
}

/// `ramfs` does not support ID-mapped mounts on any kernel so far.
pub(crate) async fn rejects_file_systems_without_id_mapped_mounts(range: IdRange) -> Outcome {
    let holder = tokio::task::spawn_blocking(move || Holder::start(range)).await??;
    let volume = tempfile::tempdir_in(testbed::RUN_DIRECTORY)?;
    check(
        holder.volume_owners(volume.path())? == VolumeOwners::IdMapped,
        "tmpfs supports ID-mapped mounts",
    )?;
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("none", volume.path(), "ramfs", flags, None)?;
    check(
        holder.volume_owners(volume.path())? == VolumeOwners::Range,
        "ramfs does not",
    )?;
    let pod = Pod::start_with(Some(holder)).await?;
    let mapped = Confinement {
        mounts: vec![mount(volume.path(), "/mnt")],
        ..in_range(range)
    };
    let error = pod.confined("main", SLEEP, mapped).await;
    let error = error.err().map(|error| error.to_string()).unwrap_or_default();
    check(error.contains("hostUsers: false needs ID-mapped mounts"), error)?;
    // Files that the agent creates there belong to the range.
    let owners = Owners {
        group: Some(7),
        range: Some(range),
    };
    let file = fs::File::create(volume.path().join("a"))?;
    owners.apply(file.as_fd())?;
    let owned = Confinement {
        mounts: vec![Mount {
            is_id_mapped: false,
            ..mount(volume.path(), "/mnt")
        }],
        ..in_range(range)
    };
    pod.confined("owned", SLEEP, owned).await?;
    let output = pod.output("owned", "stat -c %u:%g /mnt/a").await?;
    check(output == "0:7\n", output)?;
    pod.end().await?;
    rustix::mount::unmount(volume.path(), rustix::mount::UnmountFlags::DETACH)?;
    Ok(())
}

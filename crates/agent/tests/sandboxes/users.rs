//! Pods with user namespaces of their own.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use agent::sandbox::protocol::{Confinement, Mount};
use agent::user_namespaces::owners::{Owners, VolumeOwners};
use agent::user_namespaces::ranges::{IdRange, RangePool};
use agent::user_namespaces::{Holder, IdMaps};

use super::confined::{SLEEP, usual};
use super::{Outcome, Pod, check, run};

pub async fn run_all() -> Outcome {
    let mut pool = RangePool::new(2, &IdMaps::own());
    let Ok(range) = pool.allocate() else {
        println!("skipped: user namespaces of Pods: this process's own has too few users");
        return Ok(());
    };
    run("root_is_nobody_on_the_node", root_is_nobody_on_the_node(range)).await?;
    run(
        "capabilities_hold_in_the_pod_only",
        capabilities_hold_in_the_pod_only(range),
    )
    .await?;
    run("volumes_keep_their_owners", volumes_keep_their_owners(range)).await?;
    run(
        "file_systems_without_id_mapped_mounts_are_refused",
        file_systems_without_id_mapped_mounts_are_refused(range),
    )
    .await
}

fn own_users(range: IdRange) -> Confinement {
    Confinement {
        users: Some(range),
        ..usual()
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

async fn root_is_nobody_on_the_node(range: IdRange) -> Outcome {
    let pod = start(range).await?;
    let of_node = tempfile::tempdir_in(testbed::RUN_DIRECTORY)?;
    fs::set_permissions(of_node.path(), fs::Permissions::from_mode(0o755))?;
    let secret = of_node.path().join("of-root");
    fs::write(&secret, "root's")?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
    // As the node's other files are seen, which belong to no volume.
    let confinement = Confinement {
        mounts: vec![Mount {
            is_id_mapped: false,
            ..mount(of_node.path(), "/mnt")
        }],
        ..own_users(range)
    };
    pod.confined("main", SLEEP, confinement).await?;
    let said = pod.says("main", "id -u; id -g; cat /proc/self/uid_map").await?;
    let words: Vec<&str> = said.split_whitespace().collect();
    let first = range.first().to_string();
    check(words == ["0", "0", "0", &first, "65536"], &said)?;
    let read = pod
        .says("main", "stat -c %u /mnt/of-root; cat /mnt/of-root 2>&1")
        .await?;
    check(read.starts_with("65534\n") && !read.contains("root's"), read)?;
    // The node's own processes are out of reach, the Pod's first one included.
    let owners = pod
        .says(
            "main",
            "stat -c %u /proc/1 /proc/self/; ls /proc/1/root/ 2>&1; kill -9 1 2>&1",
        )
        .await?;
    check(owners.starts_with("65534\n0\n"), &owners)?;
    check(owners.matches("ermi").count() == 2, owners)?;
    // What the container runs has users of the range on the node.
    let user = Confinement {
        user: Some(1000),
        group: Some(1000),
        ..own_users(range)
    };
    pod.confined("user", "exec sleep 2000", user).await?;
    let on_node = |id: u32| {
        let id = range.host_id(id);
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut owners = entries.filter_map(|entry| entry.metadata().ok().map(|entry| entry.uid()));
        owners.any(|owner| Some(owner) == id)
    };
    check(on_node(0) && on_node(1000) && !on_node(7), "users on the node")?;
    pod.end().await
}

async fn capabilities_hold_in_the_pod_only(range: IdRange) -> Outcome {
    let pod = start(range).await?;
    let all = Confinement {
        capabilities: Some(u64::MAX),
        ..own_users(range)
    };
    pod.confined("main", SLEEP, all).await?;
    for (what, script) in [
        ("the clock", "date -s @0"),
        ("a setting of the kernel", "echo 1 >/proc/sys/vm/drop_caches"),
        ("a cover", "umount /proc/kcore"),
        ("the node's files", "mount -o remount,rw / && touch /etc/x"),
        ("a device", "mknod /tmp/memory c 1 1 && head -c 1 /tmp/memory"),
    ] {
        let said = pod
            .says("main", &format!("({script}) 2>&1; echo status $?"))
            .await?;
        check(!said.contains("status 0"), format!("{what}: {said}"))?;
    }
    for works in [
        "! command -v hostname || { hostname other && test $(hostname) = other; }",
        "! command -v ip || { ip link set lo down && ip link set lo up; }",
        "mount -t tmpfs none /mnt && umount /mnt",
        "touch /run/a /tmp/a /dev/shm/a && chown 65535:1 /run/a && test $(stat -c %u:%g /run/a) = 65535:1",
        "test $(stat -c %u /run /tmp /dev /dev/shm | sort -u) = 0",
        "touch /dev/mqueue/a",
    ] {
        let said = pod
            .says("main", &format!("({works}) 2>&1; echo status $?"))
            .await?;
        check(said.contains("status 0"), format!("{works}: {said}"))?;
    }
    pod.end().await
}

async fn volumes_keep_their_owners(range: IdRange) -> Outcome {
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
        ..own_users(range)
    };
    pod.confined("main", SLEEP, confinement).await?;
    let said = pod
        .says(
            "main",
            "stat -c %u:%g /mnt/of-root /mnt/of-user /mnt/made /mnt/made/inner; cat /mnt/of-root; \
             touch /mnt/a /mnt/made/inner/b && chown 7:8 /mnt/made/inner/b",
        )
        .await?;
    check(said == "0:0\n1000:2000\n0:0\n0:0\nx", said)?;
    let owner = |path: &Path| fs::metadata(path).map(|file| (file.uid(), file.gid()));
    check(owner(&outer.join("a"))? == (0, 0), "a file of root")?;
    check(owner(&inner.join("b"))? == (7, 8), "a file of user 7")?;
    pod.end().await
}

/// `ramfs` has no id-mapped mounts on any kernel so far.
async fn file_systems_without_id_mapped_mounts_are_refused(range: IdRange) -> Outcome {
    let holder = tokio::task::spawn_blocking(move || Holder::start(range)).await??;
    let place = tempfile::tempdir_in(testbed::RUN_DIRECTORY)?;
    check(
        holder.volume_owners(place.path())? == VolumeOwners::IdMapped,
        "memory has them",
    )?;
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("none", place.path(), "ramfs", flags, None)?;
    check(
        holder.volume_owners(place.path())? == VolumeOwners::Range,
        "ramfs has none",
    )?;
    let pod = Pod::start_with(Some(holder)).await?;
    let refused = Confinement {
        mounts: vec![mount(place.path(), "/mnt")],
        ..own_users(range)
    };
    let error = pod.confined("main", SLEEP, refused).await;
    let error = error.err().map(|error| error.to_string()).unwrap_or_default();
    check(error.contains("hostUsers: false needs ID-mapped mounts"), error)?;
    // What the agent makes there belongs to the range.
    let owners = Owners {
        group: Some(7),
        range: Some(range),
    };
    let file = fs::File::create(place.path().join("a"))?;
    owners.apply(file.as_fd())?;
    let owned = Confinement {
        mounts: vec![Mount {
            is_id_mapped: false,
            ..mount(place.path(), "/mnt")
        }],
        ..own_users(range)
    };
    pod.confined("owned", SLEEP, owned).await?;
    let said = pod.says("owned", "stat -c %u:%g /mnt/a").await?;
    check(said == "0:7\n", said)?;
    pod.end().await?;
    rustix::mount::unmount(place.path(), rustix::mount::UnmountFlags::DETACH)?;
    Ok(())
}

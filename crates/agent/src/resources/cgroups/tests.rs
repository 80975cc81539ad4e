use serde_json::json;

use super::discovery::{MountedHierarchy, parse_mounts, path_of};
use super::*;

fn limits(resources: serde_json::Value) -> Limits {
    let container = serde_json::from_value(json!({"name": "a", "resources": resources})).unwrap();
    Limits::of(&container, 64)
}

/// Values in the groups of a container by file name.
fn written(cgroups: &Cgroups, limits: &Limits) -> Vec<(String, String)> {
    let groups = cgroups.prepare("u1", "a", limits).unwrap();
    let mut all: Vec<(String, String)> = groups
        .iter()
        .flat_map(|group| fs::read_dir(group).unwrap())
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read_to_string(entry.path()).unwrap())
        })
        .collect();
    all.sort();
    all
}

fn pairs(all: &[(String, String)]) -> Vec<(&str, &str)> {
    all.iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

#[test]
fn writes_limits_for_version_2() {
    let root = tempfile::tempdir().unwrap();
    let cgroups = Cgroups::V2 {
        pods: root.path().to_owned(),
    };
    let some = limits(json!({"limits": {"memory": "64Mi", "cpu": "500m"}, "requests": {"cpu": "250m"}}));
    assert_eq!(
        pairs(&written(&cgroups, &some)),
        [
            ("cpu.max", "50000 100000"),
            ("cpu.weight", "10"),
            ("memory.max", "67108864"),
            ("pids.max", "64")
        ]
    );
    let none = limits(json!({}));
    assert_eq!(
        pairs(&written(&cgroups, &none)),
        [
            ("cpu.max", "max 100000"),
            ("cpu.weight", "100"),
            ("memory.max", "max"),
            ("pids.max", "64")
        ]
    );
    assert!(some.has_limits() && !none.has_limits());
}

#[test]
fn writes_limits_for_version_1() {
    let root = tempfile::tempdir().unwrap();
    let [memory, cpu, pids] = ["memory", "cpu", "pids"].map(|name| root.path().join(name));
    let cgroups = Cgroups::V1 {
        memory,
        cpu,
        cpuacct: Some(root.path().join("cpuacct")),
        pids,
    };
    let some = limits(json!({"limits": {"memory": "64Mi", "cpu": "5m"}}));
    assert_eq!(
        pairs(&written(&cgroups, &some)),
        [
            ("cpu.cfs_period_us", "100000"),
            ("cpu.cfs_quota_us", "1000"),
            ("cpu.shares", "5"),
            ("memory.limit_in_bytes", "67108864"),
            ("pids.max", "64")
        ]
    );
    assert!(root.path().join("cpuacct/u1/a").is_dir());
    fs::write(
        root.path().join("memory/u1/a/memory.oom_control"),
        "under_oom 0\noom_kill 2\n",
    )
    .unwrap();
    assert_eq!(oom_kills(&root.path().join("memory/u1/a/memory.oom_control")), 2);
}

#[test]
fn cgroup_hierarchies_are_found_in_mounts() {
    let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                  cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n\
                  cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    let found = parse_mounts(mounts);
    assert_eq!(found.len(), 2);
    assert!(found[0].controllers.as_ref().unwrap().contains(&"cpu".to_owned()));
    let v2 = MountedHierarchy {
        path: "/sys/fs/cgroup/unified".into(),
        controllers: None,
    };
    assert_eq!(found[1], v2);
    let own = "4:cpu,cpuacct:/a/b\n3:memory:/c\n0::/d\n";
    assert_eq!(
        (path_of(own, "cpu"), path_of(own, ""), path_of(own, "pids")),
        ("/a/b".into(), "/d".into(), "/".into())
    );
}

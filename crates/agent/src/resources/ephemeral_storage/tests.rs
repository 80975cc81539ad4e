use std::fs;
use std::os::unix::fs::symlink;

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use serde_json::{Value, json};

use super::*;
use crate::pods::state_directory::StateDirectory;

const MEBIBYTE: u64 = 1 << 20;
const UID: &str = "3f2c7a9e-0000-4000-8000-000000000001";

fn limits(spec: Value) -> Option<StorageLimits> {
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap();
    StorageLimits::of(&pod)
}

fn container(name: &str, limit: &str) -> Value {
    json!({"name": name, "image": "x", "resources": {"limits": {"ephemeral-storage": limit}}})
}

fn usage(containers: &[(&str, u64)], volumes: &[(&str, u64)]) -> StorageUsage {
    let by_name = |list: &[(&str, u64)]| {
        let entries = list
            .iter()
            .map(|(name, count)| ((*name).to_owned(), count * MEBIBYTE));
        entries.collect()
    };
    StorageUsage {
        containers: by_name(containers),
        volumes: by_name(volumes),
        shared_files: 0,
    }
}

#[test]
fn pod_without_limits_is_not_measured() {
    assert_eq!(
        limits(
            json!({"containers": [{"name": "a", "image": "x"}], "volumes": [{"name": "v", "emptyDir": {}}]})
        ),
        None
    );
    let memory = json!({"medium": "Memory", "sizeLimit": "1Mi"});
    let spec =
        json!({"containers": [{"name": "a", "image": "x"}], "volumes": [{"name": "v", "emptyDir": memory}]});
    assert_eq!(limits(spec), None);
}

#[test]
fn messages_match_the_kubelet() {
    let spec = json!({
        "containers": [container("a", "5Mi"), container("b", "3Mi")],
        "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "2Mi"}}, {"name": "other", "emptyDir": {}}],
    });
    let limits = limits(spec).unwrap();
    let message =
        |containers: &[(&str, u64)], volumes: &[(&str, u64)]| limits.exceeded(&usage(containers, volumes));
    assert_eq!(message(&[("a", 5), ("b", 3)], &[]), None);
    assert_eq!(
        message(&[("a", 9)], &[("data", 3)]).as_deref(),
        Some("Usage of EmptyDir volume \"data\" exceeds the limit \"2Mi\". ")
    );
    assert_eq!(
        message(&[("a", 4), ("b", 3)], &[("other", 2)]).as_deref(),
        Some("Pod ephemeral local storage usage exceeds the total limit of containers 8Mi. ")
    );
    assert_eq!(
        message(&[("a", 3), ("b", 4)], &[]).as_deref(),
        Some("Container b exceeded its local ephemeral storage limit \"3Mi\". ")
    );
}

#[test]
fn init_containers_raise_the_limit_of_the_pod() {
    let limit = |init: Value| {
        let spec = json!({"initContainers": [init], "containers": [container("a", "5Mi")]});
        limits(spec).unwrap().pod.map(|limit| limit.text)
    };
    assert_eq!(limit(container("i", "9Mi")).as_deref(), Some("9Mi"));
    assert_eq!(limit(container("i", "1Mi")).as_deref(), Some("5Mi"));
    let mut sidecar = container("i", "1500Ki");
    sidecar["restartPolicy"] = "Always".into();
    assert_eq!(limit(sidecar.clone()).as_deref(), Some("6620Ki"));
    let inits = json!([sidecar, container("j", "9Mi"), {"name": "k", "image": "x"}]);
    let spec = json!({"initContainers": inits, "containers": [container("a", "5Mi")]});
    let limits = limits(spec).unwrap();
    assert_eq!(limits.pod.map(|limit| limit.text).as_deref(), Some("10716Ki"));
    // An init container without restarts has no limit of its own, as upstream.
    let names: Vec<&str> = limits
        .containers
        .iter()
        .map(|limit| limit.name.as_str())
        .collect();
    assert_eq!(names, ["a", "i"]);
}

#[test]
fn files_count_once_and_links_are_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    let deep = root.join("a/b/c");
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("file"), vec![1; 2 << 20]).unwrap();
    fs::hard_link(deep.join("file"), root.join("again")).unwrap();
    fs::write(directory.path().join("outside"), vec![1; 4 << 20]).unwrap();
    symlink(directory.path(), root.join("link")).unwrap();
    let mut walk = Walk::start(&root).unwrap();
    let mut budget = Budget { round: 9, total: 9 };
    assert_eq!(walk.advance(&mut budget), Ok(true));
    let bytes = walk.bytes();
    assert!((2 * MEBIBYTE..3 * MEBIBYTE).contains(&bytes), "{bytes}");
    assert!(Walk::start(&directory.path().join("missing")).is_none());
    assert!(Walk::start(&root.join("link")).is_none());
}

#[test]
fn files_beyond_one_round_count_in_the_next_ones() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..20 {
        let parent = directory.path().join(format!("{}", number % 3));
        fs::create_dir_all(&parent).unwrap();
        fs::write(parent.join(format!("file-{number}")), vec![1; 1 << 20]).unwrap();
    }
    let mut walk = Walk::start(directory.path()).unwrap();
    let mut budget = Budget { round: 0, total: 23 };
    let mut rounds = 0;
    let is_complete = loop {
        rounds += 1;
        budget.round = 4;
        match walk.advance(&mut budget) {
            Ok(false) => {}
            end => break end,
        }
    };
    assert_eq!(is_complete, Ok(true));
    assert!(rounds >= 6, "{rounds}");
    let bytes = walk.bytes();
    assert!((20 * MEBIBYTE..21 * MEBIBYTE).contains(&bytes), "{bytes}");
    let mut walk = Walk::start(directory.path()).unwrap();
    let mut budget = Budget {
        round: 100,
        total: 22,
    };
    assert_eq!(walk.advance(&mut budget), Err(UnmeasuredReason::Entries));
}

#[test]
fn pod_with_many_files_is_evicted_in_a_later_round() {
    let root = tempfile::tempdir().unwrap();
    let directory = StateDirectory::open(root.path()).unwrap().pod(UID).unwrap();
    let volume = directory.volumes().join("data");
    fs::create_dir_all(&volume).unwrap();
    for number in 0..8 {
        fs::write(volume.join(format!("file-{number}")), vec![1; 1 << 20]).unwrap();
    }
    let spec = json!({
        "containers": [{"name": "a", "image": "x"}],
        "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "5Mi"}}],
    });
    let mut check = StorageCheck::new(limits(spec).unwrap(), directory);
    let rounds: Vec<Option<String>> = (0..4).map(|_| check.round_of(2)).collect();
    let expected = "Usage of EmptyDir volume \"data\" exceeds the limit \"5Mi\". ";
    assert_eq!(rounds[..2], [None::<String>, None]);
    assert_eq!(rounds[2].as_deref(), Some(expected));
}

/// A container from an image can write its `/etc/hosts`, which is a file of the Pod.
#[test]
fn files_in_etc_count_for_the_pod() {
    let root = tempfile::tempdir().unwrap();
    let directory = StateDirectory::open(root.path()).unwrap().pod(UID).unwrap();
    fs::create_dir_all(directory.path()).unwrap();
    let spec = json!({"containers": [container("a", "5Mi")]});
    let mut check = StorageCheck::new(limits(spec).unwrap(), directory.clone());
    fs::write(directory.path().join("hosts"), vec![1; 3 << 20]).unwrap();
    assert_eq!(check.next_round(), None);
    fs::write(directory.path().join("resolv.conf"), vec![1; 3 << 20]).unwrap();
    let expected = "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. ";
    assert_eq!(check.next_round().as_deref(), Some(expected));
}

/// A container can create such a tree by steps, with relative paths.
#[test]
fn tree_deeper_than_a_path_cannot_be_measured() {
    let root = tempfile::tempdir().unwrap();
    let name = "d".repeat(250);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut parent = openat(CWD, root.path(), flags, Mode::empty()).unwrap();
    for _ in 0..20 {
        mkdirat(&parent, &name, Mode::RWXU).unwrap();
        parent = openat(&parent, &name, flags, Mode::empty()).unwrap();
    }
    let mut walk = Walk::start(root.path()).unwrap();
    let mut budget = Budget {
        round: 100,
        total: 100,
    };
    assert_eq!(walk.advance(&mut budget), Err(UnmeasuredReason::Depth));
}

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::*;

const MEBIBYTE: u64 = 1 << 20;

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
    let bytes = Meter::default().measure(&root);
    assert!((2 * MEBIBYTE..3 * MEBIBYTE).contains(&bytes), "{bytes}");
    assert_eq!(Meter::default().measure(&directory.path().join("missing")), 0);
    assert_eq!(Meter::default().measure(&root.join("link")), 0);
}

use super::*;

fn record(uid: &str) -> Record {
    Record {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: uid.to_owned(),
        addresses: vec!["10.0.0.2".parse().unwrap()],
        is_static: false,
        users: None,
        runs_images: false,
        host_ports: Vec::new(),
        control_groups: Vec::new(),
    }
}

#[test]
fn lists_records_and_unreadable_directories() {
    let root = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(&root.path().join("deep/down")).unwrap();
    let pod = state.pod("a-1").unwrap();
    pod.create(&record("a-1")).unwrap();
    pod.write("resolv.conf", "nameserver 10.0.0.1\n").unwrap();
    // A truncated record, and a record in the directory of another Pod.
    state.pod("b-2").unwrap().create(&record("b-2")).unwrap();
    state.pod("b-2").unwrap().write(RECORD, "{\"name\"").unwrap();
    state.pod("c-3").unwrap().create(&record("a-1")).unwrap();
    let (records, unreadable) = state.records().unwrap();
    assert_eq!(records, [record("a-1")]);
    assert_eq!(unreadable.len(), 2);
    pod.remove().unwrap();
    pod.remove().unwrap();
    assert!(state.records().unwrap().0.is_empty());
}

#[tokio::test]
async fn removes_directories_on_a_thread() {
    let root = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(root.path()).unwrap();
    let pod = state.pod("a-1").unwrap();
    pod.create(&record("a-1")).unwrap();
    pod.remove_on_thread().await.unwrap();
    assert!(!pod.path().exists());
    pod.remove_on_thread().await.unwrap();
}

#[test]
fn rejects_uids_that_leave_the_directory() {
    let root = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(root.path()).unwrap();
    for uid in ["", "..", "a/b", "a b", &"x".repeat(65)] {
        assert!(matches!(state.pod(uid), Err(StateError::Uid { .. })), "{uid}");
    }
    let log = state.pod("a").unwrap().log("../../x", 0);
    assert!(log.starts_with(root.path()) && !log.components().any(|component| component.as_os_str() == ".."));
}

#[test]
fn termination_message_is_writable_and_fresh_in_each_run() {
    let root = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(root.path()).unwrap();
    let pod = state.pod("a-1").unwrap();
    pod.create(&record("a-1")).unwrap();
    let first = pod.prepare_termination_message("../a", 0).unwrap();
    assert!(first.starts_with(pod.path()));
    let mode = fs::metadata(&first).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
    fs::write(&first, "message").unwrap();
    let second = pod.prepare_termination_message("../a", 1).unwrap();
    assert!(!first.exists());
    assert_eq!(fs::read(second).unwrap(), b"");
}

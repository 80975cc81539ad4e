use std::sync::mpsc;
use std::thread;

use super::*;

/// Creates the files of a control group with threads.
fn control_group(path: &Path, threads: &str) {
    fs::create_dir_all(path).unwrap();
    fs::write(path.join("cgroup.threads"), threads).unwrap();
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("portolan-{name}-{}", std::process::id()));
    fs::remove_dir_all(&path).ok();
    path
}

#[test]
fn namespaces_of_all_threads_are_returned_once() {
    testbed::in_namespace(|| {
        let path = directory("namespaces");
        let (sender, threads) = mpsc::channel();
        let (_open, end) = mpsc::channel::<()>();
        let own = NetworkNamespace::create().unwrap();
        let work = move || {
            sender.send(rustix::thread::gettid().as_raw_pid()).unwrap();
            end.recv().unwrap_err();
        };
        thread::spawn(move || own.enter(work).unwrap());
        let own = std::process::id();
        let other = threads.recv().unwrap();
        control_group(&path, &format!("{own}\n{own}\n"));
        control_group(&path.join("pod"), &format!("{other}\n"));
        control_group(&path.join("ended"), "4194303\n");
        let namespaces = client_namespaces(&path);
        assert_eq!(namespaces.found.len(), 2);
        assert!(namespaces.failure.is_none(), "{namespaces:?}");
        fs::remove_dir_all(&path).unwrap();
    });
}

#[test]
fn threads_of_other_pid_namespaces_are_reported() {
    let path = directory("hidden");
    control_group(&path.join("pod"), &format!("0\n{}\n", std::process::id()));
    let namespaces = client_namespaces(&path);
    assert_eq!(namespaces.found.len(), 1, "the visible thread is found");
    let error = namespaces.failure.expect("a failure");
    assert!(
        matches!(&error, ClientSocketError::HiddenProcess { path: hidden } if *hidden == path.join("pod")),
        "{error}"
    );
    fs::remove_dir_all(&path).unwrap();
}

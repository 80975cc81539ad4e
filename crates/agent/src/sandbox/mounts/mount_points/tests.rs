use std::os::fd::AsRawFd;

use super::*;

#[test]
fn links_of_proc_are_not_mount_paths() {
    let directory = tempfile::tempdir().expect("a directory");
    let opened = fs::File::open(directory.path()).expect("the directory");
    let descriptor = format!("/proc/self/fd/{}", opened.as_raw_fd());
    for path in [
        descriptor.as_str(),
        "/proc/self/root",
        "/proc/self/cwd",
        "/proc/self/root/made",
    ] {
        let path = Path::new(path);
        assert!(open(path).is_err(), "{}", path.display());
        assert!(existing_part(&path.join("a/b")).is_err(), "{}", path.display());
    }
}

#[test]
fn finds_the_existing_part_of_a_path() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("missing/file");
    let (existing, _) = existing_part(&path).expect("the existing part");
    assert_eq!(existing, directory.path());
    assert!(open(&path).expect("a missing path").is_none());
    assert!(open(directory.path()).expect("a directory").is_some());
}

use std::os::unix::fs::PermissionsExt;

use super::*;

/// Both ways to write a file.
const WRITES: [fn(&Path, &[u8]) -> io::Result<()>; 2] = [write, write_unsynced];

#[test]
fn replaces_contents_with_mode_0600_and_leaves_no_temporary_file() {
    for write in WRITES {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let inner = directory.path().join("keys/inner");
        create_directory(&inner).expect("the directory is created");
        let path = inner.join("token");
        for contents in ["first", "second"] {
            write(&path, contents.as_bytes()).expect("the file is written");
            assert_eq!(fs::read_to_string(&path).expect("the file is readable"), contents);
        }
        let mode = |path: &Path| fs::metadata(path).expect("metadata").permissions().mode() & 0o777;
        assert_eq!((mode(&inner), mode(&path)), (0o700, 0o600));
        assert_eq!(
            fs::read_dir(&inner).expect("the directory is readable").count(),
            1
        );
    }
}

#[test]
fn keeps_the_former_state_after_a_failure() {
    for write in WRITES {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let occupied = directory.path().join("occupied");
        create_directory(&occupied).expect("the directory is created");
        assert!(
            write(&occupied, b"contents").is_err(),
            "a directory is not replaced by a file"
        );
        assert_eq!(
            fs::read_dir(directory.path())
                .expect("the directory is readable")
                .count(),
            1
        );
    }
}

#[test]
fn failed_sync_leaves_no_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("token");
    let failed = replace(&path, b"contents", |_| Err(io::ErrorKind::StorageFull.into()));
    assert_eq!(
        failed.expect_err("the sync fails").kind(),
        io::ErrorKind::StorageFull
    );
    assert!(!path.exists(), "the file is not on the disk");
}

#[test]
fn file_or_link_in_the_place_of_the_temporary_file_gets_no_contents() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("token");
    let temporary = temporary_path(&path);
    fs::write(&temporary, "").expect("a file of another user");
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o666)).expect("the mode is set");
    let other = directory.path().join("other");
    fs::hard_link(&temporary, &other).expect("a second name of it");
    write(&path, b"first").expect("the file is written");
    assert_eq!(fs::read_to_string(&other).expect("a readable file"), "");
    let mode = fs::metadata(&path).expect("metadata").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    std::os::unix::fs::symlink(&other, &temporary).expect("a link");
    write(&path, b"second").expect("the file is written");
    assert_eq!(fs::read_to_string(&other).expect("a readable file"), "");
    assert_eq!(fs::read_to_string(&path).expect("a readable file"), "second");
}

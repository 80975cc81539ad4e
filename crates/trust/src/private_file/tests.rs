use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn replaces_contents_with_mode_0600_and_leaves_no_temporary_file() {
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

#[test]
fn keeps_the_former_state_after_a_failure() {
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

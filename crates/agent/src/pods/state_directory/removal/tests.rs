use std::fs;
use std::os::unix::fs::symlink;

use rustix::fs::mkdirat;

use super::*;

/// Depth at which a recursion over the tree would exhaust the descriptors of a process.
const DEPTH: usize = 5_000;
/// More names than the kernel returns at once.
const NAMES: usize = 1_000;

#[test]
fn removes_deep_trees_and_follows_no_link() {
    let outer = tempfile::tempdir().expect("a directory");
    fs::write(outer.path().join("kept"), "").expect("a file");
    let tree = outer.path().join("tree");
    fs::create_dir_all(tree.join("a/b")).expect("directories");
    fs::write(tree.join("a/file"), "").expect("a file");
    // The names of moved directories may exist.
    fs::create_dir_all(tree.join(".moved-1/x")).expect("directories");
    symlink(outer.path(), tree.join("a/b/link")).expect("a link");
    let mut directory = openat(CWD, &tree, OPEN, Mode::empty()).expect("the tree");
    for _ in 0..DEPTH {
        mkdirat(&directory, "d", Mode::from_raw_mode(0o700)).expect("a directory");
        directory = openat(&directory, "d", OPEN, Mode::empty()).expect("the directory");
    }
    remove_tree(&tree).expect("the removal");
    assert!(!tree.exists());
    assert!(outer.path().join("kept").exists());
}

#[test]
fn removes_directories_with_many_names() {
    let outer = tempfile::tempdir().expect("a directory");
    let tree = outer.path().join("tree");
    for directory in ["", "a"] {
        let directory = tree.join(directory);
        fs::create_dir_all(&directory).expect("a directory");
        for number in 0..NAMES {
            fs::write(directory.join(format!("file-{number}")), "").expect("a file");
            fs::create_dir(directory.join(format!("directory-{number}"))).expect("a directory");
        }
    }
    remove_tree(&tree).expect("the removal");
    assert!(!tree.exists());
}

#[test]
fn missing_directory_is_removed() {
    let outer = tempfile::tempdir().expect("a directory");
    remove_tree(&outer.path().join("none")).expect("success");
}

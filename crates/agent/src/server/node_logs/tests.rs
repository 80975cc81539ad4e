use std::fs;
use std::os::unix::fs::symlink;

use super::*;

#[test]
fn lists_directories_in_the_order_of_names() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("pods")).unwrap();
    fs::write(root.path().join("a <b>.log"), "").unwrap();
    let NodeLog::Listing(page) = open(root.path(), "/").unwrap() else {
        panic!("expected a listing");
    };
    assert_eq!(
        page,
        "<pre>\n<a href=\"./a%20%3Cb%3E.log\">a &lt;b&gt;.log</a>\n<a href=\"./pods/\">pods/</a>\n</pre>\n"
    );
}

#[test]
fn reads_files_to_their_size() {
    let root = tempfile::tempdir().unwrap();
    let content = "line\n".repeat(50_000);
    fs::write(root.path().join("syslog"), &content).unwrap();
    let NodeLog::File(file, size) = open(root.path(), "syslog").unwrap() else {
        panic!("expected a file");
    };
    let mut text = Vec::new();
    let sink = |chunk: Vec<u8>| {
        text.extend(chunk);
        true
    };
    read(file, size - 1, sink).unwrap();
    assert_eq!(text.len(), content.len() - 1);
}

#[test]
fn links_out_of_the_directory_are_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let logs = root.path().join("log");
    fs::create_dir(&logs).unwrap();
    fs::write(root.path().join("secret"), "").unwrap();
    fs::write(logs.join("syslog"), "").unwrap();
    symlink("../secret", logs.join("out")).unwrap();
    symlink("/etc/passwd", logs.join("absolute")).unwrap();
    symlink("syslog", logs.join("inside")).unwrap();
    for path in ["out", "absolute", "../secret", "..", "missing"] {
        assert!(open(&logs, path).is_err(), "{path}");
    }
    assert!(matches!(open(&logs, "inside"), Ok(NodeLog::File(_, 0))));
}

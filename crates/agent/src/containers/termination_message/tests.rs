use std::fs;
use std::os::unix::fs::symlink;

use super::*;

#[test]
fn message_is_the_end_of_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("message");
    assert_eq!(read_file(&path).unwrap(), "");
    fs::write(&path, "done").unwrap();
    assert_eq!(read_file(&path).unwrap(), "done");
    fs::write(&path, format!("{}end", "x".repeat(10_000))).unwrap();
    let message = read_file(&path).unwrap();
    assert_eq!((message.len(), message.ends_with("xend")), (4096, true));
    fs::write(&path, vec![0xff; 5_000]).unwrap();
    assert!(read_file(&path).unwrap().len() <= 4096);
}

#[test]
fn rejects_links_and_pipes() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("link");
    symlink("/etc/passwd", &link).unwrap();
    assert!(read_file(&link).is_err());
    assert!(read_file(directory.path()).is_err());
}

#[test]
fn log_message_has_the_last_lines() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("0.log");
    let entries = |count: usize, text: &str| -> String {
        let entry = |number| format!("2026-01-01T00:00:00.000000000Z stdout F {text}{number}\n");
        (0..count).map(entry).collect()
    };
    fs::write(&path, entries(100, "")).unwrap();
    let message = read_log(&path).unwrap();
    assert_eq!(message.lines().count(), 80);
    assert!(message.starts_with("20\n") && message.ends_with("99\n"));
    fs::write(&path, entries(2000, &"x".repeat(100))).unwrap();
    let message = read_log(&path).unwrap();
    assert_eq!((message.len(), message.ends_with("x1999\n")), (2048, true));
    // A long line is written in parts, and the last line may have no end.
    let parts = "T stdout P one \nT stdout F line\nT stdout P rest\n";
    fs::write(&path, parts).unwrap();
    assert_eq!(read_log(&path).unwrap(), "one line\nrest");
}

#[test]
fn containers_share_the_bytes_of_a_pod() {
    assert_eq!(
        [bytes_max(0), bytes_max(1), bytes_max(4)],
        [12_288, 12_288, 3_072]
    );
    assert_eq!(truncate("aé", 2), "a");
    assert_eq!(truncate("aé", 9), "aé");
}

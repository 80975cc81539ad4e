use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use super::backups::{clean_up, unused_name};
use super::*;

fn settings(path: &Path) -> AuditLogSettings {
    AuditLogSettings {
        path: Some(path.to_owned()),
        max_size_megabytes: 1,
        max_age_days: 0,
        max_backups: 0,
        compresses: false,
    }
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).expect("directory");
    entries
        .map(|entry| {
            entry
                .expect("directory entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect()
}

#[test]
fn rotates_before_a_line_that_exceeds_the_size() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("logs/audit.log");
    let mut log = RotatedFile::open(path.clone(), &settings(&path)).expect("log file");
    let line = vec![b'x'; 600 << 10];
    log.write(&line).expect("log write");
    log.write(&line).expect("log write");
    let names = names(&directory.path().join("logs"));
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains("audit.log"));
    let backup = names
        .iter()
        .find(|name| *name != "audit.log")
        .expect("rotated file");
    // audit-2026-01-31T10-20-30.123.log
    assert!(backup.starts_with("audit-2") && backup.len() == "audit-2026-01-31T10-20-30.123.log".len());
    assert_eq!(fs::metadata(&path).expect("file").len(), line.len() as u64);
    let mode = fs::metadata(&path).expect("file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn appends_to_an_existing_file() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("audit.log");
    fs::write(&path, "one\n").expect("file");
    let mut log = RotatedFile::open(path.clone(), &settings(&path)).expect("log file");
    log.write(b"two\n").expect("log write");
    assert_eq!(fs::read_to_string(&path).expect("file"), "one\ntwo\n");
}

#[test]
fn avoids_names_of_existing_files() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("audit.log");
    let now: jiff::Timestamp = "2026-01-31T10:20:30.123Z".parse().expect("timestamp");
    let first = unused_name(&path, now);
    assert!(first.ends_with("audit-2026-01-31T10-20-30.123.log"), "{first:?}");
    fs::write(&first, "").expect("file");
    fs::write(directory.path().join("audit-2026-01-31T10-20-30.124.log.gz"), "").expect("file");
    assert!(unused_name(&path, now).ends_with("audit-2026-01-31T10-20-30.125.log"));
}

#[test]
fn cleanup_deletes_by_number_and_age_and_compresses() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("audit.log");
    for name in [
        "audit.log",
        "audit-2026-01-01T00-00-00.000.log.gz",
        "audit-2026-01-09T00-00-00.000.log",
        "audit-2026-01-10T00-00-00.000.log",
        "audit-other.log",
    ] {
        fs::write(directory.path().join(name), "text").expect("file");
    }
    let now = "2026-01-11T00:00:00Z".parse().expect("timestamp");
    let by_age = AuditLogSettings {
        max_age_days: 5,
        compresses: true,
        ..settings(&path)
    };
    clean_up(&path, &by_age, now).expect("cleanup");
    let compressed = [
        "audit-2026-01-09T00-00-00.000.log.gz",
        "audit-2026-01-10T00-00-00.000.log.gz",
    ];
    let others = ["audit-other.log", "audit.log"];
    let expected: BTreeSet<String> = compressed
        .iter()
        .chain(&others)
        .map(|name| name.to_string())
        .collect();
    assert_eq!(names(directory.path()), expected);
    let by_number = AuditLogSettings {
        max_backups: 1,
        ..settings(&path)
    };
    clean_up(&path, &by_number, now).expect("cleanup");
    assert!(!names(directory.path()).contains(compressed[0]));
    assert!(names(directory.path()).contains(compressed[1]));
}

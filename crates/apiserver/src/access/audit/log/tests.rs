use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use super::backups::{free_name, tidy};
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
    let entries = fs::read_dir(directory).expect("a directory");
    entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect()
}

#[test]
fn begins_a_new_file_before_a_line_that_does_not_fit() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("logs/audit.log");
    let mut log = RotatedFile::open(path.clone(), &settings(&path)).expect("a log");
    let line = vec![b'x'; 600 << 10];
    log.write(&line).expect("a write");
    log.write(&line).expect("a write");
    let names = names(&directory.path().join("logs"));
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains("audit.log"));
    let backup = names.iter().find(|name| *name != "audit.log").expect("a backup");
    // audit-2026-01-31T10-20-30.123.log
    assert!(backup.starts_with("audit-2") && backup.len() == "audit-2026-01-31T10-20-30.123.log".len());
    assert_eq!(fs::metadata(&path).expect("a file").len(), line.len() as u64);
    let mode = fs::metadata(&path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn goes_on_with_the_file_that_is_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("audit.log");
    fs::write(&path, "one\n").expect("a file");
    let mut log = RotatedFile::open(path.clone(), &settings(&path)).expect("a log");
    log.write(b"two\n").expect("a write");
    assert_eq!(fs::read_to_string(&path).expect("a file"), "one\ntwo\n");
}

#[test]
fn never_takes_the_name_of_another_old_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("audit.log");
    let now: jiff::Timestamp = "2026-01-31T10:20:30.123Z".parse().expect("a time");
    let first = free_name(&path, now);
    assert!(first.ends_with("audit-2026-01-31T10-20-30.123.log"), "{first:?}");
    fs::write(&first, "").expect("a file");
    fs::write(directory.path().join("audit-2026-01-31T10-20-30.124.log.gz"), "").expect("a file");
    assert!(free_name(&path, now).ends_with("audit-2026-01-31T10-20-30.125.log"));
}

#[test]
fn keeps_old_files_by_number_and_age_and_compresses_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("audit.log");
    for name in [
        "audit.log",
        "audit-2026-01-01T00-00-00.000.log.gz",
        "audit-2026-01-09T00-00-00.000.log",
        "audit-2026-01-10T00-00-00.000.log",
        "audit-other.log",
    ] {
        fs::write(directory.path().join(name), "text").expect("a file");
    }
    let now = "2026-01-11T00:00:00Z".parse().expect("a time");
    let by_age = AuditLogSettings {
        max_age_days: 5,
        compresses: true,
        ..settings(&path)
    };
    tidy(&path, &by_age, now).expect("tidy files");
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
    tidy(&path, &by_number, now).expect("tidy files");
    assert!(!names(directory.path()).contains(compressed[0]));
    assert!(names(directory.path()).contains(compressed[1]));
}

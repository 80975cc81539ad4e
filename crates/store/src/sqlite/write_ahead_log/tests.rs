use std::fs;

use rusqlite::Connection;

use super::*;

/// A database in a directory of its own, whose log holds one row.
fn database(directory: &Path) -> (PathBuf, Connection) {
    let path = directory.join("db");
    let connection = Connection::open(&path).expect("a database");
    connection
        .pragma_update(None, "journal_mode", "WAL")
        .expect("a log");
    connection
        .execute_batch("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1)")
        .expect("a row");
    (path, connection)
}

fn length(path: &Path) -> u64 {
    fs::metadata(path.with_file_name("db-wal")).expect("a log").len()
}

#[test]
fn log_grows_in_steps_up_to_its_limit() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, connection) = database(directory.path());
    let mut log = WriteAheadLog::open(&path, 6 << 20).expect("its log");
    assert!(log.needs_extension(), "the log has no prepared space");
    let written = length(&path);
    log.extend();
    assert_eq!(length(&path), written + STEP_BYTES_MIN);
    connection
        .execute_batch("INSERT INTO t VALUES (2)")
        .expect("a row");
    assert_eq!(
        length(&path),
        written + STEP_BYTES_MIN,
        "the frame fits the prepared space"
    );
    assert!(!log.needs_extension());
    connection
        .execute_batch("PRAGMA wal_autocheckpoint = 0; INSERT INTO t VALUES (zeroblob(5 << 20))")
        .expect("a large row");
    assert!(log.needs_extension(), "the prepared space is used up");
    let written = length(&path);
    log.extend();
    assert_eq!(length(&path), written + STEP_BYTES_MAX);
    assert!(!log.needs_extension());
    connection
        .execute_batch("INSERT INTO t VALUES (zeroblob(5 << 20))")
        .expect("a large row");
    assert!(!log.needs_extension(), "the log is longer than its limit");
}

#[test]
fn extensions_double_the_log_within_limits() {
    let steps = [0, 20 << 10, (300 << 10) + 1, 2 << 20, 16 << 20].map(step_bytes);
    assert_eq!(steps, [256 << 10, 256 << 10, 320 << 10, 2 << 20, 4 << 20]);
    assert!(steps.iter().all(|step| step.is_multiple_of(BLOCK_BYTES as u64)));
}

#[test]
fn crash_preserves_exactly_the_written_state() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, connection) = database(directory.path());
    WriteAheadLog::open(&path, 6 << 20).expect("its log").extend();
    connection
        .execute_batch("INSERT INTO t VALUES (2)")
        .expect("a row");
    // The files as a crash leaves them: without the index of the log, which is in memory.
    let copy = tempfile::tempdir().expect("a directory");
    for name in ["db", "db-wal"] {
        fs::copy(directory.path().join(name), copy.path().join(name)).expect("a copy");
    }
    drop(connection);
    let recovered = Connection::open(copy.path().join("db")).expect("a database");
    let sum: i64 = recovered
        .query_row("SELECT sum(n) FROM t", [], |row| row.get(0))
        .expect("the rows");
    assert_eq!(sum, 3);
    let sound: String = recovered
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("a check");
    assert_eq!(sound, "ok");
}

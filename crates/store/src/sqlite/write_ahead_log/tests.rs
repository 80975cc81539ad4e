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
fn it_grows_by_steps_as_it_is_used_and_no_further_than_needed() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, connection) = database(directory.path());
    let mut log = WriteAheadLog::open(&path, 6 << 20).expect("its log");
    assert!(log.is_short(), "nothing is prepared");
    let written = length(&path);
    log.lengthen();
    assert_eq!(length(&path), written + STEP_BYTES);
    connection
        .execute_batch("INSERT INTO t VALUES (2)")
        .expect("a row");
    assert_eq!(length(&path), written + STEP_BYTES, "the frame is within");
    assert!(!log.is_short());
    connection
        .execute_batch("PRAGMA wal_autocheckpoint = 0; INSERT INTO t VALUES (zeroblob(5 << 20))")
        .expect("a large row");
    assert!(log.is_short(), "it is used up");
    log.lengthen();
    assert!(!log.is_short());
    connection
        .execute_batch("INSERT INTO t VALUES (zeroblob(5 << 20))")
        .expect("a large row");
    assert!(!log.is_short(), "it is longer than needed");
}

#[test]
fn a_crash_leaves_what_was_written_and_no_more() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, connection) = database(directory.path());
    WriteAheadLog::open(&path, 6 << 20).expect("its log").lengthen();
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

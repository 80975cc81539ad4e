//! Data directories with unexpected content, and concurrent use of a directory.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use bytes::Bytes;
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::{Value, Write};

struct TestDirectory(TempDir);

impl TestDirectory {
    fn new() -> TestDirectory {
        TestDirectory(tempfile::tempdir().expect("a directory"))
    }

    fn database(&self) -> PathBuf {
        self.0.path().join(DATABASE_FILE)
    }

    fn open(&self) -> Result<SqliteStore, StoreError> {
        SqliteStore::open(self.0.path(), SqliteOptions::default())
    }

    /// A store with one key, closed again, and a plain connection to its file.
    fn written(&self) -> Connection {
        let store = self.open().expect("a store");
        put(&store, "/things/a");
        drop(store);
        Connection::open(self.database()).expect("a connection")
    }

    fn refusal(&self) -> StoreError {
        self.open().err().expect("a refusal")
    }
}

fn put(store: &SqliteStore, key: &str) {
    let value = Value {
        bytes: Bytes::from_static(b"rv=;"),
        revision_at: Some(3),
    };
    let writes = vec![Write::Put(key.into(), value)];
    let transaction = Transaction {
        expectations: Vec::new(),
        writes,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(store.commit(transaction)).expect("a commit");
}

#[test]
fn rejects_second_store_in_one_directory() {
    let test = TestDirectory::new();
    let store = test.open().expect("a store");
    match test.refusal() {
        StoreError::InUse { directory } => assert_eq!(directory, test.0.path()),
        other => panic!("{other}"),
    }
    drop(store);
    assert!(test.open().is_ok());
}

#[test]
fn creates_directory_readable_by_owner_only() {
    let test = TestDirectory::new();
    let directory = test.0.path().join("new/deeper");
    SqliteStore::open(&directory, SqliteOptions::default()).expect("a store");
    let mode = directory.metadata().expect("the directory").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn write_ahead_log_is_synced() {
    let test = TestDirectory::new();
    let connection = test.written();
    let mode: String = connection
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .expect("the mode");
    assert_eq!(mode, "wal");
    let test = TestDirectory::new();
    let database = Database::open(&test.database()).expect("a database");
    assert_eq!(database.pragma("synchronous").expect("the level"), 2, "FULL");
}

#[test]
fn value_is_stored_without_its_revision() {
    let row = TestDirectory::new().written().query_row(
        "SELECT key, CAST(value AS TEXT), revision_at, created, modified FROM entries",
        [],
        |row| {
            let key: String = row.get(0)?;
            let value: String = row.get(1)?;
            let numbers: [i64; 3] = [row.get(2)?, row.get(3)?, row.get(4)?];
            Ok((key, value, numbers))
        },
    );
    assert_eq!(
        row.expect("the row"),
        ("/things/a".to_owned(), "rv=;".to_owned(), [3, 1, 1])
    );
}

#[test]
fn rejects_newer_layout() {
    let test = TestDirectory::new();
    test.written()
        .pragma_update(None, "user_version", SCHEMA_VERSION_OF_THE_FUTURE)
        .expect("a version");
    let refusal = test.refusal();
    assert!(matches!(refusal, StoreError::Corrupt { .. }));
    let text = refusal.to_string();
    assert!(text.contains("found 999 of a newer version"), "{text}");
    assert!(text.contains(&test.database().display().to_string()), "{text}");
}

const SCHEMA_VERSION_OF_THE_FUTURE: i64 = 999;

#[test]
fn rejects_database_of_another_program() {
    let test = TestDirectory::new();
    let connection = Connection::open(test.database()).expect("a connection");
    connection
        .execute_batch("CREATE TABLE cookies (crumbs INTEGER)")
        .expect("a table");
    drop(connection);
    let refusal = test.refusal();
    assert!(matches!(refusal, StoreError::Corrupt { .. }));
    assert!(
        refusal.to_string().contains("the database of another one"),
        "{refusal}"
    );
}

#[test]
fn reports_damaged_file() {
    let test = TestDirectory::new();
    std::fs::write(
        test.database(),
        b"no database at all, but long enough to have a header".repeat(100),
    )
    .expect("a file");
    assert!(matches!(test.refusal(), StoreError::Corrupt { .. }));
}

#[test]
fn reports_inconsistent_rows() {
    let damages = [
        "UPDATE entries SET revision_at = 5",
        "UPDATE entries SET revision_at = -1",
        "UPDATE entries SET modified = 2",
        "UPDATE entries SET modified = -1",
        "UPDATE meta SET value = 0",
    ];
    for damage in damages {
        let test = TestDirectory::new();
        test.written().execute_batch(damage).expect("the damage");
        let refusal = test.refusal();
        assert!(
            matches!(refusal, StoreError::Corrupt { .. }),
            "{damage}: {refusal}"
        );
    }
}

#[test]
fn error_names_directory_that_cannot_be_created() {
    let test = TestDirectory::new();
    let file = test.0.path().join("file");
    std::fs::write(&file, b"").expect("a file");
    let refusal = SqliteStore::open(file.join("under"), SqliteOptions::default())
        .err()
        .expect("a refusal");
    assert!(matches!(refusal, StoreError::Unavailable { .. }));
    assert!(
        refusal.to_string().contains(&file.display().to_string()),
        "{refusal}"
    );
}

#[test]
fn torn_log_yields_commits_before_the_tear() {
    const COMMITS: usize = 20;
    let test = TestDirectory::new();
    let store = test.open().expect("a store");
    (0..COMMITS).for_each(|number| put(&store, &format!("/things/{number:02}")));
    let log = std::fs::read(test.0.path().join(format!("{DATABASE_FILE}-wal"))).expect("the log");
    // The preallocated length does not count.
    let end = log.iter().rposition(|byte| *byte != 0).expect("a log");
    let log = &log[..=end];
    let mut counts = Vec::new();
    for tenths in 0..=10 {
        let copy = TestDirectory::new();
        std::fs::copy(test.database(), copy.database()).expect("a copy");
        let torn = &log[log.len() / 2..][..log.len() / 20 * tenths];
        let torn = [&log[..log.len() / 2], torn].concat();
        std::fs::write(copy.0.path().join(format!("{DATABASE_FILE}-wal")), torn).expect("a torn copy");
        let copy = copy.open().expect("a store");
        let listing = copy.index().list("/things/", None, None, None).expect("a list");
        let expected = (0..listing.entries.len()).map(|number| format!("/things/{number:02}"));
        assert!(
            listing
                .entries
                .iter()
                .map(|entry| entry.key.to_string())
                .eq(expected)
        );
        assert_eq!(listing.revision.0, listing.entries.len() as u64);
        counts.push(listing.entries.len());
    }
    assert!(counts.is_sorted() && counts.first() < counts.last(), "{counts:?}");
}

/// SQLite's pages, by default.
const PAGE_BYTES: usize = 4096;

#[test]
fn reports_damaged_page_at_any_position() {
    let test = TestDirectory::new();
    let store = test.open().expect("a store");
    (0..200).for_each(|number| put(&store, &format!("/things/{number:0400}")));
    let before = store.index().list("/", None, None, None).expect("a list");
    // Closing moves the log into the file.
    drop(store);
    let sound = std::fs::read(test.database()).expect("the file");
    let pages = sound.len() / PAGE_BYTES;
    assert!(pages > 20, "{pages}");
    let mut reports = 0;
    for page in 0..pages {
        let mut damaged = sound.clone();
        damaged[page * PAGE_BYTES..][..PAGE_BYTES].fill(0xa5);
        std::fs::write(test.database(), damaged).expect("damage");
        match test.open() {
            // A page that holds nothing.
            Ok(store) => assert_eq!(store.index().list("/", None, None, None).expect("a list"), before),
            Err(error) => {
                assert!(
                    matches!(error, StoreError::Corrupt { .. }),
                    "page {page}: {error}"
                );
                reports += 1;
            }
        }
    }
    assert!(reports > pages / 2, "{reports} of {pages}");
}

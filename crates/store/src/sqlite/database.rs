//! The database file: the current state with one row per key, and the newest revision.
//!
//! Values are stored without their revision, alongside the offset at which it is inserted; the column `modified` is
//! that revision. The history is not stored: after a restart, it begins with the current revision.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, TransactionBehavior, params};

use super::write_ahead_log::WriteAheadLog;
use crate::{Record, Revision, StoreError, Value, Write};

/// `PRAGMA user_version` of the schema below.
const SCHEMA_VERSION: i64 = 1;

/// `PRAGMA application_id`, "Port", which identifies databases of this program.
const APPLICATION_ID: i64 = 0x506f_7274;

const SCHEMA: &str = "
    CREATE TABLE entries (
        key TEXT NOT NULL PRIMARY KEY,
        value BLOB NOT NULL,
        revision_at INTEGER,
        created INTEGER NOT NULL,
        modified INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    INSERT INTO meta (name, value) VALUES ('revision', 0);
";

const PUT: &str = "
    INSERT INTO entries (key, value, revision_at, created, modified) VALUES (?1, ?2, ?3, ?4, ?4)
    ON CONFLICT (key) DO UPDATE
    SET value = excluded.value, revision_at = excluded.revision_at, modified = excluded.modified";
const DELETE: &str = "DELETE FROM entries WHERE key = ?1";
const SET_REVISION: &str = "UPDATE meta SET value = ?1 WHERE name = 'revision'";
const GET_REVISION: &str = "SELECT value FROM meta WHERE name = 'revision'";
const CLEAR: &str = "DELETE FROM entries";
const INSERT: &str =
    "INSERT INTO entries (key, value, revision_at, created, modified) VALUES (?1, ?2, ?3, ?4, ?5)";
const LOAD: &str = "SELECT key, value, revision_at, created, modified FROM entries ORDER BY key";

/// Pages of write-ahead log (16 MiB) after which a commit checkpoints it into the database file.
const CHECKPOINT_PAGES: i64 = 4_000;

/// Size of a page in the log in bytes: SQLite's default page size plus a frame header.
const LOGGED_PAGE_BYTES: u64 = 4_096 + 24;

/// Size in bytes to which an oversized write-ahead log is truncated.
const WAL_BYTES_MAX: i64 = 64 << 20;

/// Page cache in KiB; SQLite expects the negative number. The cache is small, because clients read from the index.
const PAGE_CACHE_KIB: i64 = -4_096;

/// Time that a commit waits for another program that has the file open.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// Rows between two reports of progress.
const PROGRESS_ROWS: usize = 1_000;

/// An open database with the current schema.
pub(crate) struct Database {
    connection: Connection,
    /// `None` if the database is opened for reading, or the log cannot be extended.
    log: Option<WriteAheadLog>,
}

impl Database {
    /// Opens the file, and creates it if needed.
    pub(crate) fn open(path: &Path) -> Result<Database, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let named = |error: rusqlite::Error| sqlite_error(path, &error);
        let connection = Connection::open_with_flags(path, flags).map_err(named)?;
        configure(&connection).map_err(named)?;
        let database = Database {
            connection,
            log: None,
        };
        let mut database = match database.pragma("user_version").map_err(named)? {
            SCHEMA_VERSION => database,
            0 => database.create_schema(path)?,
            version => return Err(unknown_layout(path, version)),
        };
        let log_bytes = CHECKPOINT_PAGES.unsigned_abs() * LOGGED_PAGE_BYTES;
        // Without preallocation, commits are slower but as safe.
        database.log = WriteAheadLog::open(path, log_bytes)
            .inspect_err(|error| tracing::debug!(%error, "write-ahead log not preallocated"))
            .ok();
        Ok(database)
    }

    /// Opens the file for reading at its current revision, regardless of concurrent writes.
    pub(super) fn open_for_reading(path: &Path) -> Result<Database, StoreError> {
        let named = |error: rusqlite::Error| sqlite_error(path, &error);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(named)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(named)?;
        let database = Database {
            connection,
            log: None,
        };
        match database.pragma("user_version").map_err(named)? {
            SCHEMA_VERSION => {}
            0 => {
                return Err(corruption_error(
                    path,
                    "expected a store of this program, found another database",
                ));
            }
            version => return Err(unknown_layout(path, version)),
        }
        database.connection.execute_batch("BEGIN").map_err(named)?;
        Ok(database)
    }

    /// Returns the faults that SQLite finds in the file, one per line.
    pub(super) fn integrity_faults(&self, path: &Path) -> Result<Vec<String>, StoreError> {
        let named = |error: rusqlite::Error| sqlite_error(path, &error);
        let mut check = self.connection.prepare("PRAGMA integrity_check").map_err(named)?;
        let lines = check
            .query_map([], |row| row.get::<_, String>(0))
            .map_err(named)?;
        let lines = lines.collect::<Result<Vec<_>, _>>().map_err(named)?;
        Ok(lines.into_iter().filter(|line| line != "ok").collect())
    }

    /// Loads all records, ascending by key, and returns the newest revision. An inconsistent row is an error.
    pub(super) fn load(&self, path: &Path, mut each: impl FnMut(Record)) -> Result<Revision, StoreError> {
        let newest = self.newest_revision(path)?;
        self.read(path, |record| {
            let is_sound = record.modified <= newest
                && record
                    .value
                    .revision_at
                    .is_none_or(|at| at <= record.value.bytes.len());
            if !is_sound {
                return Err(corruption_error(
                    path,
                    &format!("the row of {} is inconsistent", record.key),
                ));
            }
            each(record);
            Ok(())
        })?;
        Ok(newest)
    }

    /// Reads all rows unchecked, ascending by key.
    pub(super) fn read(
        &self,
        path: &Path,
        mut each: impl FnMut(Record) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let named = |error: rusqlite::Error| sqlite_error(path, &error);
        let mut statement = self.connection.prepare(LOAD).map_err(named)?;
        let mut rows = statement.query([]).map_err(named)?;
        while let Some(row) = rows.next().map_err(named)? {
            let (key, value) = stored_value(row).map_err(named)?;
            each(Record {
                key: key.into(),
                value,
                created: revision(row, 3).map_err(named)?,
                modified: revision(row, 4).map_err(named)?,
            })?;
        }
        Ok(())
    }

    /// Returns the newest revision; 0 for an empty database.
    pub(crate) fn newest_revision(&self, path: &Path) -> Result<Revision, StoreError> {
        self.connection
            .query_row(GET_REVISION, [], |row| revision(row, 0))
            .map_err(|error| sqlite_error(path, &error))
    }

    /// Replaces all data in one transaction and reports the number of written rows from time to time.
    pub(crate) fn replace(
        &mut self,
        path: &Path,
        records: &[Record],
        newest: Revision,
        mut progress: impl FnMut(usize),
    ) -> Result<(), StoreError> {
        let named = |error: rusqlite::Error| sqlite_error(path, &error);
        let whole = self.connection.transaction().map_err(named)?;
        {
            whole.execute(CLEAR, []).map_err(named)?;
            let mut insert = whole.prepare(INSERT).map_err(named)?;
            for (number, record) in records.iter().enumerate() {
                let Value { bytes, revision_at } = &record.value;
                let row = params![
                    &*record.key,
                    &**bytes,
                    revision_at.map(integer),
                    integer(record.created.0),
                    integer(record.modified.0)
                ];
                insert.execute(row).map_err(named)?;
                if (number + 1) % PROGRESS_ROWS == 0 {
                    progress(number + 1);
                }
            }
            whole.execute(SET_REVISION, [integer(newest.0)]).map_err(named)?;
        }
        whole.commit().map_err(named)
    }

    /// Closes the database so that all data is in its one file.
    pub(crate) fn close_as_single_file(self, path: &Path) -> Result<(), StoreError> {
        let named = |error: rusqlite::Error| sqlite_error(path, &error);
        let leave_log = self.connection.pragma_update(None, "journal_mode", "DELETE");
        leave_log.map_err(named)?;
        self.connection.close().map_err(|(_, error)| named(error))
    }

    /// Makes SQLite overwrite removed and replaced data in the file.
    pub(super) fn enable_secure_delete(&self, path: &Path) -> Result<(), StoreError> {
        let set = self.connection.pragma_update(None, "secure_delete", "ON");
        set.map_err(|error| sqlite_error(path, &error))
    }

    /// Rewrites the file without removed data, and truncates the log, which contains earlier data.
    pub(crate) fn rewrite_file(&self, path: &Path) -> Result<(), StoreError> {
        let empty_log = "PRAGMA wal_checkpoint(TRUNCATE)";
        let statements = format!("{empty_log}; VACUUM; {empty_log};");
        let rewritten = self.connection.execute_batch(&statements);
        rewritten.map_err(|error| sqlite_error(path, &error))
    }

    /// Writes transactions, each under its revision, and makes them durable atomically.
    pub(super) fn write<'t>(
        &mut self,
        transactions: impl Iterator<Item = (Revision, &'t [Write])>,
        newest: Revision,
    ) -> Result<(), rusqlite::Error> {
        // A transaction left open by a failed rollback would make every later one fail.
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        let group = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut put = group.prepare_cached(PUT)?;
            let mut delete = group.prepare_cached(DELETE)?;
            for (revision, writes) in transactions {
                for write in writes {
                    match write {
                        Write::Put(key, Value { bytes, revision_at }) => put.execute(params![
                            &**key,
                            &**bytes,
                            revision_at.map(integer),
                            integer(revision.0)
                        ])?,
                        Write::Delete { key, .. } => delete.execute([&**key])?,
                    };
                }
            }
            group.prepare_cached(SET_REVISION)?.execute([integer(newest.0)])?;
        }
        group.commit()
    }

    /// Prepares the next writes while no caller waits.
    pub(super) fn prepare_next_write(&mut self) -> Result<(), rusqlite::Error> {
        if let Some(log) = self.log.as_mut().filter(|log| log.needs_extension()) {
            let locked = self
                .connection
                .transaction_with_behavior(TransactionBehavior::Immediate)?;
            log.extend();
            locked.rollback()?;
        }
        Ok(())
    }

    fn create_schema(mut self, path: &Path) -> Result<Database, StoreError> {
        let named = |error: rusqlite::Error| sqlite_error(path, &error);
        let tables: i64 = self
            .connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(named)?;
        if tables > 0 {
            return Err(corruption_error(
                path,
                "expected a store of this program, found the database of another one; choose another directory",
            ));
        }
        let creation = self.connection.transaction().map_err(named)?;
        creation.execute_batch(SCHEMA).map_err(named)?;
        creation
            .pragma_update(None, "application_id", APPLICATION_ID)
            .map_err(named)?;
        creation
            .pragma_update(None, "user_version", SCHEMA_VERSION)
            .map_err(named)?;
        creation.commit().map_err(named)?;
        Ok(self)
    }

    /// Returns a numeric setting.
    pub(super) fn pragma(&self, name: &str) -> Result<i64, rusqlite::Error> {
        self.connection.pragma_query_value(None, name, |row| row.get(0))
    }
}

/// Returns true if an error means that the file itself is damaged.
pub(super) fn is_corruption(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

fn configure(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES_MAX)?;
    connection.pragma_update(None, "cache_size", PAGE_CACHE_KIB)
}

fn stored_value(row: &Row<'_>) -> Result<(String, Value), rusqlite::Error> {
    let bytes = Bytes::from(row.get::<_, Vec<u8>>(1)?);
    // A negative offset is invalid; it becomes one that is out of bounds.
    let revision_at = row
        .get::<_, Option<i64>>(2)?
        .map(|at| usize::try_from(at).unwrap_or(usize::MAX));
    Ok((row.get(0)?, Value { bytes, revision_at }))
}

fn revision(row: &Row<'_>, column: usize) -> Result<Revision, rusqlite::Error> {
    let stored: i64 = row.get(column)?;
    let value =
        u64::try_from(stored).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, stored))?;
    Ok(Revision(value))
}

/// SQLite's integers are signed. Revisions do not reach the limit: at a million per second it takes 292,000 years.
/// Lengths of values are far below.
fn integer(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

fn sqlite_error(path: &Path, error: &rusqlite::Error) -> StoreError {
    if is_corruption(error) || matches!(error, rusqlite::Error::IntegralValueOutOfRange(..)) {
        let reason =
            format!("{error}; if a server uses it, restore it from a backup with `portolan store restore`");
        return corruption_error(path, &reason);
    }
    StoreError::Unavailable {
        reason: format!("{}: {error}{}", path.display(), advice(error)),
    }
}

/// Returns the remedy for an error that is not the file's fault, as the end of a line.
pub(super) fn advice(error: &rusqlite::Error) -> &'static str {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "; free space on its disk",
        Some(ErrorCode::ReadOnly) => "; mount its disk read-write, or grant write access",
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            "; check the permissions and the free space of the disk"
        }
        Some(ErrorCode::SystemIoFailure) => "; check its disk, which is full or failing, and the kernel log",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "; stop the other program that has it open"
        }
        _ => "",
    }
}

fn unknown_layout(path: &Path, version: i64) -> StoreError {
    let reason = format!(
        "expected layout {SCHEMA_VERSION}, found {version} of a newer version; start that \
         version"
    );
    corruption_error(path, &reason)
}

fn corruption_error(path: &Path, reason: &str) -> StoreError {
    StoreError::Corrupt {
        reason: format!("{}: {reason}", path.display()),
    }
}

//! Reading of a database while a server writes it.

use std::path::Path;

use super::database::Database;
use crate::StoreError;
use crate::transfer::contents::Contents;

/// Reads all data of a database at one revision. Inconsistent rows are included.
pub(crate) fn read_file(path: &Path) -> Result<Contents, StoreError> {
    let database = Database::open_for_reading(path)?;
    let mut contents = Contents {
        revision: database.newest_revision(path)?,
        records: Vec::new(),
    };
    database.read(path, |record| {
        contents.records.push(record);
        Ok(())
    })?;
    Ok(contents)
}

/// Returns the faults that SQLite finds in the file.
pub(crate) fn integrity_faults(path: &Path) -> Result<Vec<String>, StoreError> {
    Database::open_for_reading(path)?.integrity_faults(path)
}

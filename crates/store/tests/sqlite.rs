//! The common test suite on the embedded engine.

#[macro_use]
mod engine_tests;

use std::sync::Arc;

use store::{SqliteOptions, SqliteStore, Store};
use tempfile::TempDir;

struct Sqlite(TempDir);

impl engine_tests::Engine for Sqlite {
    fn empty(_test: &str) -> Option<Sqlite> {
        Some(Sqlite(tempfile::tempdir().expect("a directory")))
    }

    fn open(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(self.0.path(), SqliteOptions::default()).expect("a store"))
    }
}

engine_tests!(super::Sqlite);

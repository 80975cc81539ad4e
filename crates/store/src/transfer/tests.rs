//! Copies between SQLite stores and snapshots.

use bytes::Bytes;

use super::*;
use crate::{Record, SqliteOptions, SqliteStore, Store, Transaction, Value, Write};

fn filled(directory: &std::path::Path) -> SqliteStore {
    let store = SqliteStore::open(directory, SqliteOptions::default()).expect("a store");
    for number in 0..300 {
        let value = Value {
            bytes: Bytes::from(format!("rv=;{number}")),
            revision_at: Some(3),
        };
        let write = Write::Put(format!("/things/{number:03}").into(), value);
        let transaction = Transaction {
            expectations: Vec::new(),
            writes: vec![write],
        };
        runtime().block_on(store.commit(transaction)).expect("a commit");
    }
    store
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
}

#[test]
fn restored_snapshot_gets_higher_revisions() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let store = filled(&path("store"));
    let before = store.index().list("/", None, None, None).expect("a list");
    runtime().block_on(async {
        let running = StoreLocation::Directory(path("store"));
        let contents = running.read().await.expect("contents");
        assert_eq!(contents.faults(), Vec::<String>::new());
        let snapshot = StoreLocation::File(path("snapshot"));
        let nothing = |_| {};
        snapshot
            .write(&contents, WriteOptions::default(), nothing)
            .await
            .expect("a snapshot");
        let again = snapshot.write(&contents, WriteOptions::default(), nothing).await;
        assert!(matches!(again, Err(TransferError::NotEmpty { .. })), "{again:?}");
        assert_eq!(snapshot.read().await.expect("contents"), contents);
        assert_eq!(
            snapshot.integrity_faults().expect("a check"),
            Vec::<String>::new()
        );
        assert_eq!(
            std::fs::read_dir(directory.path()).expect("files").count(),
            2,
            "one file"
        );

        let options = WriteOptions {
            overwrite: true,
            revision_leap: 1_000,
        };
        let refused = running.write(&contents, options, nothing).await;
        assert!(
            matches!(refused, Err(TransferError::Store(StoreError::InUse { .. }))),
            "{refused:?}"
        );
        let copy = StoreLocation::Directory(path("copy"));
        let written = copy
            .write(&contents, WriteOptions::default(), nothing)
            .await
            .expect("a copy");
        assert_eq!((written.records, written.revision), (300, before.revision));
        assert_eq!(copy.read().await.expect("contents"), contents);
        let refused = copy.write(&contents, WriteOptions::default(), nothing).await;
        assert!(
            matches!(refused, Err(TransferError::NotEmpty { .. })),
            "{refused:?}"
        );
        let written = copy
            .write(&contents, options, nothing)
            .await
            .expect("a restoration");
        assert_eq!(written.revision.0, before.revision.0 + 1_000);
    });
    drop(store);
    let restored = SqliteStore::open(path("copy"), SqliteOptions::default()).expect("a store");
    let after = restored.index().list("/", None, None, None).expect("a list");
    assert_eq!(after.entries, before.entries);
    assert!(
        restored.index().watch("/", before.revision).is_err(),
        "watches have to list anew"
    );
}

#[test]
fn reports_inconsistent_contents() {
    let record = |key: &str, created, modified, revision_at| Record {
        key: key.into(),
        value: Value {
            bytes: Bytes::from_static(b"ab"),
            revision_at,
        },
        created: Revision(created),
        modified: Revision(modified),
    };
    let contents = Contents {
        revision: Revision(5),
        records: vec![
            record("/b", 1, 1, None),
            record("/a", 3, 2, None),
            record("/c", 1, 6, Some(2)),
            record("/d", 1, 1, Some(3)),
        ],
    };
    let faults = contents.faults();
    assert_eq!(faults.len(), 4, "{faults:?}");
}

#[test]
fn error_names_missing_location() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = StoreLocation::File(directory.path().join("missing"));
    let refused = runtime().block_on(missing.read()).expect_err("a refusal");
    assert!(refused.to_string().contains("missing"), "{refused}");
    assert!(!directory.path().join("missing").exists());
}

#[test]
fn error_of_a_snapshot_advises_a_restoration_only_to_a_server() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("snapshot");
    std::fs::write(&path, b"no database at all, but long enough".repeat(300)).expect("a file");
    let refused = runtime()
        .block_on(StoreLocation::File(path).read())
        .expect_err("a refusal");
    assert!(
        refused.to_string().contains("if a server uses it, restore it"),
        "{refused}"
    );
}

//! Commits: atomicity, expectations, revisions.

use std::sync::Arc;

use store::{CommitError, Expectation, Revision, Store, Value, Write};

use super::{commit, delete, expecting, marked, plain, put, text, writes};

pub(crate) async fn put_reads_back(store: Arc<dyn Store>) {
    let before = store.index().revision();
    let revision = commit(&store, [put("/things/a", "1")]).await;
    assert!(revision > before);
    let entry = store.index().get("/things/a").expect("the entry");
    assert_eq!((&*entry.key, text(&entry.value)), ("/things/a", "1"));
    assert_eq!((entry.created, entry.modified), (revision, revision));
    assert_eq!(store.index().revision(), revision);
    assert_eq!(store.read_barrier().await.expect("a barrier"), revision);
    assert_eq!(store.index().get("/things/b"), None);
}

pub(crate) async fn all_keys_of_a_transaction_get_one_revision(store: Arc<dyn Store>) {
    commit(&store, [put("/things/old", "1")]).await;
    let revision = commit(
        &store,
        [
            put("/things/a", "1"),
            put("/others/b", "2"),
            delete("/things/old"),
        ],
    )
    .await;
    let modified = |key| store.index().get(key).map(|entry| entry.modified);
    assert_eq!(modified("/things/a"), Some(revision));
    assert_eq!(modified("/others/b"), Some(revision));
    assert_eq!(modified("/things/old"), None);
    assert_eq!(store.index().revision(), revision);
}

pub(crate) async fn failed_expectation_names_its_key_and_writes_nothing(store: Arc<dyn Store>) {
    let first = commit(&store, [put("/things/a", "1")]).await;
    let second = commit(&store, [put("/things/a", "2"), put("/things/b", "1")]).await;
    let cases = [
        ("/things/a", Expectation::Absent),
        ("/things/a", Expectation::At(first)),
        ("/things/a", Expectation::At(Revision(second.0 + 1))),
        ("/things/c", Expectation::Present),
        ("/things/c", Expectation::At(second)),
    ];
    for (key, expectation) in cases {
        let holds = ("/things/b", Expectation::At(second));
        let transaction = expecting(
            [holds, (key, expectation)],
            [put("/things/a", "9"), put("/things/d", "9")],
        );
        match store.commit(transaction).await {
            Err(CommitError::Conflict { key: named, current }) => {
                assert_eq!(&*named, key);
                assert_eq!(current, store.index().get(key));
            }
            other => panic!("{key} {expectation:?}: {other:?}"),
        }
        assert_eq!(store.index().revision(), second);
        assert_eq!(store.index().get("/things/d"), None);
        assert_eq!(
            store.index().get("/things/a").map(|entry| entry.modified),
            Some(second)
        );
    }
}

pub(crate) async fn expectations_may_concern_keys_that_are_not_written(store: Arc<dyn Store>) {
    let first = commit(&store, [put("/things/a", "1"), put("/things/b", "1")]).await;
    let all = [
        ("/things/a", Expectation::At(first)),
        ("/things/b", Expectation::Present),
        ("/things/c", Expectation::Absent),
    ];
    let second = store
        .commit(expecting(all, [put("/things/d", "1")]))
        .await
        .expect("all hold");
    assert!(second > first);
    // Expectations alone: a check without a new revision.
    assert_eq!(store.commit(expecting(all, [])).await.expect("all hold"), second);
}

pub(crate) async fn one_of_two_creators_wins(store: Arc<dyn Store>) {
    for round in 0..50 {
        let key = format!("/things/{round}");
        let create = |text| expecting([(&*key, Expectation::Absent)], [put(&key, text)]);
        let (left, right) = tokio::join!(store.commit(create("left")), store.commit(create("right")));
        let (won, lost, winner) = if left.is_ok() {
            (left, right, "left")
        } else {
            (right, left, "right")
        };
        let entry = store.index().get(&key).expect("the entry");
        assert_eq!(won.expect("one creator succeeds"), entry.modified);
        assert_eq!(text(&entry.value), winner);
        match lost {
            Err(CommitError::Conflict { current, .. }) => assert_eq!(current, Some(entry)),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) async fn deletion_of_an_absent_key_changes_nothing(store: Arc<dyn Store>) {
    let before = commit(&store, [put("/things/a", "1")]).await;
    assert_eq!(commit(&store, [delete("/things/b")]).await, before);
    let gone = commit(&store, [delete("/things/a"), delete("/things/b")]).await;
    assert!(gone > before);
    assert_eq!(commit(&store, [delete("/things/a")]).await, gone);
    assert_eq!(store.index().revision(), gone);
}

pub(crate) async fn rejects_malformed_transactions(store: Arc<dyn Store>) {
    let before = commit(&store, [put("/things/a", "1")]).await;
    let beyond = Value {
        revision_at: Some(3),
        ..plain("ab")
    };
    let malformed = [
        writes([put("/things/b", "1"), put("/things/b", "2")]),
        writes([put("/things/a", "1"), delete("/things/a")]),
        writes([
            put("/things/b", "1"),
            Write::Put("/things/c".into(), beyond.clone()),
        ]),
        writes([Write::Delete {
            key: "/things/a".into(),
            last: Some(beyond),
        }]),
    ];
    for transaction in malformed {
        let outcome = store.commit(transaction).await;
        assert!(
            matches!(outcome, Err(CommitError::Malformed { .. })),
            "{outcome:?}"
        );
    }
    assert_eq!(store.index().revision(), before);
    assert_eq!(store.index().get("/things/b"), None);
}

pub(crate) async fn revision_is_inserted_at_its_offset(store: Arc<dyn Store>) {
    let values = [
        marked("#"),
        marked("#after"),
        marked("before#"),
        marked("{rv:'#', x:1}"),
    ];
    let keys = ["/things/alone", "/things/first", "/things/last", "/things/within"];
    let puts = keys
        .into_iter()
        .zip(values)
        .map(|(key, value)| Write::Put(key.into(), value));
    let revision = commit(&store, puts).await;
    let expected = [
        format!("{revision}"),
        format!("{revision}after"),
        format!("before{revision}"),
        format!("{{rv:'{revision}', x:1}}"),
    ];
    for (key, expected) in keys.into_iter().zip(expected) {
        assert_eq!(text(&store.index().get(key).expect("the entry").value), expected);
    }
}

pub(crate) async fn creation_revision_is_kept_until_deletion(store: Arc<dyn Store>) {
    let created = commit(&store, [put("/things/a", "1")]).await;
    commit(&store, [put("/things/a", "2")]).await;
    assert_eq!(
        store.index().get("/things/a").map(|entry| entry.created),
        Some(created)
    );
    commit(&store, [delete("/things/a")]).await;
    let again = commit(&store, [put("/things/a", "3")]).await;
    assert_eq!(
        store.index().get("/things/a").map(|entry| entry.created),
        Some(again)
    );
}

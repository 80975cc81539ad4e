//! State that survives the process.

use store::{Store, StoreError, Write};

use super::{Engine, commit, delete, marked, put, text};

pub(crate) async fn all_data_survive_reopening(engine: &impl Engine) {
    let store = engine.open();
    let within = Write::Put("/things/marked".into(), marked("rv=#;"));
    let created = commit(&store, [put("/things/a", "1"), put("/things/b", "1"), within]).await;
    let changed = commit(&store, [put("/things/a", "2"), delete("/things/b")]).await;
    let whole = |store: &dyn Store| store.index().list("/", None, None, None).expect("a list");
    let before = whole(&*store);
    drop(store);

    let store = engine.open();
    let after = whole(&*store);
    assert_eq!(after, before);
    assert_eq!(after.entries.len(), 2);
    assert_eq!(after.revision, changed);
    let marked = store.index().get("/things/marked").expect("the entry");
    assert_eq!(
        (text(&marked.value), marked.modified),
        (&*format!("rv={created};"), created)
    );
}

pub(crate) async fn revisions_grow_after_deletion_and_compaction(engine: &impl Engine) {
    let mut newest = engine.open().index().revision();
    for _ in 0..3 {
        let store = engine.open();
        assert_eq!(store.index().revision(), newest);
        let put = commit(&store, [put("/things/a", "1")]).await;
        assert!(put > newest);
        newest = commit(&store, [delete("/things/a")]).await;
        assert!(newest > put);
        store.compact(newest).await.expect("a compaction");
        drop(store);
    }
    assert_eq!(engine.open().index().revision(), newest);
}

pub(crate) async fn history_starts_again(engine: &impl Engine) {
    let store = engine.open();
    let first = commit(&store, [put("/things/a", "1")]).await;
    let second = commit(&store, [put("/things/a", "2")]).await;
    drop(store);
    let store = engine.open();
    // Every engine can watch from the present. Older revisions are either kept, or reported as compacted.
    assert!(store.index().watch("/things/", second).is_ok());
    match store.index().watch("/things/", first) {
        Ok(mut watch) => assert_eq!(watch.next().await.expect("an event").revision, second),
        Err(StoreError::Compacted { oldest, .. }) => assert_eq!(oldest, second),
        Err(other) => panic!("{other}"),
    }
}

//! Reads: prefixes, pages, old revisions.

use std::sync::Arc;

use store::{Revision, Store, StoreError};

use super::{commit, delete, keys, put, text};

pub(crate) async fn list_is_ordered_and_has_the_prefix_only(store: Arc<dyn Store>) {
    let names = [
        "/things/b/2",
        "/things/a/1",
        "/thing/x",
        "/things2/x",
        "/things/b/10",
        "/others/a",
    ];
    let revision = commit(&store, names.map(|key| put(key, key))).await;
    let list = |prefix| store.index().list(prefix, None, None, None).expect("a list");
    assert_eq!(
        keys(&list("/things/").entries),
        ["/things/a/1", "/things/b/10", "/things/b/2"]
    );
    assert_eq!(keys(&list("/things/b/").entries), ["/things/b/10", "/things/b/2"]);
    assert_eq!(keys(&list("/things/b/2").entries), ["/things/b/2"]);
    assert_eq!(list("/").entries.len(), names.len());
    assert!(list("/nothing/").entries.is_empty());
    assert_eq!(list("/nothing/").revision, revision);
}

pub(crate) async fn pages_add_up_to_the_whole(store: Arc<dyn Store>) {
    let names: Vec<String> = (0..5_000).map(|number| format!("/things/{number:04}")).collect();
    commit(&store, names.iter().map(|key| put(key, key))).await;
    let pinned = commit(&store, [put("/things2/a", ""), put("/sthings/a", "")]).await;
    let mut seen = Vec::new();
    loop {
        let after = seen.last().cloned();
        let page = store
            .index()
            .list("/things/", Some(pinned), after.as_deref(), Some(700))
            .expect("a page");
        seen.extend(page.entries.iter().map(|entry| entry.key.to_string()));
        assert_eq!(page.remaining, names.len() - seen.len());
        assert_eq!(page.revision, pinned);
        if page.remaining == 0 {
            break;
        }
        // Changes between two pages do not appear in later pages.
        commit(&store, [delete("/things/4999"), put("/things/4998x", "new")]).await;
    }
    assert_eq!(seen, names);
}

pub(crate) async fn old_revisions_are_readable_until_compaction(store: Arc<dyn Store>) {
    let first = commit(&store, [put("/things/a", "1"), put("/things/b", "1")]).await;
    let second = commit(&store, [put("/things/a", "2")]).await;
    let third = commit(&store, [delete("/things/a"), put("/things/c", "3")]).await;
    let fourth = commit(&store, [put("/things/a", "4")]).await;
    let at = |key, revision| {
        store
            .index()
            .get_at(key, revision)
            .expect("readable")
            .map(|entry| text(&entry.value).to_owned())
    };
    let listed = |revision| {
        store
            .index()
            .list("/things/", Some(revision), None, None)
            .expect("readable")
            .entries
    };
    for compacted in [None, Some(second), Some(third), Some(fourth)] {
        if let Some(revision) = compacted {
            store.compact(revision).await.expect("a compaction");
            assert_eq!(store.index().oldest(), revision);
        }
        let past = [
            (first, Some("1"), 2),
            (second, Some("2"), 2),
            (third, None, 2),
            (fourth, Some("4"), 3),
        ];
        for (revision, value, count) in past {
            if compacted.is_none_or(|oldest| revision >= oldest) {
                assert_eq!(at("/things/a", revision).as_deref(), value);
                assert_eq!(listed(revision).len(), count);
            } else {
                let refused = store.index().get_at("/things/a", revision);
                assert!(
                    matches!(refused, Err(StoreError::Compacted { requested, .. }) if requested == revision)
                );
                let refused = store.index().list("/things/", Some(revision), None, None);
                assert!(
                    matches!(refused, Err(StoreError::Compacted { requested, .. }) if requested == revision)
                );
            }
        }
    }
    assert_eq!(keys(&listed(fourth)), ["/things/a", "/things/b", "/things/c"]);
}

pub(crate) async fn rejects_future_revisions(store: Arc<dyn Store>) {
    let current = commit(&store, [put("/things/a", "1")]).await;
    let future = Revision(current.0 + 1);
    let is_future = |error| matches!(error, StoreError::Future { requested, current: c } if requested == future && c == current);
    assert!(store.index().get_at("/things/a", future).is_err_and(is_future));
    assert!(
        store
            .index()
            .list("/things/", Some(future), None, None)
            .is_err_and(is_future)
    );
    assert!(store.compact(future).await.is_err_and(is_future));
}

pub(crate) async fn repeated_and_older_compactions_are_ignored(store: Arc<dyn Store>) {
    let first = commit(&store, [put("/things/a", "1")]).await;
    let second = commit(&store, [put("/things/a", "2")]).await;
    for revision in [second, second, first] {
        store.compact(revision).await.expect("a compaction");
        assert_eq!(store.index().oldest(), second);
    }
    assert_eq!(
        store.index().get("/things/a").map(|entry| entry.created),
        Some(first)
    );
}

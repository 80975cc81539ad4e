//! Watches: content, start and prefix of their events.

use std::sync::Arc;

use store::{EventKind, Revision, Store, StoreError, Write};

use super::{commit, delete, marked, next, put, text, waiting};

pub(crate) async fn events_describe_the_writes(store: Arc<dyn Store>) {
    let mut watch = store
        .index()
        .watch("/things/", store.index().revision())
        .expect("a watch");
    let first = commit(&store, [put("/things/a", "1")]).await;
    let second = commit(&store, [put("/things/a", "2")]).await;
    let third = commit(&store, [delete("/things/a")]).await;
    let fourth = commit(&store, [put("/things/a", "4")]).await;
    let expected = [
        (EventKind::Created, "1", None, first),
        (EventKind::Updated, "2", Some("1"), second),
        (EventKind::Deleted, "2", Some("2"), third),
        (EventKind::Created, "4", None, fourth),
    ];
    for (kind, value, previous, revision) in expected {
        let event = next(&mut watch).await;
        assert_eq!(
            (event.kind, &*event.key, text(&event.value)),
            (kind, "/things/a", value)
        );
        assert_eq!(
            (event.previous.as_ref().map(text), event.revision),
            (previous, revision)
        );
    }
}

pub(crate) async fn deletion_carries_the_last_value(store: Arc<dyn Store>) {
    let created = commit(&store, [Write::Put("/things/a".into(), marked("rv=#;"))]).await;
    let mut watch = store.index().watch("/things/", created).expect("a watch");
    let last = Some(marked("rv=#;deleted"));
    let gone = commit(
        &store,
        [Write::Delete {
            key: "/things/a".into(),
            last,
        }],
    )
    .await;
    let event = next(&mut watch).await;
    assert_eq!((event.kind, event.revision), (EventKind::Deleted, gone));
    assert_eq!(text(&event.value), format!("rv={gone};deleted"));
    assert_eq!(
        event.previous.as_ref().map(text),
        Some(&*format!("rv={created};"))
    );
}

pub(crate) async fn watch_resumes_after_any_revision(store: Arc<dyn Store>) {
    let start = store.index().revision();
    let mut revisions = vec![start];
    for number in 0..20 {
        let things = [
            put(&format!("/things/{number}"), "x"),
            put("/things/same", &number.to_string()),
        ];
        revisions.push(commit(&store, things).await);
    }
    for (position, after) in revisions.iter().enumerate() {
        let mut watch = store.index().watch("/things/", *after).expect("a watch");
        let seen: Vec<Revision> = waiting(&mut watch).iter().map(|event| event.revision).collect();
        let expected: Vec<Revision> = revisions
            .iter()
            .skip(position + 1)
            .flat_map(|revision| [*revision, *revision])
            .collect();
        assert_eq!(seen, expected);
    }
}

pub(crate) async fn watch_waits_for_events(store: Arc<dyn Store>) {
    let mut watch = store
        .index()
        .watch("/things/", store.index().revision())
        .expect("a watch");
    assert!(watch.try_next().expect("no error").is_none());
    let waiter = tokio::spawn(async move { next(&mut watch).await });
    commit(&store, [put("/others/a", "1")]).await;
    let revision = commit(&store, [put("/things/a", "1")]).await;
    let event = waiter.await.expect("the waiter");
    assert_eq!((&*event.key, event.revision), ("/things/a", revision));
}

pub(crate) async fn watch_has_the_prefix_only(store: Arc<dyn Store>) {
    let start = store.index().revision();
    let prefixes = [
        "",
        "/",
        "/things/",
        "/things/a/",
        "/things/a/1",
        "/thing",
        "/others/",
    ];
    let watch = |prefix: &str| store.index().watch(prefix, start).expect("a watch");
    let mut before = prefixes.map(watch);
    let keys = [
        "/things/a/1",
        "/things/a/2",
        "/things/b/1",
        "/things2/a",
        "/others/a",
    ];
    commit(&store, keys.map(|key| put(key, key))).await;
    commit(&store, keys.map(delete)).await;
    let mut after = prefixes.map(watch);
    for ((prefix, before), after) in prefixes.into_iter().zip(&mut before).zip(&mut after) {
        let matching = keys.into_iter().filter(|key| key.starts_with(prefix));
        let expected: Vec<&str> = matching.clone().chain(matching).collect();
        for watch in [before, after] {
            let events = waiting(watch);
            let seen: Vec<&str> = events.iter().map(|event| &*event.key).collect();
            assert_eq!(seen, expected, "prefix {prefix:?}");
        }
    }
}

pub(crate) async fn rejects_watch_from_compacted_history(store: Arc<dyn Store>) {
    let first = commit(&store, [put("/things/a", "1")]).await;
    let second = commit(&store, [put("/things/a", "2")]).await;
    let third = commit(&store, [put("/things/a", "3")]).await;
    store.compact(second).await.expect("a compaction");
    match store.index().watch("/things/", first).err() {
        Some(StoreError::Compacted { requested, oldest }) => assert_eq!((requested, oldest), (first, second)),
        other => panic!("{other:?}"),
    }
    let mut watch = store
        .index()
        .watch("/things/", second)
        .expect("the oldest is there");
    assert_eq!(next(&mut watch).await.revision, third);
}

pub(crate) async fn rejects_watch_from_the_future(store: Arc<dyn Store>) {
    let current = commit(&store, [put("/things/a", "1")]).await;
    let refused = store.index().watch("/things/", Revision(current.0 + 1)).err();
    assert!(matches!(refused, Some(StoreError::Future { .. })), "{refused:?}");
}

pub(crate) async fn slow_watch_is_cut_off_and_others_are_not(store: Arc<dyn Store>) {
    let start = commit(&store, [put("/others/a", "1")]).await;
    let watch = |prefix| store.index().watch(prefix, start).expect("a watch");
    let (mut slow, mut quick, mut unconcerned) = (watch("/things/"), watch("/things/"), watch("/others/"));
    let mut newest = start;
    for number in 0..10 {
        newest = commit(&store, [put("/things/a", &number.to_string())]).await;
        assert_eq!(next(&mut quick).await.revision, newest);
    }
    store.compact(newest).await.expect("a compaction");
    for _ in 0..2 {
        assert!(matches!(slow.next().await, Err(StoreError::Lagged { lag: 10 })));
    }
    let after = commit(&store, [put("/things/a", "after"), put("/others/a", "after")]).await;
    assert!(matches!(slow.next().await, Err(StoreError::Lagged { .. })));
    assert_eq!(next(&mut quick).await.revision, after);
    assert_eq!(next(&mut unconcerned).await.revision, after);
}

pub(crate) async fn progress_covers_writes_to_other_prefixes(store: Arc<dyn Store>) {
    let start = commit(&store, [put("/others/a", "1")]).await;
    let mut watch = store.index().watch("/things/a/", start).expect("a watch");
    assert_eq!(watch.progress(), start);
    let elsewhere = commit(&store, [put("/others/a", "2")]).await;
    assert_eq!(watch.progress(), elsewhere);
    let both = commit(&store, [put("/things/a/1", "1"), put("/things/a/2", "1")]).await;
    assert_eq!(watch.progress(), elsewhere, "neither of both was delivered");
    next(&mut watch).await;
    assert_eq!(watch.progress(), elsewhere, "one of both was delivered");
    next(&mut watch).await;
    assert_eq!(watch.progress(), both);
}

pub(crate) async fn watch_ends_when_the_store_is_closed(store: Arc<dyn Store>) {
    let mut watch = store
        .index()
        .watch("/things/", store.index().revision())
        .expect("a watch");
    let revision = commit(&store, [put("/things/a", "1")]).await;
    drop(store);
    assert_eq!(next(&mut watch).await.revision, revision);
    assert!(matches!(watch.next().await, Err(StoreError::Unavailable { .. })));
}

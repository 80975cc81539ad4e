//! Concurrent commits, watches and reads.

use std::sync::Arc;

use store::{CommitError, Expectation, Revision, Store};

use super::{commit, expecting, next, put, text};

const COMMITTERS: usize = 16;
const COMMITS_EACH: usize = 50;

pub(crate) async fn every_watch_sees_every_event_in_order(store: Arc<dyn Store>) {
    let start = store.index().revision();
    let watcher = |prefix: &str| {
        let mut watch = store.index().watch(prefix, start).expect("a watch");
        let prefix = prefix.to_owned();
        tokio::spawn(async move {
            let mut seen = Vec::new();
            let expected = if prefix == "/" { 2 } else { 1 } * COMMITTERS * COMMITS_EACH;
            while seen.len() < expected {
                seen.push(next(&mut watch).await);
            }
            seen
        })
    };
    let watchers = ["/things/", "/others/", "/", "/things/", "/"].map(watcher);
    let committer = |number: usize| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut revisions = Vec::new();
            for round in 0..COMMITS_EACH {
                let name = format!("{number}-{round}");
                let both = [
                    put(&format!("/things/{name}"), &name),
                    put(&format!("/others/{name}"), &name),
                ];
                revisions.push(commit(&store, both).await);
            }
            revisions
        })
    };
    let mut revisions = Vec::new();
    for committer in (0..COMMITTERS).map(committer).collect::<Vec<_>>() {
        let own = committer.await.expect("a committer");
        assert!(
            own.is_sorted_by(|earlier, later| earlier < later),
            "a later commit has a larger revision"
        );
        revisions.extend(own);
    }
    revisions.sort_unstable();
    assert!(
        revisions.is_sorted_by(|earlier, later| earlier < later),
        "no revision is given twice"
    );
    for watcher in watchers {
        let events = watcher.await.expect("a watcher");
        let mut seen: Vec<Revision> = events.iter().map(|event| event.revision).collect();
        assert!(seen.is_sorted());
        seen.dedup();
        assert_eq!(seen, revisions);
    }
}

pub(crate) async fn no_increment_is_lost(store: Arc<dyn Store>) {
    commit(&store, [put("/counters/a", "0")]).await;
    let increment = |_| {
        let store = store.clone();
        tokio::spawn(async move {
            for _ in 0..COMMITS_EACH {
                while !try_increment(&store).await {}
            }
        })
    };
    for task in (0..4).map(increment).collect::<Vec<_>>() {
        task.await.expect("an incrementer");
    }
    let value = store.index().get("/counters/a").expect("the counter").value;
    assert_eq!(text(&value), (4 * COMMITS_EACH).to_string());
}

async fn try_increment(store: &Arc<dyn Store>) -> bool {
    let entry = store.index().get("/counters/a").expect("the counter");
    let count: usize = text(&entry.value).parse().expect("a number");
    let unchanged = [("/counters/a", Expectation::At(entry.modified))];
    match store
        .commit(expecting(
            unchanged,
            [put("/counters/a", &(count + 1).to_string())],
        ))
        .await
    {
        Ok(_) => true,
        Err(CommitError::Conflict { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

pub(crate) async fn readers_see_transactions_as_a_whole(store: Arc<dyn Store>) {
    let all = |text: &str| ["/pairs/left", "/pairs/middle", "/pairs/right"].map(|key| put(key, text));
    commit(&store, all("start")).await;
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            for round in 0..300 {
                commit(&store, all(&round.to_string())).await;
            }
        })
    };
    let mut listings = 0;
    while !writer.is_finished() || listings == 0 {
        let listing = store.index().list("/pairs/", None, None, None).expect("a list");
        let values: Vec<&str> = listing.entries.iter().map(|entry| text(&entry.value)).collect();
        assert_eq!(values, [values[0]; 3]);
        assert!(
            listing
                .entries
                .iter()
                .all(|entry| entry.modified <= listing.revision)
        );
        listings += 1;
        tokio::task::yield_now().await;
    }
    writer.await.expect("the writer");
}

//! Behaviour that all engines share, as functions of a store; `engine_tests!(Engine)` makes a test of each.

pub(crate) mod concurrency;
pub(crate) mod lists;
pub(crate) mod reopening;
pub(crate) mod transactions;
pub(crate) mod watches;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::{Entry, Event, Expectation, Key, Revision, Store, Transaction, Value, Watch, Write};

/// Timeout of a test that hangs, far above the duration of each.
const HANG_LIMIT: Duration = Duration::from_secs(120);

/// Location of a store, empty at first, deleted with this value.
pub(crate) trait Engine: Sized {
    /// Returns an empty location; `None`, with a message, if this host cannot have one.
    fn empty(test: &str) -> Option<Self>;
    /// Opens the store at the location. An earlier instance has been dropped.
    fn open(&self) -> Arc<dyn Store>;
}

macro_rules! engine_tests {
    ($engine:ty) => {
        engine_tests!($engine, transactions: store {
            put_reads_back
            all_keys_of_a_transaction_get_one_revision
            failed_expectation_names_its_key_and_writes_nothing
            expectations_may_concern_keys_that_are_not_written
            one_of_two_creators_wins
            deletion_of_an_absent_key_changes_nothing
            rejects_malformed_transactions
            revision_is_inserted_at_its_offset
            creation_revision_is_kept_until_deletion
        });
        engine_tests!($engine, lists: store {
            list_is_ordered_and_has_the_prefix_only
            pages_add_up_to_the_whole
            old_revisions_are_readable_until_compaction
            rejects_future_revisions
            repeated_and_older_compactions_are_ignored
        });
        engine_tests!($engine, watches: store {
            events_describe_the_writes
            deletion_carries_the_last_value
            watch_resumes_after_any_revision
            watch_waits_for_events
            watch_has_the_prefix_only
            rejects_watch_from_compacted_history
            rejects_watch_from_the_future
            slow_watch_is_cut_off_and_others_are_not
            progress_covers_writes_to_other_prefixes
            watch_ends_when_the_store_is_closed
        });
        engine_tests!($engine, concurrency: store {
            every_watch_sees_every_event_in_order
            no_increment_is_lost
            readers_see_transactions_as_a_whole
        });
        engine_tests!($engine, reopening: engine {
            all_data_survive_reopening
            revisions_grow_after_deletion_and_compaction
            history_starts_again
        });
    };
    ($engine:ty, $module:ident: store { $($case:ident)* }) => {
        mod $module {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let name = concat!(stringify!($module), "::", stringify!($case));
                let Some(engine) = <$engine as crate::engine_tests::Engine>::empty(name) else {
                    return;
                };
                let store = crate::engine_tests::Engine::open(&engine);
                crate::engine_tests::guarded(crate::engine_tests::$module::$case(store)).await;
            })*
        }
    };
    ($engine:ty, $module:ident: engine { $($case:ident)* }) => {
        mod $module {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let name = concat!(stringify!($module), "::", stringify!($case));
                let Some(engine) = <$engine as crate::engine_tests::Engine>::empty(name) else {
                    return;
                };
                crate::engine_tests::guarded(crate::engine_tests::$module::$case(&engine)).await;
            })*
        }
    };
}

/// Runs a case with a timeout.
pub(crate) async fn guarded(case: impl Future<Output = ()>) {
    tokio::time::timeout(HANG_LIMIT, case)
        .await
        .expect("the case hangs");
}

/// A value without a revision.
pub(crate) fn plain(text: &str) -> Value {
    Value {
        bytes: Bytes::copy_from_slice(text.as_bytes()),
        revision_at: None,
    }
}

/// A value with `#` in the place of the revision.
pub(crate) fn marked(text: &str) -> Value {
    let at = text.find('#').expect("a # in the text");
    Value {
        bytes: Bytes::from(text.replacen('#', "", 1)),
        revision_at: Some(at),
    }
}

pub(crate) fn put(key: &str, text: &str) -> Write {
    Write::Put(key.into(), plain(text))
}

pub(crate) fn delete(key: &str) -> Write {
    Write::Delete {
        key: key.into(),
        last: None,
    }
}

pub(crate) fn writes(writes: impl IntoIterator<Item = Write>) -> Transaction {
    Transaction {
        expectations: Vec::new(),
        writes: writes.into_iter().collect(),
    }
}

pub(crate) fn expecting<'k>(
    expectations: impl IntoIterator<Item = (&'k str, Expectation)>,
    writes: impl IntoIterator<Item = Write>,
) -> Transaction {
    let expectations = expectations
        .into_iter()
        .map(|(key, expectation)| (Key::from(key), expectation));
    Transaction {
        expectations: expectations.collect(),
        writes: writes.into_iter().collect(),
    }
}

/// Commits writes without preconditions.
pub(crate) async fn commit(store: &Arc<dyn Store>, changes: impl IntoIterator<Item = Write>) -> Revision {
    store
        .commit(writes(changes))
        .await
        .expect("an unconditional commit")
}

pub(crate) async fn next(watch: &mut Watch) -> Arc<Event> {
    watch.next().await.expect("an event")
}

/// Returns the events so far.
pub(crate) fn waiting(watch: &mut Watch) -> Vec<Arc<Event>> {
    std::iter::from_fn(|| watch.try_next().expect("no error")).collect()
}

pub(crate) fn keys(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| &*entry.key).collect()
}

pub(crate) fn text(bytes: &Bytes) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

//! What every engine of the store must do, as functions of a store; `battery!(Engine)` makes a test of each.

pub mod concurrency;
pub mod lists;
pub mod reopening;
pub mod transactions;
pub mod watches;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::{Entry, Event, Expectation, Key, Revision, Store, Transaction, Value, Watch, Write};

/// Ends a test that would hang; far beyond what any of them takes.
const HANG_LIMIT: Duration = Duration::from_secs(120);

/// A place where a store lives, empty at first, gone with this value.
pub trait Engine: Sized {
    /// An empty place; `None` if this machine has none, which is said by the name of the test.
    fn empty(test: &str) -> Option<Self>;
    /// Opens the store that lives there; the one opened before has been dropped.
    fn open(&self) -> Arc<dyn Store>;
}

macro_rules! battery {
    ($engine:ty) => {
        battery!($engine, transactions: store {
            a_put_is_read_back
            all_keys_of_a_transaction_get_one_revision
            a_failed_expectation_names_its_key_and_writes_nothing
            expectations_look_at_keys_that_are_not_written
            one_of_two_creators_wins
            deleting_an_absent_key_changes_nothing
            a_malformed_transaction_is_refused
            the_revision_stands_where_the_value_says
            creation_is_remembered_until_deletion
        });
        battery!($engine, lists: store {
            a_list_is_ordered_and_keeps_to_its_prefix
            pages_add_up_to_the_whole
            the_past_is_readable_until_compaction
            the_future_is_not_readable
            compacting_twice_or_backwards_is_harmless
        });
        battery!($engine, watches: store {
            events_tell_what_happened
            a_deletion_shows_the_last_value
            a_watch_resumes_after_any_revision
            a_watch_waits_for_what_comes
            a_watch_keeps_to_its_prefix
            a_watch_from_forgotten_history_is_refused
            a_watch_from_the_future_is_refused
            a_slow_watch_is_cut_and_others_are_not
            progress_covers_what_others_wrote
            a_watch_ends_when_the_store_is_closed
        });
        battery!($engine, concurrency: store {
            every_watch_sees_every_event_in_order
            no_increment_is_lost
            readers_see_whole_transactions
        });
        battery!($engine, reopening: engine {
            everything_is_there_after_reopening
            revisions_go_on_after_deletion_and_compaction
            history_begins_anew
        });
    };
    ($engine:ty, $module:ident: store { $($case:ident)* }) => {
        mod $module {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let name = concat!(stringify!($module), "::", stringify!($case));
                let Some(engine) = <$engine as crate::battery::Engine>::empty(name) else {
                    return;
                };
                let store = crate::battery::Engine::open(&engine);
                crate::battery::guarded(crate::battery::$module::$case(store)).await;
            })*
        }
    };
    ($engine:ty, $module:ident: engine { $($case:ident)* }) => {
        mod $module {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let name = concat!(stringify!($module), "::", stringify!($case));
                let Some(engine) = <$engine as crate::battery::Engine>::empty(name) else {
                    return;
                };
                crate::battery::guarded(crate::battery::$module::$case(&engine)).await;
            })*
        }
    };
}

/// Runs a case, failing it if it hangs.
pub async fn guarded(case: impl Future<Output = ()>) {
    tokio::time::timeout(HANG_LIMIT, case)
        .await
        .expect("the case hangs");
}

/// A value without a place for its revision.
pub fn plain(text: &str) -> Value {
    Value {
        bytes: Bytes::copy_from_slice(text.as_bytes()),
        revision_at: None,
    }
}

/// A value in whose text `#` stands for the revision.
pub fn marked(text: &str) -> Value {
    let at = text.find('#').expect("a # in the text");
    Value {
        bytes: Bytes::from(text.replacen('#', "", 1)),
        revision_at: Some(at),
    }
}

pub fn put(key: &str, text: &str) -> Write {
    Write::Put(key.into(), plain(text))
}

pub fn delete(key: &str) -> Write {
    Write::Delete {
        key: key.into(),
        last: None,
    }
}

pub fn writes(writes: impl IntoIterator<Item = Write>) -> Transaction {
    Transaction {
        expectations: Vec::new(),
        writes: writes.into_iter().collect(),
    }
}

pub fn expecting<'k>(
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

/// Commits writes that nothing stands against.
pub async fn commit(store: &Arc<dyn Store>, changes: impl IntoIterator<Item = Write>) -> Revision {
    store
        .commit(writes(changes))
        .await
        .expect("an unconditional commit")
}

pub async fn next(watch: &mut Watch) -> Arc<Event> {
    watch.next().await.expect("an event")
}

/// Returns the events so far.
pub fn waiting(watch: &mut Watch) -> Vec<Arc<Event>> {
    std::iter::from_fn(|| watch.try_next().expect("no error")).collect()
}

pub fn keys(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| &*entry.key).collect()
}

pub fn text(bytes: &Bytes) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

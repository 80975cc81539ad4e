//! Model, trees and log behind one lock. No task waits while it holds the lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use api::object::ObjectKey;
use explain::Kind;
use jiff::Timestamp;
use tokio::sync::watch;

use super::Tree;
use super::change_log::ChangeLog;
use super::watched::WATCHED;
use crate::view::model::Model;

/// State of the caches.
#[derive(Debug)]
pub(super) struct State {
    /// Rows.
    pub model: Model,
    /// Reduced objects for examinations. A kind without an entry is unknown.
    pub trees: BTreeMap<Kind, BTreeMap<ObjectKey, Tree>>,
    /// Recent changes.
    pub log: ChangeLog,
    /// True if objects changed since the latest examination began.
    pub is_unexamined: bool,
    /// Watched kinds with a complete list.
    complete: BTreeSet<Kind>,
    /// True after the first list of the kinds that are not watched.
    has_lists: bool,
    /// True after the rows of the initial lists were computed.
    has_rows: bool,
}

impl State {
    /// Returns a state without objects. Revisions begin at the time, so that they grow over restarts.
    pub(super) fn new(cluster: &str, now: Timestamp) -> Self {
        let revision = u64::try_from(now.as_millisecond()).unwrap_or_default();
        Self {
            model: Model::new(cluster, revision),
            trees: BTreeMap::new(),
            log: ChangeLog::new(revision),
            is_unexamined: true,
            complete: BTreeSet::new(),
            has_lists: false,
            has_rows: false,
        }
    }

    /// Returns true if all initial lists are complete.
    fn has_objects(&self) -> bool {
        self.has_lists && self.complete.len() == WATCHED.len()
    }

    /// Returns true if the rows of the initial lists are complete.
    pub(super) fn is_synced(&self) -> bool {
        self.has_rows
    }

    /// Records that the list of a watched kind is complete.
    pub(super) fn set_complete(&mut self, kind: Kind) {
        self.complete.insert(kind);
        self.trees.entry(kind).or_default();
        self.is_unexamined = true;
    }

    /// Replaces a listed kind. `None` if the kind cannot be read.
    pub(super) fn set_listed(&mut self, kind: Kind, objects: Option<BTreeMap<ObjectKey, Tree>>) {
        let earlier = match objects.clone() {
            Some(objects) => self.trees.insert(kind, objects),
            None => self.trees.remove(&kind),
        };
        self.is_unexamined |= earlier != objects;
    }

    /// Records that each listed kind was read, or cannot be read.
    pub(super) fn set_listed_all(&mut self) {
        self.has_lists = true;
    }

    /// Adds or replaces the tree of an object. Returns false if it is the same as before.
    pub(super) fn put_tree(&mut self, kind: Kind, key: ObjectKey, tree: Tree) -> bool {
        let objects = self.trees.entry(kind).or_default();
        let is_same = objects.get(&key).is_some_and(|earlier| *earlier == tree);
        if !is_same {
            objects.insert(key, tree);
            self.is_unexamined = true;
        }
        !is_same
    }

    /// Removes the tree of an object.
    pub(super) fn remove_tree(&mut self, kind: Kind, key: &ObjectKey) {
        if let Some(objects) = self.trees.get_mut(&kind) {
            self.is_unexamined |= objects.remove(key).is_some();
        }
    }
}

/// State that tasks share; absent without readers.
#[derive(Debug)]
pub(super) struct SharedFeed {
    state: Mutex<Option<State>>,
    revision: watch::Sender<u64>,
}

impl Default for SharedFeed {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            revision: watch::Sender::new(0),
        }
    }
}

impl SharedFeed {
    /// Sets a new state.
    pub(super) fn begin(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
    }

    /// Drops the state.
    pub(super) fn end(&self) {
        let dropped = self.state.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(dropped);
    }

    /// Calls a function with the state. `None` if there is no state.
    pub(super) fn with<R>(&self, call: impl FnOnce(&mut State) -> R) -> Option<R> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.as_mut().map(call)
    }

    /// Calls a function with the state if it is complete.
    pub(super) fn synced<R>(&self, call: impl FnOnce(&State) -> R) -> Option<R> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.as_ref().filter(|state| state.is_synced()).map(call)
    }

    /// Appends a change to the log if rows changed. Returns false while the caches are incomplete.
    pub(super) fn publish(&self, now: Timestamp) -> bool {
        let published = self.with(|state| {
            if !state.has_objects() {
                return (false, None);
            }
            // Before the first snapshot, readers do not need single changes.
            if !std::mem::replace(&mut state.has_rows, true) {
                while state.model.change(now).is_some() || state.model.is_marked() {}
                state.log = ChangeLog::new(state.model.revision());
                return (true, Some(state.model.revision()));
            }
            let Some(change) = state.model.change(now) else {
                return (true, None);
            };
            if let Err(error) = state.log.push(&change) {
                tracing::error!(%error, "change of the chart not encoded");
                // Readers take a new snapshot.
                state.log = ChangeLog::new(change.revision);
            }
            (true, Some(change.revision))
        });
        let (is_synced, revision) = published.unwrap_or_default();
        if let Some(revision) = revision {
            self.revision.send_replace(revision);
        }
        is_synced
    }

    /// Ends a step of the history.
    pub(super) fn end_step(&self, now: Timestamp) {
        self.with(|state| state.model.end_step(now));
    }

    /// Returns a receiver of the latest revision.
    pub(super) fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }
}

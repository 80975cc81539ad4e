//! The zone of the cluster: answers come from the live index, or from a snapshot while the initial lists are not
//! complete.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::records::{Index, Resolution, Scratch};
use crate::wire::{Name, Reply, ResponseCode};

/// The zone of the cluster.
#[derive(Debug)]
pub struct Zone {
    live: Arc<Index>,
    snapshot: RwLock<Option<Arc<Index>>>,
    /// True if there is a snapshot; it avoids the lock.
    has_snapshot: AtomicBool,
    /// Records of the Services that the clusters of a set export.
    clusterset: Option<Arc<Index>>,
}

/// State that the zone answers from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    /// No data: queries fail.
    Unknown,
    /// The snapshot from before the start.
    Snapshot,
    /// The live index, which watches keep current.
    Live,
}

impl Zone {
    /// Creates a zone with a live index.
    pub fn new(live: Arc<Index>) -> Self {
        Self {
            live,
            snapshot: RwLock::default(),
            has_snapshot: AtomicBool::new(false),
            clusterset: None,
        }
    }

    /// Adds the zone of a set of clusters.
    #[must_use]
    pub fn with_clusterset(self, index: Arc<Index>) -> Self {
        Self {
            clusterset: Some(index),
            ..self
        }
    }

    /// Returns the live indexes: that of the cluster, and that of a set of clusters if there is one.
    pub(crate) fn live_indexes(&self) -> impl Iterator<Item = &Index> {
        std::iter::once(&self.live)
            .chain(&self.clusterset)
            .map(Arc::as_ref)
    }

    /// Returns the index of the zone of a set of clusters.
    pub fn clusterset(&self) -> Option<&Arc<Index>> {
        self.clusterset.as_ref()
    }

    /// Returns the live index.
    pub fn live(&self) -> &Arc<Index> {
        &self.live
    }

    /// Returns the index that the zone answers from, if there is one.
    pub fn current_index(&self) -> Option<Arc<Index>> {
        match self.state() {
            ZoneState::Live => Some(self.live.clone()),
            ZoneState::Snapshot => self.snapshot(),
            ZoneState::Unknown => None,
        }
    }

    /// Sets or removes the snapshot that the zone answers from until the live index is synced. Only positive
    /// answers come from it: a missing name may have been created since.
    pub fn set_snapshot(&self, index: Option<Arc<Index>>) {
        let has = index.is_some();
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = index;
        self.has_snapshot.store(has, Ordering::Release);
    }

    /// Returns the state that the zone answers from.
    pub fn state(&self) -> ZoneState {
        if self.live.is_synced() {
            ZoneState::Live
        } else if self.has_snapshot.load(Ordering::Acquire) {
            ZoneState::Snapshot
        } else {
            ZoneState::Unknown
        }
    }

    /// Writes the records of the cluster that answer the query of `reply`.
    pub fn resolve(&self, reply: &mut Reply<'_>, scratch: &mut Scratch) -> Resolution {
        match (self.resolve_in_cluster(reply, scratch), &self.clusterset) {
            (Resolution::OutsideZone, Some(clusterset)) => clusterset.resolve(reply, scratch),
            (resolution, _) => resolution,
        }
    }

    fn resolve_in_cluster(&self, reply: &mut Reply<'_>, scratch: &mut Scratch) -> Resolution {
        if self.state() != ZoneState::Snapshot {
            return self.live.resolve(reply, scratch);
        }
        let Some(index) = self.snapshot() else {
            return self.live.resolve(reply, scratch);
        };
        let before = reply.savepoint();
        match index.resolve(reply, scratch) {
            Resolution::Complete(ResponseCode::NoError) if !reply.is_empty() => {
                Resolution::Complete(ResponseCode::NoError)
            }
            Resolution::Complete(_) => {
                reply.rollback(before);
                Resolution::Complete(ResponseCode::ServerFailure)
            }
            other => other,
        }
    }

    /// Writes that the query name is an alias of `target`, which is in the zone, with the addresses of the target.
    /// Returns `None` if the target does not exist or the zone is not synced.
    pub fn answer_with_alias(
        &self,
        reply: &mut Reply<'_>,
        scratch: &mut Scratch,
        target: &Name,
    ) -> Option<Resolution> {
        match self.state() {
            ZoneState::Live => self.live.answer_with_alias(reply, scratch, target),
            ZoneState::Snapshot | ZoneState::Unknown => None,
        }
    }

    fn snapshot(&self) -> Option<Arc<Index>> {
        self.snapshot
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

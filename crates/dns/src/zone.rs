//! The cluster's zone as it is served: from the live index, or while that is not complete and the API is away,
//! from the last good state.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::records::{Index, Resolution, Scratch};
use crate::wire::{Name, Reply, ResponseCode};

/// The zone.
#[derive(Debug)]
pub struct Zone {
    live: Arc<Index>,
    last_good: RwLock<Option<Arc<Index>>>,
    /// Whether the last good state is there; spares the lock.
    has_last_good: AtomicBool,
}

/// How much is known of the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// Nothing that could be answered.
    None,
    /// The last good state, from before the start.
    LastGood,
    /// Everything, kept up by watches.
    Live,
}

impl Zone {
    /// The zone of an index that is kept up.
    pub fn new(live: Arc<Index>) -> Self {
        Self {
            live,
            last_good: RwLock::default(),
            has_last_good: AtomicBool::new(false),
        }
    }

    /// The index that is kept up.
    pub fn live(&self) -> &Arc<Index> {
        &self.live
    }

    /// The index that is answered from, if there is one.
    pub fn answered_from(&self) -> Option<Arc<Index>> {
        match self.knowledge() {
            Knowledge::Live => Some(self.live.clone()),
            Knowledge::LastGood => self.last_good(),
            Knowledge::None => None,
        }
    }

    /// Serves a state from before the start until the live index is complete. Only what exists in it is
    /// answered: what does not may have come since.
    pub fn set_last_good(&self, index: Option<Arc<Index>>) {
        let has = index.is_some();
        *self.last_good.write().unwrap_or_else(PoisonError::into_inner) = index;
        self.has_last_good.store(has, Ordering::Release);
    }

    /// How much is known.
    pub fn knowledge(&self) -> Knowledge {
        if self.live.is_synced() {
            Knowledge::Live
        } else if self.has_last_good.load(Ordering::Acquire) {
            Knowledge::LastGood
        } else {
            Knowledge::None
        }
    }

    /// Writes the answer to the query of `reply`, as far as the cluster's records go.
    pub fn resolve(&self, reply: &mut Reply<'_>, scratch: &mut Scratch) -> Resolution {
        if self.knowledge() != Knowledge::LastGood {
            return self.live.resolve(reply, scratch);
        }
        let Some(index) = self.last_good() else {
            return self.live.resolve(reply, scratch);
        };
        let before = reply.mark();
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

    /// Adds to the reply that the name asked for is an alias of `target`, which is in the zone, with the
    /// target's addresses. Nothing if the target does not exist, or that is not known.
    pub fn lead_to(&self, reply: &mut Reply<'_>, scratch: &mut Scratch, target: &Name) -> Option<Resolution> {
        match self.knowledge() {
            Knowledge::Live => self.live.lead_to(reply, scratch, target),
            Knowledge::LastGood | Knowledge::None => None,
        }
    }

    fn last_good(&self) -> Option<Arc<Index>> {
        self.last_good
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

//! Displacement of unauthenticated connections.
//!
//! If an address has reached its limit in a stage, a new connection of the address closes the oldest one. A client that
//! does not finish its handshakes, or sends nothing after them, therefore does not block other clients of its address.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::source::Source;

/// Connection that a newer one may displace until its client is authenticated.
#[derive(Debug, Default)]
pub(super) struct Displaceable {
    is_displaced: AtomicBool,
    displaced: Notify,
}

impl Displaceable {
    /// Resolves when a newer connection displaces this one.
    pub(super) async fn displaced(&self) {
        self.displaced.notified().await;
    }

    /// Returns true if a newer connection is counted in the place of this one.
    pub(super) fn is_displaced(&self) -> bool {
        self.is_displaced.load(Ordering::Relaxed)
    }
}

/// Connections in one stage by source, oldest first. The limits of the stage bound their number.
#[derive(Debug, Default)]
pub(super) struct DisplacementQueue(HashMap<Source, VecDeque<Arc<Displaceable>>>);

impl DisplacementQueue {
    /// Adds a connection.
    pub(super) fn push(&mut self, source: Source, connection: &Arc<Displaceable>) {
        self.0.entry(source).or_default().push_back(connection.clone());
    }

    /// Returns the source with the most connections.
    pub(super) fn largest_source(&self) -> Option<Source> {
        let largest_source = self.0.iter().max_by_key(|(_, connections)| connections.len());
        largest_source.map(|(source, _)| *source)
    }

    /// Displaces the oldest connection of a source. The caller takes over its count. Returns false if the source has no connection.
    pub(super) fn displace_oldest(&mut self, source: Source) -> bool {
        let oldest = self.0.get_mut(&source).and_then(VecDeque::pop_front);
        let Some(oldest) = oldest else { return false };
        if self.0.get(&source).is_some_and(VecDeque::is_empty) {
            self.0.remove(&source);
        }
        oldest.is_displaced.store(true, Ordering::Relaxed);
        oldest.displaced.notify_one();
        true
    }

    /// Removes a connection that ends or enters another stage.
    pub(super) fn remove(&mut self, source: Source, connection: &Arc<Displaceable>) {
        if let Some(connections) = self.0.get_mut(&source) {
            connections.retain(|other| !Arc::ptr_eq(other, connection));
            if connections.is_empty() {
                self.0.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests;

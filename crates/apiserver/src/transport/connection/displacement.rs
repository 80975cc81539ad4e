//! Connections that have proved nothing yet, by their source: those in their TLS handshake, and apart from them those
//! whose handshake is over. Where an address has as many as it may, its oldest one ends for a new one: a client that never
//! finishes its handshakes, or says nothing after them, keeps no other client of its address waiting.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::census::Source;

/// A connection, which a newer one may displace until it has proved something.
#[derive(Debug, Default)]
pub(super) struct Displaceable {
    is_displaced: AtomicBool,
    displaced: Notify,
}

impl Displaceable {
    /// Returns once a newer connection has taken this one's place.
    pub(super) async fn displaced(&self) {
        self.displaced.notified().await;
    }

    /// A newer connection has this one's place in the census.
    pub(super) fn is_displaced(&self) -> bool {
        self.is_displaced.load(Ordering::Relaxed)
    }
}

/// Connections in one stage, of each source, oldest first. Their number is bounded by the census.
#[derive(Debug, Default)]
pub(super) struct Unproved(HashMap<Source, VecDeque<Arc<Displaceable>>>);

impl Unproved {
    /// A connection comes to the stage.
    pub(super) fn begin(&mut self, source: Source, connection: &Arc<Displaceable>) {
        self.0.entry(source).or_default().push_back(connection.clone());
    }

    /// The source with the most connections.
    pub(super) fn fullest(&self) -> Option<Source> {
        let fullest = self.0.iter().max_by_key(|(_, of_source)| of_source.len());
        fullest.map(|(source, _)| *source)
    }

    /// Ends the oldest connection of a source and leaves its place to the caller; false if there is none.
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

    /// A connection leaves the stage, whatever comes next.
    pub(super) fn end(&mut self, source: Source, connection: &Arc<Displaceable>) {
        if let Some(of_source) = self.0.get_mut(&source) {
            of_source.retain(|other| !Arc::ptr_eq(other, connection));
            if of_source.is_empty() {
                self.0.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests;

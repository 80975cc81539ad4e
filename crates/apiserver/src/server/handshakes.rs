//! TLS handshakes that go on, by their source. Where an address has as many as it may, its oldest one ends for a new one: a
//! client that never finishes its handshakes keeps no other client of its address waiting.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::census::Source;

/// A handshake, which a newer one of its source may displace.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    is_displaced: AtomicBool,
    displaced: Notify,
}

impl Handshake {
    /// Returns once a newer handshake has taken this one's place.
    pub(super) async fn displaced(&self) {
        self.displaced.notified().await;
    }

    /// A newer handshake has this one's place in the census.
    pub(super) fn is_displaced(&self) -> bool {
        self.is_displaced.load(Ordering::Relaxed)
    }
}

/// The handshakes of each source, oldest first. Their number is bounded by the census.
#[derive(Debug, Default)]
pub(super) struct Handshakes(HashMap<Source, VecDeque<Arc<Handshake>>>);

impl Handshakes {
    /// A handshake begins.
    pub(super) fn begin(&mut self, source: Source) -> Arc<Handshake> {
        let handshake = Arc::<Handshake>::default();
        self.0.entry(source).or_default().push_back(handshake.clone());
        handshake
    }

    /// Ends the oldest handshake of a source and leaves its place to the caller; false if there is none.
    pub(super) fn displace_oldest(&mut self, source: Source) -> bool {
        let oldest = self.0.get_mut(&source).and_then(VecDeque::pop_front);
        let Some(oldest) = oldest else { return false };
        oldest.is_displaced.store(true, Ordering::Relaxed);
        oldest.displaced.notify_one();
        true
    }

    /// A handshake is over, whatever came of it.
    pub(super) fn end(&mut self, source: Source, handshake: &Arc<Handshake>) {
        if let Some(of_source) = self.0.get_mut(&source) {
            of_source.retain(|other| !Arc::ptr_eq(other, handshake));
            if of_source.is_empty() {
                self.0.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests;

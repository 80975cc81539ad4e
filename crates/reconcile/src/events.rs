//! Events about the objects that a controller reconciles: the recorder of `client`, and the current Events of each topic.

use std::collections::HashMap;
use std::hash::Hash;

pub use client::events::{EventBatch, EventRecorder, EventText, ObjectReference, api_version};

/// The current Events of each topic, so that an Event about a lasting state is written once.
///
/// The topics with Events bound its size: a topic without Events is removed.
#[derive(Debug)]
pub struct CurrentEvents<T>(HashMap<T, Vec<EventText>>);

impl<T> Default for CurrentEvents<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Eq + Hash> CurrentEvents<T> {
    /// Replaces the Events of a topic; returns those that it did not have before.
    pub fn replace(&mut self, topic: T, events: Vec<EventText>) -> Vec<EventText> {
        if events.is_empty() {
            self.0.remove(&topic);
            return events;
        }
        let added = |before: &Vec<EventText>| {
            let added = events.iter().filter(|event| !before.contains(event));
            added.cloned().collect()
        };
        let added = self.0.get(&topic).map_or_else(|| events.clone(), added);
        self.0.insert(topic, events);
        added
    }
}

#[cfg(test)]
mod tests;

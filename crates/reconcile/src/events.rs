//! Events about the objects that a controller reconciles: the recorder of `client`, and the findings of each topic.

use std::collections::HashMap;
use std::hash::Hash;

pub use client::events::{EventRecorder, Finding, Notice, ObjectReference, api_version};

/// The current findings of each topic, so that a lasting finding is reported once.
///
/// Its size is bounded by the topics with findings: a topic without findings is removed.
#[derive(Debug)]
pub struct CurrentFindings<T>(HashMap<T, Vec<Finding>>);

impl<T> Default for CurrentFindings<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Eq + Hash> CurrentFindings<T> {
    /// Replaces the findings of a topic; returns those that it did not have before.
    pub fn replace(&mut self, topic: T, findings: Vec<Finding>) -> Vec<Finding> {
        if findings.is_empty() {
            self.0.remove(&topic);
            return findings;
        }
        let added = |before: &Vec<Finding>| {
            let added = findings.iter().filter(|finding| !before.contains(finding));
            added.cloned().collect()
        };
        let added = self.0.get(&topic).map_or_else(|| findings.clone(), added);
        self.0.insert(topic, findings);
        added
    }
}

#[cfg(test)]
mod tests;

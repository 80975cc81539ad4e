//! Endpoints by key, never older than what this process wrote itself.

use std::collections::HashMap;

use api::object::{Endpoints, ObjectKey};

/// A cache of Endpoints that is written through, as [`super::Slices`] is.
#[derive(Default)]
pub struct EndpointsByKey(HashMap<ObjectKey, Endpoints>);

impl EndpointsByKey {
    /// Takes in Endpoints from a watch or an answer; whether they are news.
    pub fn apply(&mut self, endpoints: Endpoints) -> bool {
        let key = endpoints.metadata.key();
        if self
            .get(&key)
            .is_some_and(|known| version(known) >= version(&endpoints))
        {
            return false;
        }
        self.0.insert(key, endpoints);
        true
    }

    /// Removes the Endpoints of a key.
    pub fn remove(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }

    /// The Endpoints of a key.
    pub fn get(&self, key: &ObjectKey) -> Option<&Endpoints> {
        self.0.get(key)
    }

    /// All Endpoints.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Endpoints)> {
        self.0.iter()
    }
}

fn version(endpoints: &Endpoints) -> u64 {
    endpoints.metadata.resource_version.parse().unwrap_or(0)
}

//! Watch of all EndpointSlices.

use std::collections::HashMap;
use std::time::Instant;

use api::object::{EndpointSlice, ObjectKey};
use client::{Client, Event, Query, Watch, watch};

use super::TIMEOUT;
use crate::Failure;

/// EndpointSlices in their last version, with counts of writes.
pub(super) struct Slices {
    events: Watch<EndpointSlice>,
    by_key: HashMap<ObjectKey, EndpointSlice>,
    /// Number of EndpointSlices in which each Pod is ready.
    ready: HashMap<String, usize>,
    /// Number of writes, including deletions.
    pub(super) writes: usize,
    /// Number of writes that changed neither endpoints nor ports nor labels.
    pub(super) idle_writes: usize,
}

impl Slices {
    pub(super) fn watch(client: &Client) -> Self {
        Self {
            events: watch(client, Query::default()),
            by_key: HashMap::new(),
            ready: HashMap::new(),
            writes: 0,
            idle_writes: 0,
        }
    }

    /// Waits for the next event. Returns its EndpointSlice, if that is not deleted.
    pub(super) async fn next(&mut self) -> Option<&EndpointSlice> {
        match self.events.next().await {
            Event::Applied(slice) => {
                let key = slice.metadata.key();
                self.writes += 1;
                self.count(&slice, true);
                if let Some(before) = self.by_key.insert(key.clone(), slice) {
                    self.count(&before, false);
                    let now = &self.by_key[&key];
                    let is_same = before.endpoints == now.endpoints
                        && before.ports == now.ports
                        && before.metadata.labels == now.metadata.labels;
                    self.idle_writes += usize::from(is_same);
                }
                self.by_key.get(&key)
            }
            Event::Deleted(key) => {
                self.writes += 1;
                if let Some(before) = self.by_key.remove(&key) {
                    self.count(&before, false);
                }
                None
            }
            Event::Synced | Event::Malformed { .. } => None,
        }
    }

    /// Returns true if a Pod is a ready endpoint.
    pub(super) fn is_ready(&self, pod: &str) -> bool {
        self.ready.contains_key(pod)
    }

    /// Waits until exactly `pods` Pods are ready endpoints.
    pub(super) async fn wait_for_ready(&mut self, pods: usize) -> Result<(), Failure> {
        let deadline = Instant::now() + TIMEOUT;
        while self.ready.len() != pods {
            let left = deadline.saturating_duration_since(Instant::now());
            if tokio::time::timeout(left, self.next()).await.is_err() {
                return Err(format!("{} of {pods} Pods are ready endpoints", self.ready.len()).into());
            }
        }
        Ok(())
    }

    fn count(&mut self, slice: &EndpointSlice, is_added: bool) {
        for endpoint in slice
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.conditions.ready == Some(true))
        {
            let Some(target) = &endpoint.target_ref else {
                continue;
            };
            if is_added {
                *self.ready.entry(target.name.to_string()).or_default() += 1;
            } else if let Some(count) = self.ready.get_mut(&*target.name) {
                *count -= 1;
                if *count == 0 {
                    self.ready.remove(&*target.name);
                }
            }
        }
    }
}

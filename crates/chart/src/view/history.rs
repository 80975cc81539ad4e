//! The past hour, as differences to the current state.
//!
//! A difference holds the earlier rows of all objects that changed in a step. The differences from the latest to an
//! earlier one, applied to the current state, restore that earlier state. Rows that did not change need no memory. The
//! oldest differences are dropped first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use api::object::ObjectKey;
use jiff::Timestamp;
use serde::Serialize;

use super::rows::{NodeRow, ServiceRow, ServiceShape, Snapshot, Totals, as_rfc3339};

/// Time between two past states.
pub const STEP: Duration = Duration::from_secs(10);
/// Maximum number of past states: one hour.
pub const STEPS_MAX: usize = 360;
/// Maximum memory of the differences, as [`History::bytes`] estimates it. It suffices for an hour in which 150 Services
/// change in each step. With more changes the history is shorter.
pub const BYTES_MAX: usize = 32 << 20;
/// Memory of an entry of a difference besides its row.
const ENTRY_BYTES: usize = size_of::<(ObjectKey, Option<ServiceRow>)>() + 32;

/// Sums at the end of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// Time.
    #[serde(serialize_with = "as_rfc3339")]
    pub time: Timestamp,
    /// Findings for which connections fail.
    pub errors: u32,
    /// Findings for which some connections fail.
    pub warnings: u32,
    /// Ready endpoints.
    pub endpoints_ready: u32,
    /// Endpoints.
    pub endpoints: u32,
    /// Open connections; absent if no node reports flows.
    pub connections: Option<u64>,
}

/// Sums of the past hour.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Samples {
    /// Seconds between two samples.
    pub step_seconds: u64,
    /// Samples, the earliest one first.
    pub samples: Vec<Sample>,
}

/// Earlier rows of the Services and nodes that changed since a time.
#[derive(Debug)]
struct Difference {
    /// Time of the state that the difference restores.
    from: Timestamp,
    totals: Totals,
    traffic_known: bool,
    services: BTreeMap<ObjectKey, Option<ServiceRow>>,
    nodes: BTreeMap<Arc<str>, Option<Arc<NodeRow>>>,
    bytes: usize,
}

impl Difference {
    fn since(from: Timestamp, totals: Totals, traffic_known: bool) -> Self {
        Self {
            from,
            totals,
            traffic_known,
            services: BTreeMap::new(),
            nodes: BTreeMap::new(),
            bytes: 0,
        }
    }
}

/// The past hour.
#[derive(Debug, Default)]
pub struct History {
    /// Differences, the earliest one first. The last one is still recorded.
    differences: VecDeque<Difference>,
    samples: VecDeque<Sample>,
    bytes: usize,
}

impl History {
    /// Records the earlier row of a Service, before a row with the shape `next` replaces it.
    pub fn record_service(
        &mut self,
        key: &ObjectKey,
        earlier: Option<&ServiceRow>,
        next: Option<&ServiceShape>,
    ) {
        let Some(open) = self.differences.back_mut() else {
            return;
        };
        // A shape counts from the moment at which the current rows do not share it.
        let is_left = |row: &&ServiceRow| next.is_none_or(|next| !std::ptr::eq(&*row.shape, next));
        let left = earlier.filter(is_left);
        let added = match open.services.get(key) {
            Some(Some(kept)) => left
                .filter(|row| Arc::ptr_eq(&row.shape, &kept.shape))
                .map_or(0, |row| row.shape.bytes()),
            Some(None) => 0,
            None => {
                open.services.insert(key.clone(), earlier.cloned());
                ENTRY_BYTES + left.map_or(0, |row| row.shape.bytes())
            }
        };
        self.count(added);
    }

    /// Records the earlier row of a node.
    pub fn record_node(&mut self, name: &Arc<str>, earlier: Option<&Arc<NodeRow>>) {
        let Some(open) = self.differences.back_mut() else {
            return;
        };
        if open.nodes.contains_key(name) {
            return;
        }
        let added = ENTRY_BYTES + earlier.map_or(0, |row| row.bytes());
        open.nodes.insert(name.clone(), earlier.cloned());
        self.count(added);
    }

    fn count(&mut self, added: usize) {
        if let Some(open) = self.differences.back_mut() {
            open.bytes += added;
            self.bytes += added;
        }
        while self.bytes > BYTES_MAX {
            self.drop_earliest();
        }
    }

    fn drop_earliest(&mut self) {
        let Some(dropped) = self.differences.pop_front() else {
            self.bytes = 0;
            return;
        };
        self.bytes = self.bytes.saturating_sub(dropped.bytes);
    }

    /// Ends a step: the current state becomes a past one, to which the clock can return.
    pub fn end_step(&mut self, now: Timestamp, totals: Totals, traffic_known: bool) {
        self.differences
            .push_back(Difference::since(now, totals, traffic_known));
        if self.differences.len() > STEPS_MAX {
            self.drop_earliest();
        }
        self.samples.push_back(Sample {
            time: now,
            errors: totals.errors,
            warnings: totals.warnings,
            endpoints_ready: totals.endpoints_ready,
            endpoints: totals.endpoints,
            connections: totals.connections,
        });
        if self.samples.len() > STEPS_MAX {
            self.samples.pop_front();
        }
    }

    /// Returns the time of the earliest state that can be restored.
    pub fn from(&self) -> Option<Timestamp> {
        self.differences.front().map(|difference| difference.from)
    }

    /// Returns the estimate of the memory in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sums of the past hour.
    pub fn samples(&self) -> Samples {
        Samples {
            step_seconds: STEP.as_secs(),
            samples: self.samples.iter().cloned().collect(),
        }
    }

    /// Restores the latest past state that is not later than `time`, from the current one. `None` if no such state is kept.
    pub fn restore(&self, present: Snapshot, time: Timestamp) -> Option<Snapshot> {
        let first = self.differences.iter().rposition(|past| past.from <= time)?;
        let mut services: BTreeMap<ObjectKey, ServiceRow> = rows_by_key(present.services);
        let nodes = present.nodes.into_iter();
        let mut nodes: BTreeMap<Arc<str>, Arc<NodeRow>> =
            nodes.map(|row| (row.name.as_str().into(), row)).collect();
        for difference in self.differences.range(first..).rev() {
            for (key, earlier) in &difference.services {
                match earlier {
                    Some(row) => drop(services.insert(key.clone(), row.clone())),
                    None => drop(services.remove(key)),
                }
            }
            for (name, earlier) in &difference.nodes {
                match earlier {
                    Some(row) => drop(nodes.insert(name.clone(), row.clone())),
                    None => drop(nodes.remove(name)),
                }
            }
        }
        let restored = self.differences.get(first)?;
        Some(Snapshot {
            revision: present.revision,
            time: restored.from,
            cluster: present.cluster,
            nodes: nodes.into_values().collect(),
            services: services.into_values().collect(),
            totals: restored.totals,
            traffic_known: restored.traffic_known,
            history_from: present.history_from,
        })
    }
}

fn rows_by_key(rows: Vec<ServiceRow>) -> BTreeMap<ObjectKey, ServiceRow> {
    let rows = rows.into_iter();
    rows.map(|row| (ObjectKey::new(&row.shape.namespace, &row.shape.name), row))
        .collect()
}

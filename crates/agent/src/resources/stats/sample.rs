//! Samples of counters, and the usage between two of them. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use api::resource_metrics::{ContainerUsage, PodUsage, Report, Usage};
use jiff::Timestamp;

use crate::pods::state_directory::Record;
use crate::resources::cgroups::Counters;

/// Counters of a node and its containers at one moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// Time since an arbitrary moment. It never goes back.
    pub at: Duration,
    /// Time of the clock.
    pub timestamp: Timestamp,
    /// Counters of the node.
    pub node: Option<Counters>,
    /// Counters of containers by the UID of the Pod.
    pub pods: BTreeMap<String, Vec<(String, Counters)>>,
}

/// Returns the usage between two samples. Containers that are missing in one sample, and containers whose counters
/// restarted, are omitted.
pub(super) fn report(earlier: &Sample, later: &Sample, records: &[Record]) -> Report {
    let window = later.at.saturating_sub(earlier.at);
    let node = later.node.zip(earlier.node);
    let pods = records.iter().filter_map(|record| {
        let (before, after) = (earlier.pods.get(&record.uid)?, later.pods.get(&record.uid)?);
        let containers: Vec<_> = after
            .iter()
            .filter_map(|(name, counters)| {
                let (_, previous) = before.iter().find(|(other, _)| other == name)?;
                let usage = usage(previous, counters, window)?;
                let name = name.clone();
                Some(ContainerUsage { name, usage })
            })
            .collect();
        (!containers.is_empty()).then(|| PodUsage {
            namespace: record.namespace.clone(),
            name: record.name.clone(),
            uid: record.uid.clone(),
            is_static: record.is_static,
            containers,
        })
    });
    Report {
        timestamp_seconds: later.timestamp.as_second(),
        window_milliseconds: u64::try_from(window.as_millis()).unwrap_or(u64::MAX),
        node: node.and_then(|(later, earlier)| usage(&earlier, &later, window)),
        pods: pods.collect(),
    }
}

/// Returns the usage between two readings; `None` if the counter restarted or no time passed.
fn usage(earlier: &Counters, later: &Counters, window: Duration) -> Option<Usage> {
    let spent = later.cpu_nanoseconds.checked_sub(earlier.cpu_nanoseconds)?;
    let scaled = u128::from(spent) * 1_000_000_000;
    let nanocores = scaled.checked_div(window.as_nanos())?;
    Some(Usage {
        cpu_nanocores: u64::try_from(nanocores).unwrap_or(u64::MAX),
        memory_bytes: later.memory_bytes,
    })
}

//! CPU time and memory of the node and of its containers (kubelet's `pkg/kubelet/stats`), for `metrics.k8s.io`.
//!
//! A task reads all counters each [`INTERVAL`]. The API server receives the usage between the latest two readings, so
//! its requests read no counters.

mod node_counters;
mod sample;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::time::MissedTickBehavior;

use crate::pods::state_directory::{Record, StateDirectory};
use crate::resources::cgroups::Cgroups;
use sample::{Sample, report};

/// Time between two readings (cAdvisor's default interval of housekeeping).
const INTERVAL: Duration = Duration::from_secs(10);

/// The latest report. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Stats {
    report: Arc<RwLock<Option<Vec<u8>>>>,
}

/// Reader of the counters.
struct Reader {
    state: StateDirectory,
    cgroups: Option<Cgroups>,
    begin: Instant,
}

impl Stats {
    /// Returns the latest report as JSON; `None` before the second reading.
    pub(crate) fn report(&self) -> Option<Vec<u8>> {
        self.report.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the counters of `cgroups`, of the node only without any, as long as it is polled.
    pub(crate) async fn measure(self, state: StateDirectory, cgroups: Option<Cgroups>) {
        let mut reader = Reader {
            state,
            cgroups,
            begin: Instant::now(),
        };
        let mut earlier: Option<Sample> = None;
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let reading = tokio::task::spawn_blocking(move || {
                let (sample, records) = reader.read();
                (reader, sample, records)
            });
            let (returned, later, records) = match reading.await {
                Ok(read) => read,
                Err(error) => {
                    tracing::error!(%error, "reading of counters failed; CPU time and memory no longer measured");
                    return;
                }
            };
            reader = returned;
            if let Some(earlier) = &earlier {
                self.publish(earlier, &later, &records);
            }
            earlier = Some(later);
        }
    }

    fn publish(&self, earlier: &Sample, later: &Sample, records: &[Record]) {
        match serde_json::to_vec(&report(earlier, later, records)) {
            Ok(json) => {
                *self.report.write().unwrap_or_else(PoisonError::into_inner) = Some(json);
            }
            Err(error) => tracing::warn!(%error, "usage of the node not encoded"),
        }
    }
}

impl Reader {
    /// Reads the counters, with the records of the Pods.
    fn read(&self) -> (Sample, Vec<Record>) {
        let records = match self.state.records() {
            Ok((records, _)) => records,
            Err(error) => {
                tracing::warn!(%error, "records of Pods not read; their usage is not measured");
                Vec::new()
            }
        };
        let at = self.begin.elapsed();
        let mut pods = BTreeMap::new();
        if let Some(cgroups) = &self.cgroups {
            for record in &records {
                pods.insert(record.uid.clone(), cgroups.usage(&record.uid));
            }
        }
        let sample = Sample {
            at,
            timestamp: Timestamp::now(),
            node: node_counters::read(),
            pods,
        };
        (sample, records)
    }
}

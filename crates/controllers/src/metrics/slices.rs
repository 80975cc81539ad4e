//! Metrics of the EndpointSlice controller (EPS-27).

use std::collections::{BTreeMap, HashMap};

use api::object::{ObjectKey, Service};
use telemetry::{Histogram, MetricType, MetricsText};

use super::{Changes, help, per_sync, write_gauge, write_histogram};
use crate::endpoint_slice::Counts;
use crate::topology_mode::is_auto;

const PREFIX: &str = "endpoint_slice_controller";
/// Prometheus' default buckets, which upstream uses for this histogram.
const USUAL_BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Buckets for the time from a Pod's transition, whose timestamp has whole seconds, to the write of its
/// slice.
const PROGRAMMING_BOUNDS: [f64; 12] = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// The result of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncResult {
    /// Observed and desired state agree.
    Success,
    /// A write failed.
    Error,
    /// The slices had to be read first, because the effect of earlier writes was unknown.
    Stale,
}

/// Labels of a Service's hints: topology mode and `trafficDistribution`, as upstream has them.
type Hints = (&'static str, &'static str);

/// Metrics of the EndpointSlices of Services.
#[derive(Debug)]
pub(crate) struct SliceMetrics {
    added_per_sync: Histogram,
    removed_per_sync: Histogram,
    changed_per_sync: BTreeMap<Hints, Histogram>,
    /// Time from a change to the response of its write.
    pub(crate) programming_duration_seconds: Histogram,
    pub(crate) changes: Changes,
    syncs: [u64; 3],
    services: HashMap<ObjectKey, (Counts, &'static str)>,
    total: Counts,
}

impl Default for SliceMetrics {
    fn default() -> Self {
        Self {
            added_per_sync: per_sync(),
            removed_per_sync: per_sync(),
            changed_per_sync: BTreeMap::new(),
            programming_duration_seconds: Histogram::new(&PROGRAMMING_BOUNDS),
            changes: Changes::default(),
            syncs: [0; 3],
            services: HashMap::new(),
            total: Counts::default(),
        }
    }
}

impl SliceMetrics {
    /// Records the counts of a sync and the number of its writes.
    pub(crate) fn observe_sync(&mut self, key: &ObjectKey, service: &Service, counts: Counts, writes: usize) {
        let hints = hints_of(service);
        self.added_per_sync.observe(counts.added as f64);
        self.removed_per_sync.observe(counts.removed as f64);
        let changed = self.changed_per_sync.entry(hints);
        let changed = changed.or_insert_with(|| Histogram::new(&USUAL_BOUNDS));
        changed.observe(writes as f64);
        self.remove_service(key);
        self.total.add(&counts);
        self.services
            .insert(key.clone(), (counts, distribution_of(service)));
    }

    /// Counts the result of a sync.
    pub(crate) fn count_sync(&mut self, result: SyncResult) {
        if let Some(count) = self.syncs.get_mut(result as usize) {
            *count += 1;
        }
    }

    /// Removes a Service that is deleted or has no slices of this controller.
    pub(crate) fn remove_service(&mut self, key: &ObjectKey) {
        if let Some((counts, _)) = self.services.remove(key) {
            self.total.subtract(&counts);
        }
    }

    pub(super) fn reset_gauges(&mut self) {
        self.services.clear();
        self.total = Counts::default();
    }

    /// Writes the metrics.
    pub(super) fn write(&self, text: &mut MetricsText) {
        let name = |suffix: &str| format!("{PREFIX}_{suffix}");
        write_histogram(
            text,
            &name("endpoints_added_per_sync"),
            "Number of endpoints added on each Service sync",
            &self.added_per_sync,
        );
        write_histogram(
            text,
            &name("endpoints_removed_per_sync"),
            "Number of endpoints removed on each Service sync",
            &self.removed_per_sync,
        );
        write_gauge(
            text,
            &name("endpoints_desired"),
            help::ENDPOINTS_DESIRED,
            self.total.endpoints,
        );
        write_gauge(
            text,
            &name("num_endpoint_slices"),
            help::SLICES,
            self.total.slices,
        );
        write_gauge(
            text,
            &name("desired_endpoint_slices"),
            help::SLICES_DESIRED,
            self.total.slices_desired,
        );
        self.changes.write(text, &name("changes"));
        let changed = name("endpointslices_changed_per_sync");
        text.family(
            &changed,
            MetricType::Histogram,
            "Number of EndpointSlices changed on each Service sync",
        );
        for ((topology, distribution), histogram) in &self.changed_per_sync {
            let labels = format!("topology=\"{topology}\",traffic_distribution=\"{distribution}\"");
            text.histogram(&changed, &labels, histogram);
        }
        let syncs = name("syncs");
        text.family(&syncs, MetricType::Counter, "Number of EndpointSlice syncs");
        for (result, count) in ["success", "error", "stale"].iter().zip(self.syncs) {
            text.sample(&syncs, &format!("result=\"{result}\""), count);
        }
        self.write_distributions(text, &name("services_count_by_traffic_distribution"));
        let programming = "portolan_controllers_endpointslice_programming_duration_seconds";
        write_histogram(
            text,
            programming,
            "Time from the change of a Pod or Service until the EndpointSlice that reflects it is written, in seconds.",
            &self.programming_duration_seconds,
        );
    }

    fn write_distributions(&self, text: &mut MetricsText, name: &str) {
        let mut services: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, distribution) in self.services.values().filter(|(_, name)| !name.is_empty()) {
            *services.entry(distribution).or_default() += 1;
        }
        text.family(
            name,
            MetricType::Gauge,
            "Number of Services using some specific trafficDistribution",
        );
        for (distribution, count) in services {
            text.sample(name, &format!("traffic_distribution=\"{distribution}\""), count);
        }
    }
}

/// Returns the value of `trafficDistribution`, empty if unset. Unknown values share one label, so that
/// clients cannot create an unbounded number of series.
fn distribution_of(service: &Service) -> &'static str {
    match service.spec.traffic_distribution.as_deref() {
        None => "",
        Some("PreferClose") => "PreferClose",
        Some("PreferSameZone") => "PreferSameZone",
        Some("PreferSameNode") => "PreferSameNode",
        Some(_) => "ImplementationSpecific",
    }
}

fn hints_of(service: &Service) -> Hints {
    if is_auto(service) {
        ("Auto", "")
    } else {
        ("Disabled", distribution_of(service))
    }
}

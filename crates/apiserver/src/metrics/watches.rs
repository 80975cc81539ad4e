//! Counters of watches and their events.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use api::kind::{self, Kind};
use telemetry::{MetricType, MetricsText};

/// Open watches and sent events by kind.
pub(crate) struct WatchCounts {
    by_kind: Vec<WatchCount>,
}

/// Open watches and sent events of a kind.
#[derive(Default)]
struct WatchCount {
    watches: AtomicI64,
    events: AtomicU64,
}

impl Default for WatchCounts {
    fn default() -> WatchCounts {
        WatchCounts {
            by_kind: kind::all().iter().map(|_| WatchCount::default()).collect(),
        }
    }
}

impl WatchCounts {
    /// Counts a watch that began (`change` 1) or ended (-1).
    pub(crate) fn add_watches(&self, kind: &'static Kind, change: i64) {
        if let Some(count) = self.of(kind) {
            count.watches.fetch_add(change, Ordering::Relaxed);
        }
    }

    /// Returns the number of open watches of a kind.
    pub(crate) fn open(&self, kind: &'static Kind) -> u32 {
        let open = self
            .of(kind)
            .map_or(0, |count| count.watches.load(Ordering::Relaxed));
        u32::try_from(open).unwrap_or_default()
    }

    /// Counts events that a watch has sent.
    pub(crate) fn add_events(&self, kind: &'static Kind, events: u64) {
        if let Some(count) = self.of(kind) {
            count.events.fetch_add(events, Ordering::Relaxed);
        }
    }

    fn of(&self, kind: &'static Kind) -> Option<&WatchCount> {
        let at = kind::all().iter().position(|row| std::ptr::eq(row, kind))?;
        self.by_kind.get(at)
    }

    /// Writes the metrics of watches.
    pub(super) fn write_metrics(&self, out: &mut MetricsText) {
        let each = || kind::all().iter().zip(&self.by_kind);
        let name = "apiserver_longrunning_requests";
        out.family(
            name,
            MetricType::Gauge,
            "Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and \
             component. Not all requests are tracked this way.",
        );
        for (kind, count) in each() {
            let labels = format!(
                "component=\"apiserver\",group=\"{}\",resource=\"{}\",scope=\"cluster\",subresource=\"\",\
                 verb=\"WATCH\",version=\"{}\"",
                kind.group, kind.plural, kind.version
            );
            out.sample(name, &labels, count.watches.load(Ordering::Relaxed));
        }
        let name = "apiserver_watch_events_total";
        out.family(
            name,
            MetricType::Counter,
            "Number of events sent in watch clients",
        );
        for (kind, count) in each() {
            let labels = format!(
                "group=\"{}\",resource=\"{}\",version=\"{}\"",
                kind.group, kind.plural, kind.version
            );
            out.sample(name, &labels, count.events.load(Ordering::Relaxed));
        }
    }
}

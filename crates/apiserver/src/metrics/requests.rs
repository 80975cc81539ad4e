//! Counters of requests by resource, verb and status code, with durations and response sizes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use api::kind::Kind;

use telemetry::{Histogram, MetricType, MetricsText};

use crate::request::route::Target;

/// Status codes with counters of their own. Other codes are counted as the last.
const CODES: [u16; 21] = [
    101, 200, 201, 301, 304, 400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 415, 422, 429, 503, 504, 500,
];

/// Bucket bounds of `apiserver_request_duration_seconds` (upstream's).
const SECONDS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];

/// Bucket bounds of `apiserver_response_sizes` (upstream's).
const BYTES: [f64; 7] = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

/// Scope of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    Object,
    Namespace,
    Cluster,
}

/// Labels of a request. The combinations of kinds, verbs and scopes bound the number of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Label {
    definition: &'static str,
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    subresource: &'static str,
    verb: &'static str,
    scope: Scope,
    is_dry_run: bool,
}

impl Label {
    /// Labels of a request on a target.
    pub(crate) fn new(target: &Target, verb: &'static str, is_dry_run: bool) -> Label {
        let kind: &'static Kind = target.kind;
        Label {
            definition: kind.definition,
            group: kind.group,
            version: kind.version,
            resource: kind.plural,
            subresource: target.subresource.unwrap_or_default(),
            verb,
            scope: match (&target.name, &target.namespace) {
                (Some(_), _) => Scope::Object,
                (None, Some(_)) => Scope::Namespace,
                (None, None) => Scope::Cluster,
            },
            is_dry_run,
        }
    }

    fn text(&self) -> String {
        let scope = match self.scope {
            Scope::Object => "resource",
            Scope::Namespace => "namespace",
            Scope::Cluster => "cluster",
        };
        let Label {
            group,
            resource,
            subresource,
            verb,
            version,
            ..
        } = self;
        let dry_run = if self.is_dry_run { "All" } else { "" };
        format!(
            "component=\"apiserver\",dry_run=\"{dry_run}\",group=\"{group}\",resource=\"{resource}\",\
             scope=\"{scope}\",subresource=\"{subresource}\",verb=\"{verb}\",version=\"{version}\""
        )
    }
}

/// Counters of all requests.
#[derive(Default)]
pub(crate) struct Requests {
    series: RwLock<HashMap<Label, Arc<Series>>>,
}

/// Metrics of requests with the same labels except the status code.
struct Series {
    codes: [AtomicU64; CODES.len()],
    duration_seconds: Histogram,
    size_bytes: Histogram,
}

impl Default for Series {
    fn default() -> Series {
        Series {
            codes: Default::default(),
            duration_seconds: Histogram::new(&SECONDS),
            size_bytes: Histogram::new(&BYTES),
        }
    }
}

impl Requests {
    /// Counts a completed request. `bytes` is the size of the response, if it is known.
    pub(crate) fn completed(&self, label: Label, code: u16, elapsed: Duration, bytes: Option<u64>) {
        let series = self.series(label);
        let code = CODES
            .iter()
            .position(|known| *known == code)
            .unwrap_or(CODES.len() - 1);
        series.codes[code].fetch_add(1, Ordering::Relaxed);
        series.duration_seconds.observe(elapsed.as_secs_f64());
        if let Some(bytes) = bytes {
            series.size_bytes.observe(bytes as f64);
        }
    }

    fn series(&self, label: Label) -> Arc<Series> {
        let known = self.series.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = known.get(&label) {
            return series.clone();
        }
        drop(known);
        let mut all = self.series.write().unwrap_or_else(PoisonError::into_inner);
        all.entry(label).or_default().clone()
    }

    /// Writes the metrics of requests.
    pub(super) fn write_metrics(&self, out: &mut MetricsText) {
        let all = self.series.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<(String, &'static str, Arc<Series>)> = all
            .iter()
            .map(|(label, series)| (label.text(), label.verb, series.clone()))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let name = "apiserver_request_total";
        out.family(
            name,
            MetricType::Counter,
            "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, \
             component, and HTTP response code.",
        );
        for (labels, _, series) in &all {
            for (code, count) in CODES.iter().zip(&series.codes) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    out.sample(name, &format!("code=\"{code}\",{labels}"), count);
                }
            }
        }
        let name = "apiserver_request_duration_seconds";
        out.family(
            name,
            MetricType::Histogram,
            "Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, \
             scope and component.",
        );
        // The duration of a watch is not a latency.
        for (labels, _, series) in all
            .iter()
            .filter(|(_, verb, _)| *verb != "WATCH" && *verb != "CONNECT")
        {
            out.histogram(name, labels, &series.duration_seconds);
        }
        let name = "apiserver_response_sizes";
        out.family(
            name,
            MetricType::Histogram,
            "Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component.",
        );
        for (labels, _, series) in &all {
            if series.size_bytes.count() > 0 {
                let labels = labels
                    .replacen("dry_run=\"\",", "", 1)
                    .replacen("dry_run=\"All\",", "", 1);
                out.histogram(name, &labels, &series.size_bytes);
            }
        }
    }
}

//! Requests by what they are about, how they ended and how long they took.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use api::kind::Kind;

use super::text::Text;
use crate::route::Target;

/// Status codes that are counted one by one; all others are counted as the last.
const CODES: [u16; 21] = [
    101, 200, 201, 301, 304, 400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 415, 422, 429, 503, 504, 500,
];

/// Upper ends of the buckets of `apiserver_request_duration_seconds`, upstream's.
const SECONDS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];

/// Upper ends of the buckets of `apiserver_response_sizes`, upstream's.
const BYTES: [f64; 7] = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

/// What of the cluster a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    Object,
    Namespace,
    Cluster,
}

/// What a request is counted under. There are as many as kinds, verbs and scopes go together, so the counters are
/// bounded by themselves.
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
    /// What a request on `target` is counted under.
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

/// The counters of all requests.
#[derive(Default)]
pub(crate) struct Requests {
    series: RwLock<HashMap<Label, Arc<Series>>>,
}

#[derive(Default)]
struct Series {
    codes: [AtomicU64; CODES.len()],
    durations: [AtomicU64; SECONDS.len()],
    duration_us_total: AtomicU64,
    sizes: [AtomicU64; BYTES.len()],
    sized: AtomicU64,
    bytes_total: AtomicU64,
}

impl Requests {
    /// Counts a request that has been answered, with as many bytes as are known.
    pub(crate) fn answered(&self, label: Label, code: u16, took: Duration, bytes: Option<u64>) {
        let series = self.series(label);
        let code = CODES.iter().position(|c| *c == code).unwrap_or(CODES.len() - 1);
        series.codes[code].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        series.duration_us_total.fetch_add(micros, Ordering::Relaxed);
        count_in(&series.durations, &SECONDS, took.as_secs_f64());
        if let Some(bytes) = bytes {
            series.sized.fetch_add(1, Ordering::Relaxed);
            series.bytes_total.fetch_add(bytes, Ordering::Relaxed);
            count_in(&series.sizes, &BYTES, bytes as f64);
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

    pub(super) fn render(&self, out: &mut Text) {
        let all = self.series.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<(String, &'static str, Arc<Series>)> = all
            .iter()
            .map(|(label, series)| (label.text(), label.verb, series.clone()))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let name = "apiserver_request_total";
        out.head(
            name,
            "counter",
            "Counter of apiserver requests by what they are about and how they ended.",
        );
        for (labels, _, series) in &all {
            for (code, count) in CODES.iter().zip(&series.codes) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    out.value(name, &format!("code=\"{code}\",{labels}"), count);
                }
            }
        }
        let name = "apiserver_request_duration_seconds";
        out.head(name, "histogram", "Response latency distribution in seconds.");
        // How long watches last says nothing of how fast they are answered.
        for (labels, _, series) in all
            .iter()
            .filter(|(_, verb, _)| *verb != "WATCH" && *verb != "CONNECT")
        {
            let buckets = SECONDS.iter().copied().zip(loaded(&series.durations));
            let count = loaded(&series.codes).sum();
            let seconds = series.duration_us_total.load(Ordering::Relaxed) as f64 / 1e6;
            out.histogram(name, labels, buckets, count, seconds);
        }
        let name = "apiserver_response_sizes";
        out.head(name, "histogram", "Response size distribution in bytes.");
        for (labels, _, series) in &all {
            let count = series.sized.load(Ordering::Relaxed);
            if count > 0 {
                let labels = labels
                    .replacen("dry_run=\"\",", "", 1)
                    .replacen("dry_run=\"All\",", "", 1);
                let buckets = BYTES.iter().copied().zip(loaded(&series.sizes));
                let bytes = series.bytes_total.load(Ordering::Relaxed) as f64;
                out.histogram(name, &labels, buckets, count, bytes);
            }
        }
    }
}

fn count_in(buckets: &[AtomicU64], bounds: &[f64], value: f64) {
    if let Some(at) = bounds.iter().position(|bound| value <= *bound)
        && let Some(bucket) = buckets.get(at)
    {
        bucket.fetch_add(1, Ordering::Relaxed);
    }
}

fn loaded(counts: &[AtomicU64]) -> impl Iterator<Item = u64> {
    counts.iter().map(|count| count.load(Ordering::Relaxed))
}

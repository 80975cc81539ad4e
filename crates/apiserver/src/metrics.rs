//! Metrics in the text format of Prometheus, with the names and labels of upstream.
//!
//! All series are there from the start as arrays of counters, so that a request only adds to a few of them.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::kind::{self, Kind};

use crate::service::Usage;

/// The verbs of requests, as the labels name them.
const VERBS: [&str; 9] = [
    "GET",
    "LIST",
    "WATCH",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "DELETECOLLECTION",
    "CONNECT",
];

/// What a request is about.
const SUBRESOURCES: [&str; 3] = ["", "status", "finalize"];

/// Status codes that are counted one by one; all others are counted as the last.
const CODES: [u16; 17] = [
    200, 201, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500, 503, 504,
];

/// Upper ends of the buckets, in milliseconds: upstream's, with some smaller ones in front.
const BUCKETS_MS: [u64; 18] = [
    1, 2, 5, 10, 25, 50, 100, 200, 400, 600, 800, 1000, 2000, 4000, 8000, 15_000, 30_000, 60_000,
];

/// One series of requests.
#[derive(Default)]
struct Series {
    codes: [AtomicU64; CODES.len()],
    buckets: [AtomicU64; BUCKETS_MS.len()],
    duration_us_total: AtomicU64,
}

/// All metrics of the server.
pub(crate) struct Metrics {
    series: Vec<Series>,
}

/// The identity of a request for metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    /// Index of its series.
    series: usize,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let count = kind::all().len() * SUBRESOURCES.len() * VERBS.len();
        Metrics {
            series: std::iter::repeat_with(Series::default).take(count).collect(),
        }
    }

    /// The series of requests on a kind.
    pub(crate) fn label(&self, kind: &'static Kind, subresource: Option<&str>, verb: &str) -> Option<Label> {
        let kind = kind::all().iter().position(|k| std::ptr::eq(k, kind))?;
        let subresource = SUBRESOURCES
            .iter()
            .position(|s| *s == subresource.unwrap_or_default())?;
        let verb = VERBS.iter().position(|v| *v == verb)?;
        Some(Label {
            series: (kind * SUBRESOURCES.len() + subresource) * VERBS.len() + verb,
        })
    }

    /// Counts a request that has been answered.
    pub(crate) fn answered(&self, label: Label, code: u16, took: Duration) {
        let Some(series) = self.series.get(label.series) else {
            return;
        };
        let code = CODES.iter().position(|c| *c == code).unwrap_or(CODES.len() - 1);
        series.codes[code].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        series.duration_us_total.fetch_add(micros, Ordering::Relaxed);
        if let Some(bucket) = BUCKETS_MS.iter().position(|end| micros <= end * 1000) {
            series.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The text.
    pub(crate) fn render(&self, usage: &Usage) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail; the results say nothing.
        self.render_requests(&mut out).ok();
        render_usage(&mut out, usage).ok();
        out
    }

    fn render_requests(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "# HELP apiserver_request_total Counter of apiserver requests."
        )?;
        writeln!(out, "# TYPE apiserver_request_total counter")?;
        for (labels, series) in self.used() {
            for (code, count) in CODES.iter().zip(&series.codes) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    writeln!(out, "apiserver_request_total{{code=\"{code}\",{labels}}} {count}")?;
                }
            }
        }
        let name = "apiserver_request_duration_seconds";
        writeln!(out, "# HELP {name} Response latency distribution in seconds.")?;
        writeln!(out, "# TYPE {name} histogram")?;
        for (labels, series) in self
            .used()
            .filter(|(labels, _)| !labels.contains("verb=\"WATCH\""))
        {
            let mut sum = 0;
            for (end, count) in BUCKETS_MS.iter().zip(&series.buckets) {
                sum += count.load(Ordering::Relaxed);
                let seconds = *end as f64 / 1000.0;
                writeln!(out, "{name}_bucket{{{labels},le=\"{seconds}\"}} {sum}")?;
            }
            let count = series.answers();
            let seconds = series.duration_us_total.load(Ordering::Relaxed) as f64 / 1e6;
            writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}")?;
            writeln!(out, "{name}_sum{{{labels}}} {seconds}")?;
            writeln!(out, "{name}_count{{{labels}}} {count}")?;
        }
        Ok(())
    }

    /// The series that have counted anything, with their labels.
    fn used(&self) -> impl Iterator<Item = (String, &Series)> {
        let each = kind::all().iter().flat_map(|kind| {
            SUBRESOURCES
                .iter()
                .flat_map(move |sub| VERBS.iter().map(move |verb| (kind, *sub, *verb)))
        });
        each.zip(&self.series)
            .filter(|(_, series)| series.answers() > 0)
            .map(|((kind, sub, verb), series)| {
                let scope = match verb {
                    "LIST" | "WATCH" | "DELETECOLLECTION" if kind.namespaced => "namespace",
                    "LIST" | "WATCH" | "DELETECOLLECTION" => "cluster",
                    _ => "resource",
                };
                let labels = format!(
                    "component=\"apiserver\",dry_run=\"\",group=\"{}\",resource=\"{}\",scope=\"{scope}\",\
                 subresource=\"{sub}\",verb=\"{verb}\",version=\"{}\"",
                    kind.group, kind.plural, kind.version
                );
                (labels, series)
            })
    }
}

impl Series {
    fn answers(&self) -> u64 {
        self.codes.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// How much of the Service ranges is in use (FAM-28, NP-12).
fn render_usage(out: &mut String, usage: &Usage) -> std::fmt::Result {
    let gauge = |out: &mut String, name: &str, help: &str| {
        writeln!(out, "# HELP {name} {help}")?;
        writeln!(out, "# TYPE {name} gauge")
    };
    let name = "kube_apiserver_clusterip_allocator_allocated_ips";
    gauge(
        out,
        name,
        "Gauge measuring the number of allocated IPs for Services",
    )?;
    for range in &usage.ranges {
        writeln!(out, "{name}{{cidr=\"{}\"}} {}", range.net, range.allocated)?;
    }
    let name = "kube_apiserver_clusterip_allocator_available_ips";
    gauge(
        out,
        name,
        "Gauge measuring the number of available IPs for Services",
    )?;
    for range in &usage.ranges {
        writeln!(out, "{name}{{cidr=\"{}\"}} {}", range.net, range.available)?;
    }
    let name = "kube_apiserver_nodeport_allocator_allocated_ports";
    gauge(
        out,
        name,
        "Gauge measuring the number of allocated NodePorts for Services",
    )?;
    writeln!(out, "{name} {}", usage.allocated_ports)?;
    let name = "kube_apiserver_nodeport_allocator_available_ports";
    gauge(
        out,
        name,
        "Gauge measuring the number of available NodePorts for Services",
    )?;
    writeln!(out, "{name} {}", usage.available_ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_what_they_are_about() {
        let metrics = Metrics::new();
        let services = kind::find("", "v1", "services").unwrap();
        let label = metrics.label(services, Some("status"), "PATCH").unwrap();
        metrics.answered(label, 200, Duration::from_millis(3));
        metrics.answered(label, 409, Duration::from_secs(100));
        let mut text = String::new();
        metrics.render_requests(&mut text).unwrap();
        let labels = "component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"services\",scope=\"resource\",\
                      subresource=\"status\",verb=\"PATCH\",version=\"v1\"";
        for line in [
            format!("apiserver_request_total{{code=\"200\",{labels}}} 1\n"),
            format!("apiserver_request_total{{code=\"409\",{labels}}} 1\n"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"0.002\"}} 0\n"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"0.005\"}} 1\n"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"60\"}} 1\n"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 2\n"),
        ] {
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }
}

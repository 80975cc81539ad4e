//! Metrics of the forwarder and its cache, with the names and help texts of CoreDNS.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use telemetry::{Histogram, MetricType, MetricsText};

use super::{EntryKind, Forwarder, Upstream};
use crate::metrics::{DURATION_BOUNDS_SECONDS, SERVER_LABELS, code_name};

/// Label of the metrics that CoreDNS' plugins share.
const OWNER_LABEL: &str = ",proxy_name=\"forward\"";

/// Counters of the forwarder and its cache.
#[derive(Debug, Default)]
pub(super) struct ForwardCounters {
    hits: [AtomicU64; 2],
    pub(super) misses: AtomicU64,
    pub(super) prefetches: AtomicU64,
    pub(super) served_stale: AtomicU64,
    pub(super) rejects: AtomicU64,
    pub(super) broken: AtomicU64,
}

impl ForwardCounters {
    pub(super) fn record_hit(&self, kind: EntryKind) {
        let [success, denial] = &self.hits;
        let counter = match kind {
            EntryKind::Success => success,
            EntryKind::Denial => denial,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counters of one resolver. Forwarded queries are rare compared with cache hits, so a lock suffices.
#[derive(Debug, Default)]
pub(super) struct UpstreamCounters {
    by_code: Mutex<BTreeMap<u16, Histogram>>,
    failures: AtomicU64,
    probe_failures: AtomicU64,
    foreign_messages: AtomicU64,
    case_losses: AtomicU64,
}

impl UpstreamCounters {
    pub(super) fn record_response(&self, code: u16, elapsed: Duration) {
        let mut by_code = self.by_code.lock().unwrap_or_else(PoisonError::into_inner);
        by_code
            .entry(code)
            .or_insert_with(|| Histogram::new(&DURATION_BOUNDS_SECONDS))
            .observe(elapsed.as_secs_f64());
    }

    pub(super) fn record_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn record_probe_failure(&self) {
        self.probe_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a message that matches no query.
    pub(super) fn record_foreign_message(&self) {
        self.foreign_messages.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a response whose question has another case than the query.
    pub(super) fn record_case_loss(&self) {
        self.case_losses.fetch_add(1, Ordering::Relaxed);
    }
}

impl Forwarder {
    /// Writes the metrics of the cache and of the resolvers.
    pub(crate) fn write_metrics(&self, text: &mut MetricsText) {
        self.write_cache(text);
        let counters = &self.inner.counters;
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        text.single(
            "coredns_forward_max_concurrent_rejects_total",
            MetricType::Counter,
            "Counter of the number of queries rejected because the concurrent queries were at maximum.",
            value(&counters.rejects),
        );
        text.single(
            "coredns_forward_healthcheck_broken_total",
            MetricType::Counter,
            "Counter of the number of complete failures of the healthchecks.",
            value(&counters.broken),
        );
        self.write_upstreams(text);
    }

    fn write_cache(&self, text: &mut MetricsText) {
        let hits = self.write_cache_entries_and_hits(text);
        self.write_cache_counters(text, hits);
        text.single(
            "portolan_dns_cache_bytes",
            MetricType::Gauge,
            "Memory that cache entries use, in bytes.",
            self.cache().bytes(),
        );
    }

    /// Writes the entries and hits of the cache by type. Returns the number of all hits.
    fn write_cache_entries_and_hits(&self, text: &mut MetricsText) -> u64 {
        let (cache, counters) = (self.cache(), &self.inner.counters);
        let labels = |kind: &str| format!("{SERVER_LABELS},type=\"{kind}\",zones=\".\"");
        let [success, denial] = [0, 1].map(|at| {
            counters
                .hits
                .get(at)
                .map_or(0, |hits| hits.load(Ordering::Relaxed))
        });
        text.family(
            "coredns_cache_entries",
            MetricType::Gauge,
            "The number of elements in the cache.",
        );
        text.sample(
            "coredns_cache_entries",
            &labels("success"),
            cache.entries(EntryKind::Success),
        );
        text.sample(
            "coredns_cache_entries",
            &labels("denial"),
            cache.entries(EntryKind::Denial),
        );
        text.family(
            "coredns_cache_hits_total",
            MetricType::Counter,
            "The count of cache hits.",
        );
        text.sample("coredns_cache_hits_total", &labels("success"), success);
        text.sample("coredns_cache_hits_total", &labels("denial"), denial);
        success + denial
    }

    fn write_cache_counters(&self, text: &mut MetricsText, hits: u64) {
        let (cache, counters) = (self.cache(), &self.inner.counters);
        let misses = counters.misses.load(Ordering::Relaxed);
        let labels = format!("{SERVER_LABELS},zones=\".\"");
        for (name, help, value) in [
            (
                "coredns_cache_requests_total",
                "The count of cache requests.",
                hits + misses,
            ),
            (
                "coredns_cache_misses_total",
                "The count of cache misses. Deprecated, derive misses from cache hits/requests counters.",
                misses,
            ),
            (
                "coredns_cache_prefetch_total",
                "The number of times the cache has prefetched a cached item.",
                counters.prefetches.load(Ordering::Relaxed),
            ),
            (
                "coredns_cache_served_stale_total",
                "The number of requests served from stale cache entries.",
                counters.served_stale.load(Ordering::Relaxed),
            ),
            (
                "coredns_cache_evictions_total",
                "The count of cache evictions.",
                cache.evictions() as u64,
            ),
        ] {
            text.family(name, MetricType::Counter, help);
            text.sample(name, &labels, value);
        }
    }

    fn write_upstreams(&self, text: &mut MetricsText) {
        let upstreams: Vec<&Upstream> = self.routes().upstreams().map(AsRef::as_ref).collect();
        for (name, help, by_code) in [
            (
                "coredns_forward_responses_total",
                "Counter of responses received per upstream.",
                true,
            ),
            (
                "coredns_forward_requests_total",
                "Counter of requests made per upstream.",
                false,
            ),
        ] {
            text.family(name, MetricType::Counter, help);
            for upstream in &upstreams {
                upstream.write_counts(text, name, by_code);
            }
        }
        write_durations(text, &upstreams);
        write_failures(text, &upstreams);
    }
}

/// Writes the histograms of request durations, under the names of both plugins of CoreDNS.
fn write_durations(text: &mut MetricsText, upstreams: &[&Upstream]) {
    for (name, owner) in [
        ("coredns_forward_request_duration_seconds", ""),
        ("coredns_proxy_request_duration_seconds", OWNER_LABEL),
    ] {
        text.family(
            name,
            MetricType::Histogram,
            "Histogram of the time each request took.",
        );
        for upstream in upstreams {
            let by_code = upstream
                .counters
                .by_code
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            for (code, histogram) in by_code.iter() {
                let labels = format!(
                    "rcode=\"{}\",to=\"{}\"{owner}",
                    code_name(*code),
                    upstream.address()
                );
                text.histogram(name, &labels, histogram);
            }
        }
    }
}

fn write_failures(text: &mut MetricsText, upstreams: &[&Upstream]) {
    type Counter = fn(&Upstream) -> &AtomicU64;
    let counters: [(&str, &str, &str, Counter); 5] = [
        (
            "coredns_forward_healthcheck_failures_total",
            "Counter of the number of failures healthchecks.",
            "",
            |upstream| &upstream.counters.probe_failures,
        ),
        (
            "coredns_proxy_healthcheck_failures_total",
            "Counter of the number of failures healthchecks.",
            OWNER_LABEL,
            |upstream| &upstream.counters.probe_failures,
        ),
        (
            "portolan_dns_forward_failures_total",
            "Number of forwarded queries without a valid response.",
            "",
            |upstream| &upstream.counters.failures,
        ),
        (
            "portolan_dns_forward_foreign_messages_total",
            "Number of messages from resolvers that match no query.",
            "",
            |upstream| &upstream.counters.foreign_messages,
        ),
        (
            "portolan_dns_forward_respelled_answers_total",
            "Number of responses of resolvers that changed the case of the query name.",
            "",
            |upstream| &upstream.counters.case_losses,
        ),
    ];
    for (name, help, owner, counter) in counters {
        text.family(name, MetricType::Counter, help);
        for upstream in upstreams {
            let labels = format!("to=\"{}\"{owner}", upstream.address());
            text.sample(name, &labels, counter(upstream).load(Ordering::Relaxed));
        }
    }
}

impl Upstream {
    fn write_counts(&self, text: &mut MetricsText, name: &str, by_code: bool) {
        let counts = self
            .counters
            .by_code
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let to = self.address();
        if by_code {
            for (code, histogram) in counts.iter() {
                text.sample(
                    name,
                    &format!("rcode=\"{}\",to=\"{to}\"", code_name(*code)),
                    histogram.count(),
                );
            }
        } else {
            let responses: u64 = counts.values().map(Histogram::count).sum();
            let requests = responses + self.counters.failures.load(Ordering::Relaxed);
            text.sample(name, &format!("to=\"{to}\""), requests);
        }
    }
}

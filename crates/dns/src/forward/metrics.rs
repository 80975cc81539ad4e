//! What is counted about questions upstream and the cache.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use telemetry::{Counted, Text};

use super::{EntryKind, Forwarder, Upstream};
use crate::metrics::{DURATION_BOUNDS_SECONDS, Histogram, SERVER_LABELS, code_name};

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
    pub(super) fn hit(&self, kind: EntryKind) {
        let [success, denial] = &self.hits;
        let counter = match kind {
            EntryKind::Success => success,
            EntryKind::Denial => denial,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counters of one resolver. Questions upstream are rare beside those that the cache answers, so a lock does.
#[derive(Debug, Default)]
pub(super) struct UpstreamCounters {
    by_code: Mutex<BTreeMap<u16, Histogram>>,
    failed: AtomicU64,
    probes_failed: AtomicU64,
    foreign: AtomicU64,
    respelled: AtomicU64,
}

impl UpstreamCounters {
    pub(super) fn answered(&self, code: u16, took: Duration) {
        let mut by_code = self.by_code.lock().unwrap_or_else(PoisonError::into_inner);
        by_code
            .entry(code)
            .or_insert_with(|| Histogram::new(&DURATION_BOUNDS_SECONDS))
            .observe(took.as_secs_f64());
    }

    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn probe_failed(&self) {
        self.probes_failed.fetch_add(1, Ordering::Relaxed);
    }

    /// A message came that belongs to another question.
    pub(super) fn foreign(&self) {
        self.foreign.fetch_add(1, Ordering::Relaxed);
    }

    /// An answer came with the name in another spelling than it was asked in.
    pub(super) fn respelled(&self) {
        self.respelled.fetch_add(1, Ordering::Relaxed);
    }
}

impl Forwarder {
    /// Writes the metrics of the cache and of forwarding, by CoreDNS' names.
    pub(crate) fn write_metrics(&self, text: &mut Text) {
        self.write_cache(text);
        let counters = &self.inner.counters;
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        text.family("coredns_forward_max_concurrent_rejects_total", Counted::Counter);
        text.sample(
            "coredns_forward_max_concurrent_rejects_total",
            "",
            value(&counters.rejects),
        );
        text.family("coredns_forward_healthcheck_broken_total", Counted::Counter);
        text.sample(
            "coredns_forward_healthcheck_broken_total",
            "",
            value(&counters.broken),
        );
        self.write_upstreams(text);
    }

    fn write_cache(&self, text: &mut Text) {
        let (cache, counters) = (self.cache(), &self.inner.counters);
        let labels = |kind: &str| format!("{SERVER_LABELS},type=\"{kind}\",zones=\".\"");
        let [success, denial] = [0, 1].map(|at| {
            counters
                .hits
                .get(at)
                .map_or(0, |hits| hits.load(Ordering::Relaxed))
        });
        text.family("coredns_cache_entries", Counted::Gauge);
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
        text.family("coredns_cache_hits_total", Counted::Counter);
        text.sample("coredns_cache_hits_total", &labels("success"), success);
        text.sample("coredns_cache_hits_total", &labels("denial"), denial);
        let misses = counters.misses.load(Ordering::Relaxed);
        let labels = format!("{SERVER_LABELS},zones=\".\"");
        for (name, value) in [
            ("coredns_cache_requests_total", success + denial + misses),
            ("coredns_cache_misses_total", misses),
            (
                "coredns_cache_prefetch_total",
                counters.prefetches.load(Ordering::Relaxed),
            ),
            (
                "coredns_cache_served_stale_total",
                counters.served_stale.load(Ordering::Relaxed),
            ),
            ("coredns_cache_evictions_total", cache.evictions() as u64),
        ] {
            text.family(name, Counted::Counter);
            text.sample(name, &labels, value);
        }
        text.family("portolan_dns_cache_bytes", Counted::Gauge);
        text.sample("portolan_dns_cache_bytes", "", cache.bytes());
    }

    fn write_upstreams(&self, text: &mut Text) {
        let upstreams: Vec<&Upstream> = self.routes().upstreams().map(AsRef::as_ref).collect();
        for (name, by_code) in [
            ("coredns_forward_responses_total", true),
            ("coredns_forward_requests_total", false),
        ] {
            text.family(name, Counted::Counter);
            for upstream in &upstreams {
                upstream.write_counts(text, name, by_code);
            }
        }
        for (name, owner) in [
            ("coredns_forward_request_duration_seconds", ""),
            (
                "coredns_proxy_request_duration_seconds",
                ",proxy_name=\"forward\"",
            ),
        ] {
            text.family(name, Counted::Histogram);
            for upstream in &upstreams {
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
                    histogram.write(text, name, &labels);
                }
            }
        }
        type Counter = fn(&Upstream) -> &AtomicU64;
        let single: [(&str, Counter); 4] = [
            ("coredns_forward_healthcheck_failures_total", |u| {
                &u.counters.probes_failed
            }),
            ("portolan_dns_forward_failures_total", |u| &u.counters.failed),
            ("portolan_dns_forward_foreign_messages_total", |u| {
                &u.counters.foreign
            }),
            ("portolan_dns_forward_respelled_answers_total", |u| {
                &u.counters.respelled
            }),
        ];
        for (name, counter) in single {
            text.family(name, Counted::Counter);
            for upstream in &upstreams {
                let labels = format!("to=\"{}\"", upstream.address());
                text.sample(name, &labels, counter(upstream).load(Ordering::Relaxed));
            }
        }
    }
}

impl Upstream {
    fn write_counts(&self, text: &mut Text, name: &str, by_code: bool) {
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
            let answered: u64 = counts.values().map(Histogram::count).sum();
            let asked = answered + self.counters.failed.load(Ordering::Relaxed);
            text.sample(name, &format!("to=\"{to}\""), asked);
        }
    }
}

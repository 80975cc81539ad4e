//! Counters of queries, one set per worker.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use telemetry::{Histogram, MetricType, MetricsText};

use super::{DURATION_BOUNDS_SECONDS, SERVER_LABELS};
use crate::wire::kind;

/// Query types with a counter of their own, as in CoreDNS; all others count as `other`.
const TYPES: [(u16, &str); 16] = [
    (kind::A, "A"),
    (kind::AAAA, "AAAA"),
    (kind::CNAME, "CNAME"),
    (48, "DNSKEY"),
    (43, "DS"),
    (65, "HTTPS"),
    (15, "MX"),
    (47, "NSEC"),
    (kind::NS, "NS"),
    (kind::PTR, "PTR"),
    (46, "RRSIG"),
    (kind::SOA, "SOA"),
    (kind::SRV, "SRV"),
    (kind::TXT, "TXT"),
    (kind::AXFR, "AXFR"),
    (kind::ANY, "ANY"),
];
const PROTOCOLS: [&str; 3] = ["udp", "tcp", "tls"];
const FAMILIES: [&str; 2] = ["1", "2"];
/// Bounds of the sizes of queries and responses, as in CoreDNS.
const SIZE_BOUNDS_BYTES: [f64; 14] = [
    0.0, 100.0, 200.0, 300.0, 400.0, 511.0, 1_023.0, 2_047.0, 4_095.0, 8_291.0, 16_000.0, 32_000.0, 48_000.0,
    64_000.0,
];
const CODES: [&str; 17] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET",
    "NOTAUTH", "NOTZONE", "11", "12", "13", "14", "15", "BADVERS",
];

/// Returns the name of a response code.
pub(crate) fn code_name(code: u16) -> &'static str {
    CODES.get(usize::from(code)).copied().unwrap_or("UNKNOWN")
}

/// Origin of a response: the label `plugin` of CoreDNS' metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The server refused the query.
    Refusal,
    /// The records of the cluster.
    Cluster,
    /// The cache of the forwarder.
    Cache,
    /// A resolver.
    Upstream,
}

const SOURCES: [(Source, &str); 4] = [
    (Source::Refusal, ""),
    (Source::Cluster, "kubernetes"),
    (Source::Cache, "cache"),
    (Source::Upstream, "forward"),
];

/// A query and its outcome, as the metrics count them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryRecord {
    /// Index of the protocol: UDP, TCP, TLS.
    pub(crate) protocol: usize,
    pub(crate) is_ipv6: bool,
    /// Query type; `None` if the message is malformed.
    pub(crate) kind: Option<u16>,
    pub(crate) dnssec_ok: bool,
    pub(crate) query_bytes: usize,
    pub(crate) response_bytes: usize,
    pub(crate) code: u16,
    pub(crate) source: Source,
    pub(crate) duration: Duration,
}

/// Counters of one worker.
#[derive(Debug)]
pub(crate) struct Counters {
    requests: [[[AtomicU64; TYPES.len() + 1]; FAMILIES.len()]; PROTOCOLS.len()],
    dnssec_ok: AtomicU64,
    responses: [[AtomicU64; CODES.len()]; SOURCES.len()],
    durations: Histogram,
    query_bytes: [Histogram; PROTOCOLS.len()],
    response_bytes: [Histogram; PROTOCOLS.len()],
    /// Responses dropped by the rate limit of a network.
    pub(crate) rate_limit_drops: AtomicU64,
    /// Responses truncated by the rate limit of a network.
    pub(crate) rate_limit_truncations: AtomicU64,
    /// Queries of clients outside of the allowed networks.
    pub(crate) clients_refused: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        let sizes = || PROTOCOLS.map(|_| Histogram::new(&SIZE_BOUNDS_BYTES));
        Self {
            requests: [const { [const { [const { AtomicU64::new(0) }; TYPES.len() + 1] }; FAMILIES.len()] };
                PROTOCOLS.len()],
            dnssec_ok: AtomicU64::new(0),
            responses: [const { [const { AtomicU64::new(0) }; CODES.len()] }; SOURCES.len()],
            durations: Histogram::new(&DURATION_BOUNDS_SECONDS),
            query_bytes: sizes(),
            response_bytes: sizes(),
            rate_limit_drops: AtomicU64::new(0),
            rate_limit_truncations: AtomicU64::new(0),
            clients_refused: AtomicU64::new(0),
        }
    }
}

impl Counters {
    /// Counts a query and its response.
    pub(crate) fn count(&self, query: &QueryRecord) {
        let kind = query
            .kind
            .and_then(|kind| TYPES.iter().position(|(number, _)| *number == kind));
        let requests = self.requests.get(query.protocol);
        let requests = requests.and_then(|families| families.get(usize::from(query.is_ipv6)));
        increase(requests.and_then(|types| types.get(kind.unwrap_or(TYPES.len()))));
        if query.dnssec_ok {
            increase(Some(&self.dnssec_ok));
        }
        let source = SOURCES.iter().position(|(source, _)| *source == query.source);
        let codes = self.responses.get(source.unwrap_or(0));
        increase(codes.and_then(|codes| codes.get(usize::from(query.code))));
        self.durations.observe(query.duration.as_secs_f64());
        if let Some(sizes) = self.query_bytes.get(query.protocol) {
            sizes.observe(query.query_bytes as f64);
        }
        if let Some(sizes) = self.response_bytes.get(query.protocol) {
            sizes.observe(query.response_bytes as f64);
        }
    }

    /// Adds the counts of another worker.
    pub(super) fn add(&self, other: &Self) {
        for (to, from) in self.flat().zip(other.flat()) {
            to.fetch_add(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.durations.add(&other.durations);
        for (to, from) in self.query_bytes.iter().zip(&other.query_bytes) {
            to.add(from);
        }
        for (to, from) in self.response_bytes.iter().zip(&other.response_bytes) {
            to.add(from);
        }
    }

    /// Returns all plain counters, always in the same order.
    fn flat(&self) -> impl Iterator<Item = &AtomicU64> {
        let requests = self.requests.iter().flatten().flatten();
        let responses = self.responses.iter().flatten();
        requests.chain(responses).chain([
            &self.dnssec_ok,
            &self.rate_limit_drops,
            &self.rate_limit_truncations,
            &self.clients_refused,
        ])
    }

    /// Writes all metrics. Requests and responses omit counters that are zero.
    pub(super) fn write(&self, text: &mut MetricsText) {
        self.write_requests(text);
        text.family(
            "coredns_dns_do_requests_total",
            MetricType::Counter,
            "Counter of DNS requests with DO bit set per zone.",
        );
        let labels = format!("{SERVER_LABELS},zone=\".\"");
        let dnssec_ok = self.dnssec_ok.load(Ordering::Relaxed);
        text.sample("coredns_dns_do_requests_total", &labels, dnssec_ok);
        let name = "coredns_dns_request_duration_seconds";
        text.family(
            name,
            MetricType::Histogram,
            "Histogram of the time (in seconds) each request took per zone.",
        );
        text.histogram(name, &labels, &self.durations);
        for (name, help, sizes) in [
            (
                "coredns_dns_request_size_bytes",
                "Size of the EDNS0 UDP buffer in bytes (64K for TCP) per zone and protocol.",
                &self.query_bytes,
            ),
            (
                "coredns_dns_response_size_bytes",
                "Size of the returned response in bytes.",
                &self.response_bytes,
            ),
        ] {
            text.family(name, MetricType::Histogram, help);
            for (protocol, sizes) in PROTOCOLS.iter().zip(sizes) {
                text.histogram(name, &format!("{labels},proto=\"{protocol}\""), sizes);
            }
        }
        self.write_refusals(text);
    }

    fn write_refusals(&self, text: &mut MetricsText) {
        text.single(
            "portolan_dns_clients_refused_total",
            MetricType::Counter,
            "Number of queries refused because the client is not in an allowed network.",
            self.clients_refused.load(Ordering::Relaxed),
        );
        text.family(
            "portolan_dns_rate_limited_total",
            MetricType::Counter,
            "Number of responses dropped or truncated because their network exceeded its rate limit.",
        );
        for (action, count) in [
            ("drop", &self.rate_limit_drops),
            ("truncate", &self.rate_limit_truncations),
        ] {
            let labels = format!("action=\"{action}\"");
            text.sample(
                "portolan_dns_rate_limited_total",
                &labels,
                count.load(Ordering::Relaxed),
            );
        }
    }

    fn write_requests(&self, text: &mut MetricsText) {
        let name = "coredns_dns_requests_total";
        text.family(
            name,
            MetricType::Counter,
            "Counter of DNS requests made per zone, protocol and family.",
        );
        let types = TYPES.iter().map(|(_, name)| *name).chain(["other"]);
        for (protocol, families) in PROTOCOLS.iter().zip(&self.requests) {
            for (family, counts) in FAMILIES.iter().zip(families) {
                for (kind, count) in types.clone().zip(counts) {
                    let count = count.load(Ordering::Relaxed);
                    if count > 0 {
                        let labels = format!(
                            "{SERVER_LABELS},family=\"{family}\",proto=\"{protocol}\",type=\"{kind}\",zone=\".\""
                        );
                        text.sample(name, &labels, count);
                    }
                }
            }
        }
        let name = "coredns_dns_responses_total";
        text.family(name, MetricType::Counter, "Counter of response status codes.");
        for ((_, plugin), counts) in SOURCES.iter().zip(&self.responses) {
            for (code, count) in CODES.iter().zip(counts) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let labels = format!("{SERVER_LABELS},plugin=\"{plugin}\",rcode=\"{code}\",zone=\".\"");
                    text.sample(name, &labels, count);
                }
            }
        }
    }
}

fn increase(counter: Option<&AtomicU64>) {
    if let Some(counter) = counter {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

//! What one loop counts about queries.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use telemetry::{Counted, Text};

use super::{DURATION_BOUNDS_SECONDS, Histogram, SERVER_LABELS};
use crate::wire::kind;

/// Types with a counter of their own, as CoreDNS has them; the rest is `other`.
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
/// Bounds of the sizes of queries and answers, as CoreDNS has them.
const SIZE_BOUNDS_OCTETS: [f64; 14] = [
    0.0, 100.0, 200.0, 300.0, 400.0, 511.0, 1_023.0, 2_047.0, 4_095.0, 8_291.0, 16_000.0, 32_000.0, 48_000.0,
    64_000.0,
];
const CODES: [&str; 17] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET",
    "NOTAUTH", "NOTZONE", "11", "12", "13", "14", "15", "BADVERS",
];

/// The name of a response code.
pub(crate) fn code_name(code: u16) -> &'static str {
    CODES.get(usize::from(code)).copied().unwrap_or("UNKNOWN")
}

/// Where an answer came from: the `plugin` of CoreDNS' metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// From nowhere: the query was turned down.
    Refusal,
    /// From the cluster's records.
    Cluster,
    /// From upstream, kept.
    Cache,
    /// From upstream, just now.
    Upstream,
}

const SOURCES: [(Source, &str); 4] = [
    (Source::Refusal, ""),
    (Source::Cluster, "kubernetes"),
    (Source::Cache, "cache"),
    (Source::Upstream, "forward"),
];

/// How a query came and how it ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// Index of the protocol: UDP, TCP, TLS.
    pub(crate) protocol: usize,
    pub(crate) is_ipv6: bool,
    /// Type asked for; nothing if the message could not be read.
    pub(crate) kind: Option<u16>,
    pub(crate) dnssec_ok: bool,
    pub(crate) query_octets: usize,
    pub(crate) answer_octets: usize,
    pub(crate) code: u16,
    pub(crate) source: Source,
    pub(crate) took: Duration,
}

/// The counters of one loop.
#[derive(Debug)]
pub(crate) struct Counters {
    requests: [[[AtomicU64; TYPES.len() + 1]; FAMILIES.len()]; PROTOCOLS.len()],
    dnssec_ok: AtomicU64,
    responses: [[AtomicU64; CODES.len()]; SOURCES.len()],
    durations: Histogram,
    query_octets: [Histogram; PROTOCOLS.len()],
    answer_octets: [Histogram; PROTOCOLS.len()],
    /// Answers that were held back, and those that were cut, because a network got too many.
    pub(crate) held_back: AtomicU64,
    pub(crate) cut: AtomicU64,
    /// Queries of clients that are not answered.
    pub(crate) strangers: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        let sizes = || PROTOCOLS.map(|_| Histogram::new(&SIZE_BOUNDS_OCTETS));
        Self {
            requests: [const { [const { [const { AtomicU64::new(0) }; TYPES.len() + 1] }; FAMILIES.len()] };
                PROTOCOLS.len()],
            dnssec_ok: AtomicU64::new(0),
            responses: [const { [const { AtomicU64::new(0) }; CODES.len()] }; SOURCES.len()],
            durations: Histogram::new(&DURATION_BOUNDS_SECONDS),
            query_octets: sizes(),
            answer_octets: sizes(),
            held_back: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            strangers: AtomicU64::new(0),
        }
    }
}

impl Counters {
    /// Counts a query and its answer.
    pub(crate) fn count(&self, ended: &Ended) {
        let kind = ended
            .kind
            .and_then(|kind| TYPES.iter().position(|(number, _)| *number == kind));
        let requests = self.requests.get(ended.protocol);
        let requests = requests.and_then(|families| families.get(usize::from(ended.is_ipv6)));
        increase(requests.and_then(|types| types.get(kind.unwrap_or(TYPES.len()))));
        if ended.dnssec_ok {
            increase(Some(&self.dnssec_ok));
        }
        let source = SOURCES.iter().position(|(source, _)| *source == ended.source);
        let codes = self.responses.get(source.unwrap_or(0));
        increase(codes.and_then(|codes| codes.get(usize::from(ended.code))));
        self.durations.observe(ended.took.as_secs_f64());
        if let Some(sizes) = self.query_octets.get(ended.protocol) {
            sizes.observe(ended.query_octets as f64);
        }
        if let Some(sizes) = self.answer_octets.get(ended.protocol) {
            sizes.observe(ended.answer_octets as f64);
        }
    }

    /// Adds what another loop has counted.
    pub(super) fn add(&self, other: &Self) {
        for (to, from) in self.flat().zip(other.flat()) {
            to.fetch_add(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.durations.add(&other.durations);
        for (to, from) in self.query_octets.iter().zip(&other.query_octets) {
            to.add(from);
        }
        for (to, from) in self.answer_octets.iter().zip(&other.answer_octets) {
            to.add(from);
        }
    }

    /// All plain counters, always in the same order.
    fn flat(&self) -> impl Iterator<Item = &AtomicU64> {
        let requests = self.requests.iter().flatten().flatten();
        let responses = self.responses.iter().flatten();
        requests
            .chain(responses)
            .chain([&self.dnssec_ok, &self.held_back, &self.cut, &self.strangers])
    }

    /// Writes them; counters that are zero are left out where there are many.
    pub(super) fn write(&self, text: &mut Text) {
        self.write_requests(text);
        text.family("coredns_dns_do_requests_total", Counted::Counter);
        let labels = format!("{SERVER_LABELS},zone=\".\"");
        let dnssec_ok = self.dnssec_ok.load(Ordering::Relaxed);
        text.sample("coredns_dns_do_requests_total", &labels, dnssec_ok);
        let name = "coredns_dns_request_duration_seconds";
        text.family(name, Counted::Histogram);
        self.durations.write(text, name, &labels);
        for (name, sizes) in [
            ("coredns_dns_request_size_bytes", &self.query_octets),
            ("coredns_dns_response_size_bytes", &self.answer_octets),
        ] {
            text.family(name, Counted::Histogram);
            for (protocol, sizes) in PROTOCOLS.iter().zip(sizes) {
                sizes.write(text, name, &format!("{labels},proto=\"{protocol}\""));
            }
        }
        let strangers = self.strangers.load(Ordering::Relaxed);
        text.family("portolan_dns_clients_refused_total", Counted::Counter);
        text.sample("portolan_dns_clients_refused_total", "", strangers);
        text.family("portolan_dns_rate_limited_total", Counted::Counter);
        for (action, count) in [("drop", &self.held_back), ("truncate", &self.cut)] {
            let labels = format!("action=\"{action}\"");
            text.sample(
                "portolan_dns_rate_limited_total",
                &labels,
                count.load(Ordering::Relaxed),
            );
        }
    }

    fn write_requests(&self, text: &mut Text) {
        let name = "coredns_dns_requests_total";
        text.family(name, Counted::Counter);
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
        text.family(name, Counted::Counter);
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

//! Metrics in Prometheus text format, under kube-proxy's names (MET rules).
//!
//! One data plane serves both families in one sync, so a sync counts for both.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dataplane::two_tier::ForwardedPackets;
use dataplane::{Counts, IptablesCounts, TableCounts};
use jiff::Timestamp;
use plan::Totals;
use telemetry::{Histogram, MetricType, MetricsText};

/// 0.001 s, doubled 14 times (MET-01).
const SYNC_BOUNDS: [f64; 15] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];

/// All metrics.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    values: Mutex<Values>,
}

/// Values. Fields are named after the metrics, without `kubeproxy_`.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) sync_proxy_rules_duration_seconds: Histogram,
    pub(crate) sync_full_proxy_rules_duration_seconds: Histogram,
    pub(crate) sync_partial_proxy_rules_duration_seconds: Histogram,
    pub(crate) network_programming_duration_seconds: Histogram,
    pub(crate) conntrack_reconciler_sync_duration_seconds: Histogram,
    pub(crate) sync_proxy_rules_last_timestamp_seconds: f64,
    pub(crate) sync_proxy_rules_last_queued_timestamp_seconds: f64,
    pub(crate) sync_proxy_rules_endpoint_changes_pending: u64,
    pub(crate) sync_proxy_rules_endpoint_changes_total: u64,
    pub(crate) sync_proxy_rules_service_changes_pending: u64,
    pub(crate) sync_proxy_rules_service_changes_total: u64,
    pub(crate) sync_proxy_rules_nftables_sync_failures_total: u64,
    /// By IP family.
    pub(crate) conntrack_reconciler_deleted_entries_total: [u64; 2],
    /// Elements that differed from the plan when they were read back. Portolan only.
    pub(crate) repaired_elements_total: u64,
    /// TCP connections that were reset at the end of their drain period. Portolan only.
    pub(crate) drained_connections_total: u64,
    /// TCP connections that were reset for another reason, by [`ResetReason`]. Portolan only.
    pub(crate) reset_connections_total: [u64; ResetReason::ALL.len()],
    /// Packets that the XDP program of two-tier forwarding forwarded; `None` without a program. Portolan only.
    pub(crate) xdp_forwarded_packets: Option<u64>,
    /// Services that are not applied completely. Portolan only.
    pub(crate) faulty_services: u64,
    /// Responses of `/healthz` with 200 and 503.
    pub(crate) proxy_healthz_total: [u64; 2],
    /// Responses of `/livez` with 200 and 503.
    pub(crate) proxy_livez_total: [u64; 2],
    /// Totals of the plan by IP family.
    pub(crate) totals: [Totals; 2],
    /// Counters of the data plane.
    pub(crate) counts: Counts,
    /// Reason why a part of the data plane is not in use.
    pub(crate) dataplane_fault: Option<String>,
    /// True in iptables mode.
    pub(crate) is_iptables: bool,
}

/// Reason for which TCP connections were reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResetReason {
    /// The node of their endpoint failed.
    NodeLost,
    /// Connections reached their maximum age.
    Age,
    /// Endpoints were added.
    Rebalance,
}

impl ResetReason {
    /// All reasons, in the order of the counters.
    pub(crate) const ALL: [Self; 3] = [Self::NodeLost, Self::Age, Self::Rebalance];

    /// Returns the value of the label.
    fn label(self) -> &'static str {
        match self {
            Self::NodeLost => "node_lost",
            Self::Age => "age",
            Self::Rebalance => "rebalance",
        }
    }
}

/// Counters that are read on request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packets {
    /// Packets that iptables dropped in conntrack state INVALID (MET-18); `None` if they are not counted.
    pub(crate) invalid_dropped: Option<u64>,
    /// Connections to node ports on 127.0.0.1 (MET-19). Upstream's rule counts packets, but matches only the first
    /// packet of each connection.
    pub(crate) localhost_accepted: u64,
    /// Packets of two-tier forwarding; `None` without it.
    pub(crate) two_tier: Option<ForwardedPackets>,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            sync_proxy_rules_duration_seconds: Histogram::new(&SYNC_BOUNDS),
            sync_full_proxy_rules_duration_seconds: Histogram::new(&SYNC_BOUNDS),
            sync_partial_proxy_rules_duration_seconds: Histogram::new(&SYNC_BOUNDS),
            network_programming_duration_seconds: Histogram::new(network_programming_bounds()),
            conntrack_reconciler_sync_duration_seconds: Histogram::new(&SYNC_BOUNDS),
            sync_proxy_rules_last_timestamp_seconds: 0.0,
            sync_proxy_rules_last_queued_timestamp_seconds: 0.0,
            sync_proxy_rules_endpoint_changes_pending: 0,
            sync_proxy_rules_endpoint_changes_total: 0,
            sync_proxy_rules_service_changes_pending: 0,
            sync_proxy_rules_service_changes_total: 0,
            sync_proxy_rules_nftables_sync_failures_total: 0,
            conntrack_reconciler_deleted_entries_total: [0; 2],
            repaired_elements_total: 0,
            drained_connections_total: 0,
            reset_connections_total: [0; ResetReason::ALL.len()],
            xdp_forwarded_packets: None,
            faulty_services: 0,
            proxy_healthz_total: [0; 2],
            proxy_livez_total: [0; 2],
            totals: [Totals::default(); 2],
            counts: Counts::default(),
            dataplane_fault: None,
            is_iptables: false,
        }
    }
}

/// Returns 0.25, 0.5, 1 to 59, 60 to 115 by 5, 120 to 300 by 30 (MET-06).
fn network_programming_bounds() -> Vec<f64> {
    let whole = (1..60).chain((60..120).step_by(5)).chain((120..=300).step_by(30));
    [0.25, 0.5].into_iter().chain(whole.map(f64::from)).collect()
}

impl Metrics {
    /// Changes values.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Values)) {
        change(&mut self.values());
    }

    /// Records a successful sync.
    pub(crate) fn synced(&self, elapsed: Duration, is_full: bool, now: Timestamp) {
        self.update(|values| {
            let seconds = elapsed.as_secs_f64();
            values.sync_proxy_rules_duration_seconds.observe(seconds);
            if is_full {
                values.sync_full_proxy_rules_duration_seconds.observe(seconds);
            } else {
                values.sync_partial_proxy_rules_duration_seconds.observe(seconds);
            }
            values.sync_proxy_rules_last_timestamp_seconds = seconds_of(now);
        });
        self.nothing_pending();
    }

    /// Records that the applied state includes all changes (MET-12, MET-13).
    pub(crate) fn nothing_pending(&self) {
        self.update(|values| {
            values.sync_proxy_rules_endpoint_changes_pending = 0;
            values.sync_proxy_rules_service_changes_pending = 0;
        });
    }

    /// Renders health as the SLI metrics of Kubernetes components (HLT-04).
    pub(crate) fn render_health(&self, now_healthy: [bool; 2]) -> String {
        const STATE: &str = "kubernetes_healthcheck";
        const COUNT: &str = "kubernetes_healthchecks_total";
        let values = self.values();
        let checks = ["healthz", "livez"];
        let mut text = MetricsText::default();
        text.family(
            STATE,
            MetricType::Gauge,
            "This metric records the result of a single healthcheck.",
        );
        for (name, is_healthy) in checks.into_iter().zip(now_healthy) {
            let labels = format!("name=\"proxy\",type=\"{name}\"");
            text.sample(STATE, &labels, u8::from(is_healthy));
        }
        text.family(
            COUNT,
            MetricType::Counter,
            "This metric records the results of all healthcheck.",
        );
        for (name, counts) in checks
            .into_iter()
            .zip([values.proxy_healthz_total, values.proxy_livez_total])
        {
            for (status, count) in ["success", "error"].into_iter().zip(counts) {
                let labels = format!("name=\"proxy\",status=\"{status}\",type=\"{name}\"");
                text.sample(COUNT, &labels, count);
            }
        }
        text.finish()
    }

    /// Returns the values for `/status`.
    pub(crate) fn status(&self) -> serde_json::Value {
        let values = self.values();
        let family_counts = |totals: &Totals| {
            serde_json::json!({
                "servicePorts": totals.ports,
                "endpoints": totals.endpoints,
                "withoutLocalEndpoints": totals.internal_without_local + totals.external_without_local,
            })
        };
        let syncs = &values.sync_proxy_rules_duration_seconds;
        let [ipv4, ipv6] = &values.totals;
        let ebpf = values.counts.connect.map(|connect| {
            serde_json::json!({
                "attached": connect.is_attached,
                "destroysSockets": connect.destroys_sockets,
                "frontends": connect.frontends,
                "fault": values.dataplane_fault,
            })
        });
        let mut status = serde_json::json!({
            "lastSync": time_of(values.sync_proxy_rules_last_timestamp_seconds),
            "syncs": syncs.count(),
            "secondsInSyncs": syncs.sum(),
            "pendingServiceChanges": values.sync_proxy_rules_service_changes_pending,
            "pendingEndpointChanges": values.sync_proxy_rules_endpoint_changes_pending,
            "failedSyncs": values.sync_proxy_rules_nftables_sync_failures_total,
            "repairedElements": values.repaired_elements_total,
            "deletedFlows": values.conntrack_reconciler_deleted_entries_total.iter().sum::<u64>(),
            "drainedConnections": values.drained_connections_total + values.counts.drained_connections,
            "resetConnections": ResetReason::ALL.into_iter().map(|reason| values.reset_connections(reason)).sum::<u64>(),
            "faultyServices": values.faulty_services,
            "IPv4": family_counts(ipv4),
            "IPv6": family_counts(ipv6),
        });
        if let Some(ebpf) = ebpf {
            status["ebpf"] = ebpf;
        } else if let Some(fault) = &values.dataplane_fault {
            status["dataPlaneFault"] = fault.as_str().into();
        }
        status
    }

    /// Renders all metrics.
    pub(crate) fn render(&self, packets: Packets) -> MetricsText {
        let mut text = KubeProxyText::default();
        self.values().write(&mut text);
        packets.write(&mut text);
        text.0
    }

    fn values(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn family_name(counts: &IptablesCounts) -> &'static str {
    FAMILIES[counts.family as usize]
}

/// Returns the time of a gauge; `None` if it was never set.
fn time_of(seconds: f64) -> Option<String> {
    let at = Timestamp::from_millisecond((seconds * 1_000.0) as i64).ok()?;
    (seconds > 0.0).then(|| at.to_string())
}

/// Returns seconds since 1970, as gauges contain them.
pub(crate) fn seconds_of(at: Timestamp) -> f64 {
    at.as_millisecond() as f64 / 1_000.0
}

impl Values {
    fn write(&self, text: &mut KubeProxyText) {
        for (name, help, histogram) in [
            (
                "sync_proxy_rules_duration_seconds",
                "SyncProxyRules latency in seconds",
                &self.sync_proxy_rules_duration_seconds,
            ),
            (
                "sync_full_proxy_rules_duration_seconds",
                "SyncProxyRules latency in seconds for full resyncs",
                &self.sync_full_proxy_rules_duration_seconds,
            ),
            (
                "sync_partial_proxy_rules_duration_seconds",
                "SyncProxyRules latency in seconds for partial resyncs",
                &self.sync_partial_proxy_rules_duration_seconds,
            ),
            (
                "network_programming_duration_seconds",
                "In Cluster Network Programming Latency in seconds",
                &self.network_programming_duration_seconds,
            ),
            (
                "conntrack_reconciler_sync_duration_seconds",
                "ReconcileConntrackFlowsLatency latency in seconds",
                &self.conntrack_reconciler_sync_duration_seconds,
            ),
        ] {
            text.histogram(name, help, histogram);
        }
        self.write_timestamps(text);
        self.write_changes(text);
        self.write_own(text);
        self.write_nftables(text);
        self.write_iptables(text);
        self.write_ebpf(text);
        self.write_userspace(text);
        self.write_labelled(text);
    }

    fn write_timestamps(&self, text: &mut KubeProxyText) {
        for (name, help, value) in [
            (
                "sync_proxy_rules_last_timestamp_seconds",
                "The last time proxy rules were successfully synced",
                self.sync_proxy_rules_last_timestamp_seconds,
            ),
            (
                "sync_proxy_rules_last_queued_timestamp_seconds",
                "The last time a sync of proxy rules was queued",
                self.sync_proxy_rules_last_queued_timestamp_seconds,
            ),
        ] {
            text.family(name, MetricType::Gauge, help);
            text.by_family(name, value);
        }
    }

    fn write_changes(&self, text: &mut KubeProxyText) {
        for (name, metric_type, help, value) in [
            (
                "sync_proxy_rules_endpoint_changes_pending",
                MetricType::Gauge,
                "Pending proxy rules Endpoint changes",
                self.sync_proxy_rules_endpoint_changes_pending,
            ),
            (
                "sync_proxy_rules_endpoint_changes_total",
                MetricType::Counter,
                "Cumulative proxy rules Endpoint changes",
                self.sync_proxy_rules_endpoint_changes_total,
            ),
            (
                "sync_proxy_rules_service_changes_pending",
                MetricType::Gauge,
                "Pending proxy rules Service changes",
                self.sync_proxy_rules_service_changes_pending,
            ),
            (
                "sync_proxy_rules_service_changes_total",
                MetricType::Counter,
                "Cumulative proxy rules Service changes",
                self.sync_proxy_rules_service_changes_total,
            ),
        ] {
            text.family(name, metric_type, help);
            text.sample(name, "", value);
        }
    }

    /// Writes the metrics that kube-proxy does not have.
    fn write_own(&self, text: &mut KubeProxyText) {
        if let Some(packets) = self.xdp_forwarded_packets {
            let name = "two_tier_xdp_forwarded_packets_total";
            let help = "Number of packets to load balancer IPs that the XDP program of this node forwarded to the current node of their slot";
            text.family(name, MetricType::Counter, help);
            text.sample(name, "", packets);
        }
        for (name, metric_type, help, value) in [
            (
                "repaired_elements_total",
                MetricType::Counter,
                "Number of kernel elements that differed from the plan and were repaired",
                self.repaired_elements_total,
            ),
            (
                "drained_connections_total",
                MetricType::Counter,
                "Number of TCP connections reset because the drain period of their endpoint has ended",
                self.drained_connections_total + self.counts.drained_connections,
            ),
            (
                "faulty_services",
                MetricType::Gauge,
                "Number of Services whose rules are not applied, or not completely",
                self.faulty_services,
            ),
        ] {
            text.family(name, metric_type, help);
            text.sample(name, "", value);
        }
        let name = "reset_connections_total";
        let help = "Number of TCP connections reset because the node of their endpoint failed, because of their age, or to rebalance them";
        text.family(name, MetricType::Counter, help);
        for reason in ResetReason::ALL {
            let labels = format!("reason=\"{}\"", reason.label());
            text.sample(name, &labels, self.reset_connections(reason));
        }
    }

    /// Returns the number of connections that were reset for a reason.
    fn reset_connections(&self, reason: ResetReason) -> u64 {
        let in_process = match reason {
            ResetReason::NodeLost => self.counts.reset_connections,
            ResetReason::Age => self.counts.aged_connections,
            ResetReason::Rebalance => self.counts.rebalanced_connections,
        };
        let in_kernel = self.reset_connections_total.get(reason as usize);
        in_kernel.map_or(0, |count| count + in_process)
    }

    /// Writes the counters of nftables mode; iptables mode has counters of its own.
    fn write_nftables(&self, text: &mut KubeProxyText) {
        if self.is_iptables {
            return;
        }
        for (name, help, value) in [
            (
                "sync_proxy_rules_nftables_sync_failures_total",
                "Cumulative proxy nftables sync failures",
                self.sync_proxy_rules_nftables_sync_failures_total,
            ),
            (
                "sync_proxy_rules_nftables_cleanup_failures_total",
                "Cumulative proxy nftables cleanup failures",
                self.counts.cleanup_failures,
            ),
        ] {
            text.family(name, MetricType::Counter, help);
            text.by_family(name, value);
        }
    }

    /// Writes the state of eBPF mode.
    fn write_ebpf(&self, text: &mut KubeProxyText) {
        let Some(connect) = self.counts.connect else {
            return;
        };
        for (name, help, value) in [
            (
                "ebpf_attached",
                "1 if eBPF programs choose endpoints of TCP when clients connect, 0 if nftables serves all connections",
                u64::from(connect.is_attached),
            ),
            (
                "ebpf_frontends",
                "Number of frontends whose endpoints eBPF programs choose",
                connect.frontends,
            ),
            (
                "ebpf_destroys_sockets",
                "1 if the sockets of clients can be destroyed at the end of drain-seconds and after the failure of a node, otherwise 0",
                u64::from(connect.destroys_sockets),
            ),
        ] {
            text.family(name, MetricType::Gauge, help);
            text.sample(name, "", value);
        }
        if let Some(lost) = connect.lost_events {
            let name = "ebpf_lost_events_total";
            let help = "Number of events of connections that a reader requested and did not get, because the ring was full";
            text.family(name, MetricType::Counter, help);
            text.sample(name, "", lost);
        }
    }

    /// Writes the refused permits of userspace mode.
    fn write_userspace(&self, text: &mut KubeProxyText) {
        let Some(refusals) = self.counts.permit_refusals else {
            return;
        };
        let name = "userspace_permit_refusals_total";
        let help = "Number of attempts to accept a TCP connection or open a UDP flow without a permit, by the limit that was reached";
        text.family(name, MetricType::Counter, help);
        for (limit, count) in [
            ("process", refusals.process),
            ("service", refusals.service),
            ("client", refusals.client),
        ] {
            text.sample(name, &format!("limit=\"{limit}\""), count);
        }
    }

    /// Writes the metrics of iptables mode (MET-14 to MET-17), if there are tables of iptables.
    fn write_iptables(&self, text: &mut KubeProxyText) {
        if self.counts.iptables.is_empty() {
            return;
        }
        for (name, help, count) in [
            (
                "sync_proxy_rules_iptables_restore_failures_total",
                "Cumulative proxy iptables restore failures",
                (|counts| counts.failures) as fn(&IptablesCounts) -> u64,
            ),
            (
                "sync_proxy_rules_iptables_partial_restore_failures_total",
                "Cumulative proxy iptables partial restore failures",
                |counts| counts.partial_failures,
            ),
        ] {
            text.family(name, MetricType::Counter, help);
            for counts in &self.counts.iptables {
                let labels = format!("ip_family=\"{}\"", family_name(counts));
                text.sample(name, &labels, count(counts));
            }
        }
        for (name, help, count) in [
            (
                "sync_proxy_rules_iptables_total",
                "Total number of iptables rules owned by kube-proxy",
                (|table| table.rules) as fn(&TableCounts) -> u64,
            ),
            (
                "sync_proxy_rules_iptables_last",
                "Number of iptables rules written by kube-proxy in last sync",
                |table| table.rules_last,
            ),
        ] {
            text.family(name, MetricType::Gauge, help);
            for counts in &self.counts.iptables {
                // The table of the canary has no rules.
                for table in counts.tables.iter().filter(|table| table.table != "mangle") {
                    let labels = format!("ip_family=\"{}\",table=\"{}\"", family_name(counts), table.table);
                    text.sample(name, &labels, count(table));
                }
            }
        }
    }

    /// Writes the counters with labels.
    fn write_labelled(&self, text: &mut KubeProxyText) {
        for (name, help, counts) in [
            (
                "proxy_healthz_total",
                "Cumulative proxy healthz HTTP status",
                self.proxy_healthz_total,
            ),
            (
                "proxy_livez_total",
                "Cumulative proxy livez HTTP status",
                self.proxy_livez_total,
            ),
        ] {
            text.family(name, MetricType::Counter, help);
            text.sample(name, "code=\"200\"", counts[0]);
            text.sample(name, "code=\"503\"", counts[1]);
        }
        let name = "conntrack_reconciler_deleted_entries_total";
        text.family(
            name,
            MetricType::Counter,
            "Cumulative conntrack flows deleted by conntrack reconciler",
        );
        for (family, count) in FAMILIES
            .iter()
            .zip(self.conntrack_reconciler_deleted_entries_total)
        {
            text.sample(name, &format!("ip_family=\"{family}\""), count);
        }
        let name = "sync_proxy_rules_no_local_endpoints_total";
        text.family(
            name,
            MetricType::Gauge,
            "Number of services with a Local traffic policy and no endpoints",
        );
        for (family, totals) in FAMILIES.iter().zip(&self.totals) {
            for (policy, count) in [
                ("internal", totals.internal_without_local),
                ("external", totals.external_without_local),
            ] {
                text.sample(
                    name,
                    &format!("ip_family=\"{family}\",traffic_policy=\"{policy}\""),
                    count,
                );
            }
        }
    }
}

impl Packets {
    fn write(&self, text: &mut KubeProxyText) {
        for (name, help, count) in [
            (
                "iptables_ct_state_invalid_dropped_packets_total",
                "packets dropped by iptables to work around conntrack problems",
                self.invalid_dropped,
            ),
            (
                "iptables_localhost_nodeports_accepted_packets_total",
                "Number of packets accepted on nodeports of loopback interface",
                Some(self.localhost_accepted),
            ),
        ] {
            if let Some(count) = count {
                text.family(name, MetricType::Counter, help);
                text.sample(name, "", count);
            }
        }
        let Some(forwarded) = self.two_tier else {
            return;
        };
        let name = "two_tier_forwarded_packets_total";
        let help = "Number of packets to load balancer IPs that this node forwarded to another node: to the current node of their slot, or to a previous one that tracks the connection";
        text.family(name, MetricType::Counter, help);
        text.sample(name, "node=\"current\"", forwarded.to_current);
        text.sample(name, "node=\"previous\"", forwarded.to_previous);
    }
}

/// A metrics text whose names get kube-proxy's prefix.
#[derive(Default)]
struct KubeProxyText(MetricsText);

impl KubeProxyText {
    fn family(&mut self, name: &str, metric_type: MetricType, help: &str) {
        self.0.family(&prefixed_name(name), metric_type, help);
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        self.0.sample(&prefixed_name(name), labels, value);
    }

    /// Writes one value that holds for both IP families.
    fn by_family(&mut self, name: &str, value: impl std::fmt::Display) {
        for family in FAMILIES {
            self.sample(name, &format!("ip_family=\"{family}\""), &value);
        }
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.family(name, MetricType::Histogram, help);
        for family in FAMILIES {
            let labels = format!("ip_family=\"{family}\"");
            self.0.histogram(&prefixed_name(name), &labels, histogram);
        }
    }
}

fn prefixed_name(name: &str) -> String {
    format!("kubeproxy_{name}")
}

#[cfg(test)]
mod tests;

//! The flags of `portolan proxy`: kube-proxy's (KPF), written into the same configuration as its file.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use ipnet::IpNet;

use super::Mode;
use super::configuration::{Configuration, HEALTHZ_ADDRESS, METRICS_ADDRESS, METRICS_ADDRESS_V6, with_port};
use super::duration::GoDuration;
use super::gates::Gates;
use super::validation::{IPVS, node_name, socket_address};
use crate::flags::cidr;

/// Flags that concern this node's dataplane.
#[derive(Clone, Debug, Args)]
pub struct NodeFlags {
    /// Name of this Node; the host's name if not given
    #[arg(long, visible_alias = "node-name", value_name = "NAME")]
    pub hostname_override: Option<String>,
    /// How Services are put into the kernel
    #[arg(long, default_value = Mode::default().name(), value_parser = modes(), value_name = "MODE")]
    pub proxy_mode: String,
    /// Ranges of Pod addresses, one a family: who is not in them is masqueraded towards cluster IPs
    #[arg(long, value_delimiter = ',', value_name = "CIDRs", value_parser = cidr)]
    pub cluster_cidr: Vec<IpNet>,
    /// Addresses on which node ports answer: `primary`, the Node's own, or those in a list of CIDRs; if not given,
    /// `primary` in mode nftables and all in mode iptables
    #[arg(long, value_delimiter = ',', value_name = "CIDRs")]
    pub nodeport_addresses: Vec<String>,
    /// Masquerade everything that goes to a cluster IP
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub masquerade_all: bool,
    /// Address that overrides the Node's primary one; nothing listens on it
    #[arg(long, default_value = "0.0.0.0", value_name = "ADDRESS")]
    pub bind_address: std::net::IpAddr,
    /// Where /healthz and /livez are served, 0.0.0.0 meaning both families; empty for nowhere
    #[arg(long, default_value = HEALTHZ_ADDRESS, value_name = "ADDRESS[:PORT]", value_parser = address)]
    pub healthz_bind_address: String,
    /// Where /metrics is served; empty for nowhere. If not given, [::1]:10249 where --bind-address is of IPv6
    #[arg(long, default_value = METRICS_ADDRESS, value_name = "ADDRESS[:PORT]", value_parser = address)]
    pub metrics_bind_address: String,
    /// AllowServiceExternalIPs=false passes over external IPs of Services. Of portolan proxy alone: ComponentStatusz=true
    /// serves /statusz beside the metrics, ComponentFlagz=true /flagz. Other gates have no effect
    #[arg(
        long,
        default_value = "",
        value_name = "NAME=BOOL,…",
        hide_default_value = true
    )]
    pub feature_gates: Gates,
}

/// The other flags of kube-proxy.
#[derive(Clone, Debug, Args)]
pub struct ProxyFlags {
    /// KubeProxyConfiguration file; but for --hostname-override and --kubeconfig, other flags are then not looked
    /// at. It is read again when it changes
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Write the configuration that the flags and defaults make to a file, and end
    #[arg(long, value_name = "FILE")]
    pub write_config_to: Option<PathBuf>,
    /// Take all rules of Portolan and of kube-proxy out of the kernel, and end
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub cleanup: bool,
    /// Set the machine up (connection tracking), which needs root, and end; CAP_NET_ADMIN is enough afterwards
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub init_only: bool,
    /// How Pods are told from others: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix
    #[arg(long, default_value = "ClusterCIDR", value_name = "MODE")]
    detect_local_mode: String,
    /// The bridge of this node's Pods, for BridgeInterface
    #[arg(long, default_value = "", value_name = "NAME", hide_default_value = true)]
    pod_bridge_interface: String,
    /// How the names of this node's Pods' interfaces begin, for InterfaceNamePrefix
    #[arg(long, default_value = "", value_name = "PREFIX", hide_default_value = true)]
    pod_interface_name_prefix: String,
    /// Let TCP node ports answer on 127.0.0.1 too, in every mode
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    iptables_localhost_nodeports: bool,
    /// The bit of the packet mark that asks for masquerading, in iptables mode
    #[arg(long, default_value_t = 14, value_name = "BIT")]
    iptables_masquerade_bit: i32,
    /// Twice this long may a change wait before the proxy says that it is not healthy, in every mode
    #[arg(long, default_value = "30s", value_name = "DURATION")]
    iptables_sync_period: GoDuration,
    /// The least time between two changes of rules, in iptables mode
    #[arg(long, default_value = "1s", value_name = "DURATION")]
    iptables_min_sync_period: GoDuration,
    /// End if the addresses of health and metrics cannot be bound; else they are tried again
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    bind_address_hard_fail: bool,
    /// How this process ranks when memory runs out, -1000 to 1000
    #[arg(long, default_value_t = -999, allow_negative_numbers = true, value_name = "SCORE")]
    oom_score_adj: i32,
    /// Connections that the kernel tracks, for each core; 0 leaves the limit as it is
    #[arg(long, default_value_t = 32_768, value_name = "COUNT")]
    conntrack_max_per_core: i32,
    /// The least limit of connections, whatever the number of cores
    #[arg(long, default_value_t = 131_072, value_name = "COUNT")]
    conntrack_min: i32,
    /// How long the kernel keeps idle TCP connections; 0 leaves it as it is
    #[arg(long, default_value = "24h0m0s", value_name = "DURATION")]
    conntrack_tcp_timeout_established: GoDuration,
    /// How long the kernel keeps TCP connections in CLOSE_WAIT; 0 leaves it as it is
    #[arg(long, default_value = "1h0m0s", value_name = "DURATION")]
    conntrack_tcp_timeout_close_wait: GoDuration,
    /// Let the kernel track TCP connections whose segments are out of their window
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    conntrack_tcp_be_liberal: bool,
    /// How long the kernel keeps UDP flows without an answer; 0 leaves it as it is
    #[arg(long, default_value = "0s", value_name = "DURATION")]
    conntrack_udp_timeout: GoDuration,
    /// How long the kernel keeps UDP flows with answers; 0 leaves it as it is
    #[arg(long, default_value = "0s", value_name = "DURATION")]
    conntrack_udp_timeout_stream: GoDuration,
    /// Deprecated: the port where --healthz-bind-address has none; 0 is for not serving health at all
    #[arg(
        long,
        default_value_t = 10_256,
        value_name = "PORT",
        hide_default_value = true
    )]
    healthz_port: u16,
    /// Deprecated: the port where --metrics-bind-address has none; 0 is for not serving metrics at all
    #[arg(
        long,
        default_value_t = 10_249,
        value_name = "PORT",
        hide_default_value = true
    )]
    metrics_port: u16,
    /// The API server's URL, in the place of the one that kubeconfig names; without kubeconfig no credentials are sent
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,
    #[command(flatten)]
    without_effect: WithoutEffect,
}

/// Flags that kube-proxy has and that do nothing here; each is said in the log if it is given.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Accepted for kube-proxy's sake, without effect")]
struct WithoutEffect {
    /// The API is watched, so that nothing is to be asked for again
    #[arg(long, value_name = "DURATION")]
    config_sync_period: Option<GoDuration>,
    /// JSON is spoken
    #[arg(long, value_name = "TYPE")]
    kube_api_content_type: Option<String>,
    /// Watches need no limit
    #[arg(long, value_name = "RATE")]
    kube_api_qps: Option<f32>,
    /// Watches need no limit
    #[arg(long, value_name = "COUNT")]
    kube_api_burst: Option<i32>,
    /// There is no profiling server
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    profiling: Option<bool>,
    /// No metric is hidden
    #[arg(long, value_name = "VERSION")]
    show_hidden_metrics_for_version: Option<String>,
    /// There is no ipvs mode
    #[arg(long, value_name = "DURATION")]
    ipvs_sync_period: Option<GoDuration>,
    /// There is no ipvs mode
    #[arg(long, value_name = "DURATION")]
    ipvs_min_sync_period: Option<GoDuration>,
    /// There is no ipvs mode; a Service's annotation service.portolan.dev/scheduler chooses
    #[arg(long, value_name = "NAME")]
    ipvs_scheduler: Option<String>,
    /// There is no ipvs mode
    #[arg(long, value_name = "CIDRs")]
    ipvs_exclude_cidrs: Option<String>,
    /// There is no ipvs mode
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    ipvs_strict_arp: Option<bool>,
    /// There is no ipvs mode
    #[arg(long, value_name = "DURATION")]
    ipvs_tcp_timeout: Option<GoDuration>,
    /// There is no ipvs mode
    #[arg(long, value_name = "DURATION")]
    ipvs_tcpfin_timeout: Option<GoDuration>,
    /// There is no ipvs mode
    #[arg(long, value_name = "DURATION")]
    ipvs_udp_timeout: Option<GoDuration>,
    /// --log-level takes filters
    #[arg(long, value_name = "PATTERNS")]
    vmodule: Option<String>,
    /// Every line is written at once
    #[arg(long, value_name = "DURATION")]
    log_flush_frequency: Option<GoDuration>,
    /// --log-level chooses what is logged
    #[arg(long, short = 'v', value_name = "LEVEL")]
    v: Option<i32>,
}

/// An address to listen on, with a port or without (KPF-34).
fn address(text: &str) -> Result<String, String> {
    match text.parse::<std::net::IpAddr>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => socket_address(text).map(|_| text.to_owned()),
    }
}

/// The names of modes, and that of the one which another stands in for (KPF-16).
fn modes() -> PossibleValuesParser {
    let ours = Mode::value_variants().iter().filter_map(Mode::to_possible_value);
    PossibleValuesParser::new(ours.chain([PossibleValue::new(IPVS).hide(true)]))
}

impl NodeFlags {
    /// This Node's name.
    pub fn node_name(&self) -> String {
        node_name(self.hostname_override.as_deref().unwrap_or_default())
    }

    /// Writes what they say into a configuration.
    pub fn write(&self, configuration: &mut Configuration) {
        let cidrs: Vec<String> = self.cluster_cidr.iter().map(ToString::to_string).collect();
        configuration.hostname_override = self.hostname_override.clone().unwrap_or_default();
        configuration.mode.clone_from(&self.proxy_mode);
        configuration.cluster_cidr = cidrs.join(",");
        configuration
            .node_port_addresses
            .clone_from(&self.nodeport_addresses);
        configuration.iptables.masquerade_all = self.masquerade_all;
        configuration.nftables.masquerade_all = self.masquerade_all;
        configuration
            .feature_gates
            .extend(self.feature_gates.0.iter().cloned());
        configuration.bind_address = self.bind_address.to_string();
        configuration
            .healthz_bind_address
            .clone_from(&self.healthz_bind_address);
        configuration
            .metrics_bind_address
            .clone_from(&self.metrics_bind_address);
        if self.bind_address.is_ipv6() && self.metrics_bind_address == METRICS_ADDRESS {
            configuration.metrics_bind_address = METRICS_ADDRESS_V6.to_owned();
        }
    }
}

impl ProxyFlags {
    /// Writes what they say into a configuration.
    pub fn write(&self, configuration: &mut Configuration) {
        configuration
            .detect_local_mode
            .clone_from(&self.detect_local_mode);
        let detect = &mut configuration.detect_local;
        detect.bridge_interface.clone_from(&self.pod_bridge_interface);
        detect
            .interface_name_prefix
            .clone_from(&self.pod_interface_name_prefix);
        // KPF-34: what the address says wins, but for zero.
        for (port, address) in [
            (self.healthz_port, &mut configuration.healthz_bind_address),
            (self.metrics_port, &mut configuration.metrics_bind_address),
        ] {
            match port {
                0 => address.clear(),
                port => with_port(address, port),
            }
        }
        configuration.iptables.localhost_node_ports = self.iptables_localhost_nodeports;
        configuration.iptables.masquerade_bit = self.iptables_masquerade_bit;
        configuration.iptables.sync_period = self.iptables_sync_period;
        configuration.iptables.min_sync_period = self.iptables_min_sync_period;
        // There are no such flags for nftables: upstream has these for all modes but ipvs (KPF-20).
        configuration.nftables.sync_period = self.iptables_sync_period;
        configuration.nftables.min_sync_period = self.iptables_min_sync_period;
        configuration.bind_address_hard_fail = self.bind_address_hard_fail;
        configuration.oom_score_adj = self.oom_score_adj;
        let conntrack = &mut configuration.conntrack;
        conntrack.max_per_core = self.conntrack_max_per_core;
        conntrack.min = self.conntrack_min;
        conntrack.tcp_established_timeout = self.conntrack_tcp_timeout_established;
        conntrack.tcp_close_wait_timeout = self.conntrack_tcp_timeout_close_wait;
        conntrack.tcp_be_liberal = self.conntrack_tcp_be_liberal;
        conntrack.udp_timeout = self.conntrack_udp_timeout;
        conntrack.udp_stream_timeout = self.conntrack_udp_timeout_stream;
    }

    /// The flags that were given and do nothing.
    pub fn without_effect(&self) -> Vec<&'static str> {
        let flags = &self.without_effect;
        [
            (flags.config_sync_period.is_some(), "--config-sync-period"),
            (flags.kube_api_content_type.is_some(), "--kube-api-content-type"),
            (flags.kube_api_qps.is_some(), "--kube-api-qps"),
            (flags.kube_api_burst.is_some(), "--kube-api-burst"),
            (flags.profiling == Some(true), "--profiling"),
            (
                flags.show_hidden_metrics_for_version.is_some(),
                "--show-hidden-metrics-for-version",
            ),
            (flags.ipvs_sync_period.is_some(), "--ipvs-sync-period"),
            (flags.ipvs_min_sync_period.is_some(), "--ipvs-min-sync-period"),
            (flags.ipvs_scheduler.is_some(), "--ipvs-scheduler"),
            (flags.ipvs_exclude_cidrs.is_some(), "--ipvs-exclude-cidrs"),
            (flags.ipvs_strict_arp == Some(true), "--ipvs-strict-arp"),
            (flags.ipvs_tcp_timeout.is_some(), "--ipvs-tcp-timeout"),
            (flags.ipvs_tcpfin_timeout.is_some(), "--ipvs-tcpfin-timeout"),
            (flags.ipvs_udp_timeout.is_some(), "--ipvs-udp-timeout"),
            (flags.vmodule.is_some(), "--vmodule"),
            (flags.log_flush_frequency.is_some(), "--log-flush-frequency"),
            (flags.v.is_some(), "-v"),
        ]
        .into_iter()
        .filter_map(|(is_given, name)| is_given.then_some(name))
        .collect()
    }
}

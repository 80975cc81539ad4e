//! Flags of kube-proxy that only `portolan proxy` has (KPF). They fill the same configuration as the file.

use std::path::PathBuf;

use clap::Args;
use proxy::configuration::{GoDuration, KubeProxyConfiguration, set_default_port};

/// Flags of kube-proxy besides those of [`crate::flags::node_proxy`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Configuration file and process")]
pub(super) struct ProxyFlags {
    /// KubeProxyConfiguration file, reloaded on change; replaces the flags that have a field in it, except
    /// --hostname-override and --kubeconfig
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Write the configuration from flags and defaults to a file, and exit
    #[arg(long, value_name = "FILE")]
    pub write_config_to: Option<PathBuf>,
    /// Remove all rules of Portolan and of kube-proxy from the kernel, and exit
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub cleanup: bool,
    /// Configure connection tracking, which needs root, and exit; the proxy itself needs only CAP_NET_ADMIN
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub init_only: bool,
    /// Detection of local Pods: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix
    #[arg(
        long,
        help_heading = "Detection of local Pods",
        default_value = "ClusterCIDR",
        value_name = "MODE"
    )]
    detect_local_mode: String,
    /// Bridge of the Pods of this node, for BridgeInterface
    #[arg(
        long,
        help_heading = "Detection of local Pods",
        default_value = "",
        value_name = "NAME",
        hide_default_value = true
    )]
    pod_bridge_interface: String,
    /// Name prefix of the interfaces of the Pods of this node, for InterfaceNamePrefix
    #[arg(
        long,
        help_heading = "Detection of local Pods",
        default_value = "",
        value_name = "PREFIX",
        hide_default_value = true
    )]
    pod_interface_name_prefix: String,
    /// Serve TCP node ports on 127.0.0.1 too, in every mode
    #[arg(long, help_heading = "Rules", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    iptables_localhost_nodeports: bool,
    /// Bit of the packet mark that requests masquerading, in iptables mode
    #[arg(long, help_heading = "Rules", default_value_t = 14, value_name = "BIT")]
    iptables_masquerade_bit: i32,
    /// The proxy reports unhealthy if a change is not applied within twice this period; ipvs mode uses
    /// --ipvs-sync-period
    #[arg(long, help_heading = "Rules", default_value = "30s", value_name = "DURATION")]
    iptables_sync_period: GoDuration,
    /// Minimum time between two changes of rules, in iptables mode
    #[arg(long, help_heading = "Rules", default_value = "1s", value_name = "DURATION")]
    iptables_min_sync_period: GoDuration,
    /// Exit if the address of the health or metrics server cannot be bound; otherwise binding is retried
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    bind_address_hard_fail: bool,
    /// OOM score adjustment of this process, -1000 to 1000
    #[arg(long, default_value_t = -999, allow_negative_numbers = true, value_name = "SCORE")]
    oom_score_adj: i32,
    /// Maximum number of tracked connections per CPU core; 0 keeps the kernel's limit
    #[arg(
        long,
        help_heading = "Connection tracking",
        default_value_t = 32_768,
        value_name = "COUNT"
    )]
    conntrack_max_per_core: i32,
    /// Lower bound for the maximum number of tracked connections, regardless of the number of cores
    #[arg(
        long,
        help_heading = "Connection tracking",
        default_value_t = 131_072,
        value_name = "COUNT"
    )]
    conntrack_min: i32,
    /// Accept out-of-window TCP segments in connection tracking
    #[arg(long, help_heading = "Connection tracking", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    conntrack_tcp_be_liberal: bool,
    /// Conntrack timeout of UDP flows without a reply; 0 keeps the kernel's value
    #[arg(
        long,
        help_heading = "Connection tracking",
        default_value = "0s",
        value_name = "DURATION"
    )]
    conntrack_udp_timeout: GoDuration,
    /// Conntrack timeout of UDP flows with replies; 0 keeps the kernel's value
    #[arg(
        long,
        help_heading = "Connection tracking",
        default_value = "0s",
        value_name = "DURATION"
    )]
    conntrack_udp_timeout_stream: GoDuration,
    /// Deprecated: port for --healthz-bind-address if that has none; 0 disables the health server
    #[arg(
        long,
        help_heading = "Deprecated flags",
        default_value_t = 10_256,
        value_name = "PORT",
        hide_default_value = true
    )]
    healthz_port: u16,
    /// Deprecated: port for --metrics-bind-address if that has none; 0 disables the metrics server
    #[arg(
        long,
        help_heading = "Deprecated flags",
        default_value_t = 10_249,
        value_name = "PORT",
        hide_default_value = true
    )]
    metrics_port: u16,
    /// URL of the API server, instead of the one in the kubeconfig; without a kubeconfig, no credentials are sent
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,
    #[command(flatten)]
    without_effect: WithoutEffect,
}

/// Flags of kube-proxy without effect here; each one that is given causes a log message.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Flags of kube-proxy without effect")]
struct WithoutEffect {
    /// The proxy watches the API and needs no resync
    #[arg(long, value_name = "DURATION")]
    config_sync_period: Option<GoDuration>,
    /// The client uses JSON
    #[arg(long, value_name = "TYPE")]
    kube_api_content_type: Option<String>,
    /// The client only watches and has no rate limit
    #[arg(long, value_name = "RATE")]
    kube_api_qps: Option<f32>,
    /// The client only watches and has no rate limit
    #[arg(long, value_name = "COUNT")]
    kube_api_burst: Option<i32>,
    /// There is no profiling server
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    profiling: Option<bool>,
    /// No metric is hidden
    #[arg(long, value_name = "VERSION")]
    show_hidden_metrics_for_version: Option<String>,
    /// --log-level accepts filters
    #[arg(long, value_name = "PATTERNS")]
    vmodule: Option<String>,
    /// Log lines are not buffered
    #[arg(long, value_name = "DURATION")]
    log_flush_frequency: Option<GoDuration>,
    /// Use --log-level
    #[arg(long, short = 'v', value_name = "LEVEL")]
    v: Option<i32>,
}

impl ProxyFlags {
    /// Writes the flags into a configuration.
    pub(super) fn write(&self, configuration: &mut KubeProxyConfiguration) {
        configuration
            .detect_local_mode
            .clone_from(&self.detect_local_mode);
        let detect = &mut configuration.detect_local;
        detect.bridge_interface.clone_from(&self.pod_bridge_interface);
        detect
            .interface_name_prefix
            .clone_from(&self.pod_interface_name_prefix);
        // KPF-34: a port in the address takes precedence, except over port 0.
        for (port, address) in [
            (self.healthz_port, &mut configuration.healthz_bind_address),
            (self.metrics_port, &mut configuration.metrics_bind_address),
        ] {
            match port {
                0 => address.clear(),
                port => set_default_port(address, port),
            }
        }
        configuration.iptables.localhost_node_ports = self.iptables_localhost_nodeports;
        configuration.iptables.masquerade_bit = self.iptables_masquerade_bit;
        configuration.iptables.sync_period = self.iptables_sync_period;
        configuration.iptables.min_sync_period = self.iptables_min_sync_period;
        // nftables has no such flags of its own: upstream applies these to all modes but ipvs (KPF-20).
        configuration.nftables.sync_period = self.iptables_sync_period;
        configuration.nftables.min_sync_period = self.iptables_min_sync_period;
        configuration.bind_address_hard_fail = self.bind_address_hard_fail;
        configuration.oom_score_adj = self.oom_score_adj;
        let conntrack = &mut configuration.conntrack;
        conntrack.max_per_core = self.conntrack_max_per_core;
        conntrack.min = self.conntrack_min;
        conntrack.tcp_be_liberal = self.conntrack_tcp_be_liberal;
        conntrack.udp_timeout = self.conntrack_udp_timeout;
        conntrack.udp_stream_timeout = self.conntrack_udp_timeout_stream;
    }

    /// Returns the flags that are given and have no effect.
    pub(super) fn without_effect(&self) -> Vec<&'static str> {
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
            (flags.vmodule.is_some(), "--vmodule"),
            (flags.log_flush_frequency.is_some(), "--log-flush-frequency"),
            (flags.v.is_some(), "-v"),
        ]
        .into_iter()
        .filter_map(|(is_given, name)| is_given.then_some(name))
        .collect()
    }
}

//! The proxy of a node: flags of kube-proxy that `portolan up` and `portolan join` have, too (KPF).

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use ipnet::IpNet;
use netlink::route::LinkName;
use proxy::LeftoverScope;
use proxy::configuration::{
    FeatureGates, GoDuration, HEALTHZ_ADDRESS, KubeProxyConfiguration, ListenAddressError, METRICS_ADDRESS,
    METRICS_ADDRESS_IPV6, Mode, node_name, parse_listen_address, validate,
};

use super::ipvs::{self, IpvsFlags};
use super::values::{cidr, hostname, node_name as parse_node_name};
use crate::error::UsageError;

/// Flags of the proxy of a node.
#[derive(Clone, Debug, Args)]
pub(crate) struct NodeProxyFlags {
    /// Name of this Node [default: the host name]
    #[arg(long, visible_alias = "node-name", value_name = "NAME", value_parser = parse_node_name)]
    pub hostname_override: Option<String>,
    /// Kernel interface that implements Services: nftables, iptables, ipvs (virtual servers, experimental), ebpf
    /// (nftables, and eBPF for TCP clients of this node), or userspace (a relay in this process)
    #[arg(long, default_value = Mode::default().name(), value_parser = modes(), value_name = "MODE", hide_possible_values = true)]
    pub proxy_mode: String,
    /// Control group whose processes are clients of eBPF mode: a directory of cgroup2 [default: all processes of the host]
    #[arg(long, value_name = "PATH")]
    pub ebpf_cgroup: Option<PathBuf>,
    /// Serve Pods by eBPF, too; false leaves them to nftables, for service meshes whose sidecars need to see cluster IPs
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub ebpf_pods: bool,
    /// Interface of clients and other nodes at which an XDP program does two-tier forwarding, in the modes nftables and
    /// ebpf; nftables forwards what it cannot
    #[arg(long, value_name = "NAME")]
    pub xdp_interface: Option<LinkName>,
    /// Pod CIDRs, one per IP family; traffic to cluster IPs from outside these ranges is masqueraded
    #[arg(long, value_delimiter = ',', value_name = "CIDRs", value_parser = cidr)]
    pub cluster_cidr: Vec<IpNet>,
    /// Addresses of node ports: CIDRs, or `primary` for those of the Node [default: primary; iptables and ipvs modes: all]
    #[arg(long, value_delimiter = ',', value_name = "CIDRs")]
    pub nodeport_addresses: Vec<String>,
    /// Masquerade all traffic to cluster IPs
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub masquerade_all: bool,
    /// Answer ping to addresses of Services with endpoints
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub answer_ping: bool,
    /// Primary address of the Node, if it is not 0.0.0.0 or ::; nothing listens on it
    #[arg(long, default_value = "0.0.0.0", value_name = "ADDRESS")]
    pub bind_address: std::net::IpAddr,
    /// Address of /healthz and /livez; 0.0.0.0 serves both IP families, empty disables the server
    #[arg(long, default_value = HEALTHZ_ADDRESS, value_name = "ADDRESS[:PORT]", value_parser = address)]
    pub healthz_bind_address: String,
    /// Address of /metrics; empty disables the server; [::1]:10249 by default if --bind-address is an IPv6 address
    #[arg(long, default_value = METRICS_ADDRESS, value_name = "ADDRESS[:PORT]", value_parser = address)]
    pub metrics_bind_address: String,
    /// Feature gates: AllowServiceExternalIPs; in `portolan proxy`, ComponentStatusz and ComponentFlagz, too
    #[arg(
        long,
        default_value = "",
        value_name = "NAME=BOOL,…",
        hide_default_value = true
    )]
    pub feature_gates: FeatureGates,
    /// Conntrack timeout of idle TCP connections; 0 keeps the kernel's value
    #[arg(
        long,
        help_heading = "Connection tracking",
        default_value = "24h0m0s",
        value_name = "DURATION"
    )]
    pub conntrack_tcp_timeout_established: GoDuration,
    /// Conntrack timeout of TCP connections in CLOSE_WAIT; 0 keeps the kernel's value
    #[arg(
        long,
        help_heading = "Connection tracking",
        default_value = "1h0m0s",
        value_name = "DURATION"
    )]
    pub conntrack_tcp_timeout_close_wait: GoDuration,
    #[command(flatten)]
    pub ipvs: IpvsFlags,
}

impl NodeProxyFlags {
    /// Returns the name of this Node.
    pub(crate) fn node_name(&self) -> String {
        node_name(self.hostname_override.as_deref().unwrap_or_default(), &hostname())
    }

    /// Returns the name of this Node.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the host name, which is the default, cannot be the name of a Node.
    pub(crate) fn valid_node_name(&self) -> Result<String, UsageError> {
        let name = self.node_name();
        match parse_node_name(&name) {
            Ok(_) => Ok(name),
            Err(error) => Err(UsageError(format!(
                "the host name {error}; name this Node with --node-name"
            ))),
        }
    }

    /// Returns the mode.
    pub(crate) fn mode(&self) -> Mode {
        Mode::from_name(&self.proxy_mode).unwrap_or_default()
    }

    /// Logs a warning for flags that have no effect in the mode that runs.
    pub(crate) fn warn_of_unused_flags(&self, mode: Mode) {
        if mode != Mode::Ebpf && (self.ebpf_cgroup.is_some() || !self.ebpf_pods) {
            tracing::warn!(
                mode = mode.name(),
                "--ebpf-cgroup and --ebpf-pods without effect; they need --proxy-mode=ebpf"
            );
        }
        if self.xdp_interface.is_some() && !matches!(mode, Mode::Nftables | Mode::Ebpf) {
            tracing::warn!(
                mode = mode.name(),
                "--xdp-interface without effect; it needs two-tier forwarding, which the modes nftables and ebpf have"
            );
        }
        if mode != Mode::Ipvs && self.ipvs.is_given() {
            tracing::warn!(
                mode = mode.name(),
                "flags --ipvs-… without effect; they need --proxy-mode=ipvs"
            );
        }
    }

    /// Returns the options of IPVS mode.
    pub(crate) fn ipvs(&self) -> dataplane::ipvs::Options {
        ipvs::options(&self.ipvs.section())
    }

    /// Returns the options of eBPF mode.
    pub(crate) fn ebpf(&self) -> dataplane::ebpf::Options {
        dataplane::ebpf::Options {
            control_group: self.ebpf_cgroup.clone(),
            serves_pods: self.ebpf_pods,
            ..dataplane::ebpf::Options::default()
        }
    }

    /// Returns the mode and the settings of a proxy that has no other flags.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if a flag has an invalid value.
    pub(crate) fn config(&self) -> Result<(Mode, proxy::Config), UsageError> {
        let mut configuration = KubeProxyConfiguration::default();
        self.write(&mut configuration);
        configuration.set_default_ports();
        let (mode, config) = mode_and_config(&configuration)?;
        warn_of_gates(&self.feature_gates.without_effect_on_hosts());
        let config = proxy::Config {
            // The limit of connections stays that of the kernel: other programs of the host share it.
            conntrack: proxy::ConntrackSettings {
                tcp_timeout_established: config.conntrack.tcp_timeout_established,
                tcp_timeout_close_wait: config.conntrack.tcp_timeout_close_wait,
                ..proxy::ConntrackSettings::default()
            },
            oom_score_adj: None,
            answers_ping: self.answer_ping,
            xdp_interface: self.xdp_interface.clone(),
            // kube-proxy, if it runs here, serves another cluster.
            leftovers: Some(LeftoverScope::OwnModes),
            ..config
        };
        Ok((mode, config))
    }

    /// Writes the flags into a configuration.
    pub(crate) fn write(&self, configuration: &mut KubeProxyConfiguration) {
        let cidrs: Vec<String> = self.cluster_cidr.iter().map(ToString::to_string).collect();
        configuration.hostname_override = self.hostname_override.clone().unwrap_or_default();
        configuration.mode.clone_from(&self.proxy_mode);
        configuration.cluster_cidr = cidrs.join(",");
        configuration
            .node_port_addresses
            .clone_from(&self.nodeport_addresses);
        configuration.iptables.masquerade_all = self.masquerade_all;
        configuration.nftables.masquerade_all = self.masquerade_all;
        configuration.ipvs = self.ipvs.section();
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
        configuration.conntrack.tcp_established_timeout = self.conntrack_tcp_timeout_established;
        configuration.conntrack.tcp_close_wait_timeout = self.conntrack_tcp_timeout_close_wait;
        if self.bind_address.is_ipv6() && self.metrics_bind_address == METRICS_ADDRESS {
            configuration.metrics_bind_address = METRICS_ADDRESS_IPV6.to_owned();
        }
    }
}

/// Parses an address to listen on, with or without a port (KPF-34).
fn address(text: &str) -> Result<String, ListenAddressError> {
    if text.parse::<std::net::IpAddr>().is_err() {
        parse_listen_address(text)?;
    }
    Ok(text.to_owned())
}

/// Returns the names of the modes (KPF-16).
fn modes() -> PossibleValuesParser {
    let modes = Mode::ALL.map(|mode| {
        PossibleValue::new(mode.name()).help(match mode {
            Mode::Nftables => "nftables, by netlink",
            Mode::Iptables => "iptables, by iptables-restore, in kube-proxy's chains",
            Mode::Ipvs => "nftables, and virtual servers of the kernel that choose endpoints",
            Mode::Ebpf => "nftables, and eBPF programs that choose endpoints when TCP clients of this node connect",
            Mode::Userspace => {
                "a relay in this process: it replaces endpoints that do not respond, but hides client addresses from them"
            }
        })
    });
    PossibleValuesParser::new(modes)
}

/// Checks a configuration and converts it.
///
/// # Errors
///
/// [`UsageError`] for the first invalid field.
pub(crate) fn mode_and_config(
    configuration: &KubeProxyConfiguration,
) -> Result<(Mode, proxy::Config), UsageError> {
    validate(configuration, &hostname()).map_err(|error| UsageError(error.to_string()))
}

/// Logs feature gates that have no effect.
pub(crate) fn warn_of_gates(gates: &[&str]) {
    if !gates.is_empty() {
        tracing::warn!(gates = gates.join(", "), "feature gates without effect");
    }
}

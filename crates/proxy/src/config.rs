//! Settings of the proxy (KPF rules).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use netlink::route::LinkName;
use plan::{PodDetection, Scheduler};

use crate::leftovers::LeftoverScope;
use crate::reports::debug_pages::Pages;
use crate::sysctl::ConntrackSettings;

/// Settings of the proxy. Field names follow upstream's flags.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `--hostname-override`: name of this Node, in lower case (KPF-09).
    pub node_name: String,
    /// `--detect-local-mode` and related flags: detection of Pods (KPF-26, KPF-27).
    pub pods: PodSelection,
    /// `--nodeport-addresses` (KPF-28).
    pub node_port_addresses: NodePortSelection,
    /// `--masquerade-all` (KPF-18).
    pub masquerade_all: bool,
    /// `--bind-address`: overrides the Node's primary IP unless it is unspecified (KPF-10, KPR-03).
    pub bind_address: IpAddr,
    /// `--healthz-bind-address`; `None` for no server (KPF-11).
    pub healthz_bind_address: Option<SocketAddr>,
    /// `--metrics-bind-address`; `None` for no server (KPF-12).
    pub metrics_bind_address: Option<SocketAddr>,
    /// `--bind-address-hard-fail`: exit if an address of the health or metrics server cannot be bound; otherwise
    /// retry (KPF-13).
    pub bind_address_hard_fail: bool,
    /// Name of the data plane, as `/proxyMode` returns it (HLT-04).
    pub proxy_mode: String,
    /// Period of comparisons between the kernel and the plan.
    pub repair_period: Duration,
    /// Minimum pause between two changes, for data planes with expensive changes; later updates wait for the next one
    /// (KPR-06).
    pub min_sync_period: Duration,
    /// The proxy is unhealthy if a change waits longer than twice this period (HLT-01).
    pub sync_period: Duration,
    /// `--iptables-localhost-nodeports`: serve TCP node ports on 127.0.0.1, too (EPT-20).
    pub localhost_node_ports: bool,
    /// `--conntrack-…`: settings of connection tracking, applied at the start (KPR-10).
    pub conntrack: ConntrackSettings,
    /// `--oom-score-adj`; `None` keeps the current value (KPF-29).
    pub oom_score_adj: Option<i32>,
    /// Rules to remove after the first sync (KPR-09); `None` to remove no rules.
    pub leftovers: Option<LeftoverScope>,
    /// Feature gate `AllowServiceExternalIPs`: implement `spec.externalIPs` of Services (KPR-19).
    pub allows_external_ips: bool,
    /// Scheduler of Services without an annotation: round robin in userspace mode, as kube-proxy's.
    pub default_scheduler: Scheduler,
    /// `--answer-ping`: answer echo requests to addresses of Services with endpoints, if the data plane supports it.
    pub answers_ping: bool,
    /// `--xdp-interface`: interface at which an XDP program does two-tier forwarding, if the data plane supports it.
    pub xdp_interface: Option<LinkName>,
    /// `--feature-gates`: debug pages of the metrics server (HLT-04).
    pub pages: Pages,
    /// Configuration as JSON for `/configz`.
    pub configuration: serde_json::Value,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            node_name: String::new(),
            pods: PodSelection::default(),
            node_port_addresses: NodePortSelection::Primary,
            masquerade_all: false,
            bind_address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            healthz_bind_address: Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 10256))),
            metrics_bind_address: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 10249))),
            bind_address_hard_fail: false,
            proxy_mode: "nftables".to_owned(),
            repair_period: Duration::from_secs(5 * 60),
            min_sync_period: Duration::ZERO,
            sync_period: Duration::from_secs(30),
            localhost_node_ports: true,
            conntrack: ConntrackSettings::default(),
            oom_score_adj: None,
            leftovers: None,
            allows_external_ips: true,
            default_scheduler: Scheduler::default(),
            answers_ping: true,
            xdp_interface: None,
            pages: Pages::default(),
            configuration: serde_json::Value::Null,
        }
    }
}

impl Config {
    /// Returns upstream's names of the settings that differ in another configuration and are read at the start only.
    pub fn start_only_differences(&self, other: &Self) -> Vec<&'static str> {
        [
            (self.node_name != other.node_name, "hostnameOverride"),
            (
                self.healthz_bind_address != other.healthz_bind_address,
                "healthzBindAddress",
            ),
            (
                self.metrics_bind_address != other.metrics_bind_address,
                "metricsBindAddress",
            ),
            (
                self.bind_address_hard_fail != other.bind_address_hard_fail,
                "bindAddressHardFail",
            ),
            (self.proxy_mode != other.proxy_mode, "mode"),
            (self.conntrack != other.conntrack, "conntrack"),
            (self.oom_score_adj != other.oom_score_adj, "oomScoreAdj"),
            (
                self.allows_external_ips != other.allows_external_ips,
                "featureGates",
            ),
        ]
        .into_iter()
        .filter_map(|(differs, name)| differs.then_some(name))
        .collect()
    }
}

/// Detection of Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodSelection {
    /// By the given detection.
    Given(PodDetection),
    /// By the Node's Pod CIDRs: `NodeCIDR`.
    NodeCidrs,
}

impl Default for PodSelection {
    fn default() -> Self {
        Self::Given(PodDetection::default())
    }
}

/// Addresses of node ports on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodePortSelection {
    /// All addresses except loopback ones: `0.0.0.0/0,::/0`.
    All,
    /// IPs of the Node object: `primary`, the default of nftables mode. None while these are unknown.
    Primary,
    /// Addresses in these ranges.
    Within(Vec<IpNet>),
}

/// Invalid value of `--nodeport-addresses`. A retry does not help.
#[derive(Debug, thiserror::Error)]
#[error("expected \"primary\" or CIDRs such as 192.0.2.0/24,2001:db8::/64, found {value:?}")]
pub struct NodePortSelectionError {
    /// Invalid part of the value.
    pub value: String,
}

impl FromStr for NodePortSelection {
    type Err = NodePortSelectionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim() == "primary" {
            return Ok(Self::Primary);
        }
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let nets: Result<Vec<IpNet>, _> = parts
            .map(|part| {
                part.parse().map_err(|_| NodePortSelectionError {
                    value: part.to_owned(),
                })
            })
            .collect();
        let nets = nets?;
        let takes_all = |v4: bool| {
            nets.iter()
                .any(|net| net.prefix_len() == 0 && net.addr().is_ipv4() == v4)
        };
        Ok(if nets.is_empty() || (takes_all(true) && takes_all(false)) {
            Self::All
        } else {
            Self::Within(nets)
        })
    }
}

#[cfg(test)]
mod tests;

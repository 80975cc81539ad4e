//! What the flags say (FEATURES KPF).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use plan::PodDetection;

/// Settings of the node process. Field names follow upstream's flags.
#[derive(Clone, Debug)]
pub struct Config {
    /// `--hostname-override`: this node's name, lower-cased (KPF-09).
    pub node_name: String,
    /// `--detect-local-mode` with what it needs: how Pods are told from others (KPF-26, KPF-27).
    pub pods: PodSelection,
    /// `--nodeport-addresses` (KPF-28).
    pub node_port_addresses: NodePortSelection,
    /// `--masquerade-all` (KPF-18).
    pub masquerade_all: bool,
    /// `--bind-address`: stands for the node's primary IP if it is not unspecified (KPF-10, KPR-03).
    pub bind_address: IpAddr,
    /// `--healthz-bind-address`; `None` for no server (KPF-11).
    pub healthz_bind_address: Option<SocketAddr>,
    /// `--metrics-bind-address`; `None` for no server (KPF-12).
    pub metrics_bind_address: Option<SocketAddr>,
    /// `--bind-address-hard-fail`: whether a health or metrics address that cannot be bound ends the
    /// process; otherwise it is tried again (KPF-13).
    pub bind_address_hard_fail: bool,
    /// The name of the dataplane, as `/proxyMode` tells it (HLT-04).
    pub proxy_mode: String,
    /// How often what is in force is read back and mended.
    pub repair_period: Duration,
    /// Shortest pause between two changes, for dataplanes whose changes cost much; what comes meanwhile goes
    /// into force with the next one (KPR-06).
    pub min_sync_period: Duration,
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
        }
    }
}

/// How Pods are told from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodSelection {
    /// As given.
    Given(PodDetection),
    /// By the Node's ranges of Pod addresses: `NodeCIDR`.
    NodeCidrs,
}

impl Default for PodSelection {
    fn default() -> Self {
        Self::Given(PodDetection::default())
    }
}

/// On which of this machine's addresses node ports answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodePortSelection {
    /// On all but loopback ones: `0.0.0.0/0,::/0`.
    All,
    /// On the Node object's IPs: `primary`, the default of nftables mode. On all while none is known.
    Primary,
    /// On those in these ranges.
    Within(Vec<IpNet>),
}

/// `--nodeport-addresses` cannot be read; no retry helps.
#[derive(Debug, thiserror::Error)]
#[error("{value:?} is neither \"primary\" nor a CIDR; an example is 192.0.2.0/24,2001:db8::/64")]
pub struct NodePortSelectionError {
    /// The part that was not understood.
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
        Ok(match nets.is_empty() || (takes_all(true) && takes_all(false)) {
            true => Self::All,
            false => Self::Within(nets),
        })
    }
}

#[cfg(test)]
mod tests;

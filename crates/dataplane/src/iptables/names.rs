//! Names of chains and tables, which are kube-proxy's (IPT-01 … IPT-03), so that known procedures and tools work.

use std::fmt;

use plan::{Backend, PortKey};
use sha2::{Digest, Sha256};

/// Length of the hash in the name of a chain; the kernel limits names to 28 characters.
const HASH_LENGTH: usize = 16;

/// A table of iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Table {
    /// Contains only a canary.
    Mangle,
    /// Rejects and drops.
    Filter,
    /// Selects endpoints.
    Nat,
}

impl Table {
    /// All tables in the order of writing: rejects are removed before endpoints are added.
    pub(super) const ALL: [Self; 3] = [Self::Mangle, Self::Filter, Self::Nat];

    /// Returns the name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mangle => "mangle",
            Self::Filter => "filter",
            Self::Nat => "nat",
        }
    }
}

/// Chain in every table; its absence shows that another program flushed the tables (IPT-12).
pub(super) const CANARY: &str = "KUBE-PROXY-CANARY";
/// Marks packets for masquerading.
pub(super) const MARK_MASQ: &str = "KUBE-MARK-MASQ";
/// Marks packets that are not from Pods, if that needs several rules.
pub(super) const MARK_OFF_CLUSTER: &str = "KUBE-MARK-OFFCLUSTER";
/// Masquerades marked packets.
pub(super) const POSTROUTING: &str = "KUBE-POSTROUTING";
/// Accepts forwarded packets (IPT-08, IPT-09).
pub(super) const FORWARD: &str = "KUBE-FORWARD";
/// Drops packets from other hosts to loopback addresses (IPT-10).
pub(super) const FIREWALL: &str = "KUBE-FIREWALL";
/// Rejects: a reset for TCP, port unreachable for other protocols.
pub(super) const REJECT: &str = "KUBE-REJECT";

/// A chain with rules of many Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum SharedChain {
    /// Load balancer IPs with source ranges: drops other sources.
    ProxyFirewall,
    /// Rejects and drops at external IPs, load balancer IPs and node ports.
    ExternalServices,
    /// Rejects and drops at cluster IPs.
    FilterServices,
    /// Cluster IPs: rejects other ports and drops unassigned addresses (NFT-12).
    ClusterIps,
    /// Dispatches by address to Services.
    Services,
    /// Dispatches by node port to Services.
    NodePorts,
    /// Answers echo requests. Only echo requests pass the chain, because it has a rule for each address of a Service.
    Pings,
}

impl SharedChain {
    /// All shared chains.
    pub(super) const ALL: [Self; 7] = [
        Self::ProxyFirewall,
        Self::ExternalServices,
        Self::FilterServices,
        Self::ClusterIps,
        Self::Services,
        Self::NodePorts,
        Self::Pings,
    ];

    /// Returns the table of the chain.
    pub(super) fn table(self) -> Table {
        match self {
            Self::Services | Self::NodePorts | Self::Pings => Table::Nat,
            _ => Table::Filter,
        }
    }

    /// Returns the name of the chain.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ProxyFirewall => "KUBE-PROXY-FIREWALL",
            Self::ExternalServices => "KUBE-EXTERNAL-SERVICES",
            Self::FilterServices | Self::Services => "KUBE-SERVICES",
            Self::ClusterIps => "KUBE-CLUSTER-IPS",
            Self::NodePorts => "KUBE-NODEPORTS",
            Self::Pings => "KUBE-PINGS",
        }
    }
}

/// Chain of the filter table that accepts health checks (IPT-07).
pub(super) const HEALTH_CHECKS: &str = "KUBE-NODEPORTS";

/// Purpose of a chain of one Service port. All of these are in table `nat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Balances over the endpoints of traffic policy Cluster.
    Cluster,
    /// Balances over the endpoints of traffic policy Local.
    Local,
    /// Connections by external addresses and node ports.
    External,
    /// Connections by load balancer IPs with source ranges.
    Firewall,
    /// One endpoint.
    Endpoint,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Cluster,
        Self::Local,
        Self::External,
        Self::Firewall,
        Self::Endpoint,
    ];

    fn prefix(self) -> &'static str {
        match self {
            Self::Cluster => "KUBE-SVC-",
            Self::Local => "KUBE-SVL-",
            Self::External => "KUBE-EXT-",
            Self::Firewall => "KUBE-FW-",
            Self::Endpoint => "KUBE-SEP-",
        }
    }
}

/// Name of a chain of one Service port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ChainName {
    kind: Kind,
    hash: [u8; HASH_LENGTH],
}

impl ChainName {
    /// Returns the name of a Service port's chain.
    pub(super) fn of_port(kind: Kind, port: &PortKey) -> Self {
        Self {
            kind,
            hash: hash(&[&identity(port), port.protocol.as_str()]),
        }
    }

    /// Returns the name of an endpoint's chain.
    pub(super) fn of_endpoint(port: &PortKey, backend: &Backend) -> Self {
        Self {
            kind: Kind::Endpoint,
            hash: hash(&[
                &identity(port),
                port.protocol.as_str(),
                &backend.address.to_string(),
            ]),
        }
    }

    /// Parses a name; returns `None` if it is not a chain of a Service port.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Kind::ALL.into_iter().find_map(|kind| {
            let hash = name.strip_prefix(kind.prefix())?.as_bytes();
            Some(Self {
                kind,
                hash: hash.try_into().ok()?,
            })
        })
    }
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.prefix())?;
        f.write_str(&String::from_utf8_lossy(&self.hash))
    }
}

/// Returns `namespace/name:port`, or `namespace/name` for a port without a name.
pub(super) fn identity(port: &PortKey) -> String {
    match &*port.port {
        "" => port.service.to_string(),
        name => format!("{}:{name}", port.service),
    }
}

/// Returns the first characters of the SHA-256 in base 32 (RFC 4648); a protocol is hashed in lower case.
fn hash(parts: &[&str]) -> [u8; HASH_LENGTH] {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut digest = Sha256::new();
    for (index, part) in parts.iter().enumerate() {
        match index {
            1 => digest.update(part.to_ascii_lowercase()),
            _ => digest.update(part),
        }
    }
    let digest = digest.finalize();
    std::array::from_fn(|index| {
        let bit = index * 5;
        let pair = u16::from_be_bytes([digest[bit / 8], digest[bit / 8 + 1]]);
        let five = pair >> (11 - bit % 8) & 31;
        ALPHABET[usize::from(five)]
    })
}

#[cfg(test)]
mod tests;

//! The chains: which there are, and their names, which are kube-proxy's (IPT-01 … IPT-03), so that habits and
//! tools carry over.

use std::fmt;

use plan::{Backend, PortKey};
use sha2::{Digest, Sha256};

/// Characters of a hash in a chain's name: the kernel takes 28 characters in all.
const HASH_LENGTH: usize = 16;

/// A table of iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Only has a canary.
    Mangle,
    /// Refuses and drops.
    Filter,
    /// Chooses endpoints.
    Nat,
}

impl Table {
    /// In the order in which they are written: what is refused is refused before it has endpoints no more.
    pub const ALL: [Self; 3] = [Self::Mangle, Self::Filter, Self::Nat];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mangle => "mangle",
            Self::Filter => "filter",
            Self::Nat => "nat",
        }
    }
}

/// In every table; that it is gone tells that somebody took everything out (IPT-12).
pub const CANARY: &str = "KUBE-PROXY-CANARY";
/// Marks what is to be masqueraded.
pub const MARK_MASQ: &str = "KUBE-MARK-MASQ";
/// Marks what does not come from a Pod, where that takes several rules.
pub const MARK_OFF_CLUSTER: &str = "KUBE-MARK-OFFCLUSTER";
/// Masquerades what is marked.
pub const POSTROUTING: &str = "KUBE-POSTROUTING";
/// Accepts what is forwarded (IPT-08, IPT-09).
pub const FORWARD: &str = "KUBE-FORWARD";
/// Keeps strangers off loopback addresses (IPT-10).
pub const FIREWALL: &str = "KUBE-FIREWALL";
/// Refuses: a reset for TCP, port unreachable for the rest.
pub const REJECT: &str = "KUBE-REJECT";

/// A chain that has a part of many Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shared {
    /// Load balancer addresses with source ranges: drops the rest.
    ProxyFirewall,
    /// Refuses and drops at external addresses and node ports.
    ExternalServices,
    /// Refuses and drops at cluster IPs.
    FilterServices,
    /// The cluster IPs in the ranges of cluster IPs: refuses what no Service has there (NFT-12).
    ClusterIps,
    /// From addresses to Services.
    Services,
    /// From node ports to Services.
    NodePorts,
}

impl Shared {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::ProxyFirewall,
        Self::ExternalServices,
        Self::FilterServices,
        Self::ClusterIps,
        Self::Services,
        Self::NodePorts,
    ];

    /// The table that it is in.
    pub fn table(self) -> Table {
        match self {
            Self::Services | Self::NodePorts => Table::Nat,
            _ => Table::Filter,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ProxyFirewall => "KUBE-PROXY-FIREWALL",
            Self::ExternalServices => "KUBE-EXTERNAL-SERVICES",
            Self::FilterServices | Self::Services => "KUBE-SERVICES",
            Self::ClusterIps => "KUBE-CLUSTER-IPS",
            Self::NodePorts => "KUBE-NODEPORTS",
        }
    }
}

/// The chain of the filter table that lets health checks in (IPT-07).
pub const HEALTH_CHECKS: &str = "KUBE-NODEPORTS";

/// What a chain of one Service port does. All are in the table `nat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Balances over the Cluster policy's endpoints.
    Cluster,
    /// Balances over the Local policy's endpoints.
    Local,
    /// Connections by external addresses and node ports.
    External,
    /// Connections by load balancer addresses with source ranges.
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

/// The name of a chain of one Service port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainName {
    kind: Kind,
    hash: [u8; HASH_LENGTH],
}

impl ChainName {
    /// A Service port's chain.
    pub fn of_port(kind: Kind, port: &PortKey) -> Self {
        Self {
            kind,
            hash: hash(&[&identity(port), port.protocol.as_str()]),
        }
    }

    /// An endpoint's chain.
    pub fn of_endpoint(port: &PortKey, backend: &Backend) -> Self {
        Self {
            kind: Kind::Endpoint,
            hash: hash(&[
                &identity(port),
                port.protocol.as_str(),
                &backend.address.to_string(),
            ]),
        }
    }

    /// Reads a name back. `None` if it is not one of a Service's.
    pub fn parse(name: &str) -> Option<Self> {
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

/// `namespace/name:port`, or `namespace/name` for a port without a name.
pub fn identity(port: &PortKey) -> String {
    match &*port.port {
        "" => port.service.to_string(),
        name => format!("{}:{name}", port.service),
    }
}

/// The first characters of the SHA-256 in base 32 (RFC 4648); a protocol counts in small letters.
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

//! Declarations of the maps and sets of the table.
//!
//! Data maps hold all state that grows with the number of Services. A change of a data map takes microseconds,
//! regardless of its size. After a change of a verdict map or a rule, the kernel searches for loops. Verdict maps and
//! rules therefore have one entry for each *kind* of verdict chain, not for each Service.

use netlink::nftables::{Field, Set, SetValue};
use plan::Family;

/// Maximum number of elements in an affinity map: clients times Service ports that they use. Beyond it, connections are
/// balanced without affinity. An element takes about 200 bytes of kernel memory.
const AFFINITY_ELEMENTS_MAX: u32 = 262_144;

/// IP families.
pub(super) const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Verdict map from a verdict code to its chain.
pub(super) const VERDICTS: &str = "verdicts";
/// Verdict map from the masquerade bits of a verdict code to a chain.
pub(super) const MASQUERADED: &str = "masqueraded";

/// A map or set that exists once per IP family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Map {
    /// Address, protocol, port → verdict code.
    Services,
    /// Protocol, port → verdict code.
    NodePorts,
    /// Address, protocol, port of a further frontend → 0, first frontend of the Service port.
    ServiceOfAddress,
    /// Protocol, port → 0, address, protocol, port of the first frontend of the Service port.
    ServiceOfNodePort,
    /// First frontend, index → endpoint.
    ClusterEndpoints,
    /// First frontend, index → endpoint on this node.
    LocalEndpoints,
    /// First frontend, index → number of the endpoint, which stays when indexes change.
    ClusterNumbers,
    /// First frontend, index → number of the endpoint on this node.
    LocalNumbers,
    /// First frontend, number → endpoint that clients may have affinity to.
    ClusterMembers,
    /// First frontend, number → endpoint on this node that clients may have affinity to.
    LocalMembers,
    /// Client, first frontend → number, with a timeout. Rules add the elements.
    Affinity,
    /// Frontend, allowed source.
    SourceRanges,
    /// Address, protocol, port range → verdict code.
    PortRanges,
    /// Address, protocol, port range → 0, key of the endpoints of the Service's ranges: address, protocol with
    /// `RANGE_BIT`, and first port of the Service's first range.
    ServiceOfRange,
    /// Address, protocol, port range, allowed source.
    RangeSources,
    /// Address → verdict code for echo requests.
    Pings,
    /// Address, source whose echo requests are allowed.
    PingSources,
    /// Endpoint on this node, twice.
    Hairpin,
    /// Addresses on which all ports belong to Services.
    ClusterIps,
    /// Service CIDRs.
    ServiceCidrs,
    /// Pod CIDRs.
    Pods,
    /// Addresses of node ports, unless these answer everywhere.
    NodePortAddresses,
}

impl Map {
    /// All maps and sets, in the order of declaration.
    pub(super) const ALL: [Self; 22] = [
        Self::Services,
        Self::NodePorts,
        Self::ServiceOfAddress,
        Self::ServiceOfNodePort,
        Self::ClusterEndpoints,
        Self::LocalEndpoints,
        Self::ClusterNumbers,
        Self::LocalNumbers,
        Self::ClusterMembers,
        Self::LocalMembers,
        Self::Affinity,
        Self::SourceRanges,
        Self::PortRanges,
        Self::ServiceOfRange,
        Self::RangeSources,
        Self::Pings,
        Self::PingSources,
        Self::Hairpin,
        Self::ClusterIps,
        Self::ServiceCidrs,
        Self::Pods,
        Self::NodePortAddresses,
    ];

    /// Maps whose elements belong to one Service port each.
    pub(super) const OF_PORTS: [Self; 16] = [
        Self::Services,
        Self::NodePorts,
        Self::ServiceOfAddress,
        Self::ServiceOfNodePort,
        Self::ClusterEndpoints,
        Self::LocalEndpoints,
        Self::ClusterNumbers,
        Self::LocalNumbers,
        Self::ClusterMembers,
        Self::LocalMembers,
        Self::SourceRanges,
        Self::PortRanges,
        Self::ServiceOfRange,
        Self::RangeSources,
        Self::Pings,
        Self::PingSources,
    ];

    /// Returns the name in the table.
    pub(super) const fn name(self, family: Family) -> &'static str {
        let [ipv4, ipv6] = match self {
            Self::Services => ["services4", "services6"],
            Self::NodePorts => ["node-ports4", "node-ports6"],
            Self::ServiceOfAddress => ["service-of-address4", "service-of-address6"],
            Self::ServiceOfNodePort => ["service-of-node-port4", "service-of-node-port6"],
            Self::ClusterEndpoints => ["cluster-endpoints4", "cluster-endpoints6"],
            Self::LocalEndpoints => ["local-endpoints4", "local-endpoints6"],
            Self::ClusterNumbers => ["cluster-numbers4", "cluster-numbers6"],
            Self::LocalNumbers => ["local-numbers4", "local-numbers6"],
            Self::ClusterMembers => ["cluster-members4", "cluster-members6"],
            Self::LocalMembers => ["local-members4", "local-members6"],
            Self::Affinity => ["affinity4", "affinity6"],
            Self::SourceRanges => ["source-ranges4", "source-ranges6"],
            Self::PortRanges => ["port-ranges4", "port-ranges6"],
            Self::ServiceOfRange => ["service-of-range4", "service-of-range6"],
            Self::RangeSources => ["range-sources4", "range-sources6"],
            Self::Pings => ["pings4", "pings6"],
            Self::PingSources => ["ping-sources4", "ping-sources6"],
            Self::Hairpin => ["hairpin4", "hairpin6"],
            Self::ClusterIps => ["cluster-ips4", "cluster-ips6"],
            Self::ServiceCidrs => ["service-cidrs4", "service-cidrs6"],
            Self::Pods => ["pods4", "pods6"],
            Self::NodePortAddresses => ["node-port-addresses4", "node-port-addresses6"],
        };
        match family {
            Family::V4 => ipv4,
            Family::V6 => ipv6,
        }
    }

    const fn comment(self) -> &'static str {
        match self {
            Self::Services => "cluster IP, external IP or load balancer IP : code of its verdict",
            Self::NodePorts => "node port : code of its verdict",
            Self::ServiceOfAddress => "external IP or load balancer IP : cluster IP with the endpoints",
            Self::ServiceOfNodePort => "node port : cluster IP with the endpoints",
            Self::ClusterEndpoints => "cluster IP . index : endpoint",
            Self::LocalEndpoints => "cluster IP . index : endpoint on this node",
            Self::ClusterNumbers => "session affinity: cluster IP . index : number of the endpoint",
            Self::LocalNumbers => {
                "session affinity: cluster IP . index : number of the endpoint on this node"
            }
            Self::ClusterMembers => "session affinity: cluster IP . number : endpoint",
            Self::LocalMembers => "session affinity: cluster IP . number : endpoint on this node",
            Self::Affinity => "session affinity: client . cluster IP : number of the endpoint it is kept at",
            Self::SourceRanges => "load balancer IP . source that may use it",
            Self::PortRanges => "port range of an address : code of its verdict",
            Self::ServiceOfRange => "port range of an address : key of the endpoints",
            Self::RangeSources => "port range of a load balancer IP . source that may use it",
            Self::Pings => "address : code of the verdict about echo requests",
            Self::PingSources => "load balancer IP . source that may send echo requests",
            Self::Hairpin => "endpoints on this node that reach themselves, masqueraded",
            Self::ClusterIps => "cluster IPs: other ports are refused",
            Self::ServiceCidrs => "ranges of cluster IPs: other addresses are dropped",
            Self::Pods => "ranges of Pod addresses",
            Self::NodePortAddresses => "where node ports answer, if not on all addresses of this node",
        }
    }

    /// Returns true if keys are ranges.
    const fn is_interval(self) -> bool {
        matches!(
            self,
            Self::SourceRanges
                | Self::PortRanges
                | Self::ServiceOfRange
                | Self::RangeSources
                | Self::PingSources
                | Self::ServiceCidrs
                | Self::Pods
        )
    }

    /// Returns the declaration.
    pub(super) fn set(self, family: Family) -> Set {
        let address = match family {
            Family::V4 => Field::Ipv4,
            Family::V6 => Field::Ipv6,
        };
        let frontend = [address, Field::Protocol, Field::Port];
        let node_port = vec![Field::Protocol, Field::Port];
        let endpoint = vec![address, Field::Port];
        let numbered = [&frontend[..], &[Field::Mark]].concat();
        // nft cannot show a lookup whose key is the result of another lookup, so the result is written one register
        // further.
        let service = [&[Field::Mark], &frontend[..]].concat();
        let (key, value) = match self {
            Self::Services | Self::PortRanges => (frontend.to_vec(), Some(vec![Field::Mark])),
            Self::Pings => (vec![address], Some(vec![Field::Mark])),
            Self::NodePorts => (node_port, Some(vec![Field::Mark])),
            Self::ServiceOfAddress | Self::ServiceOfRange => (frontend.to_vec(), Some(service)),
            Self::ServiceOfNodePort => (node_port, Some(service)),
            Self::ClusterEndpoints | Self::LocalEndpoints | Self::ClusterMembers | Self::LocalMembers => {
                (numbered, Some(endpoint))
            }
            Self::ClusterNumbers | Self::LocalNumbers => (numbered, Some(vec![Field::Mark])),
            Self::Affinity => ([&[address], &frontend[..]].concat(), Some(vec![Field::Mark])),
            Self::SourceRanges | Self::RangeSources => ([&frontend[..], &[address]].concat(), None),
            Self::Hairpin | Self::PingSources => (vec![address, address], None),
            Self::ClusterIps | Self::ServiceCidrs | Self::Pods | Self::NodePortAddresses => {
                (vec![address], None)
            }
        };
        Set {
            name: self.name(family).to_owned(),
            key,
            value: value.map_or(SetValue::None, SetValue::Fields),
            is_interval: self.is_interval(),
            dynamic_size: (self == Self::Affinity).then_some(AFFINITY_ELEMENTS_MAX),
            comment: self.comment().to_owned(),
        }
    }
}

/// Returns the declarations of all sets and maps of the table.
pub(super) fn sets() -> Vec<Set> {
    let verdicts = |name: &str, comment: &str| Set {
        name: name.to_owned(),
        key: vec![Field::Mark],
        value: SetValue::Verdict,
        is_interval: false,
        dynamic_size: None,
        comment: comment.to_owned(),
    };
    let mut sets: Vec<Set> = Map::ALL
        .into_iter()
        .flat_map(|map| FAMILIES.map(|family| map.set(family)))
        .collect();
    sets.push(verdicts(VERDICTS, "code of a verdict : its chain"));
    sets.push(verdicts(
        MASQUERADED,
        "bits of a verdict's code : from outside 1, from Pods 2, from this node 4 are masqueraded",
    ));
    sets
}

/// Returns the length of an address in bytes.
pub(super) const fn address_bytes(family: Family) -> usize {
    match family {
        Family::V4 => 4,
        Family::V6 => 16,
    }
}

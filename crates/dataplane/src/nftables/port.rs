//! Service ports as sets of map elements.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use api::hash::fnv1a_32;
use ipnet::IpNet;
use plan::{
    Backend, EndpointSet, Family, Frontend, FrontendKind, PingPlan, Scheduler, ServicePortPlan, Settings,
    Target,
};

use super::bytes::MapBytes;
use super::delegation::virtual_set;
use super::indexed_endpoints::IndexedEndpoints;
use super::layout::Map;
use super::map_element::{MapElement, MapId};
use super::verdict_chain::{KeyLookup, VerdictChain};

/// Bit of the protocol in the keys of port ranges. A Service port may have the address and port with which a range
/// starts. The numbers of TCP (6), UDP (17) and SCTP (132) do not have this bit.
pub(super) const RANGE_BIT: u8 = 0x40;

/// A Service port as it is written to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    family: Family,
    protocol: u8,
    /// Key of its endpoints: address and port of the first frontend, which no other Service has. The address is
    /// unspecified if the Service port has node ports only.
    first: (IpAddr, u16),
    /// True for port ranges. Their key starts with the first port of their first range, which no range of another
    /// Service contains. [`RANGE_BIT`] distinguishes it from the key of a Service port.
    is_range: bool,
    is_sticky: bool,
    /// True if indexes are positions in a Maglev table.
    is_hashed: bool,
    name: Arc<str>,
    frontends: Box<[AppliedFrontend]>,
    cluster: IndexedEndpoints,
    local: IndexedEndpoints,
}

/// A frontend as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AppliedFrontend {
    /// True if other ports of the address are rejected.
    claims_address: bool,
    key_lookup: KeyLookup,
    address: Option<IpAddr>,
    port: u16,
    last_port: u16,
    code: u32,
    source_ranges: Box<[IpNet]>,
}

/// An element that several Service ports may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SharedElement {
    /// Address on which all ports belong to Services.
    ClusterIp(IpAddr),
    /// Endpoint on this node.
    LocalEndpoint(IpAddr),
}

impl SharedElement {
    /// Returns the element.
    pub(super) fn element(self) -> MapElement {
        match self {
            Self::ClusterIp(ip) => {
                let map_id = MapId::Map(Map::ClusterIps, Family::of(ip));
                MapElement::key(map_id, MapBytes::new().address(ip))
            }
            Self::LocalEndpoint(ip) => {
                let map_id = MapId::Map(Map::Hairpin, Family::of(ip));
                MapElement::key(map_id, MapBytes::new().address(ip).address(ip))
            }
        }
    }
}

impl Port {
    /// Converts a Service port of the plan. `former` returns the applied endpoints of a set by index, for the Service
    /// port with that key; `code` returns the code of a verdict chain. With `settings`, virtual servers choose
    /// endpoints.
    pub(super) fn new(
        plan: &ServicePortPlan,
        settings: Option<&Settings>,
        former: impl Fn(&MapBytes, EndpointSet) -> Vec<SocketAddr>,
        mut code: impl FnMut(VerdictChain) -> u32,
    ) -> Self {
        let family = plan.key.family;
        let first = first_of_range(plan);
        let protocol = plan.key.protocol.number();
        let key = service_key(first, protocol, plan.is_range);
        let frontends = plan.frontends.iter().map(|frontend| {
            let key_lookup = match frontend.address {
                _ if plan.is_range => KeyLookup::Range,
                None => KeyLookup::NodePort,
                Some(address) if (address, frontend.port) == first => KeyLookup::First,
                Some(_) => KeyLookup::Address,
            };
            let virtual_set = settings.and_then(|_| virtual_set(plan, frontend));
            let number = fnv1a_32(key.as_slice().iter().copied());
            let code = code(VerdictChain::of(plan, frontend, key_lookup, number, virtual_set));
            let mut applied = AppliedFrontend::new(frontend, key_lookup, code);
            // This node takes packets to the address of a virtual server, and its other programs must not answer them
            // (IPV-08).
            applied.claims_address |= virtual_set.is_some()
                && frontend
                    .address
                    .is_some_and(|address| settings.is_some_and(|settings| !settings.is_own(address)));
            applied
        });
        let frontends = frontends.collect();
        let rules_choose =
            settings.is_none() || plan.frontends.iter().any(|frontend| needs_rules(plan, frontend));
        Self {
            family,
            protocol,
            first,
            is_range: plan.is_range,
            is_sticky: rules_choose && plan.affinity_seconds.is_some(),
            is_hashed: rules_choose && plan.scheduler == Scheduler::Maglev,
            name: plan.key.port.clone(),
            frontends,
            cluster: IndexedEndpoints::assign(family, &former(&key, EndpointSet::Cluster), &plan.cluster),
            local: IndexedEndpoints::assign(family, &former(&key, EndpointSet::Local), &plan.local),
        }
    }

    /// Converts the decisions about echo requests; `code` returns the code of a verdict chain.
    pub(super) fn of_ping(plan: &PingPlan, mut code: impl FnMut(VerdictChain) -> u32) -> Self {
        let frontends = plan.frontends.iter().map(|frontend| {
            let code = code(VerdictChain::of_ping(frontend));
            AppliedFrontend::new(frontend, KeyLookup::Ping, code)
        });
        let no_endpoints = || IndexedEndpoints::assign(plan.family, &[], &[]);
        Self {
            family: plan.family,
            protocol: 0,
            first: (unspecified_address(plan.family), 0),
            is_range: false,
            is_sticky: false,
            is_hashed: false,
            name: Arc::default(),
            frontends: frontends.collect(),
            cluster: no_endpoints(),
            local: no_endpoints(),
        }
    }

    /// Returns the key of the endpoints.
    pub(super) fn key(&self) -> MapBytes {
        service_key(self.first, self.protocol, self.is_range)
    }

    /// Returns true if clients have affinity.
    pub(super) fn is_sticky(&self) -> bool {
        self.is_sticky
    }

    /// Returns what a port of a Service and family keeps when its frontends change: protocol, kind and name.
    pub(super) fn identity(&self) -> (u8, bool, &str) {
        (self.protocol, self.is_range, &self.name)
    }

    /// Returns the numbers of the endpoints, possibly with duplicates.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        let endpoints = self.cluster.iter().chain(self.local.iter());
        endpoints.map(|backend| number(&backend))
    }

    /// Returns the IP family.
    pub(super) fn family(&self) -> Family {
        self.family
    }

    /// Returns the name of the port in the Service; empty if it has none.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the verdict codes of the frontends.
    pub(super) fn codes(&self) -> impl Iterator<Item = u32> + '_ {
        self.frontends.iter().map(|frontend| frontend.code)
    }

    /// Returns the endpoints of a set by index.
    pub(super) fn endpoints(&self, set: EndpointSet) -> impl Iterator<Item = Backend> + '_ {
        self.indexed_endpoints(set).iter()
    }

    /// Returns the shared elements, possibly with duplicates.
    pub(super) fn shared(&self) -> impl Iterator<Item = SharedElement> + '_ {
        let addresses = self
            .frontends
            .iter()
            .filter(|frontend| frontend.claims_address)
            .filter_map(|frontend| frontend.address)
            .map(SharedElement::ClusterIp);
        let endpoints = self.cluster.iter().chain(self.local.iter());
        let local = endpoints
            .filter(|backend| backend.can_be_local)
            .map(|backend| SharedElement::LocalEndpoint(backend.address.ip()));
        addresses.chain(local)
    }

    /// Appends the elements of a map. Only frontends carry the comment; on endpoints it would double their memory.
    pub(super) fn append_elements(&self, map: Map, comment: &Arc<str>, elements: &mut Vec<MapElement>) {
        let map_id = MapId::Map(map, self.family);
        match map {
            Map::ClusterEndpoints => self.append_endpoints(map_id, EndpointSet::Cluster, elements),
            Map::LocalEndpoints => self.append_endpoints(map_id, EndpointSet::Local, elements),
            Map::ClusterNumbers => self.append_numbers(map_id, EndpointSet::Cluster, elements),
            Map::LocalNumbers => self.append_numbers(map_id, EndpointSet::Local, elements),
            Map::ClusterMembers => self.append_members(map_id, EndpointSet::Cluster, elements),
            Map::LocalMembers => self.append_members(map_id, EndpointSet::Local, elements),
            Map::Services | Map::NodePorts | Map::PortRanges | Map::Pings => {
                for frontend in self
                    .frontends
                    .iter()
                    .filter(|frontend| frontend.code_map() == map)
                {
                    let code = MapBytes::new().mark(frontend.code);
                    let element = MapElement {
                        key_end: frontend.range_end(self.protocol).map(Box::new),
                        ..MapElement::pair(map_id, frontend.key(self.protocol), code)
                    };
                    elements.push(element.with_comment(comment));
                }
            }
            Map::ServiceOfAddress | Map::ServiceOfNodePort | Map::ServiceOfRange => {
                let key_lookup = match map {
                    Map::ServiceOfAddress => KeyLookup::Address,
                    Map::ServiceOfRange => KeyLookup::Range,
                    _ => KeyLookup::NodePort,
                };
                let own = self.frontends.iter();
                for frontend in own.filter(|frontend| frontend.key_lookup == key_lookup) {
                    let service = MapBytes::new().mark(0).key(&self.key());
                    elements.push(MapElement {
                        key_end: frontend.range_end(self.protocol).map(Box::new),
                        ..MapElement::pair(map_id, frontend.key(self.protocol), service)
                    });
                }
            }
            Map::SourceRanges | Map::RangeSources | Map::PingSources => {
                let own = self.frontends.iter();
                for frontend in own.filter(|frontend| frontend.source_map() == map) {
                    let first = frontend.key(self.protocol);
                    let last = frontend.range_end(self.protocol).unwrap_or(first);
                    elements.extend(frontend.source_ranges.iter().map(|range| MapElement {
                        key_end: Some(Box::new(last.address(range.broadcast()))),
                        ..MapElement::key(map_id, first.address(range.network())).with_comment(comment)
                    }));
                }
            }
            Map::Affinity
            | Map::Hairpin
            | Map::ClusterIps
            | Map::ServiceCidrs
            | Map::Pods
            | Map::NodePortAddresses => {}
        }
    }

    /// Appends the elements of all maps.
    pub(super) fn append_all_elements(&self, comment: &Arc<str>, elements: &mut Vec<MapElement>) {
        for map in Map::OF_PORTS {
            self.append_elements(map, comment, elements);
        }
    }

    fn append_endpoints(&self, map_id: MapId, set: EndpointSet, elements: &mut Vec<MapElement>) {
        let key = self.key();
        for (index, backend) in self.by_index(set).iter().enumerate() {
            elements.push(MapElement::pair(
                map_id,
                key.mark(index as u32),
                endpoint(backend),
            ));
        }
    }

    /// Returns the endpoint at each index that a connection may select.
    fn by_index(&self, set: EndpointSet) -> Vec<Backend> {
        let backends: Vec<Backend> = self.indexed_endpoints(set).iter().collect();
        if self.is_hashed {
            maglev::lookup_table(backends, |backend| endpoint(backend).as_slice().to_vec())
        } else {
            backends
        }
    }

    fn append_numbers(&self, map_id: MapId, set: EndpointSet, elements: &mut Vec<MapElement>) {
        if self.is_sticky {
            let key = self.key();
            for (index, backend) in self.by_index(set).iter().enumerate() {
                let number = MapBytes::new().mark(number(backend));
                elements.push(MapElement::pair(map_id, key.mark(index as u32), number));
            }
        }
    }

    /// Two endpoints rarely have the same number; only the first one has affinity then.
    fn append_members(&self, map_id: MapId, set: EndpointSet, elements: &mut Vec<MapElement>) {
        if self.is_sticky {
            let key = self.key();
            let mut seen = HashSet::new();
            for backend in self.indexed_endpoints(set).iter() {
                let number = number(&backend);
                if seen.insert(number) {
                    elements.push(MapElement::pair(map_id, key.mark(number), endpoint(&backend)));
                }
            }
        }
    }

    fn indexed_endpoints(&self, set: EndpointSet) -> &IndexedEndpoints {
        match set {
            EndpointSet::Cluster => &self.cluster,
            EndpointSet::Local => &self.local,
        }
    }
}

impl AppliedFrontend {
    fn new(frontend: &Frontend, key_lookup: KeyLookup, code: u32) -> Self {
        Self {
            claims_address: frontend.kind == FrontendKind::ClusterIp,
            key_lookup,
            address: frontend.address,
            port: frontend.port,
            last_port: frontend.last_port,
            code,
            // The kernel rejects overlapping ranges.
            source_ranges: match frontend.address {
                Some(_) => IpNet::aggregate(&frontend.source_ranges).into_boxed_slice(),
                None => Box::default(),
            },
        }
    }

    /// Returns the map of the verdict code.
    fn code_map(&self) -> Map {
        match self.key_lookup {
            KeyLookup::First | KeyLookup::Address => Map::Services,
            KeyLookup::NodePort => Map::NodePorts,
            KeyLookup::Range => Map::PortRanges,
            KeyLookup::Ping => Map::Pings,
        }
    }

    /// Returns the set of the allowed sources.
    fn source_map(&self) -> Map {
        match self.key_lookup {
            KeyLookup::First | KeyLookup::Address | KeyLookup::NodePort => Map::SourceRanges,
            KeyLookup::Range => Map::RangeSources,
            KeyLookup::Ping => Map::PingSources,
        }
    }

    /// Returns the key, or the first key of a range.
    fn key(&self, protocol: u8) -> MapBytes {
        self.key_of(protocol, self.port)
    }

    /// Returns the last key of a port range.
    fn range_end(&self, protocol: u8) -> Option<MapBytes> {
        (self.key_lookup == KeyLookup::Range).then(|| self.key_of(protocol, self.last_port))
    }

    fn key_of(&self, protocol: u8, port: u16) -> MapBytes {
        let key = match self.address {
            Some(address) => MapBytes::new().address(address),
            None => MapBytes::new(),
        };
        match self.key_lookup {
            KeyLookup::Ping => key,
            _ => key.protocol(protocol).port(port),
        }
    }
}

/// Returns true if the rules choose the endpoints of some clients of a frontend, although others have a virtual server.
fn needs_rules(plan: &ServicePortPlan, frontend: &Frontend) -> bool {
    let server_set = virtual_set(plan, frontend);
    frontend
        .targets
        .iter()
        .any(|target| matches!(target, Target::Balance { set, .. } if Some(*set) != server_set))
}

/// Returns the number of an endpoint: a hash of its address and port, which is the same in every process.
fn number(backend: &Backend) -> u32 {
    fnv1a_32(endpoint(backend).as_slice().iter().copied())
}

/// Encodes an endpoint as a map value.
fn endpoint(backend: &Backend) -> MapBytes {
    let address = backend.address;
    MapBytes::new().address(address.ip()).port(address.port())
}

fn service_key((address, port): (IpAddr, u16), protocol: u8, is_range: bool) -> MapBytes {
    let protocol = if is_range { protocol | RANGE_BIT } else { protocol };
    MapBytes::new().address(address).protocol(protocol).port(port)
}

/// Returns address and port of the key. Of a range that is its first port.
fn first_of_range(plan: &ServicePortPlan) -> (IpAddr, u16) {
    let mut addresses = plan
        .frontends
        .iter()
        .filter_map(|frontend| Some((frontend.address?, frontend.port)));
    let unspecified = unspecified_address(plan.key.family);
    let node_port = || {
        plan.frontends
            .first()
            .map(|frontend| (unspecified, frontend.port))
    };
    addresses.next().or_else(node_port).unwrap_or((unspecified, 0))
}

fn unspecified_address(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

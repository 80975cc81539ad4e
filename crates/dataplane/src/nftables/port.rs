//! Service ports as sets of map elements.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use plan::{Backend, Family, Frontend, FrontendKind, Scheduler, ServicePortPlan, Set};

use super::bytes::Bytes;
use super::layout::Map;
use super::map_element::{MapElement, MapId};
use super::slots::Slots;
use super::verdict_chain::{KeyLookup, VerdictChain};

/// A Service port as it is written to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    family: Family,
    protocol: u8,
    /// Key of its endpoints: address and port of the first frontend, which no other Service has. The address is
    /// unspecified if the Service port has node ports only.
    first: (IpAddr, u16),
    is_sticky: bool,
    /// True if indexes are positions in a Maglev table.
    is_hashed: bool,
    name: Arc<str>,
    frontends: Box<[AppliedFrontend]>,
    cluster: Slots,
    local: Slots,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct AppliedFrontend {
    is_cluster_ip: bool,
    key_lookup: KeyLookup,
    address: Option<IpAddr>,
    port: u16,
    code: u32,
    source_ranges: Box<[IpNet]>,
}

/// An element that several Service ports may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shared {
    /// Address on which all ports belong to Services.
    ClusterIp(IpAddr),
    /// Endpoint on this node.
    LocalEndpoint(IpAddr),
}

impl Shared {
    /// Returns the element.
    pub fn element(self) -> MapElement {
        match self {
            Self::ClusterIp(ip) => {
                let map_id = MapId::Map(Map::ClusterIps, Family::of(ip));
                MapElement::key(map_id, Bytes::new().address(ip))
            }
            Self::LocalEndpoint(ip) => {
                let map_id = MapId::Map(Map::Hairpin, Family::of(ip));
                MapElement::key(map_id, Bytes::new().address(ip).address(ip))
            }
        }
    }
}

impl Port {
    /// Converts a Service port of the plan. `former` returns the applied endpoints of a set by index, for the Service
    /// port with that key; `code` returns the code of a verdict chain.
    pub fn new(
        plan: &ServicePortPlan,
        former: impl Fn(&Bytes, Set) -> Vec<SocketAddr>,
        mut code: impl FnMut(VerdictChain) -> u32,
    ) -> Self {
        let family = plan.key.family;
        let first = first(plan);
        let protocol = plan.key.protocol.number();
        let key = service_key(first, protocol);
        let frontends = plan.frontends.iter().map(|frontend| {
            let key_lookup = match frontend.address {
                None => KeyLookup::NodePort,
                Some(address) if (address, frontend.port) == first => KeyLookup::First,
                Some(_) => KeyLookup::Address,
            };
            let code = code(VerdictChain::of(plan, frontend, key_lookup, hash(key.as_slice())));
            AppliedFrontend::new(frontend, key_lookup, code)
        });
        Self {
            family,
            protocol,
            first,
            is_sticky: plan.affinity_seconds.is_some(),
            is_hashed: plan.scheduler == Scheduler::Maglev,
            name: plan.key.port.clone(),
            frontends: frontends.collect(),
            cluster: Slots::assign(family, &former(&key, Set::Cluster), &plan.cluster),
            local: Slots::assign(family, &former(&key, Set::Local), &plan.local),
        }
    }

    /// Returns the key of the endpoints.
    pub fn key(&self) -> Bytes {
        service_key(self.first, self.protocol)
    }

    /// Returns the IP family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Returns the name of the port in the Service; empty if it has none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the verdict codes of the frontends.
    pub fn codes(&self) -> impl Iterator<Item = u32> + '_ {
        self.frontends.iter().map(|frontend| frontend.code)
    }

    /// Returns the endpoints of a set by index.
    pub fn endpoints(&self, set: Set) -> impl Iterator<Item = Backend> + '_ {
        self.slots(set).iter()
    }

    /// Returns the shared elements, possibly with duplicates.
    pub fn shared(&self) -> impl Iterator<Item = Shared> + '_ {
        let addresses = self
            .frontends
            .iter()
            .filter(|frontend| frontend.is_cluster_ip)
            .filter_map(|frontend| frontend.address)
            .map(Shared::ClusterIp);
        let endpoints = self.cluster.iter().chain(self.local.iter());
        let local = endpoints
            .filter(|backend| backend.can_be_local)
            .map(|backend| Shared::LocalEndpoint(backend.address.ip()));
        addresses.chain(local)
    }

    /// Appends the elements of a map. Only frontends carry the comment; on endpoints it would double their memory.
    pub fn append_elements(&self, map: Map, comment: &Arc<str>, elements: &mut Vec<MapElement>) {
        let map_id = MapId::Map(map, self.family);
        match map {
            Map::ClusterEndpoints => self.append_endpoints(map_id, Set::Cluster, elements),
            Map::LocalEndpoints => self.append_endpoints(map_id, Set::Local, elements),
            Map::ClusterNumbers => self.append_numbers(map_id, Set::Cluster, elements),
            Map::LocalNumbers => self.append_numbers(map_id, Set::Local, elements),
            Map::ClusterMembers => self.append_members(map_id, Set::Cluster, elements),
            Map::LocalMembers => self.append_members(map_id, Set::Local, elements),
            Map::Services | Map::NodePorts => {
                for frontend in &self.frontends {
                    if (frontend.key_lookup == KeyLookup::NodePort) == (map == Map::NodePorts) {
                        let code = Bytes::new().mark(frontend.code);
                        let element = MapElement::pair(map_id, frontend.key(self.protocol), code);
                        elements.push(element.with_comment(comment));
                    }
                }
            }
            Map::ServiceOfAddress | Map::ServiceOfNodePort => {
                let key_lookup = match map {
                    Map::ServiceOfAddress => KeyLookup::Address,
                    _ => KeyLookup::NodePort,
                };
                for frontend in self
                    .frontends
                    .iter()
                    .filter(|frontend| frontend.key_lookup == key_lookup)
                {
                    let key = frontend.key(self.protocol);
                    elements.push(MapElement::pair(
                        map_id,
                        key,
                        Bytes::new().mark(0).key(&self.key()),
                    ));
                }
            }
            Map::SourceRanges => {
                for frontend in &self.frontends {
                    let key = frontend.key(self.protocol);
                    elements.extend(frontend.source_ranges.iter().map(|range| MapElement {
                        key_end: Some(Box::new(key.address(range.broadcast()))),
                        ..MapElement::key(map_id, key.address(range.network())).with_comment(comment)
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
    pub fn append_all_elements(&self, comment: &Arc<str>, elements: &mut Vec<MapElement>) {
        for map in Map::OF_PORTS {
            self.append_elements(map, comment, elements);
        }
    }

    fn append_endpoints(&self, map_id: MapId, set: Set, elements: &mut Vec<MapElement>) {
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
    fn by_index(&self, set: Set) -> Vec<Backend> {
        let backends: Vec<Backend> = self.slots(set).iter().collect();
        if self.is_hashed {
            maglev::lookup_table(backends, |backend| endpoint(backend).as_slice().to_vec())
        } else {
            backends
        }
    }

    fn append_numbers(&self, map_id: MapId, set: Set, elements: &mut Vec<MapElement>) {
        if self.is_sticky {
            let key = self.key();
            for (index, backend) in self.by_index(set).iter().enumerate() {
                let number = Bytes::new().mark(number(backend));
                elements.push(MapElement::pair(map_id, key.mark(index as u32), number));
            }
        }
    }

    /// Two endpoints rarely have the same number; only the first one gets affinity then.
    fn append_members(&self, map_id: MapId, set: Set, elements: &mut Vec<MapElement>) {
        if self.is_sticky {
            let key = self.key();
            let mut seen = HashSet::new();
            for backend in self.slots(set).iter() {
                let number = number(&backend);
                if seen.insert(number) {
                    elements.push(MapElement::pair(map_id, key.mark(number), endpoint(&backend)));
                }
            }
        }
    }

    fn slots(&self, set: Set) -> &Slots {
        match set {
            Set::Cluster => &self.cluster,
            Set::Local => &self.local,
        }
    }
}

impl AppliedFrontend {
    fn new(frontend: &Frontend, key_lookup: KeyLookup, code: u32) -> Self {
        Self {
            is_cluster_ip: frontend.kind == FrontendKind::ClusterIp,
            key_lookup,
            address: frontend.address,
            port: frontend.port,
            code,
            // The kernel rejects overlapping ranges.
            source_ranges: match frontend.address {
                Some(_) => IpNet::aggregate(&frontend.source_ranges).into_boxed_slice(),
                None => Box::default(),
            },
        }
    }

    fn key(&self, protocol: u8) -> Bytes {
        let key = match self.address {
            Some(address) => Bytes::new().address(address),
            None => Bytes::new(),
        };
        key.protocol(protocol).port(self.port)
    }
}

/// Returns the number of an endpoint: a hash of its address and port.
fn number(backend: &Backend) -> u32 {
    hash(endpoint(backend).as_slice())
}

/// FNV-1a, which gives the same result in every process.
fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// Encodes an endpoint as a map value.
fn endpoint(backend: &Backend) -> Bytes {
    let address = backend.address;
    Bytes::new().address(address.ip()).port(address.port())
}

fn service_key((address, port): (IpAddr, u16), protocol: u8) -> Bytes {
    Bytes::new().address(address).protocol(protocol).port(port)
}

fn first(plan: &ServicePortPlan) -> (IpAddr, u16) {
    let addresses = plan
        .frontends
        .iter()
        .filter_map(|frontend| Some((frontend.address?, frontend.port)));
    let unspecified = match plan.key.family {
        Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let node_port = || {
        plan.frontends
            .first()
            .map(|frontend| (unspecified, frontend.port))
    };
    addresses
        .into_iter()
        .next()
        .or_else(node_port)
        .unwrap_or((unspecified, 0))
}

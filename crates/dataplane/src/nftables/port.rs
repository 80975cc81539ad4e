//! What is in force for a Service port, and the elements that it consists of.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use plan::{Backend, Family, Frontend, FrontendKind, Scheduler, ServicePortPlan, Set};

use super::bytes::Bytes;
use super::item::{Item, Place};
use super::layout::Map;
use super::slots::Slots;
use super::treatment::{Entry, Treatment};

/// A Service port in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    family: Family,
    protocol: u8,
    /// The address and port that its endpoints are found by: its first frontend, which no other Service has.
    /// The unspecified address if it has node ports only.
    first: (IpAddr, u16),
    is_sticky: bool,
    /// Whether indexes are places of a Maglev table.
    is_hashed: bool,
    name: Arc<str>,
    frontends: Box<[FrontendInForce]>,
    cluster: Slots,
    local: Slots,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FrontendInForce {
    is_cluster_ip: bool,
    entry: Entry,
    address: Option<IpAddr>,
    port: u16,
    code: u32,
    source_ranges: Box<[IpNet]>,
}

/// Something that several Service ports may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shared {
    /// An address of which all ports are Services'.
    ClusterIp(IpAddr),
    /// An endpoint on this node.
    LocalEndpoint(IpAddr),
}

impl Shared {
    /// Its element.
    pub fn item(self) -> Item {
        match self {
            Self::ClusterIp(ip) => {
                let place = Place::Map(Map::ClusterIps, Family::of(ip));
                Item::key(place, Bytes::new().address(ip))
            }
            Self::LocalEndpoint(ip) => {
                let place = Place::Map(Map::Hairpin, Family::of(ip));
                Item::key(place, Bytes::new().address(ip).address(ip))
            }
        }
    }
}

impl Port {
    /// Writes a plan down. `former` tells the endpoints of a set by index, as they are in force for the Service
    /// port with that key; `code` gives a treatment its code.
    pub fn new(
        plan: &ServicePortPlan,
        former: impl Fn(&Bytes, Set) -> Vec<SocketAddr>,
        mut code: impl FnMut(Treatment) -> u32,
    ) -> Self {
        let family = plan.key.family;
        let first = first(plan);
        let protocol = plan.key.protocol.number();
        let key = service_key(first, protocol);
        let frontends = plan.frontends.iter().map(|frontend| {
            let entry = match frontend.address {
                None => Entry::NodePort,
                Some(address) if (address, frontend.port) == first => Entry::First,
                Some(_) => Entry::Address,
            };
            let code = code(Treatment::of(plan, frontend, entry, hash(key.as_slice())));
            FrontendInForce::new(frontend, entry, code)
        });
        Self {
            family,
            protocol,
            first,
            is_sticky: plan.affinity_seconds.is_some(),
            is_hashed: plan.scheduler == Scheduler::Maglev,
            name: plan.key.port.clone(),
            frontends: frontends.collect(),
            cluster: Slots::place(family, &former(&key, Set::Cluster), &plan.cluster),
            local: Slots::place(family, &former(&key, Set::Local), &plan.local),
        }
    }

    /// The key that its endpoints are found by.
    pub fn key(&self) -> Bytes {
        service_key(self.first, self.protocol)
    }

    /// Its family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The name in the Service, or "".
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The codes of its frontends' treatments.
    pub fn codes(&self) -> impl Iterator<Item = u32> + '_ {
        self.frontends.iter().map(|frontend| frontend.code)
    }

    /// The endpoints of a set by index.
    pub fn endpoints(&self, set: Set) -> impl Iterator<Item = Backend> + '_ {
        self.slots(set).iter()
    }

    /// What it needs that others may need, too; the same several times perhaps.
    pub fn shared(&self) -> impl Iterator<Item = Shared> + '_ {
        let addresses = self
            .frontends
            .iter()
            .filter(|frontend| frontend.is_cluster_ip)
            .filter_map(|frontend| frontend.address)
            .map(Shared::ClusterIp);
        let endpoints = self.cluster.iter().chain(self.local.iter());
        let local = endpoints
            .filter(|backend| backend.local)
            .map(|backend| Shared::LocalEndpoint(backend.address.ip()));
        addresses.chain(local)
    }

    /// Appends its elements in a map. Frontends carry the comment; the many elements that their endpoints are
    /// do not: it would double what they take.
    pub fn items(&self, map: Map, comment: &Arc<str>, items: &mut Vec<Item>) {
        let place = Place::Map(map, self.family);
        match map {
            Map::ClusterEndpoints => self.endpoint_items(place, Set::Cluster, items),
            Map::LocalEndpoints => self.endpoint_items(place, Set::Local, items),
            Map::ClusterNumbers => self.number_items(place, Set::Cluster, items),
            Map::LocalNumbers => self.number_items(place, Set::Local, items),
            Map::ClusterMembers => self.member_items(place, Set::Cluster, items),
            Map::LocalMembers => self.member_items(place, Set::Local, items),
            Map::Services | Map::NodePorts => {
                for frontend in &self.frontends {
                    if (frontend.entry == Entry::NodePort) == (map == Map::NodePorts) {
                        let code = Bytes::new().mark(frontend.code);
                        let item = Item::pair(place, frontend.key(self.protocol), code);
                        items.push(item.with_comment(comment));
                    }
                }
            }
            Map::ServiceOfAddress | Map::ServiceOfNodePort => {
                let entry = match map {
                    Map::ServiceOfAddress => Entry::Address,
                    _ => Entry::NodePort,
                };
                for frontend in self.frontends.iter().filter(|frontend| frontend.entry == entry) {
                    let key = frontend.key(self.protocol);
                    items.push(Item::pair(place, key, Bytes::new().mark(0).key(&self.key())));
                }
            }
            Map::SourceRanges => {
                for frontend in &self.frontends {
                    let key = frontend.key(self.protocol);
                    items.extend(frontend.source_ranges.iter().map(|range| Item {
                        key_end: Some(Box::new(key.address(range.broadcast()))),
                        ..Item::key(place, key.address(range.network())).with_comment(comment)
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

    /// Appends all its elements.
    pub fn all_items(&self, comment: &Arc<str>, items: &mut Vec<Item>) {
        for map in Map::OF_PORTS {
            self.items(map, comment, items);
        }
    }

    fn endpoint_items(&self, place: Place, set: Set, items: &mut Vec<Item>) {
        let key = self.key();
        for (index, backend) in self.by_index(set).iter().enumerate() {
            items.push(Item::pair(place, key.mark(index as u32), endpoint(backend)));
        }
    }

    /// The endpoint at each index that a connection may get.
    fn by_index(&self, set: Set) -> Vec<Backend> {
        let backends: Vec<Backend> = self.slots(set).iter().collect();
        match self.is_hashed {
            true => maglev::lookup_table(backends, |backend| endpoint(backend).as_slice().to_vec()),
            false => backends,
        }
    }

    fn number_items(&self, place: Place, set: Set, items: &mut Vec<Item>) {
        if self.is_sticky {
            let key = self.key();
            for (index, backend) in self.by_index(set).iter().enumerate() {
                let number = Bytes::new().mark(number(backend));
                items.push(Item::pair(place, key.mark(index as u32), number));
            }
        }
    }

    /// Two endpoints of one number are hardly ever seen; the second then stands back.
    fn member_items(&self, place: Place, set: Set, items: &mut Vec<Item>) {
        if self.is_sticky {
            let key = self.key();
            let mut seen = HashSet::new();
            for backend in self.slots(set).iter() {
                let number = number(&backend);
                if seen.insert(number) {
                    items.push(Item::pair(place, key.mark(number), endpoint(&backend)));
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

impl FrontendInForce {
    fn new(frontend: &Frontend, entry: Entry, code: u32) -> Self {
        Self {
            is_cluster_ip: frontend.kind == FrontendKind::ClusterIp,
            entry,
            address: frontend.address,
            port: frontend.port,
            code,
            // The kernel takes no range within another.
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

/// An endpoint's number: a hash of its address and port.
fn number(backend: &Backend) -> u32 {
    hash(endpoint(backend).as_slice())
}

/// FNV-1a: the same in every process.
fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// An endpoint as a value.
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

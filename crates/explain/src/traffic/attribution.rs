//! Frontend and endpoint of a conntrack entry, according to the plan of the node.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use api::object::{ObjectKey, Protocol};
use plan::{Family, Plan, Settings};
use serde::{Deserialize, Serialize};

use super::entry::Entry;

/// Kind of a frontend's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FrontendKind {
    /// Cluster IP.
    #[serde(rename = "clusterIP")]
    ClusterIp,
    /// Node port.
    NodePort,
    /// Entry of `spec.externalIPs`.
    #[serde(rename = "externalIP")]
    ExternalIp,
    /// Load balancer IP.
    LoadBalancer,
}

impl FrontendKind {
    /// Returns the human-readable name.
    pub fn title(self) -> &'static str {
        match self {
            Self::ClusterIp => "cluster IP",
            Self::NodePort => "node port",
            Self::ExternalIp => "external IP",
            Self::LoadBalancer => "load balancer",
        }
    }
}

impl From<plan::FrontendKind> for FrontendKind {
    fn from(kind: plan::FrontendKind) -> Self {
        match kind {
            plan::FrontendKind::ClusterIp => Self::ClusterIp,
            plan::FrontendKind::ExternalIp => Self::ExternalIp,
            plan::FrontendKind::LoadBalancerIp => Self::LoadBalancer,
            plan::FrontendKind::NodePort => Self::NodePort,
        }
    }
}

/// A frontend of a Service port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrontendName {
    /// Namespace and name of the Service.
    pub service: ObjectKey,
    /// Name of the Service port; empty if it has none.
    pub port_name: Arc<str>,
    /// Protocol.
    pub protocol: Protocol,
    /// Kind of the address.
    pub kind: FrontendKind,
    /// Address; `None` for node ports.
    pub address: Option<IpAddr>,
    /// Port, or first port of a range.
    pub port: u16,
}

/// Services whose traffic is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// All Services.
    #[default]
    All,
    /// Services of a namespace.
    Namespace(String),
    /// One Service.
    Service(ObjectKey),
}

impl Selection {
    /// Returns true if the selection contains a Service.
    pub fn contains(&self, service: &ObjectKey) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(namespace) => *service.namespace == **namespace,
            Self::Service(key) => key == service,
        }
    }
}

/// Frontend and endpoint of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributedEntry {
    /// Frontend that the client uses.
    pub frontend: Arc<FrontendName>,
    /// Endpoint; `None` if a process of this node accepts the connection and relays it.
    pub endpoint: Option<SocketAddr>,
}

type FrontendKey = (Family, Option<IpAddr>, Protocol, u16);

/// Frontends of a node, without the rest of its plan.
#[derive(Clone, Debug, Default)]
pub struct Attribution {
    frontends: HashMap<FrontendKey, Arc<FrontendName>>,
    /// Port ranges by address, with their last ports.
    ranges: HashMap<(IpAddr, Protocol), Vec<(u16, Arc<FrontendName>)>>,
    /// Addresses of this node and of node ports.
    settings: Settings,
    /// Endpoints with an address of this node.
    own_endpoints: HashSet<SocketAddr>,
}

impl Attribution {
    /// Reads the frontends of the selected Services. The cost is that of the plan's Services.
    pub fn of(plan: &Plan, selection: &Selection) -> Self {
        let settings = plan.settings().clone();
        let mut frontends = HashMap::new();
        let mut ranges: HashMap<_, Vec<_>> = HashMap::new();
        let mut own_endpoints = HashSet::new();
        let ports = plan.ports().chain(plan.ranges());
        for port in ports.filter(|port| selection.contains(&port.key.service)) {
            for frontend in &port.frontends {
                let name = FrontendName {
                    service: port.key.service.clone(),
                    port_name: port.key.port.clone(),
                    protocol: port.key.protocol,
                    kind: frontend.kind.into(),
                    address: frontend.address,
                    port: frontend.port,
                };
                if let Some(address) = frontend.address.filter(|_| port.is_range) {
                    let address_ranges = ranges.entry((address, port.key.protocol)).or_default();
                    address_ranges.push((frontend.last_port, Arc::new(name)));
                    continue;
                }
                let key = (
                    port.key.family,
                    frontend.address,
                    port.key.protocol,
                    frontend.port,
                );
                frontends.insert(key, Arc::new(name));
            }
            let backends = port.cluster.iter().chain(&port.local);
            own_endpoints.extend(
                backends
                    .map(|backend| backend.address)
                    .filter(|address| settings.is_own(address.ip())),
            );
        }
        Self {
            frontends,
            ranges,
            settings,
            own_endpoints,
        }
    }

    /// Returns the frontend that a connection to this destination uses, as [`Plan::frontend_at`] does.
    pub fn frontend(&self, protocol: Protocol, destination: SocketAddr) -> Option<&Arc<FrontendName>> {
        let family = Family::of(destination.ip());
        let at = |address| {
            self.frontends
                .get(&(family, address, protocol, destination.port()))
        };
        let range = || {
            let ranges = self.ranges.get(&(destination.ip(), protocol))?;
            let port = destination.port();
            let found = ranges
                .iter()
                .find(|(last, name)| (name.port..=*last).contains(&port));
            found.map(|(_, name)| name)
        };
        at(Some(destination.ip()))
            .or_else(range)
            .or_else(|| at(None).filter(|_| self.settings.accepts_node_port(destination.ip())))
    }

    /// Returns frontend and endpoint of an entry; `None` if the entry belongs to no selected Service.
    pub fn attribute(&self, entry: &Entry) -> Option<AttributedEntry> {
        let destination = entry.destination();
        let frontend = self.frontend(entry.protocol, destination)?;
        let replier = entry.reply.source;
        let is_relayed = self.settings.is_own(replier.ip()) && !self.own_endpoints.contains(&replier);
        let is_translated = replier != destination;
        Some(AttributedEntry {
            frontend: frontend.clone(),
            endpoint: Some(replier).filter(|_| is_translated && !is_relayed),
        })
    }

    /// Returns the number of frontends.
    pub fn len(&self) -> usize {
        self.frontends.len()
    }

    /// Returns true if there are no frontends.
    pub fn is_empty(&self) -> bool {
        self.frontends.is_empty()
    }
}

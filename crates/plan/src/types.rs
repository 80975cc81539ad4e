//! Types that the plan shares with data planes.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub use api::ip::Family;
use api::object::{ObjectKey, Protocol};
use ipnet::IpNet;

/// Identity of one port of one Service in one family, the unit of the plan (KPR-12).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortKey {
    /// Namespace and name of the Service.
    pub service: ObjectKey,
    /// Name of the port; empty if it has none.
    pub port: Arc<str>,
    /// Transport protocol.
    pub protocol: Protocol,
    /// IP family.
    pub family: Family,
}

impl fmt::Display for PortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.service)?;
        if !self.port.is_empty() {
            write!(f, ":{}", self.port)?;
        }
        write!(f, "/{}", self.protocol.as_str().to_ascii_lowercase())
    }
}

/// Scheduler of new connections (annotation `service.portolan.dev/scheduler`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// `random`: equal probability (EPT-10).
    #[default]
    Random,
    /// `rr`: round robin.
    RoundRobin,
    /// `lc`: fewest connections.
    LeastConnections,
    /// `maglev`: hash of the client's address and port, the same on every node. A change of endpoints moves few other
    /// connections.
    Maglev,
    /// A further scheduler, which only IPVS has.
    Ipvs(IpvsScheduler),
}

impl Scheduler {
    /// All schedulers.
    pub const ALL: [Self; 13] = [
        Self::Random,
        Self::RoundRobin,
        Self::LeastConnections,
        Self::Maglev,
        Self::Ipvs(IpvsScheduler::Wrr),
        Self::Ipvs(IpvsScheduler::Wlc),
        Self::Ipvs(IpvsScheduler::Lblc),
        Self::Ipvs(IpvsScheduler::Lblcr),
        Self::Ipvs(IpvsScheduler::Sh),
        Self::Ipvs(IpvsScheduler::Dh),
        Self::Ipvs(IpvsScheduler::Sed),
        Self::Ipvs(IpvsScheduler::Nq),
        Self::Ipvs(IpvsScheduler::Mh),
    ];

    /// Returns the name in the annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::RoundRobin => "rr",
            Self::LeastConnections => "lc",
            Self::Maglev => "maglev",
            Self::Ipvs(scheduler) => scheduler.as_str(),
        }
    }

    /// Returns the scheduler with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheduler| scheduler.as_str() == name)
    }
}

/// Schedulers of IPVS besides `rr` and `lc` (IPV-02). All endpoints have the same weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpvsScheduler {
    /// `wrr`: weighted round robin.
    Wrr,
    /// `wlc`: fewest connections in relation to the weight.
    Wlc,
    /// `lblc`: by destination address, with the fewest connections.
    Lblc,
    /// `lblcr`: as `lblc`, with several endpoints for a destination.
    Lblcr,
    /// `sh`: hash of the client's address.
    Sh,
    /// `dh`: hash of the destination address.
    Dh,
    /// `sed`: shortest expected delay.
    Sed,
    /// `nq`: an idle endpoint, or else the shortest expected delay.
    Nq,
    /// `mh`: Maglev hash of the client's address and port.
    Mh,
}

impl IpvsScheduler {
    /// Returns the name in the kernel.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wrr => "wrr",
            Self::Wlc => "wlc",
            Self::Lblc => "lblc",
            Self::Lblcr => "lblcr",
            Self::Sh => "sh",
            Self::Dh => "dh",
            Self::Sed => "sed",
            Self::Nq => "nq",
            Self::Mh => "mh",
        }
    }
}

/// Origin of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A host outside of the cluster, or another node.
    Outside,
    /// A Pod, as [`PodDetection`](crate::PodDetection) recognizes it.
    Pod,
    /// This node: the source is one of its addresses.
    Node,
}

impl Origin {
    /// All origins, in the order of [`Frontend::targets`].
    pub const ALL: [Self; 3] = [Self::Outside, Self::Pod, Self::Node];
}

/// Endpoint set of a Service port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndpointSet {
    /// Usable endpoints of the cluster, filtered by topology (EPT-02).
    Cluster,
    /// Usable endpoints on this node (EPT-03).
    Local,
}

/// Target of new connections at a frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// An endpoint of the set, which is never empty.
    Balance {
        /// Endpoint set.
        set: EndpointSet,
        /// True if the source becomes an address of the node. Hairpin connections (a local endpoint that reaches
        /// itself, [`Backend::can_be_local`]) are always masqueraded (EPT-15).
        masquerade: bool,
    },
    /// Reject: ICMP port unreachable, or a TCP reset (EPT-09).
    Reject,
    /// Drop without a reply (EPT-07, EPT-08).
    Drop,
}

/// Kind of a frontend's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrontendKind {
    /// Cluster IP.
    ClusterIp,
    /// Entry of `spec.externalIPs`.
    ExternalIp,
    /// Load balancer IP in VIP mode.
    LoadBalancerIp,
    /// Node port, on the addresses in the plan's settings.
    NodePort,
}

/// One address, protocol and port that clients use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontend {
    /// Kind of the address.
    pub kind: FrontendKind,
    /// Address; `None` for node ports.
    pub address: Option<IpAddr>,
    /// Port number, or first port of a range.
    pub port: u16,
    /// Last port of a range; equal to `port` for one port.
    pub last_port: u16,
    /// Targets by [`Origin`], in the order of [`Origin::ALL`].
    pub targets: [Target; 3],
    /// Allowed sources, for load balancer IPs only; empty for all (KPR-17). Packets from other sources are dropped
    /// first. If a range contains the node's IP, the frontend's own address is allowed, too (EPT-19).
    pub source_ranges: Vec<IpNet>,
}

impl Frontend {
    /// Returns the target of new connections of an origin.
    pub fn target(&self, origin: Origin) -> Target {
        self.targets[origin as usize]
    }

    /// Returns true if the frontend has this port.
    pub fn has_port(&self, port: u16) -> bool {
        (self.port..=self.last_port).contains(&port)
    }

    /// Returns true if a source may use the frontend (EPT-19).
    pub fn admits(&self, source: IpAddr) -> bool {
        self.source_ranges.is_empty() || self.source_ranges.iter().any(|range| range.contains(&source))
    }
}

/// An endpoint that may receive connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Backend {
    /// Address and port.
    pub address: SocketAddr,
    /// True if the endpoint is on this node, or its slice does not name its node. Such an endpoint can reach itself
    /// through this node (EPT-15).
    pub can_be_local: bool,
}

/// Decisions for one Service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePortPlan {
    /// Service and port.
    pub key: PortKey,
    /// True for the port ranges of a Service and protocol (annotation `service.portolan.dev/port-ranges`). An endpoint
    /// gets the port that the client used; its [`Backend::address`] has port 0. The client's address alone determines
    /// the endpoint.
    pub is_range: bool,
    /// Usable endpoints of traffic policy Cluster, sorted, without duplicates; empty if no frontend uses that policy.
    pub cluster: Vec<Backend>,
    /// Usable endpoints of traffic policy Local, sorted, without duplicates; empty if no frontend uses that policy.
    pub local: Vec<Backend>,
    /// Endpoints whose flows continue, sorted; flows to other endpoints are stale (EPT-22). These are the serving
    /// endpoints, usable or not. With the annotation `service.portolan.dev/keep-unready-flows` they include, for UDP
    /// and SCTP, those that neither serve nor terminate. It is filled for UDP, SCTP, and TCP ports that drain. Other
    /// TCP connections are never cut for a change of endpoints (EPT-21).
    pub serving: Vec<SocketAddr>,
    /// Scheduler of new connections.
    pub scheduler: Scheduler,
    /// Seconds after which TCP connections to an endpoint that no longer serves are reset (annotation
    /// `service.portolan.dev/drain-seconds`); `None` for never.
    pub drain_seconds: Option<u32>,
    /// Seconds after which TCP connections are reset (annotation `service.portolan.dev/max-connection-age-seconds`);
    /// `None` for never.
    pub connection_age_max_seconds: Option<u32>,
    /// Maximum share of TCP connections that are reset when endpoints are added, in percent (annotation
    /// `service.portolan.dev/rebalance-percent`); `None` for no resets.
    pub rebalance_percent: Option<u8>,
    /// Session affinity in seconds (EPT-11).
    pub affinity_seconds: Option<u32>,
    /// Nodes that serve connections to the load balancer IPs, sorted by name (annotation
    /// `service.portolan.dev/two-tier-forwarding`). The node that receives a packet forwards it to one of these nodes.
    /// `None` without two-tier forwarding.
    pub serving_nodes: Option<Vec<ServingNode>>,
    /// Addresses and ports that clients use.
    pub frontends: Vec<Frontend>,
}

impl ServicePortPlan {
    /// Returns the endpoints of a set.
    pub fn backends(&self, set: EndpointSet) -> &[Backend] {
        match set {
            EndpointSet::Cluster => &self.cluster,
            EndpointSet::Local => &self.local,
        }
    }

    /// Returns the address of an endpoint for a client that uses `port`.
    pub fn address_at(&self, backend: &Backend, port: u16) -> SocketAddr {
        if self.is_range {
            SocketAddr::new(backend.address.ip(), port)
        } else {
            backend.address
        }
    }

    /// Returns true if a flow that a client opened to `port` has a serving endpoint (EPT-22).
    pub fn serves(&self, endpoint: SocketAddr, port: u16) -> bool {
        let keeps_port = endpoint.port() == port;
        let known = if self.is_range {
            SocketAddr::new(endpoint.ip(), 0)
        } else {
            endpoint
        };
        (keeps_port || !self.is_range) && self.serving.binary_search(&known).is_ok()
    }
}

/// A node with endpoints of a Service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingNode {
    /// Name of the Node.
    pub name: Arc<str>,
    /// Number of its ready endpoints, or of those that serve and terminate if no endpoint of the cluster is ready. It
    /// is 0 if its endpoints serve open connections only.
    pub endpoints: u32,
}

/// Decisions about echo requests (ping) to the addresses of a Service in one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingPlan {
    /// Namespace and name of the Service.
    pub service: ObjectKey,
    /// IP family.
    pub family: Family,
    /// Cluster IPs and load balancer IPs, with port 0. [`Target::Balance`] stands for an answer by this node.
    pub frontends: Vec<Frontend>,
}

/// Changes of a plan since they were last taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Services of which a [`ServicePortPlan`] changed, appeared or disappeared, sorted.
    pub services: Vec<ObjectKey>,
    /// Services whose [`HealthCheck`] changed, appeared or disappeared, sorted.
    pub health_checks: Vec<ObjectKey>,
    /// UDP and SCTP frontends that disappeared: flows through them are stale (EPT-22). Another Service may own the
    /// frontend now.
    pub withdrawn: Vec<WithdrawnFrontend>,
    /// True if a full write is needed: the plan is new, or a setting changed that affects all Services.
    pub needs_full_write: bool,
}

impl Changes {
    /// Returns true if nothing changed.
    pub fn is_empty(&self) -> bool {
        !self.needs_full_write
            && self.services.is_empty()
            && self.health_checks.is_empty()
            && self.withdrawn.is_empty()
    }

    /// Adds later changes, so that both become one step.
    pub fn merge(&mut self, later: Self) {
        self.services.extend(later.services);
        self.services.sort_unstable();
        self.services.dedup();
        self.health_checks.extend(later.health_checks);
        self.health_checks.sort_unstable();
        self.health_checks.dedup();
        self.withdrawn.extend(later.withdrawn);
        self.withdrawn.sort_unstable();
        self.withdrawn.dedup();
        self.needs_full_write |= later.needs_full_write;
    }
}

/// A frontend that disappeared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WithdrawnFrontend {
    /// IP family.
    pub family: Family,
    /// Protocol, never TCP.
    pub protocol: Protocol,
    /// Address; `None` for node ports.
    pub address: Option<IpAddr>,
    /// Port number, or first port of a range.
    pub port: u16,
    /// Last port of a range; equal to `port` for one port.
    pub last_port: u16,
}

/// State of a Service's health check node port (HLT-05, HLT-06).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Port of the health check.
    pub port: u16,
    /// Ready endpoints on this node with distinct addresses, of IPv4 and of IPv6; `None` for a family that the Service
    /// does not have.
    pub local_endpoints: [Option<usize>; 2],
}

impl HealthCheck {
    /// Returns the number of endpoints that a server on `address` reports: the endpoints of its family, because
    /// kube-proxy has a server for each family. Returns `None` if the Service does not have the family.
    pub fn endpoints_at(&self, address: IpAddr) -> Option<usize> {
        let [v4, v6] = self.local_endpoints;
        match address {
            IpAddr::V4(_) => v4,
            IpAddr::V6(_) => v6,
        }
    }
}

/// Totals of a plan in one family (MET-11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of Service ports.
    pub ports: usize,
    /// Number of usable endpoints, counted once per Service port.
    pub endpoints: usize,
    /// Service ports with internal policy Local and endpoints, but none on this node.
    pub internal_without_local: usize,
    /// Service ports with external policy Local and endpoints, but none on this node.
    pub external_without_local: usize,
}

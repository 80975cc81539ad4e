//! The words in which the plan speaks to dataplanes.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub use api::ip::Family;
use api::object::{ObjectKey, Protocol};
use ipnet::IpNet;

/// One port of one Service in one family: the unit of the plan (KPR-12).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortKey {
    /// The Service.
    pub service: ObjectKey,
    /// The port's name, or "".
    pub port: Arc<str>,
    /// Its protocol.
    pub protocol: Protocol,
    /// The family.
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

/// How the endpoint of a new connection is chosen (annotation `service.portolan.dev/scheduler`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// Each as likely as the others: `random` (EPT-10).
    #[default]
    Random,
    /// One after the other: `rr`.
    RoundRobin,
    /// The one with the fewest connections: `lc`.
    LeastConnections,
    /// By a hash of the client's address and port, the same on every node; an endpoint that comes or goes moves few
    /// other connections: `maglev`.
    Maglev,
}

impl Scheduler {
    /// Its name in the annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::RoundRobin => "rr",
            Self::LeastConnections => "lc",
            Self::Maglev => "maglev",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        [
            Self::Random,
            Self::RoundRobin,
            Self::LeastConnections,
            Self::Maglev,
        ]
        .into_iter()
        .find(|scheduler| scheduler.as_str() == name)
    }
}

/// Where a connection comes from, as far as decisions depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Neither a Pod of the cluster nor this node.
    Outside,
    /// A Pod, as the local detector tells it (cluster CIDR, node CIDR, interface …).
    Pod,
    /// This node itself: the source address is one of its own.
    Node,
}

impl Origin {
    /// All origins, in the order of [`Frontend::targets`].
    pub const ALL: [Self; 3] = [Self::Outside, Self::Pod, Self::Node];
}

/// Which of a Service port's two sets of endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Set {
    /// Usable endpoints anywhere, filtered by topology (EPT-02).
    Cluster,
    /// Usable endpoints on this node (EPT-03).
    Local,
}

/// What happens to a new connection at a frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// It goes to one endpoint of the set, which is never empty.
    Balance {
        /// From which set the endpoint is chosen.
        set: Set,
        /// Whether the source becomes the node's address. Hairpin connections (an endpoint on this
        /// node, [`Backend::local`], that reaches itself) are masqueraded whatever this says (EPT-15).
        masquerade: bool,
    },
    /// Refused: ICMP port unreachable, or a TCP reset (EPT-09).
    Reject,
    /// Dropped without an answer (EPT-07, EPT-08).
    Drop,
}

/// What kind of address a frontend is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrontendKind {
    /// A cluster IP.
    ClusterIp,
    /// One of `spec.externalIPs`.
    ExternalIp,
    /// A load balancer ingress address in VIP mode.
    LoadBalancerIp,
    /// A node port, on the addresses that [`crate::Plan`]'s settings choose.
    NodePort,
}

/// One address, protocol and port that clients use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontend {
    /// What it is.
    pub kind: FrontendKind,
    /// The address; `None` for node ports.
    pub address: Option<IpAddr>,
    /// The port.
    pub port: u16,
    /// What happens, by [`Origin`] in the order of [`Origin::ALL`].
    pub targets: [Target; 3],
    /// Sources that may use it, load balancer addresses only; empty means all (KPR-17). Others are
    /// dropped before anything else. If a range holds the node's IP, the address itself is one of
    /// the sources (EPT-19).
    pub source_ranges: Vec<IpNet>,
}

impl Frontend {
    /// What happens to a new connection of this origin.
    pub fn target(&self, origin: Origin) -> Target {
        self.targets[origin as usize]
    }
}

/// One endpoint that may get connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Backend {
    /// Address and port.
    pub address: SocketAddr,
    /// Whether it is on this node.
    pub local: bool,
}

/// The decisions for one Service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePortPlan {
    /// Which.
    pub key: PortKey,
    /// Usable endpoints under the Cluster policy, sorted, one for each address and port. Empty if no
    /// frontend uses that policy.
    pub cluster: Vec<Backend>,
    /// Usable endpoints under the Local policy, sorted, one for each address and port. Empty if no
    /// frontend uses that policy.
    pub local: Vec<Backend>,
    /// Every endpoint that serves, usable or not: flows to others are stale (EPT-22). Sorted. Kept for
    /// UDP and SCTP, and for TCP ports that drain; other TCP connections are never cut (EPT-21), and it is empty.
    pub serving: Vec<SocketAddr>,
    /// How an endpoint is chosen for a new connection.
    pub scheduler: Scheduler,
    /// TCP: seconds after which connections to an endpoint that serves no more are reset (annotation
    /// `service.portolan.dev/drain-seconds`); `None` for never.
    pub drain_seconds: Option<u32>,
    /// Seconds for which a client keeps its endpoint (EPT-11).
    pub affinity_seconds: Option<u32>,
    /// Where clients reach it.
    pub frontends: Vec<Frontend>,
}

impl ServicePortPlan {
    /// The endpoints of a set.
    pub fn backends(&self, set: Set) -> &[Backend] {
        match set {
            Set::Cluster => &self.cluster,
            Set::Local => &self.local,
        }
    }
}

/// What changed in a plan since the last time changes were taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Services of which a [`ServicePortPlan`] changed, came or went, sorted.
    pub services: Vec<ObjectKey>,
    /// Services whose [`HealthCheck`] changed, came or went, sorted.
    pub health_checks: Vec<ObjectKey>,
    /// UDP and SCTP frontends that went: flows through them are stale (EPT-22). Another Service may
    /// have the same frontend by now.
    pub withdrawn: Vec<Withdrawn>,
    /// Whether everything must be written anew: the plan is new, or settings changed that concern all
    /// Services (Service CIDRs, node port addresses …).
    pub everything: bool,
}

impl Changes {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        !self.everything
            && self.services.is_empty()
            && self.health_checks.is_empty()
            && self.withdrawn.is_empty()
    }

    /// Adds what changed after these changes, so that both are one step.
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
        self.everything |= later.everything;
    }
}

/// A frontend that went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Withdrawn {
    /// Its family.
    pub family: Family,
    /// Its protocol, never TCP.
    pub protocol: Protocol,
    /// Its address; `None` for node ports.
    pub address: Option<IpAddr>,
    /// Its port.
    pub port: u16,
}

/// What the health check node port of a Service tells (HLT-05, HLT-06).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The port to answer on.
    pub port: u16,
    /// Ready endpoints on this node, by distinct address; the larger number of the two families.
    pub local_endpoints: usize,
}

/// Counts over a plan, one family (MET-11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Service ports.
    pub ports: usize,
    /// Usable endpoints, counted once for every Service port that uses them.
    pub endpoints: usize,
    /// Service ports with internal policy Local and endpoints, but none on this node.
    pub internal_without_local: usize,
    /// Service ports with external policy Local and endpoints, but none on this node.
    pub external_without_local: usize,
}

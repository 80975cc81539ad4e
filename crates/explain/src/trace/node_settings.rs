//! Plan settings of a node, from its Node and from flags of the proxy.

use std::net::IpAddr;

use ipnet::IpNet;
use plan::{InterfaceName, NodeFacts, NodePortAddresses, Plan, PodDetection, Scheduler, Settings};

use crate::kind::Kind;
use crate::views::Node;
use crate::world::World;

/// Addresses on which node ports answer (KPF-28).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodePorts {
    /// Primary addresses of the Node.
    #[default]
    Primary,
    /// All addresses of the node.
    All,
    /// Addresses in these ranges.
    Within(Vec<IpNet>),
}

/// Settings of the node proxies that the objects do not show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// Detection of Pods; `None` for the Pod CIDRs of all Nodes (KPF-26, KPF-27).
    pub pods: Option<PodDetection>,
    /// Interface by which packets of the client reach its node, for detection by interface.
    pub interface: Option<InterfaceName>,
    /// True if all traffic to cluster IPs is masqueraded (KPF-18).
    pub masquerade_all: bool,
    /// Addresses of node ports.
    pub node_ports: NodePorts,
}

/// A node whose plan decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlanNode {
    /// Name, or "" for a node that the input does not describe.
    pub name: String,
    /// True if the input has the Node.
    pub is_known: bool,
    /// All addresses in the status of the Node.
    pub addresses: Vec<IpAddr>,
    /// Facts for the plan.
    pub facts: NodeFacts,
}

impl PlanNode {
    /// Returns a node by its name. Without its Node in the input, it has no zone and no address.
    pub(super) fn named(world: &World, name: &str) -> Self {
        match world.node(name) {
            Some(node) => Self::of(node),
            None => Self {
                name: name.to_owned(),
                is_known: false,
                addresses: Vec::new(),
                facts: NodeFacts::default(),
            },
        }
    }

    /// Returns all nodes of the input, ordered by name.
    pub(super) fn all(world: &World) -> Vec<Self> {
        world.nodes().map(Self::of).collect()
    }

    fn of(node: Node<'_>) -> Self {
        let zone = Some(node.zone().to_owned()).filter(|zone| !zone.is_empty());
        let ips = node.primary_ips();
        Self {
            name: node.name.clone(),
            is_known: true,
            addresses: node.ips(),
            facts: NodeFacts {
                zone,
                ips,
                addresses: node.ips(),
            },
        }
    }
}

/// Settings that the plans of all nodes share.
#[derive(Clone, Debug)]
pub(super) struct ClusterSettings {
    pods: PodDetection,
    service_cidrs: Vec<IpNet>,
    masquerade_all: bool,
    node_ports: NodePorts,
}

impl ClusterSettings {
    /// Reads the settings from the input and the flags.
    pub(super) fn read(world: &World, proxy: &ProxySettings) -> Self {
        let pods = proxy.pods.clone().unwrap_or_else(|| {
            let cidrs = world.nodes().flat_map(Node::pod_cidrs);
            let mut ranges: Vec<IpNet> = cidrs.filter_map(|text| text.parse().ok()).collect();
            ranges.sort_unstable();
            ranges.dedup();
            PodDetection::Ranges(ranges)
        });
        let cidrs = world
            .all(Kind::ServiceCidr)
            .flat_map(|object| object.list("/spec/cidrs"));
        let service_cidrs = cidrs.filter_map(|text| text.as_str()?.parse().ok());
        Self {
            pods,
            service_cidrs: service_cidrs.collect(),
            masquerade_all: proxy.masquerade_all,
            node_ports: proxy.node_ports.clone(),
        }
    }

    /// Returns the plan of a node without Services, as its proxy has it.
    pub(super) fn plan(&self, node: &PlanNode) -> Plan {
        let mut plan = Plan::new(Settings {
            node_name: node.name.clone(),
            pods: self.pods.clone(),
            service_cidrs: self.service_cidrs.clone(),
            node_port_addresses: match &self.node_ports {
                NodePorts::Primary => NodePortAddresses::Primary(node.facts.ips.clone()),
                NodePorts::All => NodePortAddresses::All,
                NodePorts::Within(nets) => NodePortAddresses::Within(nets.clone()),
            },
            masquerade_all: self.masquerade_all,
            node_addresses: node.addresses.clone(),
            ignores_external_ips: false,
            default_scheduler: Scheduler::default(),
            answers_ping: true,
            supports_two_tier: false,
        });
        plan.set_node(node.facts.clone());
        plan
    }
}

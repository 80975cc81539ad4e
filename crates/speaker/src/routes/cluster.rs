//! Objects of the cluster, as far as routes depend on them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use api::object::{
    AddressPool, Condition, EndpointSlice, Labels, Node, ObjectKey, ObjectMeta, SERVICE_NAME_LABEL, Service,
};
use balancer::annotations;
use balancer::assigner::pools::Placement;
use balancer::assigner::{ASSIGNED_CONDITION, IngressMode, NODE_ADDRESSES_REASON, takes_traffic};
use balancer::metallb::Configuration as MetalLb;
use balancer::metallb::objects::IpAddressPool;

use crate::configuration::{Group, Name, Objects};

/// Name of a Node.
pub(crate) type NodeName = Arc<str>;

/// Service with assigned addresses.
#[derive(Debug, PartialEq)]
pub(super) struct AnnouncedService {
    pub(super) uid: String,
    pub(super) addresses: BTreeSet<IpAddr>,
    pub(super) is_local: bool,
    pub(super) needs_edge: bool,
    /// Selectors that all announcing nodes match (LBC-13).
    pub(super) nodes: Vec<api::selector::LabelSelector>,
    pub(super) labels: Labels,
}

/// A Node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KnownNode {
    pub(super) uid: String,
    pub(super) labels: Labels,
    pub(super) is_cordoned: bool,
    /// True if the Node accepts external traffic and reports no failure.
    pub(super) is_eligible: bool,
    pub(super) addresses: BTreeSet<IpAddr>,
}

/// Nodes of the endpoints of a slice. The name is empty for endpoints without a node.
#[derive(Debug, Default, PartialEq)]
struct EndpointNodes {
    ready: BTreeSet<NodeName>,
    serving: BTreeSet<NodeName>,
}

/// A pool with its labels.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pool {
    pub(super) name: String,
    pub(super) labels: Labels,
    placement: Placement,
}

impl Pool {
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.placement.contains(address)
    }
}

/// Objects of the cluster.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    pub(super) services: BTreeMap<ObjectKey, AnnouncedService>,
    slices: HashMap<ObjectKey, HashMap<ObjectKey, EndpointNodes>>,
    slice_owners: HashMap<ObjectKey, ObjectKey>,
    pub(super) nodes: BTreeMap<NodeName, KnownNode>,
    pools: BTreeMap<Name, Pool>,
    ignores_exclude_label: bool,
}

impl Cluster {
    pub(crate) fn new(ignores_exclude_label: bool) -> Self {
        Self {
            ignores_exclude_label,
            ..Self::default()
        }
    }

    /// Applies a created or changed Service.
    pub(crate) fn service_applied(&mut self, service: &Service) {
        let key = service.metadata.key();
        let addresses = assigned(service);
        if addresses.is_empty() {
            self.services.remove(&key);
            return;
        }
        let mut ingress = service.status.load_balancer.ingress.iter();
        let announced = AnnouncedService {
            uid: service.metadata.uid.clone(),
            addresses,
            is_local: service.spec.external_traffic_policy == "Local",
            needs_edge: ingress.any(|ingress| IngressMode::of(ingress) == IngressMode::Proxy),
            nodes: annotations::read(service).nodes,
            labels: service.metadata.labels.clone(),
        };
        self.services.insert(key, announced);
    }

    pub(crate) fn service_deleted(&mut self, key: &ObjectKey) {
        self.services.remove(key);
    }

    /// Applies a created or changed EndpointSlice.
    pub(crate) fn slice_applied(&mut self, slice: &EndpointSlice) {
        let key = slice.metadata.key();
        self.slice_deleted(&key);
        let Some(name) = slice.metadata.labels.get(SERVICE_NAME_LABEL) else {
            return;
        };
        let owner = ObjectKey::new(&slice.metadata.namespace, name);
        let mut nodes = EndpointNodes::default();
        for endpoint in &slice.endpoints {
            let node = endpoint.node_name.clone().unwrap_or_else(|| NodeName::from(""));
            let conditions = &endpoint.conditions;
            if conditions.ready != Some(false) {
                nodes.ready.insert(Arc::clone(&node));
            }
            if conditions.serving.or(conditions.ready) != Some(false) {
                nodes.serving.insert(node);
            }
        }
        self.slice_owners.insert(key.clone(), owner.clone());
        self.slices.entry(owner).or_default().insert(key, nodes);
    }

    /// Applies the deletion of an EndpointSlice.
    pub(crate) fn slice_deleted(&mut self, key: &ObjectKey) {
        let Some(owner) = self.slice_owners.remove(key) else {
            return;
        };
        if let Some(slices) = self.slices.get_mut(&owner) {
            slices.remove(key);
            if slices.is_empty() {
                self.slices.remove(&owner);
            }
        }
    }

    /// Applies a created or changed Node.
    pub(crate) fn node_applied(&mut self, node: &Node) {
        let is_failed = node.status.conditions.iter().any(|condition| {
            matches!(
                (condition.kind.as_str(), condition.status.as_str()),
                ("Ready", "False") | ("NetworkUnavailable", "True")
            )
        });
        let addresses = node.status.addresses.iter();
        let known = KnownNode {
            uid: node.metadata.uid.clone(),
            labels: node.metadata.labels.clone(),
            is_cordoned: node.spec.unschedulable,
            is_eligible: takes_traffic(node, self.ignores_exclude_label) && !is_failed,
            addresses: addresses
                .filter_map(|address| address.address.parse().ok())
                .collect(),
        };
        self.nodes.insert(node.metadata.name.as_str().into(), known);
    }

    pub(crate) fn node_deleted(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Replaces the pools. An invalid one has no addresses; the assigner reports it.
    pub(crate) fn set_pools(&mut self, objects: &Objects) {
        self.pools.clear();
        let metadata = |name: &Name| ObjectMeta {
            name: name.1.clone(),
            ..ObjectMeta::default()
        };
        for (name, object) in &objects.pools {
            let pool = AddressPool {
                metadata: metadata(name),
                spec: object.spec.clone(),
                ..AddressPool::default()
            };
            self.set_pool(name, &object.labels, Placement::parse(&pool).ok());
        }
        for (name, object) in &objects.metallb_pools {
            let pool = IpAddressPool {
                metadata: metadata(name),
                spec: object.spec.clone(),
                ..IpAddressPool::default()
            };
            let placement = Placement::of_metallb(&pool, &MetalLb::default());
            self.set_pool(name, &object.labels, placement.ok());
        }
    }

    fn set_pool(&mut self, name: &Name, labels: &Labels, placement: Option<Placement>) {
        if let Some(placement) = placement {
            let pool = Pool {
                name: name.1.clone(),
                labels: labels.clone(),
                placement,
            };
            self.pools.insert(name.clone(), pool);
        }
    }

    /// Returns the pools of a group. An AddressPool takes the place of the IPAddressPool with its name.
    pub(super) fn pools(&self, group: Group) -> impl Iterator<Item = &Pool> {
        let is_replaced = move |name: &str| {
            group == Group::MetalLb && self.pools.contains_key(&(Group::Portolan, name.to_owned()))
        };
        let group_pools = self.pools.iter().filter(move |((of, _), _)| *of == group);
        group_pools
            .map(|(_, pool)| pool)
            .filter(move |pool| !is_replaced(&pool.name))
    }

    /// Returns true if a Node reports the address as its own.
    pub(super) fn is_node_address(&self, address: IpAddr) -> bool {
        self.nodes.values().any(|node| node.addresses.contains(&address))
    }

    /// Returns the nodes with endpoints of a Service that accept traffic; the empty name stands for endpoints without node.
    pub(super) fn endpoint_nodes(&self, service: &ObjectKey) -> BTreeSet<&NodeName> {
        let slices = || self.slices.get(service).into_iter().flat_map(HashMap::values);
        let ready: BTreeSet<&NodeName> = slices().flat_map(|nodes| &nodes.ready).collect();
        if ready.is_empty() {
            return slices().flat_map(|nodes| &nodes.serving).collect();
        }
        ready
    }

    /// Returns the addresses of a Node.
    pub(crate) fn addresses_of(&self, node: &str) -> BTreeSet<IpAddr> {
        self.nodes
            .get(node)
            .map(|node| node.addresses.clone())
            .unwrap_or_default()
    }

    /// Returns the UID of a Node; empty for an unknown one.
    pub(crate) fn uid_of(&self, node: &str) -> String {
        self.nodes
            .get(node)
            .map(|node| node.uid.clone())
            .unwrap_or_default()
    }

    /// Returns true if a Node is cordoned.
    pub(crate) fn is_cordoned(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|node| node.is_cordoned)
    }
}

/// Returns the addresses that the assigner has recorded.
fn assigned(service: &Service) -> BTreeSet<IpAddr> {
    // Nodes already have their own addresses.
    let is_ours = |condition: &Condition| {
        condition.kind == ASSIGNED_CONDITION
            && condition.status == "True"
            && condition.reason != NODE_ADDRESSES_REASON
    };
    let is_served = service.spec.kind == "LoadBalancer" && service.status.conditions.iter().any(is_ours);
    if !is_served || service.metadata.deletion_timestamp.is_some() {
        return BTreeSet::new();
    }
    let ingress = service.status.load_balancer.ingress.iter();
    ingress.filter_map(|ingress| ingress.ip.parse().ok()).collect()
}

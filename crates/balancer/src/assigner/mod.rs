//! Assignment of addresses from AddressPools to Services of type LoadBalancer.
//!
//! | Module | Contents |
//! |---|---|
//! | `state` | state machine: caches, allocated addresses, changes to write; no clock, no I/O |
//! | `reconcile` | desired state of one Service |
//! | `service_update` | writes and Events that lead from the observed to the desired state of a Service |
//! | `address_request` | addresses that a Service requests by fields and annotations |
//! | `allocation` | addresses of one Service, from ranges or of nodes |
//! | [`pools`] | AddressPools after parsing; nodes and links that announce their addresses |
//! | `node_pools` | pools of the nodes' own addresses |
//! | `findings` | annotations without effect, for conditions and Events |
//! | `spec_changes` | changes of a Service that concern its load balancer, for Events |
//! | `controller` | loop around the state machine, with watches and a work queue |
//! | `status_writer` | writes of Services, AddressPools and Events |

mod address_request;
mod allocation;
mod controller;
mod findings;
mod metrics;
mod node_pools;
pub mod pools;
mod reconcile;
mod service_update;
mod spec_changes;
mod state;
mod status_writer;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use api::object::{AddressPoolStatus, IngressPort, LoadBalancerIngress, Node};
use client::events::EventText;

use crate::metallb::objects::IpAddressPoolStatus;

pub use address_request::{AddressRequest, RequestError};
pub use controller::run;
pub use metrics::Metrics;

/// Finalizer of Services with a load balancer (CCM-02).
pub const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// Class that the assigner always serves. [`Options::serves_default_class`] adds Services without a class.
pub const CLASS: &str = "portolan.dev/balancer";
/// Prefix of classes that no other controller serves.
const CLASS_PREFIX: &str = "portolan.dev/";
/// Condition with the result of the assignment and the reason of a failure.
pub use api::edge_secret::ASSIGNED_CONDITION;
/// Reason of [`ASSIGNED_CONDITION`] if the addresses are those of nodes. They are not announced.
pub use api::edge_secret::NODE_ADDRESSES_REASON;
/// Condition that is present while annotations have no effect or an error.
pub const ANNOTATIONS_CONDITION: &str = "portolan.dev/AnnotationsInForce";
/// Condition that is present while no node may announce an address of the Service.
pub const ANNOUNCED_CONDITION: &str = "portolan.dev/AddressAnnounced";
/// All conditions that the assigner writes.
const CONDITIONS: [&str; 3] = [ASSIGNED_CONDITION, ANNOTATIONS_CONDITION, ANNOUNCED_CONDITION];
/// Label of nodes that take no traffic from outside (CCM-05, API-50).
pub const EXCLUDE_LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Taint of nodes that the cluster autoscaler is about to delete (CCM-05).
const DELETION_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

/// Default of [`Options::concurrent_service_syncs`]. Upstream's default is 1 (CCM-11), because each sync is a
/// request to a cloud; here it is two requests to the API server.
pub const CONCURRENT_SERVICE_SYNCS: usize = 8;

/// Options of the assigner.
#[derive(Clone, Debug)]
pub struct Options {
    /// Serve Services without a `loadBalancerClass`; false where a cloud's controller does (CCM-01).
    pub serves_default_class: bool,
    /// Further classes to serve (LBM-06).
    pub classes: BTreeSet<String>,
    /// Namespace of MetalLB's objects; `None` to ignore them.
    pub metallb_namespace: Option<String>,
    /// Count nodes with the label [`EXCLUDE_LABEL`] as nodes that take traffic (LBM-18).
    pub ignores_exclude_label: bool,
    /// True if nodes run the edge. Otherwise Services that need it receive an error.
    pub has_edges: bool,
    /// Create a pool with the addresses of nodes if no pool exists when the first Ingress appears.
    pub creates_node_pool: bool,
    /// Port of the API server on nodes, if it is not the default one. No Service gets it at the addresses of nodes.
    pub api_server_port: Option<u16>,
    /// Maximum number of concurrent writes (CCM-11).
    pub concurrent_service_syncs: usize,
    /// Metrics of the assigner.
    pub metrics: Arc<Metrics>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            serves_default_class: true,
            classes: BTreeSet::new(),
            metallb_namespace: None,
            ignores_exclude_label: false,
            has_edges: false,
            creates_node_pool: false,
            api_server_port: None,
            concurrent_service_syncs: CONCURRENT_SERVICE_SYNCS,
            metrics: Arc::default(),
        }
    }
}

/// Returns true if a node takes traffic from outside (CCM-05). `ignores_exclude_label` admits nodes with the label
/// [`EXCLUDE_LABEL`].
pub fn takes_traffic(node: &Node, ignores_exclude_label: bool) -> bool {
    let meta = &node.metadata;
    meta.deletion_timestamp.is_none()
        && (ignores_exclude_label
            || !meta
                .labels
                .get(EXCLUDE_LABEL)
                .is_some_and(|value| excludes_node(value)))
        && !node.spec.taints.iter().any(|taint| taint.key == DELETION_TAINT)
}

/// Returns true for any value of the label but Go's spellings of false (`strconv.ParseBool`). Upstream reads the value
/// since 1.34; before, every value excluded the node.
fn excludes_node(value: &str) -> bool {
    !["0", "f", "F", "false", "False", "FALSE"].contains(&value)
}

/// Component that handles the packets for an address (`ipMode`, KEP-1860).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IngressMode {
    /// The proxy of the node that receives them.
    #[default]
    Vip,
    /// The edge of the node that announces the address; node proxies ignore it.
    Proxy,
}

impl IngressMode {
    /// Returns the value in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vip => "VIP",
            Self::Proxy => "Proxy",
        }
    }

    /// Returns the mode of an entry in a status.
    pub fn of(ingress: &LoadBalancerIngress) -> Self {
        match ingress.ip_mode.as_deref() {
            Some("Proxy") => Self::Proxy,
            _ => Self::Vip,
        }
    }
}

/// Desired status of a Service with a load balancer.
#[derive(Clone, Debug, Default, PartialEq)]
struct Assignment {
    addresses: Vec<IpAddr>,
    /// True if addresses of another controller stay in the status until the assigner has one.
    keeps_status: bool,
    /// Names of the pools of the addresses, separated by commas.
    pools: String,
    /// True if one of the pools requests two-tier forwarding.
    is_pool_two_tier: bool,
    /// True if the addresses are those of nodes.
    is_of_nodes: bool,
    /// True if other Services prevent further addresses.
    is_incomplete: bool,
    /// Families that the Service prefers and has no address of, with the reason.
    missing_family: String,
    mode: IngressMode,
    /// Host name alongside the addresses.
    hostname: Option<String>,
    /// Reason why there are no addresses; empty if there are.
    failure: String,
    /// Annotations without effect or with an error; empty if there are no such annotations.
    findings: String,
    /// Reason why no node may announce the addresses; empty if one may.
    announcement_failure: String,
    /// States of all ports by address, for addresses with a port that the edge cannot serve.
    port_states: BTreeMap<IpAddr, Vec<IngressPort>>,
}

/// Changes of a Service, written in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
struct ServiceUpdate {
    events_before: Vec<EventText>,
    adds_finalizer: bool,
    /// New value of the annotation with the pools (LBM-05); empty to remove it.
    pools: Option<String>,
    /// True to add the annotation with the request of the pools for two-tier forwarding, false to remove it.
    pool_two_tier: Option<bool>,
    status: Option<StatusChange>,
    removes_finalizer: bool,
    events_after: Vec<EventText>,
}

/// Change of a pool's status.
#[derive(Clone, Debug, PartialEq)]
enum PoolUpdate {
    /// Status of an AddressPool.
    AddressPool {
        name: String,
        uid: String,
        status: AddressPoolStatus,
    },
    /// Status of an IPAddressPool.
    MetalLb {
        namespace: String,
        name: String,
        uid: String,
        status: IpAddressPoolStatus,
    },
}

/// Change of a Service's status.
#[derive(Clone, Debug, PartialEq)]
enum StatusChange {
    /// Removes the addresses and the conditions of the assigner.
    Clear,
    /// Sets addresses and conditions.
    Set(Assignment),
}

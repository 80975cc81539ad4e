//! Assignment of addresses from AddressPools to Services of type LoadBalancer.
//!
//! | Module | Contents |
//! |---|---|
//! | `core` | state machine: caches, allocated addresses, changes to write; no clock, no I/O |
//! | `reconcile` | desired state of one Service and the update that leads to it |
//! | `address_request` | addresses that a Service requests by fields and annotations |
//! | [`pools`] | AddressPools after parsing; nodes and links that announce their addresses |
//! | `findings` | annotations without effect, for conditions and Events |
//! | `spec_changes` | changes of a Service that concern its load balancer, for Events |
//! | `controller` | loop around the state machine, with watches and a work queue |
//! | `status_writer` | writes of Services, AddressPools and Events |

mod address_request;
mod controller;
mod core;
mod findings;
mod metrics;
pub mod pools;
mod reconcile;
mod spec_changes;
mod status_writer;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use api::object::{IngressPort, LoadBalancerIngress, Node};

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
/// Condition that is present while annotations have no effect or an error.
pub const ANNOTATIONS_CONDITION: &str = "portolan.dev/AnnotationsInForce";
/// Condition that is present while no node may announce an address of the Service.
pub const ANNOUNCED_CONDITION: &str = "portolan.dev/AddressAnnounced";
/// All conditions that the assigner writes.
const CONDITIONS: [&str; 3] = [ASSIGNED_CONDITION, ANNOTATIONS_CONDITION, ANNOUNCED_CONDITION];
/// Label of nodes that take no traffic from outside (CCM-05).
const EXCLUDE_LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Taint of nodes that the cluster autoscaler is about to delete (CCM-05).
const DELETION_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

/// Default of [`Options::concurrent_service_syncs`]. Upstream's default is 1 (CCM-11), because each sync is a
/// request to a cloud; here it is two requests to the API server.
pub const CONCURRENT_SERVICE_SYNCS: usize = 8;

/// Settings of the assigner.
#[derive(Clone, Debug)]
pub struct Options {
    /// Serve Services without a `loadBalancerClass`; false where a cloud's controller does (CCM-01).
    pub serves_default_class: bool,
    /// Set if nodes run the edge. Otherwise Services that need it get an error.
    pub has_edges: bool,
    /// Maximum number of concurrent writes (CCM-11).
    pub concurrent_service_syncs: usize,
    /// Metrics of the assigner.
    pub metrics: Arc<Metrics>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            serves_default_class: true,
            has_edges: false,
            concurrent_service_syncs: CONCURRENT_SERVICE_SYNCS,
            metrics: Arc::default(),
        }
    }
}

/// Returns true if a node takes traffic from outside (CCM-05).
pub fn takes_traffic(node: &Node) -> bool {
    let meta = &node.metadata;
    meta.deletion_timestamp.is_none()
        && !meta.labels.contains_key(EXCLUDE_LABEL)
        && !node.spec.taints.iter().any(|taint| taint.key == DELETION_TAINT)
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
    /// Value in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vip => "VIP",
            Self::Proxy => "Proxy",
        }
    }

    /// Mode of an entry in a status.
    pub fn of(ingress: &LoadBalancerIngress) -> Self {
        match ingress.ip_mode.as_deref() {
            Some("Proxy") => Self::Proxy,
            _ => Self::Vip,
        }
    }
}

/// Event about a Service that accompanies an update.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PendingEvent {
    /// True for type `Warning`.
    is_warning: bool,
    /// Machine-readable reason.
    reason: &'static str,
    /// Human-readable message.
    message: String,
}

impl PendingEvent {
    fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            is_warning: false,
            reason,
            message: message.into(),
        }
    }

    fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            is_warning: true,
            reason,
            message: message.into(),
        }
    }
}

/// Desired status of a Service with a load balancer.
#[derive(Clone, Debug, Default, PartialEq)]
struct Assignment {
    addresses: Vec<IpAddr>,
    mode: IngressMode,
    /// Host name beside the addresses.
    hostname: Option<String>,
    /// Reason for which there are no addresses; empty if there are.
    failure: String,
    /// Annotations without effect or with an error; empty if there are none.
    findings: String,
    /// Reason for which no node may announce the addresses; empty if one may.
    announcement_failure: String,
    /// States of all ports, for each address at which the edge cannot serve one of them.
    port_states: BTreeMap<IpAddr, Vec<IngressPort>>,
}

/// Changes of a Service, written in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
struct ServiceUpdate {
    events_before: Vec<PendingEvent>,
    adds_finalizer: bool,
    status: Option<StatusChange>,
    removes_finalizer: bool,
    events_after: Vec<PendingEvent>,
}

/// Change of a Service's status.
#[derive(Clone, Debug, PartialEq)]
enum StatusChange {
    /// Removes the addresses and the conditions of the assigner.
    Clear,
    /// Sets addresses and conditions.
    Set(Assignment),
}

//! Mirrored EndpointSlices: the endpoints of a cluster as objects of this one.

use api::multicluster::{SERVICE_NAME_LABEL, SOURCE_CLUSTER_LABEL};
use api::object::{
    Endpoint, EndpointHints, EndpointPort, EndpointSlice, Labels, ObjectKey, ObjectMeta,
    SERVICE_NAME_LABEL as LOCAL_SERVICE_NAME_LABEL,
};

use super::cluster_id::ClusterId;
use super::names::{self, MANAGED_BY};
use super::resolution::AcceptedPorts;
use crate::endpoint_slice::{HEADLESS_LABEL, MANAGED_BY_LABEL};

/// Maximum number of slices of one cluster that an import mirrors: 20,000 endpoints in full slices. It bounds the
/// objects that one export of another cluster can create in this cluster.
pub(super) const SLICES_MAX: usize = 200;

/// Origin and target of mirrored slices.
pub(super) struct Mirror<'a> {
    /// The import.
    pub(super) import: &'a ObjectKey,
    /// Cluster of the endpoints.
    pub(super) cluster: &'a ClusterId,
    /// True if it is this cluster.
    pub(super) is_local: bool,
    /// Ports that the cluster contributes.
    pub(super) accepted: &'a AcceptedPorts,
    /// Derived Service; `None` for a headless import.
    pub(super) derived: Option<&'a str>,
}

impl Mirror<'_> {
    /// Returns the mirror of a slice; `None` if the cluster contributes none of its ports.
    pub(super) fn of(&self, source: &EndpointSlice) -> Option<EndpointSlice> {
        let ports: Vec<EndpointPort> = source
            .ports
            .iter()
            .filter(|port| self.accepted.includes(port))
            .map(with_defaults)
            .collect();
        if ports.is_empty() && !source.ports.is_empty() {
            return None;
        }
        let name = names::mirrored_slice(
            &self.import.name,
            self.cluster,
            &source.metadata.name,
            source.address_type,
        );
        Some(EndpointSlice {
            metadata: ObjectMeta {
                name,
                namespace: self.import.namespace.to_string(),
                labels: self.labels(),
                ..ObjectMeta::default()
            },
            address_type: source.address_type,
            endpoints: source
                .endpoints
                .iter()
                .map(|endpoint| self.endpoint(endpoint))
                .collect(),
            ports,
        })
    }

    fn labels(&self) -> Labels {
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let owner = match self.derived {
            Some(derived) => label(LOCAL_SERVICE_NAME_LABEL, derived),
            None => label(HEADLESS_LABEL, ""),
        };
        Labels::from([
            label(SERVICE_NAME_LABEL, &self.import.name),
            label(SOURCE_CLUSTER_LABEL, self.cluster.as_str()),
            label(MANAGED_BY_LABEL, MANAGED_BY),
            owner,
        ])
    }

    /// Returns an endpoint without Node and Pod: in this cluster, the names of Nodes and Pods of another cluster denote
    /// other objects.
    fn endpoint(&self, source: &Endpoint) -> Endpoint {
        if self.is_local {
            return source.clone();
        }
        let zones = source.hints.as_ref().map(|hints| hints.for_zones.clone());
        Endpoint {
            node_name: None,
            target_ref: None,
            hints: zones.filter(|zones| !zones.is_empty()).map(|for_zones| {
                Box::new(EndpointHints {
                    for_zones,
                    ..EndpointHints::default()
                })
            }),
            ..source.clone()
        }
    }
}

/// Returns a port with the values that the API server sets.
fn with_defaults(port: &EndpointPort) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        protocol: Some(port.protocol.unwrap_or_default()),
        ..port.clone()
    }
}

/// Returns true if a slice has the desired content.
pub(super) fn is_current(desired: &EndpointSlice, observed: &EndpointSlice) -> bool {
    let observed_ports: Vec<EndpointPort> = observed.ports.iter().map(with_defaults).collect();
    desired.metadata.labels == observed.metadata.labels
        && desired.endpoints == observed.endpoints
        && desired.ports == observed_ports
}

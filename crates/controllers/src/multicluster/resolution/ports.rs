//! Union of the ports of all exports. A port that contradicts an older one is refused, with its endpoints. A client of
//! the older port must not reach the endpoints of another one.

use std::collections::{BTreeMap, BTreeSet};

use api::object::{EndpointPort, ImportPort, Protocol, Service, ServicePort};

use super::ClusterExport;
use crate::multicluster::cluster_id::ClusterId;

/// Maximum number of ports of an import. A Service of the API server may have more; one object must stay readable.
const PORTS_MAX: usize = 256;

/// The union of ports.
pub(super) struct MergedPorts {
    pub(super) ports: Vec<ImportPort>,
    /// Clusters with a refused port.
    pub(super) refused: BTreeSet<ClusterId>,
    pub(super) accepted: BTreeMap<ClusterId, AcceptedPorts>,
}

/// Ports whose endpoints a cluster contributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::multicluster) enum AcceptedPorts {
    /// All ports of its slices: its Service is headless without ports.
    All,
    /// The ports with these names and protocols.
    Named(BTreeSet<(String, Protocol)>),
}

impl AcceptedPorts {
    /// Returns true if the endpoints of a port of a slice are contributed.
    pub(in crate::multicluster) fn includes(&self, port: &EndpointPort) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => {
                let name = port.name.clone().unwrap_or_default();
                names.contains(&(name, port.protocol.unwrap_or_default()))
            }
        }
    }
}

/// Unites the ports of exports, which are sorted by age.
pub(super) fn merge(exports: &[&ClusterExport<'_>]) -> MergedPorts {
    let mut merged = MergedPorts {
        ports: Vec::new(),
        refused: BTreeSet::new(),
        accepted: BTreeMap::new(),
    };
    for export in exports {
        let ports = &export.service.spec.ports;
        let mut accepted = BTreeSet::new();
        for port in ports {
            let is_known = merged.ports.iter().any(|known| is_same(known, port));
            if !is_known && !is_possible(&merged.ports, port) {
                merged.refused.insert(export.cluster.clone());
                continue;
            }
            if !is_known {
                merged.ports.push(import_port(port));
            }
            accepted.insert((port.name.clone(), port.protocol));
        }
        let accepted = if ports.is_empty() {
            AcceptedPorts::All
        } else {
            AcceptedPorts::Named(accepted)
        };
        merged.accepted.insert(export.cluster.clone(), accepted);
    }
    merged
}

/// Returns the ports of a Service that an import has.
pub(in crate::multicluster) fn accepted_by(known: &[ImportPort], service: &Service) -> AcceptedPorts {
    let ports = &service.spec.ports;
    if ports.is_empty() {
        return AcceptedPorts::All;
    }
    let accepted = ports
        .iter()
        .filter(|port| known.iter().any(|known| is_same(known, port)));
    AcceptedPorts::Named(accepted.map(|port| (port.name.clone(), port.protocol)).collect())
}

/// Returns true if a port is one of the union. The application protocol is a hint, which the oldest export decides.
fn is_same(known: &ImportPort, port: &ServicePort) -> bool {
    known.name == port.name && known.protocol == port.protocol && known.port == port.port
}

/// Returns true if a Service may have a port beside others. Names are unique and not empty, and each number occurs once
/// for a protocol.
fn is_possible(others: &[ImportPort], port: &ServicePort) -> bool {
    let contradicts = |other: &ImportPort| {
        other.name == port.name
            || (other.port == port.port && other.protocol == port.protocol)
            || other.name.is_empty()
            || port.name.is_empty()
    };
    others.len() < PORTS_MAX && !others.iter().any(contradicts)
}

fn import_port(port: &ServicePort) -> ImportPort {
    ImportPort {
        name: port.name.clone(),
        protocol: port.protocol,
        app_protocol: port.app_protocol.clone(),
        port: port.port,
    }
}

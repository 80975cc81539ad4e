//! Endpoints that left without termination, with their nodes.
//!
//! An endpoint becomes unready or disappears if its node fails. An endpoint that is deleted in order terminates first,
//! so a rolling update reports no endpoint.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use api::object::{ObjectKey, Protocol};

use crate::slice::{EndpointRecord, SliceRecord};

/// Maximum number of reported endpoints until they are taken: those of many nodes. Further ones are not reported, so
/// that a plan whose owner takes none stays small.
const DEPARTED_MAX: usize = 16_384;

/// An endpoint of another node that served and left without termination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DepartedEndpoint {
    /// Service that the endpoint has left.
    pub service: ObjectKey,
    /// Address, with the first TCP port of its slice.
    pub endpoint: SocketAddr,
    /// Name of its Node.
    pub node: Arc<str>,
}

/// Endpoints that left since they were last taken.
#[derive(Debug, Default)]
pub(crate) struct DepartedList(Vec<DepartedEndpoint>);

impl DepartedList {
    /// Adds the endpoints that left between two states of a slice of a Service; `None` stands for a deleted slice.
    pub(crate) fn record(&mut self, service: &ObjectKey, before: &SliceRecord, after: Option<&SliceRecord>) {
        let mut ports = before.ports.iter().filter(|port| port.protocol == Protocol::Tcp);
        let Some(port) = ports.next() else { return };
        let room = DEPARTED_MAX.saturating_sub(self.0.len());
        let remaining: HashMap<IpAddr, &EndpointRecord> = after
            .into_iter()
            .flat_map(|slice| &slice.endpoints)
            .map(|endpoint| (endpoint.address, endpoint))
            .collect();
        let has_left = |endpoint: &&EndpointRecord| {
            let served = endpoint.is_serving() && !endpoint.is_terminating();
            let stays = remaining
                .get(&endpoint.address)
                .is_some_and(|now| now.is_serving() || now.is_terminating());
            served && !stays
        };
        let departed = before.endpoints.iter().filter(has_left).filter_map(|endpoint| {
            Some(DepartedEndpoint {
                service: service.clone(),
                endpoint: SocketAddr::new(endpoint.address, port.number),
                node: before.node_of(endpoint)?.clone(),
            })
        });
        self.0.extend(departed.take(room));
    }

    /// Returns true if no endpoint has left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns and removes all endpoints.
    pub(crate) fn take(&mut self) -> Vec<DepartedEndpoint> {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests;

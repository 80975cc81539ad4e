//! Computation of the row of a node.

use super::objects::Objects;
use super::rows::{Health, NodeRow};

/// Returns the row of a node. `endpoints` is their number on the node, `found` the health after its findings. `None` if
/// the Node does not exist.
pub(super) fn row(objects: &Objects, name: &str, endpoints: u32, found: Health) -> Option<NodeRow> {
    let node = objects.node(name)?;
    let addresses = node.status.addresses.iter();
    let addresses = addresses.filter(|entry| entry.kind != "Hostname");
    let (ready, schedulable) = (node.is_ready(), !node.spec.unschedulable);
    let state_health = match (ready, schedulable) {
        (false, _) => Health::Error,
        (true, false) => Health::Warning,
        (true, true) if endpoints > 0 => Health::Ok,
        (true, true) => Health::Idle,
    };
    Some(NodeRow {
        name: name.to_owned(),
        zone: objects.zone(name).to_owned(),
        ready,
        schedulable,
        addresses: addresses.map(|entry| entry.address.clone()).collect(),
        endpoints,
        health: state_health.max(found),
    })
}

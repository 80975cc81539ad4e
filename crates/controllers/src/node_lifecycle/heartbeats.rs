//! Heartbeats of Nodes, measured by the local monotonic clock.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use api::object::Node;

/// The last heartbeat of each Node. Timestamps in Leases and conditions are compared with each other only, and not with
/// a local clock. A wrong clock therefore makes no Node unreachable.
#[derive(Debug, Default)]
pub struct Heartbeats {
    nodes: HashMap<String, Heartbeat>,
    /// `renewTime` of the Leases by name.
    leases: HashMap<String, String>,
}

/// Last heartbeat of a Node.
#[derive(Debug)]
struct Heartbeat {
    uid: String,
    /// `lastHeartbeatTime` of the condition Ready.
    status: Option<String>,
    at: Instant,
}

impl Heartbeats {
    /// Applies a Node.
    pub fn node(&mut self, node: &Node, now: Instant) {
        let ready = node.condition("Ready");
        let status = ready.and_then(|ready| ready.last_heartbeat_time.clone());
        let known = self.nodes.get(&node.metadata.name);
        let is_same =
            known.is_some_and(|heartbeat| heartbeat.uid == node.metadata.uid && heartbeat.status == status);
        if !is_same {
            let uid = node.metadata.uid.clone();
            let heartbeat = Heartbeat { uid, status, at: now };
            self.nodes.insert(node.metadata.name.clone(), heartbeat);
        }
    }

    /// Removes a Node.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Applies a Lease.
    pub fn lease(&mut self, name: &str, renew_time: &str, now: Instant) {
        let before = self.leases.insert(name.to_owned(), renew_time.to_owned());
        if before.as_deref() != Some(renew_time)
            && let Some(heartbeat) = self.nodes.get_mut(name)
        {
            heartbeat.at = now;
        }
    }

    /// Removes a Lease.
    pub fn remove_lease(&mut self, name: &str) {
        self.leases.remove(name);
    }

    /// Returns `renewTime` of a Node's Lease, if it has one.
    pub fn renew_time(&self, name: &str) -> Option<&str> {
        self.leases.get(name).map(String::as_str)
    }

    /// Returns the time since the last heartbeat of a Node; `None` if the Node is unknown.
    pub fn time_since_heartbeat(&self, name: &str, now: Instant) -> Option<Duration> {
        let heartbeat = self.nodes.get(name)?;
        Some(now.saturating_duration_since(heartbeat.at))
    }
}

#[cfg(test)]
mod tests;

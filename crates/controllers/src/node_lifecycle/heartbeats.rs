//! When each Node was heard last, by the clock of whoever listens.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use api::object::Node;

/// What was heard of Nodes. The times in Leases and conditions are compared with each other only, never with a
/// clock of this machine: a clock that is wrong or jumps makes no Node silent.
#[derive(Debug, Default)]
pub struct Heartbeats {
    nodes: HashMap<String, Heard>,
    /// `renewTime` of the Leases by name.
    leases: HashMap<String, String>,
}

#[derive(Debug)]
struct Heard {
    uid: String,
    /// `lastHeartbeatTime` of the condition Ready.
    status: Option<String>,
    at: Instant,
}

impl Heartbeats {
    /// A Node is new or changed.
    pub fn node(&mut self, node: &Node, now: Instant) {
        let ready = node.condition("Ready");
        let status = ready.and_then(|ready| ready.last_heartbeat_time.clone());
        let known = self.nodes.get(&node.metadata.name);
        let is_same = known.is_some_and(|heard| heard.uid == node.metadata.uid && heard.status == status);
        if !is_same {
            let uid = node.metadata.uid.clone();
            let heard = Heard { uid, status, at: now };
            self.nodes.insert(node.metadata.name.clone(), heard);
        }
    }

    /// A Node is gone.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// A Lease is new or changed.
    pub fn lease(&mut self, name: &str, renew_time: &str, now: Instant) {
        let before = self.leases.insert(name.to_owned(), renew_time.to_owned());
        if before.as_deref() != Some(renew_time)
            && let Some(heard) = self.nodes.get_mut(name)
        {
            heard.at = now;
        }
    }

    /// A Lease is gone.
    pub fn remove_lease(&mut self, name: &str) {
        self.leases.remove(name);
    }

    /// `renewTime` of a Node's Lease, if it has one.
    pub fn renew_time(&self, name: &str) -> Option<&str> {
        self.leases.get(name).map(String::as_str)
    }

    /// For how long nothing was heard of a Node; none for one that is not known.
    pub fn silence(&self, name: &str, now: Instant) -> Option<Duration> {
        let heard = self.nodes.get(name)?;
        Some(now.saturating_duration_since(heard.at))
    }
}

#[cfg(test)]
mod tests;

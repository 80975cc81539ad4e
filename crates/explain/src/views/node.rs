//! Nodes.

use std::net::IpAddr;
use std::ops::Deref;

use super::fields::{list, text};
use crate::object::Object;

/// A Node.
#[derive(Clone, Copy, Debug)]
pub struct Node<'w>(pub &'w Object);

impl Deref for Node<'_> {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.0
    }
}

impl<'w> Node<'w> {
    /// Returns true unless the condition `Ready` is false or unknown.
    pub fn is_ready(self) -> bool {
        self.0
            .condition("Ready")
            .is_none_or(|condition| condition["status"] == "True")
    }

    /// Zone, or "".
    pub fn zone(self) -> &'w str {
        self.0.label("topology.kubernetes.io/zone").unwrap_or_default()
    }

    /// Addresses, without host names.
    pub fn ips(self) -> Vec<IpAddr> {
        let addresses = list(self.0.at("/status"), "addresses").iter();
        addresses
            .filter_map(|entry| text(entry, "address").parse().ok())
            .collect()
    }
}

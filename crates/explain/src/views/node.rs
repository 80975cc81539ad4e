//! View of a Node: readiness, zone, addresses and Pod ranges.

use std::net::IpAddr;
use std::ops::Deref;

use ipnet::IpNet;
use serde_json::Value;

use super::fields::{list, text};
use crate::object::Object;

/// Taint of nodes that the autoscaler is about to delete.
const DELETION_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

/// A Node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'w>(pub &'w Object);

impl Deref for Node<'_> {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.0
    }
}

impl<'w> Node<'w> {
    /// Returns true unless the condition `Ready` is false or unknown.
    pub(crate) fn is_ready(self) -> bool {
        self.0
            .condition("Ready")
            .is_none_or(|condition| condition["status"] == "True")
    }

    /// Returns the zone, or "".
    pub(crate) fn zone(self) -> &'w str {
        self.0.label("topology.kubernetes.io/zone").unwrap_or_default()
    }

    /// Returns true if the node is about to leave the cluster.
    pub(crate) fn is_leaving(self) -> bool {
        let mut taints = self.0.list("/spec/taints").iter();
        self.0.is_terminating() || taints.any(|taint| text(taint, "key") == DELETION_TAINT)
    }

    /// Returns the ranges of the Pods on the node.
    pub(crate) fn pod_ranges(self) -> Vec<IpNet> {
        let listed = self.0.list("/spec/podCIDRs").iter().filter_map(Value::as_str);
        let mut ranges: Vec<IpNet> = listed
            .chain([self.0.text("/spec/podCIDR")])
            .filter_map(|text| text.parse().ok())
            .collect();
        ranges.sort_unstable();
        ranges.dedup();
        ranges
    }

    /// Returns the addresses of the type InternalIP.
    pub(crate) fn internal_ips(self) -> Vec<IpAddr> {
        let addresses = list(self.0.at("/status"), "addresses").iter();
        addresses
            .filter(|entry| text(entry, "type") == "InternalIP")
            .filter_map(|entry| text(entry, "address").parse().ok())
            .collect()
    }

    /// Returns the addresses, without host names.
    pub(crate) fn ips(self) -> Vec<IpAddr> {
        let addresses = list(self.0.at("/status"), "addresses").iter();
        addresses
            .filter_map(|entry| text(entry, "address").parse().ok())
            .collect()
    }

    /// Returns the primary addresses, one per family: internal addresses, or else external ones (KPR-03).
    pub(crate) fn primary_ips(self) -> Vec<IpAddr> {
        let mut primary: Vec<IpAddr> = Vec::new();
        for kind in ["InternalIP", "ExternalIP"] {
            let addresses = list(self.0.at("/status"), "addresses").iter();
            let addresses_of_kind = addresses.filter(|entry| text(entry, "type") == kind);
            for address in addresses_of_kind.filter_map(|entry| text(entry, "address").parse::<IpAddr>().ok())
            {
                if primary.iter().all(|known| known.is_ipv4() != address.is_ipv4()) {
                    primary.push(address);
                }
            }
        }
        primary
    }

    /// Returns the Pod CIDRs, as texts.
    pub(crate) fn pod_cidrs(self) -> impl Iterator<Item = &'w str> {
        let listed = self.0.list("/spec/podCIDRs");
        let single = Some(self.0.at("/spec/podCIDR")).filter(|_| listed.is_empty());
        listed.iter().chain(single).filter_map(Value::as_str)
    }
}

//! Typed access to the tree of a Service.

use serde_json::Value;

use super::HEADLESS;
use crate::machinery::tree::{child, flag_if_set, items, number, text, text_if_set, texts};

/// View of a Service. Absent fields read as their zero value.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Service as JSON.
    pub object: &'a Value,
    /// `spec`, or null.
    pub spec: &'a Value,
}

impl<'a> View<'a> {
    /// Returns the view of `object`.
    pub fn of(object: &'a Value) -> Self {
        Self {
            object,
            spec: child(object, "spec"),
        }
    }

    /// Returns `metadata.name`.
    pub fn name(self) -> &'a str {
        text(child(self.object, "metadata"), "name")
    }

    /// Returns `metadata.namespace`.
    pub fn namespace(self) -> &'a str {
        text(child(self.object, "metadata"), "namespace")
    }

    /// Returns the value of the annotation `key`.
    pub fn annotation(self, key: &str) -> Option<&'a str> {
        text_if_set(child(child(self.object, "metadata"), "annotations"), key)
    }

    /// Returns `spec.type`.
    pub fn kind(self) -> &'a str {
        text(self.spec, "type")
    }

    /// Returns true if the type is `ExternalName`.
    pub fn is_external_name(self) -> bool {
        self.kind() == "ExternalName"
    }

    /// Returns true if the type is `LoadBalancer`.
    pub fn is_load_balancer(self) -> bool {
        self.kind() == "LoadBalancer"
    }

    /// Returns `spec.ports`.
    pub fn ports(self) -> &'a [Value] {
        items(self.spec, "ports")
    }

    /// Returns `spec.clusterIP`.
    pub fn cluster_ip(self) -> &'a str {
        text(self.spec, "clusterIP")
    }

    /// Returns `spec.clusterIPs`.
    pub fn cluster_ips(self) -> Vec<&'a str> {
        texts(self.spec, "clusterIPs")
    }

    /// Returns `spec.ipFamilies`.
    pub fn ip_families(self) -> Vec<&'a str> {
        texts(self.spec, "ipFamilies")
    }

    /// Returns `spec.ipFamilyPolicy`.
    pub fn ip_family_policy(self) -> Option<&'a str> {
        text_if_set(self.spec, "ipFamilyPolicy")
    }

    /// Returns true if `clusterIPs` is `None` alone.
    pub fn is_headless(self) -> bool {
        let ips = items(self.spec, "clusterIPs");
        ips.len() == 1 && ips[0] == HEADLESS
    }

    /// Returns true for `clusterIP: None` without a selector. Such Services may have families that the
    /// cluster does not have (FAM-06).
    pub fn is_headless_without_selector(self) -> bool {
        let has_selector = self
            .spec
            .get("selector")
            .and_then(Value::as_object)
            .is_some_and(|selector| !selector.is_empty());
        self.cluster_ip() == HEADLESS && !has_selector
    }

    /// Returns `spec.externalTrafficPolicy`.
    pub fn external_traffic_policy(self) -> &'a str {
        text(self.spec, "externalTrafficPolicy")
    }

    /// Returns `spec.healthCheckNodePort`.
    pub fn health_check_node_port(self) -> i64 {
        number(self.spec, "healthCheckNodePort")
    }

    /// Returns true if clients outside of the cluster can reach the Service: node ports, load balancer or external IPs
    /// (DEF-06).
    pub fn is_externally_accessible(self) -> bool {
        match self.kind() {
            "LoadBalancer" | "NodePort" => true,
            "ClusterIP" => !items(self.spec, "externalIPs").is_empty(),
            _ => false,
        }
    }

    /// Returns true if the Service has `clusterIP`, `None` included.
    pub fn needs_cluster_ip(self) -> bool {
        !self.is_external_name()
    }

    /// Returns true if the type has node ports.
    pub fn needs_node_ports(self) -> bool {
        matches!(self.kind(), "LoadBalancer" | "NodePort")
    }

    /// Returns true if load balancers check the health of its nodes (API-36).
    pub fn needs_health_check_node_port(self) -> bool {
        self.is_load_balancer() && self.external_traffic_policy() == "Local"
    }

    /// Returns true if absent node ports are allocated (NP-07).
    pub fn allocates_node_ports(self) -> bool {
        match self.kind() {
            "NodePort" => true,
            "LoadBalancer" => flag_if_set(self.spec, "allocateLoadBalancerNodePorts").unwrap_or(true),
            _ => false,
        }
    }

    /// Returns the node ports that are set.
    pub fn node_ports(self) -> Vec<i64> {
        self.ports()
            .iter()
            .map(|port| number(port, "nodePort"))
            .filter(|&port| port != 0)
            .collect()
    }
}

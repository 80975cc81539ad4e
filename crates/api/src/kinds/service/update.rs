//! Preparation of writes: fields that an update keeps, and fields that a change of type drops (API-07, API-08, DEF-17
//! to DEF-27).

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::View;
use crate::machinery::tree::{child, clear, is_set, items_mut, number, set, set_or_clear, text};

/// Prepares a new Service: its status is empty (API-07).
pub fn prepare_create(service: &mut Value) {
    set(service, "status", json!({"loadBalancer": {}}));
}

/// Prepares an update. It keeps the status (API-08). It drops fields that the new type does not use, unless the
/// client changed them, too (DEF-22 to DEF-26). Validation rejects those.
pub fn prepare_update(new: &mut Value, old: &Value) {
    set(
        new,
        "status",
        old.get("status")
            .cloned()
            .unwrap_or_else(|| json!({"loadBalancer": {}})),
    );
    let (after, before) = (View::of(new), View::of(old));
    let mut dropped: Vec<&str> = Vec::new();
    if before.needs_cluster_ip() && !after.needs_cluster_ip() {
        if before.cluster_ip() == after.cluster_ip() && before.cluster_ips() == after.cluster_ips() {
            dropped.extend(["clusterIP", "clusterIPs"]);
        }
        if before.ip_families() == after.ip_families() {
            dropped.push("ipFamilies");
        }
        if before.ip_family_policy() == after.ip_family_policy() {
            dropped.push("ipFamilyPolicy");
        }
    }
    let same = |field: &str| child(before.spec, field) == child(after.spec, field);
    if before.needs_health_check_node_port()
        && !after.needs_health_check_node_port()
        && before.health_check_node_port() == after.health_check_node_port()
    {
        dropped.push("healthCheckNodePort");
    }
    if before.is_load_balancer() && !after.is_load_balancer() {
        dropped.extend(
            ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
                .into_iter()
                .filter(|family| same(family)),
        );
    }
    if before.is_externally_accessible() && !after.is_externally_accessible() && same("externalTrafficPolicy")
    {
        dropped.push("externalTrafficPolicy");
    }
    let held: HashSet<i64> = before.node_ports().into_iter().collect();
    let drops_node_ports = before.needs_node_ports()
        && !after.needs_node_ports()
        && after.node_ports().iter().all(|port| held.contains(port));
    let drops_balancer_status = !after.is_load_balancer();
    if drops_balancer_status && let Some(status) = new.get_mut("status") {
        set(status, "loadBalancer", json!({}));
    }
    let Some(spec) = new.get_mut("spec") else { return };
    for field in dropped {
        clear(spec, field);
    }
    if drops_node_ports {
        for port in items_mut(spec, "ports") {
            clear(port, "nodePort");
        }
    }
}

/// Prepares an update of the status: the spec stays (API-02).
pub fn prepare_status_update(new: &mut Value, old: &Value) {
    set_or_clear(new, "spec", old.get("spec").cloned());
}

/// Aligns `clusterIP` and `clusterIPs`, for clients that set only one of them (DEF-17 to DEF-20).
pub fn normalize_cluster_ips(new: &mut Value, old: Option<&Value>) {
    let after = View::of(new);
    let cluster_ip = after.cluster_ip();
    let plural = after.cluster_ips();
    let replacement = match old.map(View::of) {
        None if !cluster_ip.is_empty() && plural.is_empty() => Some(vec![cluster_ip.to_owned()]),
        None => None,
        Some(before) => {
            let old_plural = before.cluster_ips();
            if before.cluster_ip() == cluster_ip {
                (plural.is_empty() && !old_plural.is_empty()).then(|| to_strings(&old_plural))
            } else if old_plural != plural {
                None
            } else if cluster_ip.is_empty() {
                Some(Vec::new())
            } else {
                Some(vec![cluster_ip.to_owned()])
            }
        }
    };
    if let (Some(plural), Some(spec)) = (replacement, new.get_mut("spec")) {
        set_or_clear(spec, "clusterIPs", (!plural.is_empty()).then(|| json!(plural)));
    }
}

/// Restores allocated values that an update omits, so that a manifest can be applied again in its first form
/// (DEF-21). Without automatic node ports, omission removes a node port (NP-07).
pub fn patch_allocated_values(new: &mut Value, old: &Value) {
    let (after, before) = (View::of(new), View::of(old));
    let keeps_cluster_ip = before.needs_cluster_ip() && after.needs_cluster_ip();
    let keeps_node_ports = before.allocates_node_ports() && after.allocates_node_ports();
    let keeps_health_port = before.needs_health_check_node_port() && after.needs_health_check_node_port();
    let in_use: HashSet<i64> = after.node_ports().into_iter().collect();
    let Some(spec) = new.get_mut("spec") else { return };
    if keeps_cluster_ip {
        if text(spec, "clusterIP").is_empty() && !before.cluster_ip().is_empty() {
            set(spec, "clusterIP", before.cluster_ip());
        }
        if child(spec, "clusterIPs").as_array().is_none_or(Vec::is_empty) && !before.cluster_ips().is_empty()
        {
            set(spec, "clusterIPs", before.cluster_ips());
        }
    }
    if keeps_node_ports {
        let by_name: HashMap<&str, i64> = before
            .ports()
            .iter()
            .map(|port| (text(port, "name"), number(port, "nodePort")))
            .collect();
        for port in items_mut(spec, "ports") {
            let known = by_name.get(text(port, "name")).copied().unwrap_or_default();
            if number(port, "nodePort") == 0 && known != 0 && !in_use.contains(&known) {
                set(port, "nodePort", known);
            }
        }
    }
    if keeps_health_port
        && number(spec, "healthCheckNodePort") == 0
        && is_set(before.spec, "healthCheckNodePort")
    {
        set(spec, "healthCheckNodePort", before.health_check_node_port());
    }
}

fn to_strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

//! Defaults of Services, on writes (DEF-01 to DEF-09) and on reads (DEF-12 to DEF-16).

use serde_json::{Value, json};

use super::{AFFINITY_TIMEOUT_SECONDS_DEFAULT, HEADLESS, View};
use crate::kinds::condition::default_conditions;
use crate::kinds::ports::complete_port_status;
use crate::machinery::ip::{self, Family};
use crate::machinery::tree::{
    child, clear, is_set, items, items_mut, number, object_mut, omit_null, omit_zero, set, text, texts,
};

/// Sets defaults and drops empty fields.
pub fn default_on_write(service: &mut Value) {
    crate::machinery::metadata::omit_empty(service);
    object_mut(service, "spec");
    if let Some(spec) = service.get_mut("spec") {
        default_spec(spec);
    }
    default_status(service);
}

/// Sets the defaults of the spec.
fn default_spec(spec: &mut Value) {
    omit_zero(
        spec,
        &[
            "ports",
            "selector",
            "clusterIP",
            "clusterIPs",
            "type",
            "externalIPs",
            "sessionAffinity",
            "loadBalancerIP",
            "loadBalancerSourceRanges",
            "externalName",
            "externalTrafficPolicy",
            "healthCheckNodePort",
            "publishNotReadyAddresses",
            "ipFamilies",
        ],
    );
    omit_null(
        spec,
        &[
            "sessionAffinityConfig",
            "ipFamilyPolicy",
            "allocateLoadBalancerNodePorts",
            "loadBalancerClass",
            "internalTrafficPolicy",
            "trafficDistribution",
        ],
    );
    default_affinity(spec);
    if text(spec, "type").is_empty() {
        set(spec, "type", "ClusterIP");
    }
    for port in items_mut(spec, "ports") {
        default_port(port);
    }
    let kind = text(spec, "type");
    let externally_accessible = matches!(kind, "NodePort" | "LoadBalancer")
        || kind == "ClusterIP" && !items(spec, "externalIPs").is_empty();
    let is_load_balancer = kind == "LoadBalancer";
    let has_internal_policy = matches!(kind, "ClusterIP" | "NodePort" | "LoadBalancer");
    if externally_accessible && text(spec, "externalTrafficPolicy").is_empty() {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
    if has_internal_policy && !is_set(spec, "internalTrafficPolicy") {
        set(spec, "internalTrafficPolicy", "Cluster");
    }
    if is_load_balancer && !is_set(spec, "allocateLoadBalancerNodePorts") {
        set(spec, "allocateLoadBalancerNodePorts", true);
    }
}

fn default_affinity(spec: &mut Value) {
    if text(spec, "sessionAffinity").is_empty() {
        set(spec, "sessionAffinity", "None");
    }
    match text(spec, "sessionAffinity") {
        "None" => clear(spec, "sessionAffinityConfig"),
        "ClientIP" => {
            let client_ip = child(child(spec, "sessionAffinityConfig"), "clientIP");
            if !is_set(client_ip, "timeoutSeconds") {
                let config = json!({"clientIP": {"timeoutSeconds": AFFINITY_TIMEOUT_SECONDS_DEFAULT}});
                set(spec, "sessionAffinityConfig", config);
            }
        }
        _ => {}
    }
}

fn default_port(port: &mut Value) {
    omit_zero(port, &["name", "protocol", "nodePort"]);
    omit_null(port, &["appProtocol"]);
    if text(port, "protocol").is_empty() {
        set(port, "protocol", "TCP");
    }
    let given = number(port, "port");
    if !is_set(port, "port") {
        set(port, "port", given);
    }
    let target = child(port, "targetPort");
    if target.is_null() || target == 0 || target == "" {
        set(port, "targetPort", given);
    }
}

/// Sets the defaults of `status.loadBalancer`: an address without a mode is a virtual IP.
fn default_status(service: &mut Value) {
    let is_load_balancer = View::of(service).is_load_balancer();
    object_mut(service, "status");
    let Some(status) = service.get_mut("status") else {
        return;
    };
    default_conditions(status);
    object_mut(status, "loadBalancer");
    let Some(balancer) = status.get_mut("loadBalancer") else {
        return;
    };
    omit_zero(balancer, &["ingress"]);
    for ingress in items_mut(balancer, "ingress") {
        omit_zero(ingress, &["ip", "hostname", "ports"]);
        omit_null(ingress, &["ipMode"]);
        complete_port_status(ingress);
        if is_load_balancer && !text(ingress, "ip").is_empty() && !is_set(ingress, "ipMode") {
            set(ingress, "ipMode", "VIP");
        }
    }
}

/// Sets the fields that readers expect and older versions did not store. `primary` is the family of the cluster's
/// first range.
pub fn default_on_read(service: &mut Value, primary: Family) {
    let Some(spec) = service.get_mut("spec") else {
        return;
    };
    let cluster_ip = text(spec, "clusterIP");
    if !cluster_ip.is_empty() && items(spec, "clusterIPs").is_empty() {
        let list = json!([cluster_ip]);
        set(spec, "clusterIPs", list);
    }
    if text(spec, "type") == "ExternalName" {
        clear(spec, "internalTrafficPolicy");
        return;
    }
    if text(spec, "clusterIP").is_empty() || !items(spec, "ipFamilies").is_empty() {
        return;
    }
    let (policy, families) = families_on_read(spec, primary);
    set(
        spec,
        "ipFamilies",
        families.iter().map(|family| family.name()).collect::<Vec<_>>(),
    );
    if let Some(policy) = policy
        && !is_set(spec, "ipFamilyPolicy")
    {
        set(spec, "ipFamilyPolicy", policy);
    }
}

fn families_on_read(spec: &Value, primary: Family) -> (Option<&'static str>, Vec<Family>) {
    if text(spec, "clusterIP") == HEADLESS {
        let has_selector = spec
            .get("selector")
            .and_then(Value::as_object)
            .is_some_and(|text| !text.is_empty());
        return if has_selector {
            (Some("SingleStack"), vec![primary])
        } else {
            (Some("RequireDualStack"), vec![primary, primary.other()])
        };
    }
    let families: Vec<Family> = texts(spec, "clusterIPs")
        .into_iter()
        .map(|address| ip::family_of(address).unwrap_or(Family::V4))
        .collect();
    let policy = match families.len() {
        1 => Some("SingleStack"),
        2 => Some("RequireDualStack"),
        _ => None,
    };
    (policy, families)
}

//! The balancer: a Deployment that assigns addresses, and a DaemonSet that announces them. Only the former may write
//! Services.

use serde_json::{Value, json};

use super::component::{
    Component, container_with, http_probe, metrics_port, node_name, readiness_probe, root_pod,
    unprivileged_pod,
};
use super::flags::{Predecessor, SYSTEM_NAMESPACE};
use super::server::env_from;
use super::settings::Settings;
use crate::error::CommandError;

/// Port of health and metrics.
const METRICS_PORT: u16 = 10_268;
/// Host of the probes of Pods on the network of nodes.
const LOOPBACK: &str = "127.0.0.1";
/// Path of the health server.
const HEALTH_PATH: &str = "/healthz";

/// Returns the objects of assigner and announcers, with the CustomResourceDefinition of their pools.
///
/// # Errors
///
/// An error if the definition is not YAML.
pub(super) fn objects(settings: &Settings) -> Result<Vec<Value>, CommandError> {
    let definition: Value = serde_saphyr::from_str(balancer::crd::MANIFEST)?;
    let mut objects = vec![definition];
    objects.extend(assigner(settings));
    objects.extend(announcer(settings));
    Ok(objects)
}

/// Returns the first pool.
pub(super) fn pool(settings: &Settings) -> Vec<Value> {
    let mut spec = json!({"addresses": settings.addresses});
    if !settings.interfaces.is_empty() {
        spec["interfaces"] = json!(settings.interfaces);
    }
    vec![json!({
        "apiVersion": "portolan.dev/v1alpha1",
        "kind": "AddressPool",
        "metadata": {"name": "default"},
        "spec": spec,
    })]
}

/// Returns the objects of the assigner.
fn assigner(settings: &Settings) -> Vec<Value> {
    let component = Component {
        name: "portolan-assigner",
        application: "portolan-balancer",
        namespace: &settings.namespace,
    };
    let rules = json!([
        {"apiGroups": [""], "resources": ["namespaces", "nodes"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list", "patch", "update", "watch"]},
        {"apiGroups": [""], "resources": ["services/status"], "verbs": ["patch", "update"]},
        {"apiGroups": ["portolan.dev"], "resources": ["addresspools"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["portolan.dev"], "resources": ["addresspools/status"], "verbs": ["patch", "update"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    ]);
    // The Lease of the leader, the reports of edges, and the key of sticky cookies.
    let system_rules = json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "list", "watch"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["portolan-balancer"], "verbs": ["get", "update"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["portolan-edge-cookies"], "verbs": ["create", "get", "patch"]},
    ]);
    let pod = json!({
        "dnsPolicy": "Default",
        "securityContext": unprivileged_pod(),
        "containers": [{
            "name": "assigner",
            "image": settings.image,
            "imagePullPolicy": settings.pull_policy,
            "command": ["portolan", "balancer"],
            "args": arguments(settings, &[]),
            "envFrom": env_from(),
            "ports": [metrics_port(METRICS_PORT)],
            "securityContext": container_with(&[]),
            "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}},
            "livenessProbe": http_probe(None, HEALTH_PATH, METRICS_PORT),
            "readinessProbe": readiness_probe(None, HEALTH_PATH, METRICS_PORT),
        }],
    });
    let mut objects = vec![component.service_account()];
    objects.extend(component.cluster_rights(&rules));
    objects.extend(component.rights_in(SYSTEM_NAMESPACE, &system_rules));
    if settings.replaces(Predecessor::Metallb) {
        let rules = json!([
            {"apiGroups": ["metallb.io"], "resources": ["ipaddresspools", "l2advertisements", "bgpadvertisements", "bgppeers"], "verbs": ["list", "watch"]},
            {"apiGroups": ["metallb.io"], "resources": ["ipaddresspools/status"], "verbs": ["patch"]},
        ]);
        objects.extend(component.rights_in(balancer::metallb::NAMESPACE, &rules));
    }
    objects.push(component.disruption_budget());
    objects.push(component.network_policy(&[("TCP", METRICS_PORT)]));
    objects.push(component.deployment(settings.replicas, METRICS_PORT, &json!({}), pod));
    objects
}

/// Returns the objects of the announcer.
fn announcer(settings: &Settings) -> Vec<Value> {
    let component = Component {
        name: "portolan-announcer",
        application: "portolan-balancer",
        namespace: &settings.namespace,
    };
    let rules = json!([
        {"apiGroups": [""], "resources": ["nodes", "services"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["portolan.dev"], "resources": ["addresspools"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    ]);
    // The members and their tie-breaker.
    let system_rules = json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["portolan-announcer"], "verbs": ["get", "list", "update", "watch"]},
    ]);
    let mut words = vec!["--assign=false", "--announce", "--node-name=$(NODE_NAME)"];
    let mut capabilities = vec!["NET_ADMIN", "NET_RAW"];
    if settings.speaks_bgp {
        words.push("--bgp");
        // Routers connect to port 179.
        capabilities.push("NET_BIND_SERVICE");
    }
    let pod = json!({
        "dnsPolicy": "Default",
        "securityContext": root_pod(),
        "containers": [{
            "name": "announcer",
            "image": settings.image,
            "imagePullPolicy": settings.pull_policy,
            "command": ["portolan", "balancer"],
            "args": arguments(settings, &words),
            "env": [node_name()],
            "envFrom": env_from(),
            "ports": [metrics_port(METRICS_PORT)],
            "securityContext": container_with(&capabilities),
            "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}},
            "livenessProbe": http_probe(Some(LOOPBACK), HEALTH_PATH, METRICS_PORT),
            "readinessProbe": readiness_probe(Some(LOOPBACK), HEALTH_PATH, METRICS_PORT),
        }],
    });
    let mut objects = vec![component.service_account()];
    objects.extend(component.cluster_rights(&rules));
    objects.extend(component.rights_in(SYSTEM_NAMESPACE, &system_rules));
    if settings.replaces(Predecessor::Metallb) {
        let rules = metallb_rules_of_announcer(settings.speaks_bgp);
        objects.extend(component.rights_in(balancer::metallb::NAMESPACE, &rules));
    }
    objects.push(component.daemon_set(Some(METRICS_PORT), pod));
    objects
}

/// Returns the rights of the announcer to MetalLB's objects.
fn metallb_rules_of_announcer(speaks_bgp: bool) -> Value {
    if speaks_bgp {
        json!([
            {"apiGroups": ["metallb.io"], "resources": ["bfdprofiles", "bgpadvertisements", "bgppeers", "communities", "ipaddresspools", "l2advertisements"], "verbs": ["list", "watch"]},
            {"apiGroups": ["metallb.io"], "resources": ["configurationstates", "servicebgpstatuses"], "verbs": ["create", "delete", "get", "list"]},
            {"apiGroups": ["metallb.io"], "resources": ["configurationstates/status", "servicebgpstatuses/status"], "verbs": ["patch"]},
        ])
    } else {
        json!([
            {"apiGroups": ["metallb.io"], "resources": ["ipaddresspools", "l2advertisements"], "verbs": ["list", "watch"]},
        ])
    }
}

/// Returns the arguments of a container. MetalLB's objects are read only in a takeover, because they need more rights.
fn arguments(settings: &Settings, first: &[&str]) -> Vec<String> {
    let mut arguments: Vec<String> = first.iter().map(|word| (*word).to_owned()).collect();
    arguments.push(format!(
        "--metrics-bind-address={}:{METRICS_PORT}",
        settings.any_address()
    ));
    if !settings.replaces(Predecessor::Metallb) {
        arguments.push("--metallb-namespace=".to_owned());
    }
    arguments
}

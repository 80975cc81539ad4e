//! Multi-cluster Services: the definitions of their kinds, a Deployment of their controller, and the account with which
//! other clusters read this one.

use serde_json::{Value, json};

use super::component::{
    Component, container_with, http_probe, metrics_port, readiness_probe, unprivileged_pod,
};
use super::flags::SYSTEM_NAMESPACE;
use super::server::env_from;
use super::settings::{ClusterSet, Settings};
use crate::error::CommandError;

/// Definitions of ServiceExport and ServiceImport, with the stored version.
const DEFINITIONS: &str = include_str!("multicluster.yaml");
/// Name of the controller in `--controllers`.
const CONTROLLER: &str = "multicluster-service-controller";
/// Lease of the leader. The endpoint controllers have another one.
const LEASE: &str = "portolan-multicluster";
/// Secret with the kubeconfigs of the other clusters, by the names of the clusters.
const SECRET: &str = "portolan-clusterset";
/// Directory of these kubeconfigs in the Pod.
const DIRECTORY: &str = "/etc/portolan/clusterset";
/// Port of health and metrics.
const METRICS_PORT: u16 = 10_267;

/// Returns the objects of a member of a set.
///
/// # Errors
///
/// An error if the definitions are not YAML.
pub(super) fn objects(settings: &Settings, set: &ClusterSet) -> Result<Vec<Value>, CommandError> {
    let mut objects = definitions()?;
    objects.extend(user_roles());
    objects.extend(reader(settings));
    objects.extend(controller(settings, set));
    Ok(objects)
}

/// Returns the definitions of the kinds. Both versions have the same fields.
fn definitions() -> Result<Vec<Value>, CommandError> {
    let mut definitions: Vec<Value> = serde_saphyr::from_multiple(DEFINITIONS)?;
    for definition in &mut definitions {
        let versions = definition
            .pointer_mut("/spec/versions")
            .and_then(Value::as_array_mut);
        let Some(versions) = versions else { continue };
        let mut earlier = versions.clone();
        for version in &mut earlier {
            version["name"] = json!(api::multicluster::EARLIER_VERSION);
            version["storage"] = json!(false);
        }
        versions.extend(earlier);
    }
    Ok(definitions)
}

/// Returns the rights of users, which the roles `admin`, `edit` and `view` aggregate.
fn user_roles() -> [Value; 2] {
    let role = |name: &str, aggregating: &[&str], rules: Value| {
        let labels: serde_json::Map<String, Value> = aggregating
            .iter()
            .map(|role| {
                let key = format!("rbac.authorization.k8s.io/aggregate-to-{role}");
                (key, json!("true"))
            })
            .collect();
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name, "labels": labels},
            "rules": rules,
        })
    };
    let group = api::multicluster::GROUP;
    let all = [
        "serviceexports",
        "serviceexports/status",
        "serviceimports",
        "serviceimports/status",
    ];
    let read = json!([{"apiGroups": [group], "resources": all, "verbs": ["get", "list", "watch"]}]);
    let write = json!([{
        "apiGroups": [group],
        "resources": ["serviceexports"],
        "verbs": ["create", "delete", "deletecollection", "patch", "update"],
    }]);
    [
        role("portolan-multicluster-view", &["admin", "edit", "view"], read),
        role("portolan-multicluster-edit", &["admin", "edit"], write),
    ]
}

/// Returns the account of other clusters, with the rights of `portolan:clusterset-reader`.
fn reader(settings: &Settings) -> Vec<Value> {
    let component = Component {
        name: "portolan-clusterset",
        application: "portolan-controllers",
        namespace: &settings.namespace,
    };
    let mut objects = vec![component.service_account()];
    objects.extend(component.cluster_rights(&json!([
        {"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        {"apiGroups": [api::multicluster::GROUP], "resources": ["serviceexports"], "verbs": ["list", "watch"]},
    ])));
    objects
}

fn controller(settings: &Settings, set: &ClusterSet) -> Vec<Value> {
    let component = Component {
        name: "portolan-multicluster",
        application: "portolan-controllers",
        namespace: &settings.namespace,
    };
    let group = api::multicluster::GROUP;
    let rules = json!([
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["services"], "verbs": ["create", "delete", "get", "list", "patch", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["create", "delete", "list", "update", "watch"]},
        {"apiGroups": [group], "resources": ["serviceexports"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [group], "resources": ["serviceexports/status", "serviceimports/status"], "verbs": ["patch"]},
        {"apiGroups": [group], "resources": ["serviceimports"], "verbs": ["create", "delete", "get", "list", "patch", "watch"]},
    ]);
    let system_rules = json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [LEASE], "verbs": ["get", "update"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    ]);
    let mut objects = vec![component.service_account()];
    objects.extend(component.cluster_rights(&rules));
    objects.extend(component.rights_in(SYSTEM_NAMESPACE, &system_rules));
    objects.push(component.disruption_budget());
    objects.push(component.network_policy(&[("TCP", METRICS_PORT)]));
    objects.push(component.deployment(settings.replicas, METRICS_PORT, &json!({}), pod(settings, set)));
    objects
}

fn pod(settings: &Settings, set: &ClusterSet) -> Value {
    let mut arguments = vec![
        format!("--controllers={CONTROLLER}"),
        format!("--leader-elect-resource-name={LEASE}"),
        format!("--metrics-bind-address={}:{METRICS_PORT}", settings.any_address()),
        format!("--cluster-id={}", set.cluster_id),
    ];
    arguments.extend(
        set.others
            .iter()
            .map(|name| format!("--clusterset-kubeconfig={name}={DIRECTORY}/{name}")),
    );
    let mut pod = json!({
        "dnsPolicy": "Default",
        "securityContext": unprivileged_pod(),
        "containers": [{
            "name": "controllers",
            "image": settings.image,
            "imagePullPolicy": settings.pull_policy,
            "command": ["portolan", "controllers"],
            "args": arguments,
            "envFrom": env_from(),
            "ports": [metrics_port(METRICS_PORT)],
            "securityContext": container_with(&[]),
            "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}},
            "livenessProbe": http_probe(None, "/livez", METRICS_PORT),
            "readinessProbe": readiness_probe(None, "/readyz", METRICS_PORT),
        }],
    });
    if !set.others.is_empty() {
        pod["volumes"] = json!([{"name": "clusterset", "secret": {"secretName": SECRET}}]);
        pod["containers"][0]["volumeMounts"] =
            json!([{"name": "clusterset", "mountPath": DIRECTORY, "readOnly": true}]);
    }
    pod
}

//! The endpoint controllers: a Deployment with upstream's roles of these controllers.

use serde_json::{Value, json};

use super::component::{
    Component, container_with, http_probe, metrics_port, readiness_probe, unprivileged_pod,
};
use super::flags::SYSTEM_NAMESPACE;
use super::server::env_from;
use super::settings::Settings;

/// Controllers that a cluster with its own control plane needs, and their ClusterRoles in every cluster.
const CONTROLLERS: [(&str, &str); 3] = [
    (
        "endpointslice-controller",
        "system:controller:endpointslice-controller",
    ),
    ("endpoints-controller", "system:controller:endpoint-controller"),
    (
        "endpointslice-mirroring-controller",
        "system:controller:endpointslicemirroring-controller",
    ),
];
/// Port of health and metrics.
const METRICS_PORT: u16 = 10_267;

/// Returns the objects of the controllers.
pub(super) fn objects(settings: &Settings) -> Vec<Value> {
    let component = Component {
        name: "portolan-controllers",
        application: "portolan-controllers",
        namespace: &settings.namespace,
    };
    let lease = json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["portolan-controllers"], "verbs": ["get", "update"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    ]);
    let mut objects = vec![component.service_account()];
    objects.extend(
        CONTROLLERS.map(|(name, role)| component.cluster_role_binding(&format!("portolan-{name}"), role)),
    );
    // The roles of some older servers do not grant `watch`: kube-controller-manager watches as another user.
    objects.extend(component.cluster_rights(&json!([
        {"apiGroups": [""], "resources": ["endpoints"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ])));
    objects.extend(component.rights_in(SYSTEM_NAMESPACE, &lease));
    objects.push(component.disruption_budget());
    objects.push(component.network_policy(&[("TCP", METRICS_PORT)]));
    objects.push(component.deployment(settings.replicas, METRICS_PORT, &json!({}), pod(settings)));
    objects
}

fn pod(settings: &Settings) -> Value {
    let names = CONTROLLERS.map(|(name, _)| name).join(",");
    json!({
        "dnsPolicy": "Default",
        "securityContext": unprivileged_pod(),
        "containers": [{
            "name": "controllers",
            "image": settings.image,
            "imagePullPolicy": settings.pull_policy,
            "command": ["portolan", "controllers"],
            "args": [
                format!("--controllers={names}"),
                format!("--metrics-bind-address={}:{METRICS_PORT}", settings.any_address()),
            ],
            "envFrom": env_from(),
            "ports": [metrics_port(METRICS_PORT)],
            "securityContext": container_with(&[]),
            "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}},
            "livenessProbe": http_probe(None, "/livez", METRICS_PORT),
            "readinessProbe": readiness_probe(None, "/readyz", METRICS_PORT),
        }],
    })
}

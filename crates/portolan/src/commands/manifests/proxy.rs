//! The proxy: a DaemonSet with the rights of upstream's `system:node-proxier`, without those that it does not use.

use serde_json::{Value, json};

use super::component::{
    Component, container_with, http_probe, metrics_port, node_name, readiness_probe, root_pod,
};
use super::flags::{Predecessor, ProxyMode};
use super::server::env_from;
use super::settings::Settings;

/// Ports of the health and of the metrics server, as kube-proxy's.
const HEALTH_PORT: u16 = 10_256;
const METRICS_PORT: u16 = 10_249;
/// Directory of the ConfigMap of kube-proxy, which its own kubeconfig names.
const KUBE_PROXY_DIRECTORY: &str = "/var/lib/kube-proxy";

/// Returns the objects of the proxy.
pub(super) fn objects(settings: &Settings) -> Vec<Value> {
    let component = Component {
        name: "portolan-proxy",
        application: "portolan-proxy",
        namespace: &settings.namespace,
    };
    let rules = json!([
        {"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        {"apiGroups": ["networking.k8s.io"], "resources": ["servicecidrs"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    ]);
    let mut objects = vec![component.service_account()];
    objects.extend(component.cluster_rights(&rules));
    let scraped_port = (!settings.replaces(Predecessor::KubeProxy)).then_some(METRICS_PORT);
    objects.push(component.daemon_set(scraped_port, pod(settings)));
    objects
}

fn pod(settings: &Settings) -> Value {
    let replaces_kube_proxy = settings.replaces(Predecessor::KubeProxy);
    let has_iptables = replaces_kube_proxy || settings.proxy_mode == ProxyMode::Iptables;
    let (mut mounts, mut volumes) = (Vec::new(), Vec::new());
    if has_iptables {
        mounts.push(json!({"name": "xtables-lock", "mountPath": "/run/xtables.lock"}));
        mounts.push(json!({"name": "modules", "mountPath": "/lib/modules", "readOnly": true}));
        volumes.push(json!({"name": "xtables-lock", "hostPath": {"path": "/run/xtables.lock", "type": "FileOrCreate"}}));
        volumes.push(json!({"name": "modules", "hostPath": {"path": "/lib/modules"}}));
    }
    if replaces_kube_proxy {
        mounts.push(json!({"name": "kube-proxy", "mountPath": KUBE_PROXY_DIRECTORY, "readOnly": true}));
        volumes.push(json!({"name": "kube-proxy", "configMap": {"name": "kube-proxy"}}));
    }
    let mut container = json!({
        "image": settings.proxy_image,
        "imagePullPolicy": settings.pull_policy,
        "env": [node_name()],
    });
    if !replaces_kube_proxy {
        container["envFrom"] = env_from();
    }
    if !mounts.is_empty() {
        container["volumeMounts"] = json!(mounts);
    }
    let mut pod = json!({
        "dnsPolicy": "Default",
        "securityContext": root_pod(),
        "initContainers": [init_container(settings, container.clone())],
        "containers": [main_container(settings, container)],
    });
    if !volumes.is_empty() {
        pod["volumes"] = json!(volumes);
    }
    pod
}

/// Returns the container that writes the limits of connection tracking, for which it needs all privileges.
fn init_container(settings: &Settings, mut container: Value) -> Value {
    let mut arguments = arguments(settings);
    arguments.push("--init-only".to_owned());
    container["name"] = json!("connection-tracking");
    container["command"] = json!(["portolan", "proxy"]);
    container["args"] = json!(arguments);
    container["securityContext"] = json!({"privileged": true});
    container
}

/// Returns the container of the proxy. Raw sockets notify the peers of connections that the proxy resets; the legacy
/// programs of iptables open them, too.
fn main_container(settings: &Settings, mut container: Value) -> Value {
    container["name"] = json!("proxy");
    container["command"] = json!(["portolan", "proxy"]);
    container["args"] = json!(arguments(settings));
    container["securityContext"] = container_with(&["NET_ADMIN", "NET_RAW"]);
    // The ConfigMap of kube-proxy decides about the address of its metrics.
    if !settings.replaces(Predecessor::KubeProxy) {
        container["ports"] = json!([metrics_port(METRICS_PORT)]);
    }
    container["resources"] = json!({"requests": {"cpu": "50m", "memory": "64Mi"}});
    container["livenessProbe"] = http_probe(None, "/livez", HEALTH_PORT);
    container["readinessProbe"] = readiness_probe(None, "/healthz", HEALTH_PORT);
    container
}

fn arguments(settings: &Settings) -> Vec<String> {
    let mut arguments = Vec::new();
    if settings.replaces(Predecessor::KubeProxy) {
        arguments.push(format!("--config={KUBE_PROXY_DIRECTORY}/config.conf"));
    } else {
        if settings.proxy_mode == ProxyMode::Iptables {
            arguments.push("--proxy-mode=iptables".to_owned());
        }
        if !settings.cluster_cidr.is_empty() {
            arguments.push(format!("--cluster-cidr={}", settings.cluster_cidr.join(",")));
        }
        arguments.push(format!("--metrics-bind-address=0.0.0.0:{METRICS_PORT}"));
    }
    arguments.push("--hostname-override=$(NODE_NAME)".to_owned());
    arguments
}

//! The DNS servers: a Deployment behind the Service kube-dns, and a DaemonSet in node-local mode.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::component::{
    Component, container_with, http_probe, metrics_port, node_name, readiness_probe, root_pod,
    unprivileged_pod,
};
use super::flags::{Predecessor, SYSTEM_NAMESPACE};
use super::server::env_from;
use super::settings::Settings;
use crate::flags::values::NODE_LOCAL_DNS_ADDRESS;

/// Name of the Service of the cluster's DNS, and value of the label that it selects.
const KUBE_DNS: &str = "kube-dns";
/// Ports of the DNS server, as CoreDNS'.
const DNS_PORT: u16 = 53;
const HEALTH_PORT: u16 = 8080;
const READY_PORT: u16 = 8181;
const METRICS_PORT: u16 = 9153;
/// Time in which the endpoint leaves the Service: the readiness probe, the EndpointSlice and a full sync of a proxy.
const LAMEDUCK_SECONDS: u32 = 10;
/// Ports of the DNS server on the network of nodes. Metrics have the port of NodeLocal DNSCache.
const NODE_LOCAL_METRICS_PORT: u16 = 9253;
const NODE_LOCAL_HEALTH_PORT: u16 = 9254;
const NODE_LOCAL_READY_PORT: u16 = 9255;
/// Zone of multi-cluster Services (KEP-1645).
const CLUSTERSET_DOMAIN: &str = "clusterset.local";
/// Host of the probes of Pods on the network of nodes.
const LOOPBACK: &str = "127.0.0.1";

/// Returns the objects of the DNS server. A takeover from CoreDNS keeps the Service.
pub(super) fn objects(settings: &Settings) -> Vec<Value> {
    let component = Component {
        name: "portolan-dns",
        application: "portolan-dns",
        namespace: SYSTEM_NAMESPACE,
    };
    let mut objects = rights(&component, settings);
    if !settings.replaces(Predecessor::Coredns) {
        objects.push(service(settings));
    }
    objects.push(component.disruption_budget());
    objects.push(component.network_policy(&[("UDP", DNS_PORT), ("TCP", DNS_PORT), ("TCP", METRICS_PORT)]));
    let labels = json!({"k8s-app": KUBE_DNS});
    objects.push(component.deployment(settings.replicas, METRICS_PORT, &labels, pod(settings)));
    objects
}

/// Returns the objects of the DNS server in node-local mode.
pub(super) fn node_local_objects(settings: &Settings) -> Vec<Value> {
    let component = Component {
        name: "portolan-node-local-dns",
        application: "portolan-node-local-dns",
        namespace: &settings.namespace,
    };
    let mut objects = rights(&component, settings);
    objects.push(component.daemon_set(Some(NODE_LOCAL_METRICS_PORT), node_local_pod(settings)));
    objects
}

fn rights(component: &Component<'_>, settings: &Settings) -> Vec<Value> {
    let mut rules = vec![
        json!({"apiGroups": [""], "resources": ["services", "namespaces"], "verbs": ["list", "watch"]}),
        json!({"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}),
    ];
    if settings.set.is_some() {
        let group = api::multicluster::GROUP;
        rules
            .push(json!({"apiGroups": [group], "resources": ["serviceimports"], "verbs": ["list", "watch"]}));
    }
    let mut objects = vec![component.service_account()];
    objects.extend(component.cluster_rights(&json!(rules)));
    objects
}

/// Returns the Service of the cluster's DNS, as kubeadm creates it.
fn service(settings: &Settings) -> Value {
    let family = |address: &IpAddr| if address.is_ipv6() { "IPv6" } else { "IPv4" };
    let families: Vec<&str> = settings.cluster_dns.iter().map(family).collect();
    let policy = if families.len() > 1 {
        "RequireDualStack"
    } else {
        "SingleStack"
    };
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": KUBE_DNS,
            "namespace": SYSTEM_NAMESPACE,
            "labels": {"k8s-app": KUBE_DNS, "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"},
        },
        "spec": {
            "selector": {"k8s-app": KUBE_DNS},
            "clusterIP": settings.cluster_dns.first(),
            "clusterIPs": settings.cluster_dns,
            "ipFamilies": families,
            "ipFamilyPolicy": policy,
            "ports": [
                {"name": "dns", "port": DNS_PORT, "protocol": "UDP", "targetPort": DNS_PORT},
                {"name": "dns-tcp", "port": DNS_PORT, "protocol": "TCP", "targetPort": DNS_PORT},
                {"name": "metrics", "port": METRICS_PORT, "protocol": "TCP", "targetPort": METRICS_PORT},
            ],
        },
    })
}

/// Returns the Pod behind the Service. It has no privileges: the sysctl permits it to listen on port 53.
fn pod(settings: &Settings) -> Value {
    let any = settings.any_address();
    let mut security = unprivileged_pod();
    security["sysctls"] =
        json!([{"name": "net.ipv4.ip_unprivileged_port_start", "value": DNS_PORT.to_string()}]);
    let mut arguments = vec!["--ttl=30".to_owned(), format!("--lameduck={LAMEDUCK_SECONDS}")];
    if settings.cluster_dns.iter().any(IpAddr::is_ipv6) {
        arguments.push(format!("--listen=0.0.0.0:{DNS_PORT},[::]:{DNS_PORT}"));
    }
    arguments.push(format!("--health-bind-address={any}:{HEALTH_PORT}"));
    arguments.push(format!("--ready-bind-address={any}:{READY_PORT}"));
    arguments.push(format!("--metrics-bind-address={any}:{METRICS_PORT}"));
    arguments.extend(zone_arguments(settings));
    json!({
        "dnsPolicy": "Default",
        "securityContext": security,
        "containers": [{
            "name": "dns",
            "image": settings.image,
            "imagePullPolicy": settings.pull_policy,
            "command": ["portolan", "dns"],
            "args": arguments,
            "ports": [
                {"name": "dns", "containerPort": DNS_PORT, "protocol": "UDP"},
                {"name": "dns-tcp", "containerPort": DNS_PORT, "protocol": "TCP"},
                metrics_port(METRICS_PORT),
            ],
            "securityContext": container_with(&[]),
            "resources": {"requests": {"cpu": "100m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}},
            "livenessProbe": http_probe(None, "/health", HEALTH_PORT),
            "readinessProbe": lameduck_probe(),
        }],
    })
}

/// Returns a readiness probe that detects the lameduck period within two seconds. Until then clients with a UDP flow to
/// the Pod keep it.
fn lameduck_probe() -> Value {
    let mut probe = readiness_probe(None, "/ready", READY_PORT);
    probe["periodSeconds"] = json!(1);
    probe["failureThreshold"] = json!(2);
    probe
}

/// Returns the Pod on the network of a node. It creates an interface with the addresses that Pods query.
fn node_local_pod(settings: &Settings) -> Value {
    let local: Vec<String> = [NODE_LOCAL_DNS_ADDRESS]
        .iter()
        .chain(&settings.cluster_dns)
        .map(ToString::to_string)
        .collect();
    let mut arguments = vec![
        "--node-local".to_owned(),
        format!("--local-ip={}", local.join(",")),
        "--node-name=$(NODE_NAME)".to_owned(),
        "--ttl=30".to_owned(),
        format!("--health-bind-address={LOOPBACK}:{NODE_LOCAL_HEALTH_PORT}"),
        format!("--ready-bind-address={LOOPBACK}:{NODE_LOCAL_READY_PORT}"),
        format!(
            "--metrics-bind-address={}:{NODE_LOCAL_METRICS_PORT}",
            settings.any_address()
        ),
    ];
    arguments.extend(zone_arguments(settings));
    json!({
        "dnsPolicy": "Default",
        "securityContext": root_pod(),
        "containers": [{
            "name": "dns",
            "image": settings.image,
            "imagePullPolicy": settings.pull_policy,
            "command": ["portolan", "dns"],
            "args": arguments,
            "env": [node_name()],
            "envFrom": env_from(),
            "ports": [metrics_port(NODE_LOCAL_METRICS_PORT)],
            "securityContext": container_with(&["NET_ADMIN", "NET_BIND_SERVICE"]),
            "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
            "livenessProbe": http_probe(Some(LOOPBACK), "/health", NODE_LOCAL_HEALTH_PORT),
            "readinessProbe": readiness_probe(Some(LOOPBACK), "/ready", NODE_LOCAL_READY_PORT),
        }],
    })
}

fn zone_arguments(settings: &Settings) -> Vec<String> {
    let mut arguments = vec![format!("--cluster-domain={}", settings.cluster_domain)];
    if settings.set.is_some() {
        arguments.push(format!("--clusterset-domain={CLUSTERSET_DOMAIN}"));
    }
    if !settings.forward.is_empty() {
        arguments.push(format!("--forward={}", settings.forward.join(",")));
    }
    arguments
}

//! The assigner with an API server, with the rights of its role.

mod support;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api::object::Service;
use apiserver::Server;
use balancer::Metrics;
use balancer::assigner::{ASSIGNED_CONDITION, FINALIZER};
use balancer::two_tier::{self, POOL_TWO_TIER_ANNOTATION, TWO_TIER_ANNOTATION};
use client::{Client, JSON, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use support::{TIMEOUT, serve_api};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const POOLS: &str = "/apis/portolan.dev/v1alpha1/addresspools";

struct Cluster {
    /// Client of the administrator.
    admin: Client,
    metrics: Arc<Metrics>,
    _server: Server,
    _directory: TempDir,
}

/// Starts an API server and an assigner with the identity of the controller manager.
async fn start() -> Cluster {
    let directory = tempfile::tempdir().expect("temporary directory");
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let advertised = Ipv4Addr::new(192, 0, 2, 7);
    let (server, api) = serve_api(directory.path(), listen, advertised.into()).await;
    let controllers = Client::new(api.as_user("system:kube-controller-manager")).expect("API client");
    let options = balancer::Options::default();
    let metrics = Arc::clone(&options.metrics);
    tokio::spawn(balancer::run(controllers, options, std::future::pending()));
    Cluster {
        metrics,
        admin: Client::new(api.admin).expect("API client"),
        _server: server,
        _directory: directory,
    }
}

impl Cluster {
    async fn create(&self, path: &str, object: Value) {
        self.admin
            .request(Method::POST, path, JSON, Some(&object))
            .await
            .expect("object created");
    }

    async fn merge(&self, path: &str, patch: Value) {
        self.admin
            .request(Method::PATCH, path, MERGE_PATCH, Some(&patch))
            .await
            .expect("object patched");
    }

    /// Waits until an object satisfies a condition.
    async fn wait_for(&self, path: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let poll = async {
            loop {
                match self.admin.get::<Value>(path).await {
                    Ok(object) => last = object,
                    Err(error) if error.is_not_found() => last = Value::Null,
                    Err(error) => panic!("{error}"),
                }
                if condition(&last) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(TIMEOUT, poll).await.is_err() {
            panic!("{path}: condition not met by {last:#}");
        }
        last
    }

    /// Waits until the metrics contain a line.
    async fn wait_for_metric(&self, line: &str) {
        let poll = async {
            while !self.metrics.render().lines().any(|rendered| rendered == line) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(TIMEOUT, poll).await.is_err() {
            panic!("{line} is not in\n{}", self.metrics.render());
        }
    }

    /// Waits until Events with these reasons exist.
    async fn wait_for_events(&self, reasons: &[&str]) {
        self.wait_for("/api/v1/namespaces/default/events", |list| {
            let events = list["items"].as_array().map_or(&[][..], Vec::as_slice);
            reasons
                .iter()
                .all(|reason| events.iter().any(|event| event["reason"] == *reason))
        })
        .await;
    }
}

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn assigns_and_releases_addresses() {
    let cluster = start().await;
    let path = format!("{SERVICES}/a");
    cluster.create(SERVICES, service("a")).await;
    let waiting = cluster
        .wait_for(&path, |service| {
            service["status"]["conditions"][0]["status"] == "False"
        })
        .await;
    let condition = &waiting["status"]["conditions"][0];
    assert_eq!(condition["type"], ASSIGNED_CONDITION);
    assert_eq!(
        condition["message"],
        "there is no AddressPool: create one with addresses of this network"
    );
    cluster.wait_for_events(&["SyncLoadBalancerFailed"]).await;

    let pool = json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": "p"},
        "spec": {"addresses": ["192.0.2.1-192.0.2.2"]},
    });
    cluster.create(POOLS, pool).await;
    let assigned = cluster
        .wait_for(&path, |service| {
            service["status"]["loadBalancer"]["ingress"][0]["ip"] == "192.0.2.1"
        })
        .await;
    assert_eq!(assigned["status"]["loadBalancer"]["ingress"][0]["ipMode"], "VIP");
    assert_eq!(assigned["status"]["conditions"][0]["status"], "True");
    assert_eq!(assigned["metadata"]["finalizers"], json!([FINALIZER]));
    cluster
        .wait_for_events(&["EnsuringLoadBalancer", "EnsuredLoadBalancer"])
        .await;
    cluster
        .wait_for(&format!("{POOLS}/p"), |pool| {
            pool["status"]["usage"] == json!([{"family": "IPv4", "total": 2, "assigned": 1}])
        })
        .await;

    // A change of type releases the address, …
    cluster.create(SERVICES, service("b")).await;
    let other = format!("{SERVICES}/b");
    cluster
        .wait_for(&other, |service| {
            service["status"]["loadBalancer"]["ingress"][0]["ip"] == "192.0.2.2"
        })
        .await;
    let patch = json!({"spec": {"type": "ClusterIP"}});
    let patched = cluster
        .admin
        .request(Method::PATCH, &other, MERGE_PATCH, Some(&patch))
        .await;
    patched.expect("type patched");
    let released = cluster
        .wait_for(&other, |service| service["metadata"].get("finalizers").is_none())
        .await;
    assert_eq!(released["status"], json!({"loadBalancer": {}}));

    // … and so does a deletion.
    let deleted = cluster.admin.request(Method::DELETE, &path, JSON, None).await;
    deleted.expect("Service deleted");
    cluster.wait_for(&path, Value::is_null).await;
    cluster
        .wait_for_events(&["DeletingLoadBalancer", "DeletedLoadBalancer"])
        .await;
}

/// The condition with the reason does not fit into the Service. The address is free, and nodes serve the addresses in
/// the status.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_of_maximum_size_loses_its_address() {
    const SERVICE_BYTES_MAX: usize = 3 << 19;
    const REQUEST: &str = "portolan.dev/load-balancer-ips";
    let cluster = start().await;
    let pool = json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": "p"},
        "spec": {"addresses": ["192.0.2.1/32"]},
    });
    cluster.create(POOLS, pool).await;
    cluster.create(SERVICES, service("a")).await;
    let path = format!("{SERVICES}/a");
    let has_address = |service: &Value| service["status"]["loadBalancer"]["ingress"][0]["ip"] == "192.0.2.1";
    cluster.wait_for(&path, has_address).await;
    let labels = (0..15_500).map(|index| (format!("l{index:05}"), json!("v".repeat(63))));
    let labels: serde_json::Map<String, Value> = labels.collect();
    cluster
        .merge(&path, json!({"metadata": {"labels": labels}}))
        .await;
    let stored: Value = cluster.admin.get(&path).await.expect("Service");
    let invalid = "x".repeat(4_000);
    let padding = SERVICE_BYTES_MAX - stored.to_string().len() - invalid.len() - 1_000;
    let annotations = json!({REQUEST: invalid, "padding": "p".repeat(padding)});
    cluster
        .merge(&path, json!({"metadata": {"annotations": annotations}}))
        .await;
    cluster
        .wait_for(&path, |service| service["status"]["loadBalancer"] == json!({}))
        .await;
    cluster.create(SERVICES, service("b")).await;
    cluster.wait_for(&format!("{SERVICES}/b"), has_address).await;
}

#[tokio::test]
async fn request_of_a_pool_for_two_tier_forwarding_follows_its_annotation() {
    let cluster = start().await;
    let pool = json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "AddressPool",
        "metadata": {"name": "p", "annotations": {TWO_TIER_ANNOTATION: "true"}},
        "spec": {"addresses": ["192.0.2.1-192.0.2.2"]},
    });
    cluster.create(POOLS, pool).await;
    cluster.create(SERVICES, service("a")).await;
    let path = format!("{SERVICES}/a");
    let requests = |service: &Value| {
        let read = serde_json::from_value::<Service>(service.clone());
        read.is_ok_and(|service| two_tier::requests(&service))
    };
    let is_recorded = |service: &Value| {
        let recorded = &service["metadata"]["annotations"][POOL_TWO_TIER_ANNOTATION];
        let address = &service["status"]["loadBalancer"]["ingress"][0]["ip"];
        recorded == "true" && requests(service) && address == "192.0.2.1"
    };
    cluster.wait_for(&path, is_recorded).await;
    let withdrawn = json!({"metadata": {"annotations": {TWO_TIER_ANNOTATION: null}}});
    cluster
        .admin
        .request(
            Method::PATCH,
            &format!("{POOLS}/p"),
            MERGE_PATCH,
            Some(&withdrawn),
        )
        .await
        .expect("pool changed");
    let service = cluster
        .wait_for(&path, |service| {
            service["metadata"]["annotations"][POOL_TWO_TIER_ANNOTATION].is_null()
        })
        .await;
    assert!(!requests(&service));
    assert_eq!(service["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.1");
}

/// CCM-12: updates of Services, and updates after changes of nodes.
#[tokio::test]
async fn metrics_count_updates_of_services() {
    let cluster = start().await;
    let pool = json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": "p"},
        "spec": {"addresses": ["192.0.2.1-192.0.2.2"]},
    });
    cluster.create(POOLS, pool).await;
    cluster.create(SERVICES, service("a")).await;
    cluster
        .wait_for(&format!("{SERVICES}/a"), |service| {
            service["status"]["loadBalancer"]["ingress"][0]["ip"] == "192.0.2.1"
        })
        .await;
    cluster
        .wait_for_metric("service_controller_nodesync_latency_seconds_count 0")
        .await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    cluster.create("/api/v1/nodes", node).await;
    cluster
        .wait_for_metric("service_controller_nodesync_latency_seconds_count 1")
        .await;
    for line in [
        "service_controller_update_loadbalancer_host_latency_seconds_count 1",
        "service_controller_nodesync_error_total 0",
    ] {
        cluster.wait_for_metric(line).await;
    }
    assert!(cluster.metrics.syncs() >= 2, "{}", cluster.metrics.render());
}

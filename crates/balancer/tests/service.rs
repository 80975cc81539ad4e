//! The balancer against a whole API server, with the rights that its role gives it.

mod support;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use apiserver::Server;
use balancer::Metrics;
use balancer::core::{CONDITION, FINALIZER};
use client::{Client, JSON, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use support::{PATIENCE, serve_api};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const POOLS: &str = "/apis/portolan.dev/v1alpha1/addresspools";

struct Cluster {
    /// The administrator.
    admin: Client,
    metrics: Arc<Metrics>,
    _server: Server,
    _directory: TempDir,
}

/// A server, and a balancer that asks as the controllers do.
async fn start() -> Cluster {
    let directory = tempfile::tempdir().expect("a directory");
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let advertised = Ipv4Addr::new(192, 0, 2, 7);
    let (server, api) = serve_api(directory.path(), listen, advertised.into()).await;
    let controllers = Client::new(api.as_user("system:kube-controller-manager")).expect("a client");
    let options = balancer::Options::default();
    let metrics = Arc::clone(&options.metrics);
    tokio::spawn(balancer::run(controllers, options, std::future::pending()));
    Cluster {
        metrics,
        admin: Client::new(api.admin).expect("a client"),
        _server: server,
        _directory: directory,
    }
}

impl Cluster {
    async fn create(&self, path: &str, object: Value) {
        self.admin
            .request(Method::POST, path, JSON, Some(&object))
            .await
            .expect("created");
    }

    /// Reads until what is there is as it should be.
    async fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let reading = async {
            loop {
                match self.admin.get::<Value>(path).await {
                    Ok(object) => last = object,
                    Err(error) if error.is_not_found() => last = Value::Null,
                    Err(error) => panic!("{error}"),
                }
                if is_so(&last) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, reading).await.is_err() {
            panic!("{path} stays {last:#}");
        }
        last
    }

    /// Waits until a metric has a value.
    async fn counted(&self, line: &str) {
        let counting = async {
            while !self.metrics.render().lines().any(|told| told == line) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, counting).await.is_err() {
            panic!("{line} is not in\n{}", self.metrics.render());
        }
    }

    /// Waits until Events of these reasons were told of Services.
    async fn told(&self, reasons: &[&str]) {
        self.until("/api/v1/namespaces/default/events", |list| {
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
async fn a_service_gets_an_address_and_gives_it_back() {
    let cluster = start().await;
    let path = format!("{SERVICES}/a");
    cluster.create(SERVICES, service("a")).await;
    let waiting = cluster
        .until(&path, |service| {
            service["status"]["conditions"][0]["status"] == "False"
        })
        .await;
    let condition = &waiting["status"]["conditions"][0];
    assert_eq!(condition["type"], CONDITION);
    assert_eq!(
        condition["message"],
        "there is no AddressPool: create one with addresses of this network"
    );
    cluster.told(&["SyncLoadBalancerFailed"]).await;

    let pool = json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": "p"},
        "spec": {"addresses": ["192.0.2.1-192.0.2.2"]},
    });
    cluster.create(POOLS, pool).await;
    let assigned = cluster
        .until(&path, |service| {
            service["status"]["loadBalancer"]["ingress"][0]["ip"] == "192.0.2.1"
        })
        .await;
    assert_eq!(assigned["status"]["loadBalancer"]["ingress"][0]["ipMode"], "VIP");
    assert_eq!(assigned["status"]["conditions"][0]["status"], "True");
    assert_eq!(assigned["metadata"]["finalizers"], json!([FINALIZER]));
    cluster
        .told(&["EnsuringLoadBalancer", "EnsuredLoadBalancer"])
        .await;
    cluster
        .until(&format!("{POOLS}/p"), |pool| {
            pool["status"]["usage"] == json!([{"family": "IPv4", "total": 2, "assigned": 1}])
        })
        .await;

    // A Service that becomes one of another type loses what it had …
    cluster.create(SERVICES, service("b")).await;
    let other = format!("{SERVICES}/b");
    cluster
        .until(&other, |service| {
            service["status"]["loadBalancer"]["ingress"][0]["ip"] == "192.0.2.2"
        })
        .await;
    let patch = json!({"spec": {"type": "ClusterIP"}});
    let patched = cluster
        .admin
        .request(Method::PATCH, &other, MERGE_PATCH, Some(&patch))
        .await;
    patched.expect("patched");
    let cleaned = cluster
        .until(&other, |service| service["metadata"].get("finalizers").is_none())
        .await;
    assert_eq!(cleaned["status"], json!({"loadBalancer": {}}));

    // … and one that is deleted goes.
    let deleted = cluster.admin.request(Method::DELETE, &path, JSON, None).await;
    deleted.expect("deleted");
    cluster.until(&path, Value::is_null).await;
    cluster
        .told(&["DeletingLoadBalancer", "DeletedLoadBalancer"])
        .await;
}

/// CCM-12: Services, and nodes that Services are told of.
#[tokio::test]
async fn the_work_is_counted() {
    let cluster = start().await;
    let pool = json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": "p"},
        "spec": {"addresses": ["192.0.2.1-192.0.2.2"]},
    });
    cluster.create(POOLS, pool).await;
    cluster.create(SERVICES, service("a")).await;
    cluster
        .until(&format!("{SERVICES}/a"), |service| {
            service["status"]["loadBalancer"]["ingress"][0]["ip"] == "192.0.2.1"
        })
        .await;
    cluster
        .counted("service_controller_nodesync_latency_seconds_count 0")
        .await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    cluster.create("/api/v1/nodes", node).await;
    cluster
        .counted("service_controller_nodesync_latency_seconds_count 1")
        .await;
    for line in [
        "service_controller_update_loadbalancer_host_latency_seconds_count 1",
        "service_controller_nodesync_error_total 0",
    ] {
        cluster.counted(line).await;
    }
    assert!(cluster.metrics.syncs() >= 2, "{}", cluster.metrics.render());
}

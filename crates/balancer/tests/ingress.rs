//! Classes and Ingresses with an API server and an assigner, with the rights of its role.

mod support;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use apiserver::Server;
use client::{Client, JSON, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use support::{TIMEOUT, serve_api};

const CLASSES: &str = "/apis/networking.k8s.io/v1/ingressclasses";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
const WEB: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses/web";
const CLASS_SERVICE: &str = "/api/v1/namespaces/kube-system/services/ingress-edge";
const POOLS: &str = "/apis/portolan.dev/v1alpha1/addresspools";

struct Cluster {
    /// Client of the administrator.
    admin: Client,
    _server: Server,
    _directory: TempDir,
}

/// Starts an API server and an assigner for nodes with edges.
async fn start() -> Cluster {
    let directory = tempfile::tempdir().expect("temporary directory");
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let advertised = Ipv4Addr::new(192, 0, 2, 7);
    let (server, api) = serve_api(directory.path(), listen, advertised.into()).await;
    let assigner = Client::new(api.as_user("system:portolan-balancer")).expect("API client");
    let options = balancer::Options {
        has_edges: true,
        creates_node_pool: true,
        ..balancer::Options::default()
    };
    tokio::spawn(balancer::run(assigner, options, std::future::pending()));
    Cluster {
        admin: Client::new(api.admin).expect("API client"),
        _server: server,
        _directory: directory,
    }
}

impl Cluster {
    async fn send(&self, method: Method, path: &str, kind: &str, object: &Value) {
        self.admin
            .request(method, path, kind, Some(object))
            .await
            .expect("request accepted");
    }

    async fn create_class_and_ingress(&self) {
        let class = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "edge"},
            "spec": {"controller": "portolan.dev/ingress"},
        });
        self.send(Method::POST, CLASSES, JSON, &class).await;
        let ingress = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "web"},
            "spec": {"ingressClassName": "edge",
                     "defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
        });
        self.send(Method::POST, INGRESSES, JSON, &ingress).await;
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
}

/// Address in the status of a Service or an Ingress.
fn address(object: &Value) -> &Value {
    &object["status"]["loadBalancer"]["ingress"][0]["ip"]
}

#[tokio::test]
async fn ingress_has_the_address_of_its_class_until_the_class_is_deleted() {
    let cluster = start().await;
    let pool = json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": "p"},
        "spec": {"addresses": ["198.51.100.7/32"]},
    });
    cluster.send(Method::POST, POOLS, JSON, &pool).await;
    cluster.create_class_and_ingress().await;
    let service = cluster
        .wait_for(CLASS_SERVICE, |service| address(service) == "198.51.100.7")
        .await;
    assert_eq!(service["metadata"]["ownerReferences"][0]["kind"], "IngressClass");
    assert_eq!(service["status"]["loadBalancer"]["ingress"][0]["ipMode"], "Proxy");
    assert!(service["spec"]["ports"][0].get("nodePort").is_none());
    cluster
        .wait_for(WEB, |ingress| address(ingress) == "198.51.100.7")
        .await;
    let class = format!("{CLASSES}/edge");
    cluster
        .admin
        .request(Method::DELETE, &class, JSON, None)
        .await
        .expect("class deleted");
    cluster.wait_for(WEB, |ingress| address(ingress).is_null()).await;
}

#[tokio::test]
async fn ingress_without_any_pool_gets_the_addresses_of_nodes() {
    let cluster = start().await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    cluster.send(Method::POST, "/api/v1/nodes", JSON, &node).await;
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "192.0.2.11"}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    let path = "/api/v1/nodes/n1/status";
    cluster.send(Method::PATCH, path, MERGE_PATCH, &status).await;
    cluster.create_class_and_ingress().await;
    cluster
        .wait_for(WEB, |ingress| address(ingress) == "192.0.2.11")
        .await;
    let pool = cluster
        .wait_for(&format!("{POOLS}/ingress-nodes"), |pool| !pool.is_null())
        .await;
    assert_eq!(pool["spec"]["nodeAddresses"]["type"], "InternalIP");
}

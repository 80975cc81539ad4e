//! Attacks of a compromised node, with the credentials of its agent and its other components.

mod announcements;
mod certificates;
mod cluster;
mod edge_report;
mod mirror_pods;
mod own_objects;
mod reports;
mod serving;
mod tokens;

use client::{Client, ClientError};
use http::Method;
use serde_json::{Value, json};

use crate::access;
use crate::support::Api;

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// API server with the Node `one`, which its agent has registered.
struct Cluster {
    api: Api,
    administrator: Client,
    node: Client,
    node_uid: String,
}

impl Cluster {
    async fn start() -> Self {
        let api = Api::start();
        let (administrator, node) = (access::administrator(&api), access::node(&api, "one"));
        let registered = post(&node, NODES, &named("Node", "one")).await.expect("a Node");
        let node_uid = registered["metadata"]["uid"]
            .as_str()
            .expect("the UID of the Node")
            .to_owned();
        Self {
            api,
            administrator,
            node,
            node_uid,
        }
    }

    /// Creates an object as the administrator.
    async fn create(&self, collection: &str, object: &Value) -> Value {
        post(&self.administrator, collection, object)
            .await
            .expect("an object of the administrator")
    }
}

fn named(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}})
}

/// Returns a Pod on a node.
fn pod_on(node: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
           "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}})
}

async fn post(client: &Client, collection: &str, object: &Value) -> Result<Value, ClientError> {
    client
        .request(Method::POST, collection, client::JSON, Some(object))
        .await
}

async fn merge(client: &Client, path: &str, patch: &Value) -> Result<Value, ClientError> {
    client
        .request(Method::PATCH, path, client::MERGE_PATCH, Some(patch))
        .await
}

/// Returns the message of a response with status 403.
fn refusal(result: Result<Value, ClientError>) -> String {
    let error = result.expect_err("a refusal");
    assert_eq!(error.code(), Some(403), "{error}");
    error.to_string()
}

/// Expects a response with status 403 and a message.
fn expect_refusal(result: Result<Value, ClientError>, text: &str) {
    let refusal = refusal(result);
    assert!(refusal.contains(text), "{refusal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn node_cannot_create_pods_of_other_nodes() {
    let api = Api::start();
    let node = access::node(&api, "one");
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default", "annotations": {"kubernetes.io/config.mirror": "x"}},
        "spec": {"nodeName": "two", "containers": [{"name": "a", "image": "a"}]}});
    let text = "node \"one\" can only create pods with spec.nodeName set to itself";
    expect_refusal(post(&node, PODS, &pod).await, text);
}

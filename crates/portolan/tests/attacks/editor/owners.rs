//! Owner references: names that are paths and queries, and UIDs of owners in other namespaces.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use client::Client;
use http::Method;
use serde_json::{Value, json};

use super::NAMESPACE;
use crate::access;
use crate::support::{Api, Component, portolan};

/// Time for a controller on a busy host.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
/// Names of owners that an API server would take for subresources of a Node, or for a watch.
const NAMES: [&str; 4] = [
    "one/observation?probe=true",
    "one/flows",
    "one/proxy/containerLogs/default/a/b?follow=true",
    "one?watch=true",
];

/// Starts one controller with the rights of the administrator.
fn start_controller(api: &Api, name: &str) -> Component {
    portolan(&[
        "controllers",
        &format!("--kubeconfig={}", api.kubeconfig().display()),
        "--leader-elect=false",
        "--metrics-bind-address=",
        &format!("--controllers={name}"),
    ])
}

/// Creates an object as the administrator.
async fn create(administrator: &Client, collection: &str, object: &Value) -> Value {
    let request = administrator.request(Method::POST, collection, client::JSON, Some(object));
    request.await.expect("an object")
}

/// Merges a patch into an object as the administrator.
async fn merge(administrator: &Client, path: &str, patch: &Value) {
    let request = administrator.request(Method::PATCH, path, client::MERGE_PATCH, Some(patch));
    request.await.expect("an object");
}

/// Waits until a condition holds. `subject` names it in the failure.
async fn wait_until(subject: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + CHANGE_TIMEOUT;
    while !holds().await {
        assert!(Instant::now() < deadline, "expected {subject}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Expects that no connection to the listener has been opened.
fn expect_no_connection(listener: &TcpListener) {
    match listener.accept() {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        accepted => panic!("the API server connects to the agent: {accepted:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_names_add_no_subresource_to_garbage_collector_requests() {
    let api = Api::start();
    let administrator = access::administrator(&api);
    let agent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    agent
        .set_nonblocking(true)
        .expect("a listener that does not block");
    let port = agent.local_addr().expect("an address").port();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"}});
    create(&administrator, "/api/v1/nodes", &node).await;
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}});
    merge(&administrator, "/api/v1/nodes/one/status", &status).await;
    let collection = format!("{NAMESPACE}/configmaps");
    for (number, name) in NAMES.iter().enumerate() {
        let uid = format!("absent-{number}");
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("map-{number}"), "ownerReferences": [owner]}});
        create(&administrator, &collection, &map).await;
    }
    let _controllers = start_controller(&api, "garbage-collector-controller");
    // Each owner is looked up before its dependent is deleted.
    for number in 0..NAMES.len() {
        let path = format!("{collection}/map-{number}");
        wait_until(&format!("the deletion of {path}"), async || {
            expect_no_connection(&agent);
            let found = administrator.get::<Value>(&path).await;
            found.is_err_and(|error| error.is_not_found())
        })
        .await;
    }
    expect_no_connection(&agent);
}

/// Returns the UIDs of the Pods in the namespace of the victim, except Pods that are being deleted.
async fn pods_of_victim(administrator: &Client) -> BTreeSet<String> {
    let pods = administrator.get::<Value>(&format!("{NAMESPACE}/pods")).await;
    let pods = pods.expect("a list of Pods");
    let all = pods["items"].as_array().into_iter().flatten();
    let remaining = all.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    remaining
        .filter_map(|pod| pod["metadata"]["uid"].as_str())
        .map(str::to_owned)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_another_namespace_are_not_replicas() {
    let api = Api::start();
    let administrator = access::administrator(&api);
    let template = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "portolan.dev/echo"}]}});
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}});
    let set = create(&administrator, REPLICA_SETS, &set).await;
    let _controllers = start_controller(&api, "replicaset-controller");
    wait_until("two replicas", async || {
        pods_of_victim(&administrator).await.len() == 2
    })
    .await;
    let replicas = pods_of_victim(&administrator).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "attacker"}});
    create(&administrator, "/api/v1/namespaces", &namespace).await;
    for number in 0..4 {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
            "uid": set["metadata"]["uid"], "controller": true});
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("web-{number}"), "labels": {"app": "web"}, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "main", "image": "portolan.dev/echo"}]}});
        let collection = "/api/v1/namespaces/attacker/pods";
        wait_until("the default ServiceAccount of the attacker", async || {
            let request = administrator.request(Method::POST, collection, client::JSON, Some(&pod));
            request.await.is_ok()
        })
        .await;
    }
    let more = json!({"spec": {"replicas": 3}});
    merge(&administrator, &format!("{REPLICA_SETS}/web"), &more).await;
    wait_until("three replicas", async || {
        let present = pods_of_victim(&administrator).await;
        assert!(
            replicas.is_subset(&present),
            "the controller deletes its own Pods: {present:?}, had {replicas:?}"
        );
        present.len() == 3
    })
    .await;
}

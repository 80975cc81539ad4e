//! Owner references whose names are paths and queries. The garbage collector has the rights to read all subresources.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use client::Client;
use http::Method;
use serde_json::{Value, json};

use super::NAMESPACE;
use crate::access;
use crate::support::{Api, portolan};

/// Time for the garbage collector to delete an object on a busy host.
const COLLECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Names of owners that an API server would take for subresources of a Node, or for a watch.
const NAMES: [&str; 4] = [
    "one/observation?probe=true",
    "one/flows",
    "one/proxy/containerLogs/default/a/b?follow=true",
    "one?watch=true",
];

async fn send(client: &Client, method: Method, path: &str, content: &str, object: &Value) {
    let response = client.request(method, path, content, Some(object)).await;
    response.expect("a response to the administrator");
}

/// Expects that no connection to the listener has been opened.
fn expect_no_connection(listener: &TcpListener) {
    match listener.accept() {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        accepted => panic!("the API server connects to the agent: {accepted:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_owners_add_no_subresource_to_requests_of_the_garbage_collector() {
    let api = Api::start();
    let administrator = access::administrator(&api);
    let agent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    agent
        .set_nonblocking(true)
        .expect("a listener that does not block");
    let port = agent.local_addr().expect("an address").port();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"}});
    send(&administrator, Method::POST, "/api/v1/nodes", client::JSON, &node).await;
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}});
    let path = "/api/v1/nodes/one/status";
    send(&administrator, Method::PATCH, path, client::MERGE_PATCH, &status).await;
    let collection = format!("{NAMESPACE}/configmaps");
    for (number, name) in NAMES.iter().enumerate() {
        let owner =
            json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": format!("absent-{number}")});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("map-{number}"), "ownerReferences": [owner]}});
        send(&administrator, Method::POST, &collection, client::JSON, &map).await;
    }
    let _controllers = portolan(&[
        "controllers",
        &format!("--kubeconfig={}", api.kubeconfig().display()),
        "--leader-elect=false",
        "--metrics-bind-address=",
        "--controllers=garbage-collector-controller",
    ]);
    // Each owner is looked up before its dependent is deleted.
    let deadline = Instant::now() + COLLECTION_TIMEOUT;
    for number in 0..NAMES.len() {
        let path = format!("{collection}/map-{number}");
        loop {
            expect_no_connection(&agent);
            match administrator.get::<Value>(&path).await {
                Err(error) if error.is_not_found() => break,
                found => {
                    found.expect("a response to the administrator");
                }
            }
            assert!(Instant::now() < deadline, "expected the deletion of {path}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    expect_no_connection(&agent);
}

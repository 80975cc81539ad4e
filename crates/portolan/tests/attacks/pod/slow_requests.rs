//! Slow requests that must not delay requests of other users.

use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

use client::Client;
use http::Method;
use serde_json::{Value, json};

use crate::access;
use crate::support::Api;
use crate::wire::{Connection, Wire, head, outward_address};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Returns a ServiceAccount token.
pub(super) async fn token(admin: &Client) -> String {
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let response = admin
        .request(Method::POST, path, client::JSON, Some(&request))
        .await;
    let response = response.expect("a TokenRequest");
    response["status"]["token"].as_str().expect("a token").to_owned()
}

/// Task that sends a byte on each connection every two seconds, until the value is dropped.
struct SlowSender(tokio::task::JoinHandle<()>);

impl SlowSender {
    fn start(mut connections: Vec<Connection>) -> Self {
        Self(tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(2)).await;
                connections.retain_mut(|connection| {
                    let sent = connection.write_all(b" ").and_then(|()| connection.flush());
                    sent.is_ok()
                });
            }
        }))
    }
}

impl Drop for SlowSender {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Creates a SelfSubjectAccessReview.
async fn review(client: &Client) -> Result<Value, client::ClientError> {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    client
        .request(Method::POST, REVIEWS, client::JSON, Some(&review))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_of_a_pod_do_not_block_other_writes() {
    let api = Api::start();
    let token = token(&access::administrator(&api)).await;
    let wire = Wire::new(api.address, &["http/1.1"]);
    let mut request = head(
        "POST",
        REVIEWS,
        &token,
        "content-type: application/json\r\ncontent-length: 1000\r\n",
    );
    request.push(b'{');
    let connections: Vec<Connection> = (0..200).map_while(|_| wire.begin(&request).ok()).collect();
    assert_eq!(connections.len(), 200);
    let _slow_sender = SlowSender::start(connections);
    review(&access::with_certificate(&api, "ann", ""))
        .await
        .expect("a review of a user");
    let node = access::node(&api, "one");
    let own = json!({"metadata": {"name": "one"}});
    let registered = node
        .request(Method::POST, "/api/v1/nodes", client::JSON, Some(&own))
        .await;
    registered.expect("a Node");
}

/// The bodies fill the memory for bodies (32 MiB). Each is complete except for its last bytes, which are sent slowly.
#[tokio::test(flavor = "multi_thread")]
async fn large_slow_bodies_of_a_pod_do_not_block_other_writes() {
    const BODIES: usize = 32;
    const BODY_BYTES: usize = 1 << 20;
    let api = Api::start();
    let admin = access::administrator(&api);
    let token = token(&admin).await;
    let wire = Wire::new(api.address, &["http/1.1"]);
    let length = format!("content-type: application/json\r\ncontent-length: {BODY_BYTES}\r\n");
    let mut request = head("POST", REVIEWS, &token, &length);
    request.extend(vec![b' '; BODY_BYTES - 100]);
    let sending = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..BODIES)
            .map(|_| scope.spawn(|| wire.begin(&request)))
            .collect();
        let sent = senders.into_iter().filter_map(|sender| sender.join().ok()?.ok());
        sent.collect::<Vec<Connection>>()
    });
    let _slow_sender = SlowSender::start(sending);
    let object = json!({"metadata": {"name": "of-the-administrator"}, "data": {"a": "x".repeat(500_000)}});
    let path = "/api/v1/namespaces/default/configmaps";
    let written = admin
        .request(Method::POST, path, client::JSON, Some(&object))
        .await;
    written.expect("a ConfigMap of the administrator");
    review(&access::with_certificate(&api, "ann", ""))
        .await
        .expect("a review of a user");
}

/// Creates the Pod `silent` with an address, and lets the ServiceAccount `default` use its proxy subresource.
async fn create_silent_pod(admin: &Client, address: std::net::SocketAddr) {
    let namespace = "/api/v1/namespaces/default";
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let pod = json!({"metadata": {"name": "silent"}, "spec": {"containers": [
        {"name": "a", "image": "a", "ports": [{"containerPort": address.port()}]}]}});
    let role = json!({"metadata": {"name": "proxy"},
        "rules": [{"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]}]});
    let binding = json!({"metadata": {"name": "proxy"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "proxy"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "default"}]});
    for (path, object) in [
        (format!("{namespace}/pods"), &pod),
        (format!("{roles}/roles"), &role),
        (format!("{roles}/rolebindings"), &binding),
    ] {
        let created = admin
            .request(Method::POST, &path, client::JSON, Some(object))
            .await;
        created.expect("an object");
    }
    let status = json!({"status": {"podIP": address.ip(), "podIPs": [{"ip": address.ip()}]}});
    let path = format!("{namespace}/pods/silent/status");
    let patched = admin
        .request(Method::PATCH, &path, client::MERGE_PATCH, Some(&status))
        .await;
    patched.expect("the status of the Pod");
}

#[tokio::test(flavor = "multi_thread")]
async fn unresponsive_pod_does_not_block_other_reads() {
    let Some(address) = outward_address("unresponsive_pod_does_not_block_other_reads") else {
        return;
    };
    let api = Api::start();
    let admin = access::administrator(&api);
    let listener = TcpListener::bind((address, 0)).expect("a port");
    create_silent_pod(&admin, listener.local_addr().expect("a bound address")).await;
    let accepting = std::thread::spawn(move || {
        // The connections stay open without a response until the test process exits.
        listener.incoming().collect::<Vec<_>>()
    });
    let token = token(&admin).await;
    let wire = Wire::new(api.address, &["http/1.1"]);
    let request = head("GET", "/api/v1/namespaces/default/pods/silent/proxy/", &token, "");
    let waiting: Vec<Connection> = (0..400).map_while(|_| wire.begin(&request).ok()).collect();
    assert_eq!(waiting.len(), 400);
    // All users may read the discovery documents.
    let read = access::with_certificate(&api, "ann", "")
        .get::<Value>("/apis")
        .await;
    read.expect("a discovery document");
    assert!(!accepting.is_finished());
}

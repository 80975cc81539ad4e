//! Requests that take nothing but time (H2): they keep nobody else's waiting.

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

/// The token of a ServiceAccount, as every Pod has one.
async fn token(admin: &Client) -> String {
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let answer = admin
        .request(Method::POST, path, client::JSON, Some(&request))
        .await;
    let answer = answer.expect("a token");
    answer["status"]["token"].as_str().expect("a token").to_owned()
}

/// Sends a byte on each connection now and then, as long as this is held.
struct Drip(tokio::task::JoinHandle<()>);

impl Drip {
    fn of(mut connections: Vec<Connection>) -> Self {
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

impl Drop for Drip {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn review(of: &Client) -> Result<Value, client::ClientError> {
    let question = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    of.request(Method::POST, REVIEWS, client::JSON, Some(&question))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_of_one_pod_stop_no_writes_of_others() {
    let api = Api::start();
    let token = token(&access::administrator(&api)).await;
    let wire = Wire::new(api.address, &["http/1.1"]);
    let mut begun = head(
        "POST",
        REVIEWS,
        &token,
        "content-type: application/json\r\ncontent-length: 1000\r\n",
    );
    begun.push(b'{');
    let connections: Vec<Connection> = (0..200).map_while(|_| wire.begin(&begun).ok()).collect();
    assert_eq!(connections.len(), 200);
    let _drip = Drip::of(connections);
    review(&access::with_certificate(&api, "ann", ""))
        .await
        .expect("a user's write");
    let node = access::node(&api, "one");
    let own = json!({"metadata": {"name": "one"}});
    let registered = node
        .request(Method::POST, "/api/v1/nodes", client::JSON, Some(&own))
        .await;
    registered.expect("a node's write");
}

/// As many bodies as fill all memory for bodies (32 MiB), each complete but for some bytes, which come one by one.
#[tokio::test(flavor = "multi_thread")]
async fn large_slow_bodies_of_one_pod_leave_room_for_others() {
    const BODIES: usize = 32;
    const BODY_BYTES: usize = 1 << 20;
    let api = Api::start();
    let admin = access::administrator(&api);
    let token = token(&admin).await;
    let wire = Wire::new(api.address, &["http/1.1"]);
    let length = format!("content-type: application/json\r\ncontent-length: {BODY_BYTES}\r\n");
    let mut begun = head("POST", REVIEWS, &token, &length);
    begun.extend(vec![b' '; BODY_BYTES - 100]);
    let sending = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..BODIES).map(|_| scope.spawn(|| wire.begin(&begun))).collect();
        let sent = senders.into_iter().filter_map(|sender| sender.join().ok()?.ok());
        sent.collect::<Vec<Connection>>()
    });
    let _drip = Drip::of(sending);
    let object = json!({"metadata": {"name": "of-the-administrator"}, "data": {"a": "x".repeat(500_000)}});
    let path = "/api/v1/namespaces/default/configmaps";
    let written = admin
        .request(Method::POST, path, client::JSON, Some(&object))
        .await;
    written.expect("the administrator's write");
    review(&access::with_certificate(&api, "ann", ""))
        .await
        .expect("a user's write");
}

/// A Pod `silent` at this address and port, which the ServiceAccount `default` may reach through the API.
async fn silent_pod(admin: &Client, address: std::net::SocketAddr) {
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
        let made = admin
            .request(Method::POST, &path, client::JSON, Some(object))
            .await;
        made.expect("an object");
    }
    let status = json!({"status": {"podIP": address.ip(), "podIPs": [{"ip": address.ip()}]}});
    let path = format!("{namespace}/pods/silent/status");
    let set = admin
        .request(Method::PATCH, &path, client::MERGE_PATCH, Some(&status))
        .await;
    set.expect("an address");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_never_answers_stops_no_reads_of_others() {
    let Some(address) = outward_address("a_pod_that_never_answers_stops_no_reads_of_others") else {
        return;
    };
    let api = Api::start();
    let admin = access::administrator(&api);
    let listener = TcpListener::bind((address, 0)).expect("a port");
    silent_pod(&admin, listener.local_addr().expect("bound")).await;
    let accepting = std::thread::spawn(move || {
        // Held, and never answered; it ends with the test's process.
        listener.incoming().collect::<Vec<_>>()
    });
    let token = token(&admin).await;
    let wire = Wire::new(api.address, &["http/1.1"]);
    let request = head("GET", "/api/v1/namespaces/default/pods/silent/proxy/", &token, "");
    let waiting: Vec<Connection> = (0..400).map_while(|_| wire.begin(&request).ok()).collect();
    assert_eq!(waiting.len(), 400);
    // Discovery is what everybody may read.
    let read = access::with_certificate(&api, "ann", "")
        .get::<Value>("/apis")
        .await;
    read.expect("a user's read");
    assert!(!accepting.is_finished());
}

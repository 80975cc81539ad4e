//! Attacks of a user with the role `edit` in one namespace, or with fewer rights.

mod access_logs;
mod bombs;
mod escalation;
mod history;
mod ingress_hosts;
mod load_balancer;
mod owners;
mod pod_security;
mod probes;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use client::{APPLY_PATCH, Client, ClientError};
use http::Method;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};

use crate::access;
use crate::support::{Api, TOKEN};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const NAMESPACE: &str = "/api/v1/namespaces/default";

/// Grants a rule to a user in all namespaces.
async fn grant(api: &Api, user: &str, rule: Value) {
    let administrator = access::administrator(api);
    let create = async |collection: &str, object: Value| {
        let path = format!("{RBAC}/{collection}");
        let response = administrator.request(Method::POST, &path, client::JSON, Some(&object));
        response.await.expect("an RBAC object");
    };
    create(
        "clusterroles",
        json!({"metadata": {"name": user}, "rules": [rule]}),
    )
    .await;
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user});
    let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]);
    create(
        "clusterrolebindings",
        json!({"metadata": {"name": user}, "roleRef": role, "subjects": subjects}),
    )
    .await;
}

/// Returns a client of a user who may update ConfigMaps and Services, but not create them.
async fn writer(api: &Api) -> Client {
    let verbs = ["get", "patch", "update"];
    let rule = json!({"apiGroups": [""], "resources": ["configmaps", "services"], "verbs": verbs});
    grant(api, "writer", rule).await;
    access::with_certificate(api, "writer", "")
}

/// Expects that the request is forbidden for lack of the verb `create`.
fn expect_no_creation(result: Result<Value, ClientError>, resource: &str) {
    let error = result.expect_err("a refusal").to_string();
    let text = format!("User \"writer\" cannot create resource \"{resource}\"");
    assert!(error.contains(&text), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_cannot_create_without_the_verb_create() {
    let api = Api::start();
    let writer = writer(&api).await;
    let path = format!("{NAMESPACE}/configmaps/new?fieldManager=writer");
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": {"a": "b"}});
    let result = writer
        .request(Method::PATCH, &path, APPLY_PATCH, Some(&object))
        .await;
    expect_no_creation(result, "configmaps");
}

#[tokio::test(flavor = "multi_thread")]
async fn put_cannot_create_without_the_verb_create() {
    let api = Api::start();
    let writer = writer(&api).await;
    let path = format!("{NAMESPACE}/services/new");
    let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "new"},
                        "spec": {"ports": [{"port": 80}]}});
    let result = writer
        .request(Method::PUT, &path, client::JSON, Some(&object))
        .await;
    expect_no_creation(result, "services");
}

#[tokio::test(flavor = "multi_thread")]
async fn field_selector_does_not_widen_resource_names() {
    let api = Api::start();
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"], "resourceNames": ["one"]});
    grant(&api, "creator", rule).await;
    let creator = access::with_certificate(&api, "creator", "");
    let path = format!("{NAMESPACE}/configmaps?fieldSelector=metadata.name%3Done");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}});
    let result = creator
        .request(Method::POST, &path, client::JSON, Some(&object))
        .await;
    let error = result.expect_err("a refusal");
    assert_eq!(error.code(), Some(403), "{error}");
}

/// Sends a request of the group `system:masters` with raw header lines, and returns the response.
fn send(api: &Api, headers: &[&[u8]]) -> String {
    let authority = api.directory.path().join("data/pki/ca.crt");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authority).expect("the CA certificate") {
        roots
            .add(certificate.expect("a certificate"))
            .expect("a root certificate");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connection = ClientConnection::new(Arc::new(config), ServerName::from(api.address.ip()));
    let socket = TcpStream::connect(api.address).expect("a connection to the API server");
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a timeout");
    let mut stream = StreamOwned::new(connection.expect("a TLS connection"), socket);
    let mut request = format!(
        "GET {NAMESPACE}/secrets HTTP/1.1\r\nHost: api\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\n"
    )
    .into_bytes();
    for header in headers {
        request.extend_from_slice(header);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    stream.write_all(&request).expect("a request");
    let mut response = Vec::new();
    // The server may close the connection without close_notify. The bytes before it are valid.
    if let Err(error) = stream.read_to_end(&mut response) {
        println!("end of the response: {error}");
    }
    String::from_utf8_lossy(&response).into_owned()
}

#[test]
fn invalid_impersonation_headers_are_rejected() {
    let api = Api::start();
    for headers in [
        &[&b"Impersonate-User: jos\xe9"[..]][..],
        &[b"Impersonate-User: ann", b"Impersonate-Group: \xff"],
        &[b"Impersonate-User: ann", b"Impersonate-User: bob"],
        &[b"Impersonate-User: ann", b"Impersonate-Uid: \xff"],
        &[b"Impersonate-Group: system:nodes"],
    ] {
        let response = send(&api, headers);
        assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
    }
    // User names in UTF-8 are valid.
    let response = send(&api, &["Impersonate-User: josé".as_bytes()]);
    assert!(
        response.starts_with("HTTP/1.1 403 ") && response.contains("josé"),
        "{response}"
    );
}

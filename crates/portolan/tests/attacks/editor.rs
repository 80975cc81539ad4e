//! A user with the role `edit` in one namespace, or with less.

mod access_logs;
mod bombs;
mod escalation;
mod load_balancer;
mod pod_security;

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

/// Lets a user do this in all namespaces.
async fn grant(api: &Api, user: &str, rule: Value) {
    let administrator = access::administrator(api);
    let create = async |collection: &str, object: Value| {
        let path = format!("{RBAC}/{collection}");
        let answer = administrator.request(Method::POST, &path, client::JSON, Some(&object));
        answer.await.expect("a role or a binding");
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

/// A user who may change ConfigMaps and Services, and create none.
async fn writer(api: &Api) -> Client {
    let verbs = ["get", "patch", "update"];
    let rule = json!({"apiGroups": [""], "resources": ["configmaps", "services"], "verbs": verbs});
    grant(api, "writer", rule).await;
    access::with_certificate(api, "writer", "")
}

fn expect_no_creation(answer: Result<Value, ClientError>, resource: &str) {
    let error = answer.expect_err("a refusal").to_string();
    let text = format!("User \"writer\" cannot create resource \"{resource}\"");
    assert!(error.contains(&text), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_nothing_by_apply_without_create() {
    let api = Api::start();
    let writer = writer(&api).await;
    let path = format!("{NAMESPACE}/configmaps/new?fieldManager=writer");
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": {"a": "b"}});
    let answer = writer
        .request(Method::PATCH, &path, APPLY_PATCH, Some(&object))
        .await;
    expect_no_creation(answer, "configmaps");
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_nothing_by_put_without_create() {
    let api = Api::start();
    let writer = writer(&api).await;
    let path = format!("{NAMESPACE}/services/new");
    let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "new"},
                        "spec": {"ports": [{"port": 80}]}});
    let answer = writer
        .request(Method::PUT, &path, client::JSON, Some(&object))
        .await;
    expect_no_creation(answer, "services");
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_no_other_object_by_selecting_the_one_allowed() {
    let api = Api::start();
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"], "resourceNames": ["one"]});
    grant(&api, "creator", rule).await;
    let creator = access::with_certificate(&api, "creator", "");
    let path = format!("{NAMESPACE}/configmaps?fieldSelector=metadata.name%3Done");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}});
    let answer = creator
        .request(Method::POST, &path, client::JSON, Some(&object))
        .await;
    let error = answer.expect_err("a refusal");
    assert_eq!(error.code(), Some(403), "{error}");
}

/// Sends a request of the group system:masters with these headers, each without an end of line; gives the answer.
fn send(api: &Api, headers: &[&[u8]]) -> String {
    let authority = api.directory.path().join("data/pki/ca.crt");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authority).expect("the authority") {
        roots.add(certificate.expect("a certificate")).expect("a root");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connection = ClientConnection::new(Arc::new(config), ServerName::from(api.address.ip()));
    let socket = TcpStream::connect(api.address).expect("the server listens");
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a timeout");
    let mut stream = StreamOwned::new(connection.expect("a connection"), socket);
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
    let mut answer = Vec::new();
    // An end without TLS's own sign for it is an end, too: what came before counts.
    if let Err(error) = stream.read_to_end(&mut answer) {
        println!("the end of the answer: {error}");
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn runs_nothing_as_the_front_proxy_by_an_unreadable_name() {
    let api = Api::start();
    for headers in [
        &[&b"Impersonate-User: jos\xe9"[..]][..],
        &[b"Impersonate-User: ann", b"Impersonate-Group: \xff"],
        &[b"Impersonate-User: ann", b"Impersonate-User: bob"],
        &[b"Impersonate-User: ann", b"Impersonate-Uid: \xff"],
        &[b"Impersonate-Group: system:nodes"],
    ] {
        let answer = send(&api, headers);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    // A name in UTF-8 is a name.
    let answer = send(&api, &["Impersonate-User: josé".as_bytes()]);
    assert!(
        answer.starts_with("HTTP/1.1 403 ") && answer.contains("josé"),
        "{answer}"
    );
}

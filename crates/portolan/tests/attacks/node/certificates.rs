//! Certificates that a node or the holder of a join token must not get, or must not use after removal.

use serde_json::{Value, json};

use super::cluster::{
    Cluster, DNS_NAME, NODE_CLIENT, NODE_PART, NODE_SERVING, Outcome, TestCertificateRequest, post,
};
use crate::access;

#[tokio::test(flavor = "multi_thread")]
async fn node_gets_no_certificates_of_other_components() {
    let cluster = Cluster::start().await;
    let node = access::node(&cluster.api, "one");
    for (name, user, group) in [
        ("shared", "system:portolan-edge", ""),
        ("announcer", "system:portolan-announcer", ""),
        ("grouped", "system:portolan-edge", "system:portolan:edges"),
        ("another", "system:portolan-edge:two", "system:portolan:edges"),
        ("masters", "system:kube-proxy:one", "system:masters"),
    ] {
        let request = TestCertificateRequest {
            name,
            signer: NODE_PART,
            user,
            group,
            names: &[],
        };
        let outcome = cluster.request_certificate(&node, &request).await;
        assert!(matches!(outcome, Outcome::Pending), "{user}: {outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn node_names_of_the_api_server_are_refused() {
    let cluster = Cluster::start().await;
    let names = [
        "Kubernetes.default.svc",
        "*.default.svc",
        "*.svc.cluster.local",
        "web.default.svc.cluster.local",
    ];
    for (index, name) in names.into_iter().enumerate() {
        let request = TestCertificateRequest {
            name: &format!("joining-{index}"),
            signer: NODE_CLIENT,
            user: &format!("system:node:{name}"),
            group: "system:nodes",
            names: &[],
        };
        let outcome = cluster.request_certificate(&cluster.with_token(), &request).await;
        assert!(matches!(outcome, Outcome::Refused(_)), "{name}: {outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn serving_certificates_for_foreign_addresses_are_refused() {
    let cluster = Cluster::start().await;
    let addresses = ["10.96.0.1", "127.0.0.1", "fe80::1", "192.0.2.7"];
    cluster.create_node("one", &addresses).await;
    let node = access::node(&cluster.api, "one");
    for (index, address) in addresses[..3].iter().enumerate() {
        let request = TestCertificateRequest {
            name: &format!("serving-{index}"),
            signer: NODE_SERVING,
            user: "system:node:one",
            group: "system:nodes",
            names: &["one", address],
        };
        let outcome = cluster.request_certificate(&node, &request).await;
        assert!(matches!(outcome, Outcome::Refused(_)), "{address}: {outcome:?}");
    }
    let own = TestCertificateRequest {
        name: "serving-own",
        signer: NODE_SERVING,
        user: "system:node:one",
        group: "system:nodes",
        names: &["one", "192.0.2.7"],
    };
    let outcome = cluster.request_certificate(&node, &own).await;
    assert!(matches!(outcome, Outcome::Signed(..)), "{outcome:?}");
    // Without a Node object the name has no known owner.
    let unregistered = TestCertificateRequest {
        name: "serving-unregistered",
        signer: NODE_SERVING,
        user: "system:node:ghost",
        group: "system:nodes",
        names: &["ghost"],
    };
    let outcome = cluster
        .request_certificate(&access::node(&cluster.api, "ghost"), &unregistered)
        .await;
    assert!(matches!(outcome, Outcome::Pending), "{outcome:?}");
}

/// The name of a Node may have the form of an address, here that of the Service `kubernetes`.
#[tokio::test(flavor = "multi_thread")]
async fn node_name_of_the_form_of_an_address_gives_no_certificate_for_it() {
    let cluster = Cluster::start().await;
    let name = "10.96.0.1";
    cluster.create_node(name, &[]).await;
    let (user, dns_name) = (format!("system:node:{name}"), format!("{DNS_NAME}{name}"));
    let request = TestCertificateRequest {
        name: "address",
        signer: NODE_SERVING,
        user: &user,
        group: "system:nodes",
        names: &[&dns_name],
    };
    let node = access::node(&cluster.api, name);
    let outcome = cluster.request_certificate(&node, &request).await;
    let Outcome::Signed(certificate, _) = outcome else {
        panic!("{outcome:?}");
    };
    let block = x509_parser::pem::Pem::iter_from_buffer(certificate.as_bytes())
        .next()
        .expect("a PEM block")
        .expect("a valid PEM block");
    let certificate = block.parse_x509().expect("a certificate");
    let names = certificate
        .subject_alternative_name()
        .expect("valid extensions")
        .expect("names");
    let addresses = names.value.general_names.iter();
    let mut addresses =
        addresses.filter(|name| matches!(name, x509_parser::extensions::GeneralName::IPAddress(_)));
    assert_eq!(addresses.next(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn join_token_cannot_take_the_name_of_an_unready_node() {
    let cluster = Cluster::start().await;
    cluster.create_node("victim", &["192.0.2.7"]).await;
    let request = TestCertificateRequest {
        name: "taking-over",
        signer: NODE_CLIENT,
        user: "system:node:victim",
        group: "system:nodes",
        names: &[],
    };
    let outcome = cluster.request_certificate(&cluster.with_token(), &request).await;
    let Outcome::Refused(reason) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(reason.contains("--replace victim"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_a_removed_node_are_rejected() {
    let cluster = Cluster::start().await;
    let request = |name| TestCertificateRequest {
        name,
        signer: NODE_CLIENT,
        user: "system:node:lost",
        group: "system:nodes",
        names: &[],
    };
    let outcome = cluster
        .request_certificate(&cluster.with_token(), &request("first"))
        .await;
    let Outcome::Signed(certificate, key) = outcome else {
        panic!("{outcome:?}");
    };
    let lost = cluster.with_certificate(&certificate, &key);
    // The agent registers its Node, unless the signer has created it.
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "lost"}});
    let registered = post(&lost, "/api/v1/nodes", &node).await;
    assert!(registered.is_ok() || registered.is_err_and(|error| error.is_conflict()));
    lost.get::<Value>("/api/v1/nodes/lost")
        .await
        .expect("the Node of the agent");
    let path = "/api/v1/nodes/lost";
    cluster
        .administrator
        .request(http::Method::DELETE, path, client::JSON, None)
        .await
        .expect("a deleted Node");
    let response = lost.get::<Value>("/api/v1/services").await;
    assert_eq!(response.err().and_then(|error| error.code()), Some(401));
    let registered_again = post(&lost, "/api/v1/nodes", &node).await;
    assert_eq!(registered_again.err().and_then(|error| error.code()), Some(401));
}

#[tokio::test(flavor = "multi_thread")]
async fn edge_reads_only_secrets_that_its_services_name() {
    let cluster = Cluster::start().await;
    cluster.create_node("one", &[]).await;
    let secret = |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"a": "b"}});
    let collection = "/api/v1/namespaces/default/secrets";
    for name in ["named", "unnamed"] {
        post(&cluster.administrator, collection, &secret(name))
            .await
            .expect("a Secret");
    }
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "annotations": {"portolan.dev/edge-certificates": "named"}},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 443}]}});
    post(
        &cluster.administrator,
        "/api/v1/namespaces/default/services",
        &service,
    )
    .await
    .expect("a Service");
    let shared = access::with_certificate(&cluster.api, "system:portolan-edge", "");
    let own = access::with_certificate(&cluster.api, "system:portolan-edge:one", "system:portolan:edges");
    let agent = access::node(&cluster.api, "one");
    let announcer = access::with_certificate(
        &cluster.api,
        "system:portolan-announcer:one",
        "system:portolan:announcers",
    );
    for component in [&shared, &own, &agent, &announcer] {
        for path in [
            collection.to_owned(),
            format!("{collection}/unnamed"),
            // The Service has no address of the edge yet.
            format!("{collection}/named"),
        ] {
            let response = component.get::<Value>(&path).await;
            assert_eq!(response.err().and_then(|error| error.code()), Some(403), "{path}");
        }
    }
    let status = json!({"status": {
        "conditions": [{"type": "portolan.dev/AddressAssigned", "status": "True", "reason": "Assigned",
                        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "loadBalancer": {"ingress": [{"ip": "192.0.2.9", "ipMode": "Proxy"}]}}});
    let path = "/api/v1/namespaces/default/services/web/status";
    cluster
        .administrator
        .request(http::Method::PATCH, path, client::MERGE_PATCH, Some(&status))
        .await
        .expect("a status of the Service");
    own.get::<Value>(&format!("{collection}/named"))
        .await
        .expect("the Secret that the Service names");
    for component in [&shared, &agent, &announcer] {
        let response = component.get::<Value>(&format!("{collection}/named")).await;
        assert_eq!(response.err().and_then(|error| error.code()), Some(403));
    }
}

/// A Service names a Secret of another namespace whose annotation does not permit it. The edge must not read it, so
/// that an editor cannot obtain it through an edge.
#[tokio::test(flavor = "multi_thread")]
async fn edge_reads_secrets_of_other_namespaces_only_if_they_permit_it() {
    let cluster = Cluster::start().await;
    cluster.create_node("one", &[]).await;
    let secret = |name: &str, allowed: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "b"},
               "metadata": {"name": name, "annotations": {"portolan.dev/allowed-namespaces": allowed}}})
    };
    let collection = "/api/v1/namespaces/kube-system/secrets";
    for (name, allowed) in [("open", "default"), ("closed", "other")] {
        let created = post(&cluster.administrator, collection, &secret(name, allowed)).await;
        created.expect("a Secret");
    }
    let named = "kube-system/open,kube-system/closed";
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "annotations": {"portolan.dev/edge-certificates": named}},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 443}]}});
    let services = "/api/v1/namespaces/default/services";
    let created = post(&cluster.administrator, services, &service).await;
    created.expect("a Service");
    let status = json!({"status": {
        "conditions": [{"type": "portolan.dev/AddressAssigned", "status": "True", "reason": "Assigned",
                        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "loadBalancer": {"ingress": [{"ip": "192.0.2.9", "ipMode": "Proxy"}]}}});
    let path = format!("{services}/web/status");
    let patched =
        cluster
            .administrator
            .request(http::Method::PATCH, &path, client::MERGE_PATCH, Some(&status));
    patched.await.expect("a status of the Service");
    for (user, group) in [
        ("system:portolan-edge", ""),
        ("system:portolan-edge:one", "system:portolan:edges"),
        ("system:portolan-load-balancer", ""),
    ] {
        let edge = access::with_certificate(&cluster.api, user, group);
        let response = edge.get::<Value>(&format!("{collection}/closed")).await;
        assert_eq!(response.err().and_then(|error| error.code()), Some(403), "{user}");
    }
    let edge = access::with_certificate(&cluster.api, "system:portolan-edge:one", "system:portolan:edges");
    let allowed = edge.get::<Value>(&format!("{collection}/open")).await;
    allowed.expect("a Secret that permits the namespace");
}

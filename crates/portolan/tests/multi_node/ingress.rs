//! Ingresses on a node with `portolan up`: address, routes, certificate, redirect and conflict.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};
use testbed::Backend;

use super::test_cluster::TestCluster;

const SERVER: &str = "node-1";
const ADDRESS: &str = "172.30.0.200";
const TIMEOUT: Duration = Duration::from_secs(10);
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";

/// Creates a Service whose endpoint is the backend.
fn create_service(cluster: &TestCluster, backend: &Backend) {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"ports": [{"name": "http", "port": 80, "targetPort": Backend::HEALTH_PORT}]},
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "web", "labels": {"kubernetes.io/service-name": "web"}},
        "endpoints": [{"addresses": [backend.address.to_string()]}],
        "ports": [{"name": "http", "protocol": "TCP", "port": Backend::HEALTH_PORT}],
    });
    cluster.request(
        SERVER,
        Method::POST,
        "/api/v1/namespaces/default/services",
        Some(&service),
    );
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    cluster.request(SERVER, Method::POST, slices, Some(&slice));
}

fn ingress(host: &str) -> Value {
    let backend = json!({"service": {"name": "web", "port": {"name": "http"}}});
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "web"},
        "spec": {"rules": [{"host": host, "http": {"paths": [
            {"path": "/shop", "pathType": "Prefix", "backend": backend},
        ]}}]},
    })
}

/// Returns the first line of the response to a client outside of the cluster.
fn status(cluster: &TestCluster, host: &str, path: &str) -> Option<String> {
    let request = || {
        let to = SocketAddr::from(([172, 30, 0, 200], 80));
        let mut stream = TcpStream::connect_timeout(&to, TIMEOUT).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut response = String::new();
        stream.read_to_string(&mut response).ok()?;
        response.lines().next().map(str::to_owned)
    };
    let outside = cluster.network().outside().expect("the outside");
    outside.enter(request).expect("a namespace")
}

fn wait_for_status(cluster: &TestCluster, host: &str, path: &str, code: u16) {
    cluster.wait_until(&format!("status {code} of {host}{path}"), |cluster| {
        let line = status(cluster, host, path)?;
        line.starts_with(&format!("HTTP/1.1 {code} ")).then_some(())
    });
}

fn has_event(cluster: &TestCluster, namespace: &str, reason: &str) -> bool {
    let events = cluster.get(SERVER, &format!("/api/v1/namespaces/{namespace}/events"));
    let mut events = events["items"].as_array().expect("a list").iter();
    events.any(|event| event["reason"] == reason && event["involvedObject"]["kind"] == "Ingress")
}

#[test]
fn ingress_is_served_with_paths_certificate_and_one_owner_of_a_host() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(2);
        cluster.up(SERVER, &[&format!("--load-balancer-addresses={ADDRESS}/32")]);
        let member = cluster.network().member("node-2").expect("a node");
        let backend = Backend::start(member).expect("a backend");
        create_service(&cluster, &backend);
        let created = cluster.request(SERVER, Method::POST, INGRESSES, Some(&ingress("shop.test")));
        assert_eq!(
            created["spec"]["ingressClassName"], "portolan",
            "the default class"
        );
        wait_for_status(&cluster, "shop.test", "/shop/1", 200);
        wait_for_status(&cluster, "shop.test", "/other", 404);
        wait_for_status(&cluster, "other.test", "/shop", 404);
        cluster.wait_for("the address in the status", || {
            let ingress = cluster.try_request(SERVER, Method::GET, &format!("{INGRESSES}/web"), None)?;
            Ok(ingress["status"]["loadBalancer"]["ingress"][0]["ip"] == ADDRESS)
        });

        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
        cluster.request(SERVER, Method::POST, "/api/v1/namespaces", Some(&namespace));
        let others = "/apis/networking.k8s.io/v1/namespaces/other/ingresses";
        cluster.request(SERVER, Method::POST, others, Some(&ingress("shop.test")));
        cluster.wait_for("the Event HostConflict", || {
            Ok(has_event(&cluster, "other", "HostConflict"))
        });
        wait_for_status(&cluster, "shop.test", "/shop", 200);

        let pair = rcgen::generate_simple_self_signed(vec!["shop.test".to_owned()]).expect("a certificate");
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": {"name": "shop"},
            "data": {"tls.crt": STANDARD.encode(pair.cert.pem()),
                     "tls.key": STANDARD.encode(pair.signing_key.serialize_pem())},
        });
        let secrets = "/api/v1/namespaces/default/secrets";
        cluster.request(SERVER, Method::POST, secrets, Some(&secret));
        let tls = json!({"spec": {"tls": [{"hosts": ["shop.test"], "secretName": "shop"}]}});
        let web = format!("{INGRESSES}/web");
        cluster.request(SERVER, Method::PATCH, &web, Some(&tls));
        wait_for_status(&cluster, "shop.test", "/shop", 308);

        cluster.request(SERVER, Method::DELETE, &web, None);
        // The other namespace has the host now, and no Service of this name.
        wait_for_status(&cluster, "shop.test", "/shop", 503);
    });
}

//! Access logs in buckets of others: the edge writes with the credentials of the operator.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::json;
use testbed::Backend;

use crate::test_cluster::TestCluster;

const SERVER: &str = "node-1";
const ADDRESS: &str = "172.30.0.200";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// Responds with 200 to each request, and records if one of them names the bucket.
fn serve_buckets(listener: TcpListener, was_written: &AtomicBool) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { return };
        let mut text = [0; 4_096];
        let octets = stream.read(&mut text).unwrap_or_default();
        if octets == 0 {
            // The test ends the loop with an empty connection.
            return;
        }
        if String::from_utf8_lossy(&text[..octets]).contains("/of-somebody-else/") {
            was_written.store(true, Ordering::Relaxed);
        }
        // Errors are irrelevant: the request has been recorded.
        drop(
            stream.write_all(
                b"HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            ),
        );
    }
}

#[test]
fn edge_writes_access_logs_only_to_permitted_buckets() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(2);
        let buckets = SocketAddr::new(cluster.address("node-2"), 9_000);
        let host = cluster.network().member("node-2").expect("a node");
        let listener = host.enter(|| TcpListener::bind(buckets)).expect("a namespace");
        let listener = listener.expect("a port");
        let was_written = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| serve_buckets(listener, &was_written));
            let endpoint = format!("--edge-access-log-s3-endpoint=http://{buckets}");
            let pool = format!("--load-balancer-addresses={ADDRESS}-{ADDRESS}");
            cluster.up(SERVER, &[&endpoint, &pool]);
            let backend = Backend::start(cluster.network().member("control-plane").expect("a node"));
            let backend = backend.expect("a backend");
            let slice = json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": "web", "labels": {"kubernetes.io/service-name": "web"}},
                "endpoints": [{"addresses": [backend.address]}],
                "ports": [{"name": "http", "protocol": "TCP", "port": Backend::HEALTH_PORT}],
            });
            cluster.request(SERVER, Method::POST, SLICES, Some(&slice));
            let prefix = "service.beta.kubernetes.io/aws-load-balancer";
            let service = json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": "web", "annotations": {
                    format!("{prefix}-backend-protocol"): "http",
                    format!("{prefix}-access-log-enabled"): "true",
                    format!("{prefix}-access-log-s3-bucket-name"): "of-somebody-else",
                    format!("{prefix}-access-log-s3-bucket-prefix"): "../other",
                }},
                "spec": {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80}]},
            });
            cluster.request(SERVER, Method::POST, SERVICES, Some(&service));
            let outside = || cluster.network().outside().expect("the outside");
            cluster.wait_until("a response", |_| {
                let request = || {
                    let to: SocketAddr = format!("{ADDRESS}:80").parse().ok()?;
                    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(2)).ok()?;
                    stream
                        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                        .ok()?;
                    let mut response = String::new();
                    stream.read_to_string(&mut response).ok()?;
                    response.starts_with("HTTP/1.1 ").then_some(())
                };
                outside().enter(request).expect("a namespace")
            });
            // The edge writes the log at shutdown.
            cluster.stop(SERVER);
            let host = cluster.network().member("node-2").expect("a node");
            let last = host.enter(|| TcpStream::connect(buckets)).expect("a namespace");
            drop(last.expect("a connection"));
            serving.join().expect("the thread of the bucket server");
        });
        assert!(
            !was_written.load(Ordering::Relaxed),
            "the edge wrote to a bucket that is not permitted"
        );
    });
}

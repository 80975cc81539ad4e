//! Access logs into places of others: the edge writes with the operator's credentials.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::json;
use testbed::Backend;

use crate::lab::Lab;

const SERVER: &str = "node-1";
const ADDRESS: &str = "172.30.0.200";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// Answers each request well, and remembers that there was one that names the bucket.
fn serve_buckets(listener: TcpListener, was_written: &AtomicBool) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { return };
        let mut text = [0; 4_096];
        let octets = stream.read(&mut text).unwrap_or_default();
        if octets == 0 {
            // The end of the test connects and says nothing.
            return;
        }
        if String::from_utf8_lossy(&text[..octets]).contains("/of-somebody-else/") {
            was_written.store(true, Ordering::Relaxed);
        }
        // Whatever becomes of it: the request was made.
        drop(
            stream.write_all(
                b"HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            ),
        );
    }
}

#[test]
fn writes_no_log_into_a_bucket_that_the_operator_has_not_named() {
    testbed::in_namespace(|| {
        let mut lab = Lab::new(2);
        let buckets = SocketAddr::new(lab.address("node-2"), 9_000);
        let machine = lab.cluster().member("node-2").expect("a machine");
        let listener = machine.enter(|| TcpListener::bind(buckets)).expect("a namespace");
        let listener = listener.expect("a port");
        let was_written = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| serve_buckets(listener, &was_written));
            let endpoint = format!("--edge-access-log-s3-endpoint=http://{buckets}");
            let pool = format!("--load-balancer-addresses={ADDRESS}-{ADDRESS}");
            lab.up(SERVER, &[&endpoint, &pool]);
            let backend = Backend::start(lab.cluster().member("control-plane").expect("a machine"));
            let backend = backend.expect("its ports");
            let slice = json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": "web", "labels": {"kubernetes.io/service-name": "web"}},
                "endpoints": [{"addresses": [backend.address]}],
                "ports": [{"name": "http", "protocol": "TCP", "port": Backend::HEALTH_PORT}],
            });
            lab.ask(SERVER, Method::POST, SLICES, Some(&slice));
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
            lab.ask(SERVER, Method::POST, SERVICES, Some(&service));
            let outside = || lab.cluster().outside().expect("the outside");
            lab.until("an answer", |_| {
                let ask = || {
                    let to: SocketAddr = format!("{ADDRESS}:80").parse().ok()?;
                    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(2)).ok()?;
                    stream
                        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                        .ok()?;
                    let mut answer = String::new();
                    stream.read_to_string(&mut answer).ok()?;
                    answer.starts_with("HTTP/1.1 ").then_some(())
                };
                outside().enter(ask).expect("a namespace")
            });
            // Its end has the log written.
            lab.end(SERVER);
            let machine = lab.cluster().member("node-2").expect("a machine");
            let last = machine
                .enter(|| TcpStream::connect(buckets))
                .expect("a namespace");
            drop(last.expect("a connection"));
            serving.join().expect("no panic");
        });
        assert!(
            !was_written.load(Ordering::Relaxed),
            "the log is in a bucket of somebody else"
        );
    });
}

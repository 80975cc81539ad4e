//! Probes of backends, which the controllers send from their host.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, TcpListener};

use http::Method;
use serde_json::{Value, json};

use crate::test_cluster::TestCluster;

const SERVER: &str = "node-1";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// Returns a slice with one endpoint that is not ready, and its probe.
fn slice(name: &str, address: IpAddr, probe: &Value) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "labels": {"endpointslice.kubernetes.io/managed-by": "backend-health.portolan.dev"},
            "annotations": {"portolan.dev/readiness-probe": probe.to_string()},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": false}}],
        "ports": [{"protocol": "TCP", "port": 80}],
    })
}

#[test]
fn probes_of_backends_reach_no_loopback_address_of_the_server() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(1);
        cluster.up(SERVER, &[]);
        let own = cluster.address(SERVER);
        let listen = |address: IpAddr| {
            let host = cluster.network().member(SERVER).expect("a node");
            let listener = host.enter(|| TcpListener::bind((address, 0)));
            let listener = listener.expect("a namespace").expect("a port");
            listener
                .set_nonblocking(true)
                .expect("a listener that does not block");
            let port = listener.local_addr().expect("an address").port();
            (listener, port)
        };
        let (internal, internal_port) = listen(Ipv4Addr::LOCALHOST.into());
        let (_backend, backend_port) = listen(own);
        let named = json!({"tcpSocket": {"host": "127.0.0.1", "port": internal_port}, "periodSeconds": 1});
        let plain = json!({"tcpSocket": {"port": backend_port}, "periodSeconds": 1});
        let slices = [slice("named", own, &named), slice("plain", own, &plain)];
        for slice in &slices {
            cluster.request(SERVER, Method::POST, SLICES, Some(slice));
        }
        let is_ready = |cluster: &TestCluster, name: &str| {
            let slice = cluster.get(SERVER, &format!("{SLICES}/{name}"));
            slice["endpoints"][0]["conditions"]["ready"] == true
        };
        // The controller receives the slices in this order.
        cluster.wait_until("a backend that is ready", |cluster| {
            is_ready(cluster, "plain").then_some(())
        });
        assert!(!is_ready(&cluster, "named"), "the controller probes another host");
        let accepted = internal.accept();
        assert!(
            matches!(&accepted, Err(error) if error.kind() == ErrorKind::WouldBlock),
            "the controller connects to its loopback address: {accepted:?}"
        );
    });
}

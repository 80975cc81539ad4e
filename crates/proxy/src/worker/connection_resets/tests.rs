use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use client::Event;
use dataplane::userspace::{Options, UserspaceDataplane};
use netlink::conntrack::Conntrack;
use netlink::route::{Connection, Route};
use serde_json::json;

use super::*;
use crate::config::Config;
use crate::reports::events::Events;
use crate::worker::Update;
use crate::worker::tests::{annotated, sync};

const NODE: &str = "192.0.2.1";
const ENDPOINT: &str = "192.0.2.2";

#[test]
fn pass_ends_no_more_connections_than_it_has_room_for() {
    let mut pass = ResetPass {
        room: 3,
        is_exceeded: false,
    };
    assert_eq!((pass.take(2), pass.take(1)), (2, 1));
    assert!(!pass.is_exceeded);
    assert_eq!((pass.take(0), pass.take(5)), (0, 0));
    assert!(pass.is_exceeded);
}

/// Returns a worker of userspace mode on a host that is node, client and endpoint. Service `ns/a` has port ranges.
fn userspace_worker() -> Worker<UserspaceDataplane> {
    let mut connection = Connection::open().expect("a connection");
    let name = "lo".parse().expect("a name");
    let loopback = connection.link_index(&name).expect("a link");
    for address in [NODE, ENDPOINT] {
        let address = format!("{address}/32").parse().expect("an address");
        connection
            .add_address(loopback, address)
            .expect("an added address");
    }
    let route = Route::on_link("10.96.0.0/16".parse().expect("a network"), loopback);
    connection.add_route(&route).expect("a route");
    let config = Config {
        node_name: "node-a".to_owned(),
        proxy_mode: "userspace".to_owned(),
        ..Config::default()
    };
    let mut worker = Worker::new(
        config,
        UserspaceDataplane::open(Options::default()).expect("a data plane"),
        Some(Conntrack::open().expect("connection tracking")),
        vec![NODE.parse().expect("IP")],
        Arc::default(),
        Events::discarding(),
    );
    let annotations = json!({"service.portolan.dev/port-ranges": "1024-65535"});
    worker.apply_update(annotated(&annotations, "None"));
    let slice = json!({
        "metadata": {"namespace": "ns", "name": "a-1", "labels": {"kubernetes.io/service-name": "a"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 8080}],
        "endpoints": [{"addresses": [ENDPOINT]}],
    });
    let slice = serde_json::from_value(slice).expect("a slice");
    worker.apply_update(Update::Slice(Event::Applied(slice)));
    sync(&mut worker);
    worker.apply().expect("applied rules");
    worker
}

/// In userspace mode, the connections to port ranges do not pass through the process.
#[test]
fn connection_of_port_range_to_lost_endpoint_ends_in_userspace_mode() {
    testbed::in_namespace(|| {
        let mut worker = userspace_worker();
        let listener = TcpListener::bind((ENDPOINT, 0)).expect("a listener");
        let port = listener.local_addr().expect("an address").port();
        let _client = TcpStream::connect(("10.96.0.1", port)).expect("a connection");
        for (address, expected) in [(NODE, 0), (ENDPOINT, 1)] {
            let lost = (ObjectKey::new("ns", "a"), address.parse().expect("IP"));
            worker.reset_lost(&ServiceEndpoints::from([lost]));
            let status = worker.shared_status.metrics.status();
            assert_eq!(status["resetConnections"], json!(expected), "{address}");
        }
    });
}

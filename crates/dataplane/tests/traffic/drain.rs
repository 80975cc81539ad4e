//! A connection whose endpoint has left continues until its conntrack entry is deleted; then its client gets a reset.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use api::object::{EndpointSlice, Service};
use dataplane::Dataplane;
use dataplane::nftables::{NftablesDataplane, Options};
use netlink::conntrack::{Conntrack, Family};
use plan::{Plan, Settings};
use serde_json::json;

use crate::world::World;

const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
const CLIENT: usize = 2;
const SERVER: usize = 3;

/// NFT-22: packets of connections that the kernel no longer tracks are not dropped as INVALID.
#[test]
fn drained_connections_are_reset_with_and_without_endpoints() {
    testbed::in_namespace(|| {
        let world = World::new();
        for others in [&["10.244.2.2"][..], &[]] {
            drain(&world, others);
        }
    });
}

fn drain(world: &World, others: &[&str]) {
    let (client, server) = (&world.members[CLIENT], &world.members[SERVER]);
    let at = SocketAddr::new(server.addresses[0], 9_000);
    let listener = server.enter(|| TcpListener::bind(at).unwrap());
    let mut plan = Plan::new(Settings::default());
    let mut dataplane = world
        .node()
        .enter(|| NftablesDataplane::open(Options::default()).unwrap());
    put(&mut plan, &[&at.ip().to_string()]);
    apply(&mut plan, &mut dataplane);

    let frontend: SocketAddr = "10.96.0.1:80".parse().unwrap();
    let mut client_stream = client.enter(|| TcpStream::connect_timeout(&frontend, REPLY_TIMEOUT).unwrap());
    client_stream.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
    let (mut serving, _) = listener.accept().unwrap();
    serving.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
    say(&mut client_stream, &mut serving);

    put(&mut plan, others);
    apply(&mut plan, &mut dataplane);
    say(&mut client_stream, &mut serving);

    world.node().enter(|| {
        let mut conntrack = Conntrack::open().unwrap();
        let flows = conntrack.flows(Family::V4, 6, |flow| flow.original.destination == frontend);
        for flow in flows.unwrap() {
            conntrack.delete(&flow).unwrap();
        }
    });
    client_stream.write_all(b"x").unwrap();
    let error = client_stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "with {others:?} left");
}

fn say(from: &mut TcpStream, to: &mut TcpStream) {
    from.write_all(b"x").unwrap();
    let mut received = [0];
    to.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"x");
}

fn apply(plan: &mut Plan, dataplane: &mut NftablesDataplane) {
    let changes = plan.take_changes();
    assert_eq!(dataplane.apply(plan, &changes).unwrap().skipped, []);
}

fn put(plan: &mut Plan, endpoints: &[&str]) {
    let service: Service = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "s", "annotations": {"service.portolan.dev/drain-seconds": "1"}},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]},
    }))
    .unwrap();
    let endpoints: Vec<_> = endpoints.iter().map(|ip| json!({"addresses": [ip]})).collect();
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 9000}], "endpoints": endpoints,
    }))
    .unwrap();
    plan.apply_service(&service);
    plan.apply_slice(&slice);
}

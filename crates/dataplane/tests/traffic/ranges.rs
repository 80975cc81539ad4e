//! Port ranges: the endpoint gets the port of the client, and a client keeps its endpoint.

use std::net::{IpAddr, SocketAddr};

use api::object::{EndpointSlice, Protocol, Service};
use dataplane::Dataplane;
use plan::{Plan, Settings};
use serde_json::{Value, json};

use crate::Mode;
use crate::schedulers::opened;
use crate::world::{Outcome, POD_PORTS, World};

const CLIENT: usize = 1;
const ENDPOINTS: [[&str; 3]; 2] = [
    ["10.244.1.2", "10.244.1.3", "10.244.2.2"],
    ["fd00:244:1::2", "fd00:244:1::3", "fd00:244:2::2"],
];
const CLUSTER_IPS: [&str; 2] = ["10.96.0.1", "fd00:10:96::1"];
const BALANCED: [&str; 2] = ["203.0.113.1", "2001:db8:1::1"];
const EXTERNAL: [&str; 2] = ["198.51.100.1", "2001:db8::1"];
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const PROTOCOLS: [Protocol; 2] = [Protocol::Tcp, Protocol::Udp];

/// A range keeps the port, a named port precedes it, source ranges restrict it, and one client meets one endpoint.
pub(crate) fn ranges_keep_the_port(mode: Mode) {
    let world = World::new();
    let mut dataplane = opened(&world, mode);
    let mut plan = Plan::new(Settings {
        node_addresses: World::node_addresses(),
        ..Settings::default()
    });
    let put =
        |plan: &mut Plan, dataplane: &mut Box<dyn Dataplane + Send>, service: Value, endpoints: usize| {
            let service: Service = serde_json::from_value(service).unwrap();
            plan.apply_service(&service);
            for family in 0..2 {
                plan.apply_slice(&slice(family, endpoints));
            }
            let changes = plan.take_changes();
            let (applied, drift) = world.node().enter(|| {
                let applied = dataplane.apply(plan, &changes).unwrap();
                (applied, dataplane.repair(plan).unwrap())
            });
            assert_eq!(applied.skipped, []);
            assert_eq!(drift, 0);
        };
    put(
        &mut plan,
        &mut dataplane,
        service("8000-8080,8081-9000/TCP,8000-9000/UDP", json!([])),
        3,
    );
    for protocol in PROTOCOLS {
        for destination in CLUSTER_IPS.iter().chain(&BALANCED).chain(&EXTERNAL) {
            let reached = POD_PORTS.map(|port| endpoint(&world, protocol, destination, port));
            let ports = reached.map(|at| at.port());
            assert_eq!(ports, POD_PORTS, "the port of the client stays at {destination}");
            let [one, other] = reached.map(|at| at.ip());
            assert_eq!(
                one, other,
                "two ports of a range meet one endpoint at {destination}"
            );
        }
        let named = endpoint(&world, protocol, CLUSTER_IPS[0], 8005);
        assert_eq!(named.port(), POD_PORTS[1], "the named port precedes the range");
        assert_eq!(request(&world, protocol, CLUSTER_IPS[0], 9001), Outcome::Refused);
    }
    assert_clients_meet_one_endpoint(&world);

    put(
        &mut plan,
        &mut dataplane,
        service("all", json!(["192.0.2.0/24", "2001:db8:9::/64"])),
        3,
    );
    assert_eq!(
        endpoint(&world, Protocol::Udp, EXTERNAL[0], POD_PORTS[0]).port(),
        POD_PORTS[0]
    );
    for destination in BALANCED {
        let to = SocketAddr::new(destination.parse().unwrap(), POD_PORTS[0]);
        let outcome = world.members[CLIENT]
            .open(Protocol::Udp, to.ip(), 0)
            .request(to, false);
        assert_eq!(
            outcome,
            Outcome::NoResponse,
            "the source ranges do not admit the client"
        );
    }

    put(&mut plan, &mut dataplane, service("all", json!([])), 0);
    assert_eq!(
        request(&world, Protocol::Udp, EXTERNAL[1], 4000),
        Outcome::Refused
    );
    put(&mut plan, &mut dataplane, service("8080/TCP", json!([])), 1);
    assert_eq!(
        endpoint(&world, Protocol::Tcp, EXTERNAL[1], 8080).to_string(),
        "[fd00:244:1::2]:8080"
    );
    assert_eq!(
        request(&world, Protocol::Tcp, CLUSTER_IPS[1], 8081),
        Outcome::Refused
    );
}

/// Checks that two connections of a client reach the same endpoint.
fn assert_clients_meet_one_endpoint(world: &World) {
    let to = SocketAddr::new(CLUSTER_IPS[0].parse().unwrap(), POD_PORTS[0]);
    for member in &world.members[1..4] {
        // The sockets are open at the same time, so their ports differ.
        let clients = [(); 2].map(|()| member.open(Protocol::Tcp, to.ip(), 0));
        let answered_by = clients.map(|client| match client.request(to, true) {
            Outcome::Answered { by, .. } => by,
            outcome => panic!("{}: {outcome:?}", member.name),
        });
        assert_eq!(
            answered_by[0], answered_by[1],
            "{} meets one endpoint",
            member.name
        );
    }
}

fn endpoint(world: &World, protocol: Protocol, destination: &str, port: u16) -> SocketAddr {
    match request(world, protocol, destination, port) {
        Outcome::Answered { by, .. } => by,
        outcome => panic!("{destination} port {port}/{}: {outcome:?}", protocol.as_str()),
    }
}

fn request(world: &World, protocol: Protocol, destination: &str, port: u16) -> Outcome {
    let address: IpAddr = destination.parse().unwrap();
    world.members[CLIENT]
        .open(protocol, address, 0)
        .request(SocketAddr::new(address, port), true)
}

fn service(ranges: &str, source_ranges: Value) -> Value {
    let named = |protocol: &str| json!({"name": protocol.to_lowercase(), "protocol": protocol, "port": 8005});
    json!({
        "metadata": {"namespace": "ns", "name": "s", "annotations": {"service.portolan.dev/port-ranges": ranges}},
        "spec": {
            "type": "LoadBalancer", "clusterIP": CLUSTER_IPS[0], "clusterIPs": CLUSTER_IPS,
            "ipFamilies": ["IPv4", "IPv6"], "externalIPs": EXTERNAL, "loadBalancerSourceRanges": source_ranges,
            "ports": [named("TCP"), named("UDP")],
        },
        "status": {"loadBalancer": {"ingress": BALANCED.map(|ip| json!({"ip": ip}))}},
    })
}

fn slice(family: usize, endpoints: usize) -> EndpointSlice {
    let addresses = ENDPOINTS[family].iter().take(endpoints);
    let endpoints: Vec<Value> = addresses.map(|ip| json!({"addresses": [ip]})).collect();
    let port =
        |protocol: &str| json!({"name": protocol.to_lowercase(), "protocol": protocol, "port": POD_PORTS[1]});
    let slice = json!({
        "metadata": {"namespace": "ns", "name": format!("s-{family}"),
            "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": FAMILIES[family], "ports": [port("TCP"), port("UDP")], "endpoints": endpoints,
    });
    serde_json::from_value(slice).unwrap()
}

//! Echo requests: the node answers for Services with endpoints.

use std::net::IpAddr;

use api::object::{EndpointSlice, Service};
use dataplane::Dataplane;
use plan::{NodeFacts, Plan, Settings, Verdict};
use serde_json::{Value, json};

use crate::Mode;
use crate::schedulers::opened;
use crate::world::{Echo, Member, World};

const CLUSTER_IPS: [&str; 2] = ["10.96.0.1", "fd00:10:96::1"];
const BALANCED: [&str; 2] = ["203.0.113.1", "2001:db8:1::1"];
const ENDPOINTS: [&str; 2] = ["10.244.2.2", "fd00:244:2::2"];
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const UNASSIGNED: [&str; 2] = ["10.96.0.99", "fd00:10:96::99"];

/// Every client gets the reply from the address that it pinged, while the Service has an endpoint. Otherwise it gets an
/// error, or nothing where packets are dropped.
pub(crate) fn node_answers(mode: Mode) {
    let world = World::new();
    let mut dataplane = opened(&world, mode);
    assert_eq!(dataplane.answers_ping(), mode.answers_ping);
    if !mode.answers_ping {
        return;
    }
    for (answers_ping, has_endpoint, source_ranges) in [
        (true, true, json!([])),
        (true, false, json!([])),
        (true, true, json!(["172.30.0.100/32", "fd00:30::100/128"])),
        (false, true, json!([])),
        (true, true, json!([])),
    ] {
        let mut plan = Plan::new(Settings {
            node_name: "node".to_owned(),
            node_addresses: World::node_addresses(),
            service_cidrs: crate::nets(["10.96.0.0/24", "fd00:10:96::/120"]),
            answers_ping,
            ..Settings::default()
        });
        plan.set_node(NodeFacts {
            ips: world.node().addresses.to_vec(),
            ..NodeFacts::default()
        });
        plan.apply_service(&service(source_ranges));
        for family in 0..2 {
            plan.apply_slice(&slice(family, has_endpoint));
        }
        apply(&world, &mut dataplane, &mut plan);
        for client in world.members.iter().filter(|client| client.name != "remote") {
            for destination in CLUSTER_IPS.iter().chain(&BALANCED).chain(&UNASSIGNED) {
                let destination = destination.parse().unwrap();
                assert_echo(&plan, client, client.source_towards(destination), destination);
            }
        }
    }
}

/// Compares the outcome of an echo request with the plan.
pub(crate) fn assert_echo(plan: &Plan, client: &Member, source: IpAddr, destination: IpAddr) {
    let decision = plan.decide_ping(source, destination, client.near_interface());
    let expected = match decision.verdict {
        Verdict::Answered => Echo::Reply { from: destination },
        Verdict::NoEndpoints | Verdict::UndefinedPort => Echo::Refused,
        Verdict::NoLocalEndpoints | Verdict::OutOfSourceRanges | Verdict::Unallocated => Echo::NoResponse,
        Verdict::NotAService => return,
        Verdict::Balanced { .. } => panic!("{decision:?}"),
    };
    let outcome = client.ping(destination, expected != Echo::NoResponse);
    assert_eq!(
        outcome, expected,
        "{} to {destination}: {decision:?}",
        client.name
    );
}

fn apply(world: &World, dataplane: &mut Box<dyn Dataplane + Send>, plan: &mut Plan) {
    let changes = plan.take_changes();
    let plan = &*plan;
    let (applied, drift) = world.node().enter(|| {
        let applied = dataplane.apply(plan, &changes).unwrap();
        (applied, dataplane.repair(plan).unwrap())
    });
    assert_eq!(applied.skipped, []);
    assert_eq!(drift, 0);
}

fn service(source_ranges: Value) -> Service {
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "s"},
        "spec": {
            "type": "LoadBalancer", "clusterIP": CLUSTER_IPS[0], "clusterIPs": CLUSTER_IPS,
            "ipFamilies": ["IPv4", "IPv6"], "ports": [{"name": "p", "port": 80}],
            "loadBalancerSourceRanges": source_ranges,
        },
        "status": {"loadBalancer": {"ingress": BALANCED.map(|ip| json!({"ip": ip}))}},
    }))
    .unwrap()
}

fn slice(family: usize, has_endpoint: bool) -> EndpointSlice {
    let endpoints = ENDPOINTS[family..].iter().take(usize::from(has_endpoint));
    let endpoints: Vec<Value> = endpoints.map(|ip| json!({"addresses": [ip]})).collect();
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": format!("s-{family}"),
            "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": FAMILIES[family], "ports": [{"name": "p", "port": 8080}], "endpoints": endpoints,
    }))
    .unwrap()
}

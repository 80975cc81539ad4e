use plan::{NodePortAddresses, Settings};
use serde_json::{Value, json};

use super::*;

const NODE: &str = "172.30.0.11";

fn planned(service: Value, scheduler: Scheduler) -> Vec<PlannedServer> {
    let mut plan = Plan::new(Settings {
        node_name: "node-a".to_owned(),
        node_addresses: vec![NODE.parse().unwrap(), "127.0.0.1".parse().unwrap()],
        node_port_addresses: NodePortAddresses::All,
        default_scheduler: scheduler,
        ..Settings::default()
    });
    let slice = json!({
        "metadata": {"namespace": "ns", "name": "s", "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": [
            {"addresses": ["10.244.1.2"], "nodeName": "node-a"},
            {"addresses": ["10.244.2.2"], "nodeName": "node-b"},
        ],
    });
    plan.apply_service(&serde_json::from_value(service).unwrap());
    plan.apply_slice(&serde_json::from_value(slice).unwrap());
    plan.take_changes();
    let service = plan.services().next().unwrap().clone();
    servers_of(&plan, &service)
}

fn service(spec: Value) -> Value {
    let mut service = json!({
        "metadata": {"namespace": "ns", "name": "s"},
        "spec": {
            "type": "LoadBalancer", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"],
            "externalIPs": ["203.0.113.1", NODE],
            "ports": [{"name": "http", "port": 80, "nodePort": 30_000}],
        },
    });
    for (field, value) in spec.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    service
}

fn find(servers: &[PlannedServer], address: &str, port: u16) -> PlannedServer {
    let address: IpAddr = address.parse().unwrap();
    let mut found = servers.iter();
    let is_it =
        |planned: &&PlannedServer| planned.server.id.address == address && planned.server.id.port == port;
    found.find(is_it).cloned().unwrap()
}

/// IPV-01: cluster IP, external IPs, and the node port at each address of the node that is not a loopback address.
#[test]
fn each_address_has_a_virtual_server() {
    let servers = planned(service(json!({})), Scheduler::RoundRobin);
    assert_eq!(servers.len(), 4);
    for (address, port, needs_address) in [
        ("10.96.0.1", 80, true),
        ("203.0.113.1", 80, true),
        (NODE, 80, false),
        (NODE, 30_000, false),
    ] {
        let planned = find(&servers, address, port);
        assert_eq!(planned.needs_address, needs_address, "{address}");
        assert_eq!(planned.destinations.len(), 2);
        assert_eq!(planned.server.scheduler, "rr");
        assert_eq!(planned.server.persistence_seconds, None);
    }
}

/// EPT-03: external policy Local gives external addresses the endpoints of this node.
#[test]
fn local_policy_selects_endpoints_of_the_node() {
    let servers = planned(
        service(json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 31_000})),
        Scheduler::RoundRobin,
    );
    let local: BTreeSet<SocketAddr> = ["10.244.1.2:8080".parse().unwrap()].into();
    assert_eq!(find(&servers, "203.0.113.1", 80).destinations, local);
    assert_eq!(find(&servers, NODE, 30_000).destinations, local);
    assert_eq!(find(&servers, "10.96.0.1", 80).destinations.len(), 2);
}

/// IPV-03: affinity is persistence with its timeout.
#[test]
fn affinity_becomes_persistence() {
    let servers = planned(
        service(json!({"sessionAffinity": "ClientIP"})),
        Scheduler::RoundRobin,
    );
    assert_eq!(
        find(&servers, "10.96.0.1", 80).server.persistence_seconds,
        Some(10_800)
    );
}

/// IPV-02: schedulers have the names of the kernel.
#[test]
fn schedulers_have_names_of_the_kernel() {
    for scheduler in Scheduler::ALL {
        let servers = planned(service(json!({})), scheduler);
        let Some(first) = servers.first() else {
            assert_eq!(scheduler, Scheduler::Random);
            continue;
        };
        let name = match scheduler {
            Scheduler::Maglev => "mh",
            other => other.as_str(),
        };
        assert_eq!(first.server.scheduler, name);
        let flags = match name {
            "mh" => VirtualServer::FALLBACK | VirtualServer::HASH_PORT,
            "sh" => VirtualServer::FALLBACK,
            _ => 0,
        };
        assert_eq!(first.server.scheduler_flags, flags, "{name}");
    }
}

//! IPVS mode: the data plane for the tests of all modes, and behaviour that only virtual servers have.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use api::object::{EndpointSlice, ObjectKey, Protocol, Service};
use dataplane::Dataplane;
use dataplane::ipvs::{IpvsDataplane, LINK, Options, Timeouts, cleanup};
use netlink::ipvs::{Ipvs, ServerId, VirtualServer};
use netlink::route::{Connection, LinkName};
use plan::{NodePortAddresses, Plan, Scheduler, Settings};
use serde_json::json;

use crate::Opened;
use crate::world::{Outcome, World};

const CLIENT: usize = 1;
const CLUSTER_IP: &str = "10.96.0.1";
const PODS: [&str; 2] = ["10.244.1.2", "10.244.1.3"];
/// Virtual server of another program.
const FOREIGN: &str = "192.0.2.1";

/// Opens the data plane; skips the test if the kernel has no IPVS. Datagram flows end soon, because the clients use
/// their ports again.
pub(crate) fn open() -> Opened {
    let dataplane = IpvsDataplane::open(Options {
        timeouts: Timeouts {
            udp_seconds: 1,
            ..Timeouts::default()
        },
        excluded: vec![format!("{FOREIGN}/32").parse().unwrap()],
        ..Options::default()
    })?;
    if let Some(fault) = dataplane.fault() {
        testbed::skip_inside(fault);
    }
    Ok(Box::new(dataplane))
}

fn plan() -> Plan {
    Plan::new(Settings {
        node_name: "node".to_owned(),
        node_addresses: World::node_addresses(),
        node_port_addresses: NodePortAddresses::Within(crate::nets(["0.0.0.0/0", "::/0"])),
        default_scheduler: Scheduler::RoundRobin,
        ..Settings::default()
    })
}

fn put(plan: &mut Plan, annotations: serde_json::Value, endpoints: &[&str]) {
    let service: Service = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "s", "annotations": annotations},
        "spec": {"clusterIP": CLUSTER_IP, "ports": [{"port": 80}]},
    }))
    .unwrap();
    let endpoints: Vec<_> = endpoints.iter().map(|ip| json!({"addresses": [ip]})).collect();
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 8080}], "endpoints": endpoints,
    }))
    .unwrap();
    plan.apply_service(&service);
    plan.apply_slice(&slice);
}

fn apply(world: &World, dataplane: &mut Box<dyn Dataplane + Send>, plan: &mut Plan) {
    let changes = plan.take_changes();
    let applied = world.node().enter(|| dataplane.apply(plan, &changes).unwrap());
    assert_eq!(applied.skipped, []);
    assert_eq!(dataplane.fault(), None);
}

fn server() -> ServerId {
    ServerId {
        address: CLUSTER_IP.parse().unwrap(),
        protocol: Protocol::Tcp.number(),
        port: 80,
    }
}

fn weights(world: &World) -> Vec<(String, u32)> {
    let found = world
        .node()
        .enter(|| Ipvs::open().unwrap().destinations(server()).unwrap());
    let mut weights: Vec<(String, u32)> = found
        .iter()
        .map(|destination| (destination.address.ip().to_string(), destination.weight))
        .collect();
    weights.sort();
    weights
}

fn request(world: &World) -> String {
    let frontend = SocketAddr::new(CLUSTER_IP.parse().unwrap(), 80);
    let client = world.members[CLIENT].open(Protocol::Tcp, frontend.ip(), 0);
    match client.request(frontend, true) {
        Outcome::Answered { by, .. } => by.ip().to_string(),
        outcome => panic!("{outcome:?}"),
    }
}

/// IPV-02: every scheduler of the documentation serves connections, and a Service selects its own.
#[test]
fn annotation_selects_scheduler() {
    testbed::in_namespace(|| {
        let world = World::new();
        let mut dataplane = world.node().enter(open).unwrap();
        let mut plan = plan();
        for scheduler in Scheduler::ALL
            .into_iter()
            .filter(|scheduler| *scheduler != Scheduler::Random)
        {
            put(
                &mut plan,
                json!({"service.portolan.dev/scheduler": scheduler.as_str()}),
                &PODS,
            );
            apply(&world, &mut dataplane, &mut plan);
            assert!(dataplane.supports(scheduler), "{}", scheduler.as_str());
            let servers = world.node().enter(|| Ipvs::open().unwrap().servers().unwrap());
            let expected = match scheduler {
                Scheduler::Maglev => "mh",
                other => other.as_str(),
            };
            assert_eq!(
                servers
                    .iter()
                    .map(|found| found.scheduler.as_str())
                    .collect::<Vec<_>>(),
                [expected]
            );
            assert!(PODS.contains(&request(&world).as_str()));
        }
    });
}

/// IPV-04: a TCP endpoint that leaves receives no new connections, and is deleted when it has none.
#[test]
fn leaving_endpoint_gets_weight_zero() {
    testbed::in_namespace(|| {
        let world = World::new();
        let mut dataplane = world.node().enter(open).unwrap();
        let mut plan = plan();
        put(&mut plan, json!({}), &PODS);
        apply(&world, &mut dataplane, &mut plan);
        let served: BTreeSet<String> = (0..2).map(|_| request(&world)).collect();
        assert_eq!(served.len(), 2);
        put(&mut plan, json!({}), &PODS[..1]);
        apply(&world, &mut dataplane, &mut plan);
        // The connection of the client to the second Pod is still in TIME_WAIT.
        assert_eq!(
            weights(&world),
            [(PODS[0].to_owned(), 1), (PODS[1].to_owned(), 0)]
        );
        assert!((0..4).all(|_| request(&world) == PODS[0]));
        put(&mut plan, json!({}), &PODS);
        apply(&world, &mut dataplane, &mut plan);
        assert_eq!(
            weights(&world),
            [(PODS[0].to_owned(), 1), (PODS[1].to_owned(), 1)]
        );
    });
}

/// KPF-23, KPR-09: virtual servers of kube-proxy are taken over or removed, those of other programs stay.
#[test]
fn takes_over_virtual_servers() {
    testbed::in_namespace(|| {
        let world = World::new();
        let mut dataplane = world.node().enter(open).unwrap();
        let add = |address: &str, to: &str| {
            let id = ServerId {
                address: address.parse().unwrap(),
                ..server()
            };
            let server = VirtualServer {
                id,
                scheduler: "wrr".to_owned(),
                scheduler_flags: 0,
                persistence_seconds: None,
            };
            world.node().enter(|| {
                let mut ipvs = Ipvs::open().unwrap();
                ipvs.add_server(&server).unwrap();
                ipvs.add_destination(id, to.parse().unwrap(), 3).unwrap();
            });
        };
        add(CLUSTER_IP, "10.244.1.2:8080");
        add("10.96.0.9", "10.244.1.2:8080");
        add(FOREIGN, "10.244.1.2:8080");
        let mut plan = plan();
        put(&mut plan, json!({}), &PODS);
        apply(&world, &mut dataplane, &mut plan);
        let servers = world.node().enter(|| Ipvs::open().unwrap().servers().unwrap());
        let addresses: BTreeSet<IpAddr> = servers.iter().map(|server| server.id.address).collect();
        let expected: BTreeSet<IpAddr> = [CLUSTER_IP, FOREIGN].map(|text| text.parse().unwrap()).into();
        assert_eq!(addresses, expected);
        assert_eq!(
            weights(&world),
            [(PODS[0].to_owned(), 1), (PODS[1].to_owned(), 1)]
        );
        world.node().enter(|| {
            assert!(cleanup().unwrap());
            assert!(!cleanup().unwrap());
            assert_eq!(Ipvs::open().unwrap().servers().unwrap(), []);
        });
    });
}

/// IPV-01: the link has the addresses of Services only while they exist. External changes are repaired.
#[test]
fn link_follows_services() {
    testbed::in_namespace(|| {
        let world = World::new();
        let mut dataplane = world.node().enter(open).unwrap();
        let mut plan = plan();
        put(&mut plan, json!({}), &PODS);
        apply(&world, &mut dataplane, &mut plan);
        let addresses = || {
            world.node().enter(|| {
                let mut links = Connection::open().unwrap();
                let link = links.link_index(&LINK.parse::<LinkName>().unwrap()).unwrap();
                let all = links.addresses().unwrap().into_iter();
                let own = all.filter(|address| address.link == link && address.is_global());
                own.map(|address| address.network.addr().to_string())
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(addresses(), [CLUSTER_IP]);
        let drift = world.node().enter(|| {
            let mut ipvs = Ipvs::open().unwrap();
            ipvs.delete_server(server()).unwrap();
            dataplane.repair(&plan).unwrap()
        });
        assert!(drift > 0);
        assert_eq!(weights(&world).len(), 2);
        plan.remove_service(&ObjectKey {
            namespace: "ns".into(),
            name: "s".into(),
        });
        apply(&world, &mut dataplane, &mut plan);
        assert_eq!(addresses(), Vec::<String>::new());
    });
}

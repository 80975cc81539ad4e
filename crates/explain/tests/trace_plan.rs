//! Traces state what [`Plan::decide`] states, on the plan that the proxy of the node has, in all recorded random clusters
//! of `conformance/endpoint-choice.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use api::object::{EndpointSlice, Labels, Node, Protocol, Service};
use explain::World;
use explain::trace::{Destination, NodePorts, ProxySettings, Request, Trace, Verdict, trace};
use plan::{FrontendKind, NodeFacts, NodePortAddresses, Packet, Plan, PodDetection, Scheduler, Settings};
use serde_json::{Value, json};

/// Ranges of cluster IPs in the recorded clusters.
const SERVICE_CIDRS: [&str; 2] = ["10.96.0.0/16", "fd00:10:96::/112"];
/// Addresses of the node.
const NODE_IPS: [&str; 2] = ["192.168.0.10", "fd00:168::10"];
/// Addresses of a Pod on the node that is not an endpoint.
const POD_IPS: [&str; 2] = ["10.244.9.9", "fd00:244:9::9"];
/// Clients outside of the cluster. The first are in source ranges that the clusters have.
const OUTSIDE: [&str; 4] = ["10.1.2.3", "192.0.2.77", "2001:db8:1::77", "198.18.0.1"];

fn worlds() -> Vec<Value> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../conformance/endpoint-choice.json"
    );
    let text = std::fs::read_to_string(path).expect("the recorded worlds are in the repository");
    let file: Value = serde_json::from_str(&text).expect("the recorded worlds are JSON");
    file["worlds"].as_array().expect("a list of worlds").clone()
}

fn parse<T: std::str::FromStr>(texts: &[&str]) -> Vec<T> {
    texts
        .iter()
        .map(|text| text.parse().ok().expect("valid"))
        .collect()
}

/// Settings of a cluster, which differ from one to the next.
struct Variant {
    masquerade_all: bool,
    pods: PodDetection,
    node_ports: NodePorts,
}

impl Variant {
    fn of(number: usize) -> Self {
        let pods: Vec<ipnet::IpNet> = match number % 3 {
            0 => Vec::new(),
            1 => parse(&["10.244.0.0/16", "fd00:244::/32"]),
            _ => parse(&["10.244.0.0/16"]),
        };
        Self {
            masquerade_all: number.is_multiple_of(5),
            pods: PodDetection::Ranges(pods),
            node_ports: match number % 4 {
                0 => NodePorts::All,
                1 => NodePorts::Within(parse(&["192.168.0.0/24"])),
                _ => NodePorts::Primary,
            },
        }
    }
}

/// The plan as the proxy of the node computes it: all Services and slices, addresses of the kernel, facts of the Node.
fn proxy_plan(recorded: &Value, variant: &Variant) -> Plan {
    let ips: Vec<IpAddr> = parse(&NODE_IPS);
    let labels: Labels = serde_json::from_value(recorded["nodeLabels"].clone()).expect("labels");
    let mut node = Node::default();
    node.metadata.labels = labels;
    let mut plan = Plan::new(Settings {
        node_name: recorded["nodeName"].as_str().expect("a name").to_owned(),
        pods: variant.pods.clone(),
        service_cidrs: parse(&SERVICE_CIDRS),
        node_port_addresses: match &variant.node_ports {
            NodePorts::All => NodePortAddresses::All,
            NodePorts::Within(nets) => NodePortAddresses::Within(nets.clone()),
            NodePorts::Primary => NodePortAddresses::Primary(ips.clone()),
        },
        masquerade_all: variant.masquerade_all,
        node_addresses: ips.clone(),
        ignores_external_ips: false,
        answers_ping: true,
        supports_two_tier: false,
        default_scheduler: Scheduler::default(),
    });
    plan.set_node(NodeFacts {
        zone: node.zone().map(str::to_owned),
        addresses: ips.clone(),
        ips,
    });
    for slice in recorded["endpointSlices"].as_array().expect("slices") {
        let slice: EndpointSlice = serde_json::from_value(slice.clone()).expect("a slice");
        plan.apply_slice(&slice);
    }
    for service in recorded["services"].as_array().expect("Services") {
        let service: Service = serde_json::from_value(service.clone()).expect("a Service");
        plan.apply_service(&service);
    }
    plan.take_changes();
    plan
}

/// The objects of a cluster, as `kubectl get -o json` prints them.
fn world(recorded: &Value, plan: &Plan) -> World {
    let node = recorded["nodeName"].as_str().expect("a name");
    let addresses: Vec<Value> = NODE_IPS
        .iter()
        .map(|ip| json!({"type": "InternalIP", "address": ip}))
        .collect();
    let pod = |name: &str, ips: &[&str]| {
        let ips: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
        json!({"kind": "Pod", "metadata": {"namespace": "clients", "name": name}, "spec": {"nodeName": node},
            "status": {"podIPs": ips}})
    };
    let mut builder = World::builder();
    builder.add(recorded["services"].clone());
    builder.add(recorded["endpointSlices"].clone());
    builder.add(json!([
        {"kind": "Node", "metadata": {"name": node, "labels": recorded["nodeLabels"]}, "status": {"addresses": addresses}},
        {"kind": "ServiceCIDR", "metadata": {"name": "kubernetes"}, "spec": {"cidrs": SERVICE_CIDRS}},
        pod("plain", &POD_IPS)]));
    // A client that is an endpoint.
    let backend = plan.ports().flat_map(|port| &port.cluster).next();
    if let Some(backend) = backend {
        builder.add(pod("endpoint", &[&backend.address.ip().to_string()]));
    }
    builder.build()
}

/// Packets to every frontend, to another port of its address, and to an address that no Service has.
fn destinations(plan: &Plan) -> BTreeSet<(SocketAddr, &'static str)> {
    let mut found = BTreeSet::new();
    for address in ["10.96.250.250", "fd00:10:96::fa", "198.18.7.7"] {
        let address: IpAddr = address.parse().expect("an address");
        found.insert((SocketAddr::new(address, 80), "tcp"));
    }
    for port in plan.ports() {
        let scheme = match port.key.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        };
        for frontend in &port.frontends {
            let node: Vec<IpAddr> = parse(&NODE_IPS);
            let of_family = node
                .into_iter()
                .find(|ip| plan::Family::of(*ip) == port.key.family);
            let address = frontend.address.or(of_family).expect("an address");
            found.insert((SocketAddr::new(address, frontend.port), scheme));
            if frontend.kind == FrontendKind::ClusterIp {
                found.insert((SocketAddr::new(address, 9), scheme));
            }
        }
    }
    found
}

type Endpoints = BTreeSet<(SocketAddr, bool)>;

fn expected(plan: &Plan, packet: &Packet) -> (Option<Verdict>, Endpoints) {
    let verdict = match plan.decide(packet).verdict {
        plan::Verdict::Balanced { choices, .. } => {
            let endpoints = choices.iter().map(|choice| (choice.address, choice.masquerade));
            return (Some(Verdict::Reaches), endpoints.collect());
        }
        plan::Verdict::NoEndpoints | plan::Verdict::UndefinedPort => Some(Verdict::Refused),
        plan::Verdict::NoLocalEndpoints | plan::Verdict::OutOfSourceRanges | plan::Verdict::Unallocated => {
            Some(Verdict::Dropped)
        }
        plan::Verdict::Answered | plan::Verdict::NotAService => None,
    };
    (verdict, Endpoints::new())
}

fn read<T: std::str::FromStr>(text: &str) -> T {
    text.parse().ok().expect("valid")
}

/// Asserts that a trace states the expected verdict and endpoints.
fn assert_stated(name: &str, found: &Trace, expected: &(Option<Verdict>, Endpoints)) {
    let (verdict, endpoints) = expected;
    assert_eq!(found.paths.len(), 1, "{name}");
    let path = &found.paths[0];
    let Some(verdict) = verdict else {
        let others = [Verdict::LeavesTheCluster, Verdict::NotAService];
        assert!(others.contains(&found.verdict), "{name}: {:?}", found.verdict);
        return;
    };
    assert_eq!(found.verdict, *verdict, "{name}: {}", found.reason);
    let stated: Endpoints = path
        .endpoints
        .iter()
        .map(|endpoint| {
            (
                SocketAddr::new(endpoint.address, endpoint.port),
                endpoint.masquerade,
            )
        })
        .collect();
    assert_eq!(stated, *endpoints, "{name}");
    let total: f64 = path.endpoints.iter().map(|endpoint| endpoint.chance).sum();
    assert!(
        endpoints.is_empty() || (total - 1.0).abs() < 1e-9,
        "{name}: {total}"
    );
    // Each endpoint is either chosen or has a reason of its own.
    for excluded in &path.excluded {
        assert_ne!(
            excluded.reason, "the plan did not choose it",
            "{name}: {excluded:?}"
        );
    }
}

#[test]
fn traces_state_what_plans_decide() {
    let worlds = worlds();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (number, recorded) in worlds.iter().enumerate() {
        let variant = Variant::of(number);
        let plan = proxy_plan(recorded, &variant);
        let world = world(recorded, &plan);
        let node = recorded["nodeName"].as_str().expect("a name");
        let hairpin = plan.ports().flat_map(|port| &port.cluster).next();
        let hairpin = hairpin.map(|backend| backend.address.ip().to_string());
        let mut clients: Vec<(&str, Vec<IpAddr>)> = vec![
            ("pod/clients/plain", parse(&POD_IPS)),
            (
                "pod/clients/endpoint",
                hairpin.iter().map(|ip| read(ip)).collect(),
            ),
        ];
        let node_name = format!("node/{node}");
        clients.push((&node_name, parse(&NODE_IPS)));
        clients.extend(OUTSIDE.iter().map(|ip| (*ip, vec![read(ip)])));
        for (destination, scheme) in destinations(&plan) {
            let url: Destination = read(&format!("{scheme}://{destination}"));
            for (client, sources) in &clients {
                let mut sources = sources.iter();
                let Some(source) = sources.find(|source| source.is_ipv4() == destination.is_ipv4()) else {
                    continue;
                };
                let mut request = Request::new(url.clone(), read(client));
                request.proxy = ProxySettings {
                    pods: Some(variant.pods.clone()),
                    interface: None,
                    masquerade_all: variant.masquerade_all,
                    node_ports: variant.node_ports.clone(),
                };
                let found = trace(&world, &request).expect("a trace");
                let packet = Packet {
                    source: *source,
                    destination: destination.ip(),
                    port: destination.port(),
                    protocol: url.protocol,
                    interface: None,
                };
                let name = format!("{} {url} from {client}", recorded["id"]);
                assert_stated(&name, &found, &expected(&plan, &packet));
                *seen.entry(found.verdict.as_str().to_owned()).or_default() += 1;
            }
        }
    }
    assert!(worlds.len() >= 500, "only {} worlds", worlds.len());
    for verdict in [
        "reaches",
        "refused",
        "dropped",
        "leaves the cluster",
        "not a Service",
    ] {
        assert!(
            seen.get(verdict).is_some_and(|count| *count >= 100),
            "{verdict}: {seen:?}"
        );
    }
}

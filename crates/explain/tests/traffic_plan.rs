//! Entries have the frontend and endpoint that [`Plan::decide`] states, in all recorded random clusters of
//! `conformance/endpoint-choice.json`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use api::object::{EndpointSlice, Protocol, Service};
use explain::traffic::{Attribution, Direction, Entry, Selection, State};
use plan::{Family, NodeFacts, NodePortAddresses, Packet, Plan, Settings, Verdict};
use serde_json::Value;

/// Addresses of the node. The first of each family has node ports.
const NODE_IPS: [&str; 4] = ["192.168.0.10", "fd00:168::10", "10.244.9.1", "fd00:244:9::1"];
/// Clients, of both families.
const CLIENTS: [&str; 4] = ["10.244.9.9", "fd00:244:9::9", "198.18.0.1", "2001:db8::77"];

fn parse(texts: &[&str]) -> Vec<IpAddr> {
    texts
        .iter()
        .map(|text| text.parse().expect("an address"))
        .collect()
}

fn plan_of(recorded: &Value) -> Plan {
    let ips = parse(&NODE_IPS);
    let mut plan = Plan::new(Settings {
        node_name: recorded["nodeName"].as_str().expect("a name").to_owned(),
        node_port_addresses: NodePortAddresses::Primary(ips[..2].to_vec()),
        node_addresses: ips.clone(),
        ..Settings::default()
    });
    plan.set_node(NodeFacts {
        ips,
        ..NodeFacts::default()
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

/// Destinations at each frontend, at another port of it, and at the other addresses of the node.
fn destinations(plan: &Plan) -> Vec<(Protocol, SocketAddr)> {
    let mut found = Vec::new();
    for port in plan.ports() {
        let of_family = |ip: &IpAddr| Family::of(*ip) == port.key.family;
        for frontend in &port.frontends {
            let addresses = match frontend.address {
                Some(address) => vec![address],
                None => parse(&NODE_IPS).into_iter().filter(of_family).collect(),
            };
            for address in addresses {
                found.push((port.key.protocol, SocketAddr::new(address, frontend.port)));
                found.push((port.key.protocol, SocketAddr::new(address, 9)));
            }
        }
    }
    found
}

fn entry(packet: &Packet, destination: SocketAddr, endpoint: SocketAddr) -> Entry {
    let client = SocketAddr::new(packet.source, 4_000);
    Entry {
        id: 1,
        zone: 0,
        protocol: packet.protocol,
        original: Direction {
            source: client,
            destination,
        },
        reply: Direction {
            source: endpoint,
            destination: client,
        },
        state: State::Replied,
        is_replied: true,
        bytes: None,
        reply_packets: None,
        expires_in: Duration::ZERO,
        age: None,
        frontend: None,
    }
}

#[test]
fn attribution_equals_decisions() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../conformance/endpoint-choice.json"
    );
    let text = std::fs::read_to_string(path).expect("the recorded worlds are in the repository");
    let file: Value = serde_json::from_str(&text).expect("the recorded worlds are JSON");
    let worlds = file["worlds"].as_array().expect("a list of worlds");
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for recorded in worlds {
        let plan = plan_of(recorded);
        let attribution = Attribution::of(&plan, &Selection::All);
        for (protocol, destination) in destinations(&plan) {
            let clients = parse(&CLIENTS).into_iter();
            for source in clients.filter(|client| client.is_ipv4() == destination.is_ipv4()) {
                let packet = Packet {
                    source,
                    destination: destination.ip(),
                    port: destination.port(),
                    protocol,
                    interface: None,
                };
                let decision = plan.decide(&packet);
                let name = format!("{} {protocol:?} {destination}", recorded["id"]);
                let Some((port, frontend)) = decision.frontend else {
                    let found = attribution.attribute(&entry(&packet, destination, destination));
                    assert_eq!(found, None, "{name}");
                    *seen.entry("none").or_default() += 1;
                    continue;
                };
                let Verdict::Balanced { choices, .. } = decision.verdict else {
                    *seen.entry("not balanced").or_default() += 1;
                    continue;
                };
                for choice in choices {
                    let found = attribution.attribute(&entry(&packet, destination, choice.address));
                    let found = found.unwrap_or_else(|| panic!("{name}: no frontend"));
                    assert_eq!(found.endpoint, Some(choice.address), "{name}");
                    assert_eq!(found.frontend.service, port.key.service, "{name}");
                    assert_eq!(found.frontend.port_name, port.key.port, "{name}");
                    assert_eq!(found.frontend.kind, frontend.kind.into(), "{name}");
                    *seen.entry("balanced").or_default() += 1;
                }
            }
        }
    }
    assert!(worlds.len() >= 500, "only {} worlds", worlds.len());
    for kind in ["none", "not balanced", "balanced"] {
        assert!(
            seen.get(kind).is_some_and(|count| *count >= 100),
            "{kind}: {seen:?}"
        );
    }
}

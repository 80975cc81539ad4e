//! Recorded cases of `conformance/dataplane.json`, evaluated without packets. For every probe of a new connection, the
//! decisions of the nodes on its path match the packets that the reference's nftables mode produced.

mod recorded;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use api::object::Protocol;
use plan::{Packet, Verdict};
use recorded::{World, text};
use serde_json::Value;

/// Observation of a probe: the result, and the sources that each backend saw.
#[derive(Debug, Default, PartialEq)]
struct ProbeObservation {
    result: String,
    backends: BTreeMap<String, BTreeSet<String>>,
}

impl ProbeObservation {
    fn only(result: &str) -> Self {
        Self {
            result: result.to_owned(),
            ..Self::default()
        }
    }

    fn recorded(expect: &Value) -> Self {
        let expect = expect.get("nftables").unwrap_or(expect);
        let mut seen = Self::only(text(expect, "result"));
        for (backend, sources) in expect["backends"].as_object().into_iter().flatten() {
            let sources = sources.as_array().into_iter().flatten();
            seen.backends.insert(
                backend.clone(),
                sources
                    .map(|source| source.as_str().unwrap_or("?").to_owned())
                    .collect(),
            );
        }
        seen
    }
}

/// Returns the packet of a probe, and the node that it reaches first.
fn packet(world: &World, probe: &Value) -> (Packet, String) {
    let from = text(probe, "from");
    let to = text(probe, "to");
    let family = probe["ip"]
        .as_u64()
        .unwrap_or(if to.contains(':') { 6 } else { 4 });
    let destination = match to.strip_prefix("clusterIP of ") {
        Some(service) => {
            let ips = world.service(service)["spec"]["clusterIPs"]
                .as_array()
                .expect("cluster IPs");
            let parsed = ips.iter().filter_map(|ip| ip.as_str()?.parse::<IpAddr>().ok());
            parsed
                .clone()
                .find(|ip| ip.is_ipv6() == (family == 6))
                .expect("a cluster IP of the family")
        }
        None if to == "loopback" && family == 6 => "::1".parse().expect("IP"),
        None if to == "loopback" => "127.0.0.1".parse().expect("IP"),
        None => world
            .address_of(to, family)
            .unwrap_or_else(|| to.parse().expect("an address")),
    };
    let source = match probe["source"].as_str() {
        Some(source) => source.parse().expect("a source"),
        None if destination.is_loopback() => destination,
        None => world
            .address_of(from, if destination.is_ipv6() { 6 } else { 4 })
            .expect("a member"),
    };
    let protocol = if probe["proto"] == "udp" {
        Protocol::Udp
    } else {
        Protocol::Tcp
    };
    let first = match probe["via"].as_str() {
        Some(node) => node,
        None if from == "outside" && to.starts_with("node-") => to,
        None => world.node_of(from),
    };
    (
        Packet {
            source,
            destination,
            port: port(world, &probe["port"]),
            protocol,
            interface: None,
        },
        first.to_owned(),
    )
}

fn port(world: &World, port: &Value) -> u16 {
    let number = port.as_u64().or_else(|| {
        let (service, name) = match port.as_str()?.strip_prefix("nodePort of ")?.split_once(" port ") {
            Some((service, name)) => (service, Some(name)),
            None => (port.as_str()?.strip_prefix("nodePort of ")?, None),
        };
        let ports = world.service(service)["spec"]["ports"].as_array()?;
        ports
            .iter()
            .find(|port| name.is_none() || port["name"].as_str() == name)?["nodePort"]
            .as_u64()
    });
    u16::try_from(number.unwrap_or_else(|| panic!("port {port}"))).expect("a port number")
}

/// Applies the decisions of the nodes to a packet, beginning with `first`.
fn walk(world: &World, packet: &Packet, first: &str) -> ProbeObservation {
    let decision = world.plan(first).decide(packet);
    let owner = world.name_of(packet.destination);
    match decision.verdict {
        Verdict::Balanced { choices, .. } => {
            let mut seen = ProbeObservation::only("ok");
            for choice in choices {
                let backend = world.name_of(choice.address.ip());
                let is_here = backend.starts_with("pod-") && world.node_of(&backend) == first;
                let source = match choice.masquerade {
                    true if is_here => format!("{first}-gw"),
                    true => first.to_owned(),
                    false => world.name_of(packet.source),
                };
                let at = format!("{backend}:{}", choice.address.port());
                seen.backends.entry(at).or_default().insert(source);
            }
            seen
        }
        Verdict::Answered => unreachable!("only echo requests are answered"),
        Verdict::NoEndpoints | Verdict::UndefinedPort => ProbeObservation::only("refused"),
        Verdict::NoLocalEndpoints | Verdict::OutOfSourceRanges | Verdict::Unallocated => {
            ProbeObservation::only("timeout")
        }
        Verdict::NotAService if owner != first && owner.starts_with("node-") => walk(world, packet, &owner),
        Verdict::NotAService if packet.port == 8080 && owner.starts_with("node-") => {
            // Every member responds on this port itself.
            let sources = BTreeSet::from([world.name_of(packet.source)]);
            ProbeObservation {
                result: "ok".to_owned(),
                backends: [(format!("{owner}:8080"), sources)].into(),
            }
        }
        Verdict::NotAService if packet.destination.is_loopback() => ProbeObservation::only("refused"),
        Verdict::NotAService if owner.starts_with("node-") || owner.starts_with("pod-") => {
            ProbeObservation::only("refused")
        }
        Verdict::NotAService => ProbeObservation::only("timeout"),
    }
}

/// Returns true if the decision matches the observation. A client with affinity reaches one of the backends, and
/// unusual addresses do not respond.
fn agrees(decided: &ProbeObservation, recorded: &ProbeObservation, has_affinity: bool) -> bool {
    let results = (decided.result.as_str(), recorded.result.as_str());
    let is_part = recorded
        .backends
        .iter()
        .all(|(backend, sources)| decided.backends.get(backend) == Some(sources));
    match results {
        ("ok", "mixed") => is_part,
        ("ok", "ok") if has_affinity => is_part,
        _ => decided == recorded,
    }
}

/// Returns false for probes that no plan decides: flows, health responses, counters, and names as endpoints.
fn is_for_a_plan(probe: &Value) -> bool {
    ["flow", "http", "count", "sources"]
        .iter()
        .all(|field| probe.get(field).is_none())
}

#[test]
fn decisions_match_recorded_probes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/dataplane.json");
    let text_of_file = std::fs::read_to_string(path).expect("the recorded cases are in the repository");
    let file: Value = serde_json::from_str(&text_of_file).expect("the recorded cases are JSON");
    let (mut compared, mut wrong) = (0, Vec::new());
    for case in file["cases"].as_array().expect("cases") {
        let id = text(case, "id");
        let mut world = World::new(&file);
        for object in case["objects"].as_array().into_iter().flatten() {
            world.put(object.clone());
        }
        let mut is_away = false;
        for (index, step) in case["steps"].as_array().into_iter().flatten().enumerate() {
            if let Some(changes) = step["change"].as_array() {
                for change in changes {
                    // An absent proxy leaves an older plan applied.
                    is_away |= change.get("stop-proxy").is_some() || change.get("kill-proxy").is_some();
                    is_away &= change.get("start-proxy").is_none();
                    world.change(change);
                }
            } else if is_for_a_plan(step) && !is_away {
                let (packet, first) = packet(&world, step);
                let decided = walk(&world, &packet, &first);
                let recorded = ProbeObservation::recorded(&step["expect"]);
                compared += 1;
                if !agrees(&decided, &recorded, id.contains("affinity")) {
                    wrong.push(format!(
                        "{id} step {index}: {packet:?} at {first}\n  {decided:?}\n  {recorded:?}"
                    ));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared} probes differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared > 280, "only {compared} probes were compared");
}

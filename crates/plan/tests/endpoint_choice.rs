//! Recorded clusters of `conformance/endpoint-choice.json`: for every Service port, the endpoints that the reference
//! chose, and the addresses and ports that it serves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;

use api::object::{EndpointSlice, Labels, Node, Service};
use plan::{
    EndpointSet, Family, Fault, Frontend, FrontendKind, NodeFacts, Origin, Plan, ServicePortPlan, Settings,
    Target,
};
use serde_json::Value;

type Texts = BTreeSet<String>;

fn worlds() -> Vec<Value> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../conformance/endpoint-choice.json"
    );
    let text = std::fs::read_to_string(path).expect("the recorded worlds are in the repository");
    let file: Value = serde_json::from_str(&text).expect("the recorded worlds are JSON");
    file["worlds"].as_array().expect("a list of worlds").clone()
}

fn plan_of(world: &Value) -> Plan {
    let node_name = world["nodeName"].as_str().expect("nodeName").to_owned();
    let labels: Labels = serde_json::from_value(world["nodeLabels"].clone()).expect("nodeLabels");
    let mut node = Node::default();
    node.metadata.labels = labels;
    let mut plan = Plan::new(Settings {
        node_name,
        ..Settings::default()
    });
    plan.set_node(NodeFacts {
        zone: node.zone().map(str::to_owned),
        ips: Vec::new(),
        ..NodeFacts::default()
    });
    for slice in world["endpointSlices"].as_array().expect("slices") {
        let slice: EndpointSlice = serde_json::from_value(slice.clone()).expect("a slice");
        plan.apply_slice(&slice);
    }
    for service in world["services"].as_array().expect("services") {
        let service: Service = serde_json::from_value(service.clone()).expect("a Service");
        plan.apply_service(&service);
    }
    plan.take_changes();
    plan
}

fn name_of(port: &ServicePortPlan) -> String {
    let family = port.key.family.name();
    let colon = if port.key.port.is_empty() { "" } else { ":" };
    format!(
        "{family} {}{colon}{} {}",
        port.key.service,
        port.key.port,
        port.key.protocol.as_str()
    )
}

fn texts(value: &Value) -> Texts {
    let list = value.as_array().into_iter().flatten();
    list.map(|text| text.as_str().expect("a text").to_owned())
        .collect()
}

fn addresses(port: &ServicePortPlan, set: EndpointSet) -> Texts {
    port.backends(set)
        .iter()
        .map(|backend| backend.address.to_string())
        .collect()
}

fn ips(port: &ServicePortPlan, kind: FrontendKind) -> Texts {
    let of_kind = port.frontends.iter().filter(|frontend| frontend.kind == kind);
    of_kind
        .filter_map(|frontend| Some(frontend.address?.to_string()))
        .collect()
}

/// Returns addresses that another Service owns. The reference serves them for the last Service, and lists them for
/// both.
fn taken(plan: &Plan, port: &ServicePortPlan) -> Texts {
    let faults = plan.faults_of(&port.key.service).filter_map(|fault| match fault {
        Fault::Conflict {
            address: Some(address),
            ..
        } => Some(address),
        _ => None,
    });
    faults
        .filter(|address| Family::of(**address) == port.key.family)
        .map(ToString::to_string)
        .collect()
}

/// Differences between a Service port and the recording.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare(&mut self, subject: &str, ours: impl fmt::Display, recorded: impl fmt::Display) {
        let (ours, recorded) = (ours.to_string(), recorded.to_string());
        if ours != recorded {
            self.0.push(format!("{subject}: {ours}, recorded {recorded}"));
        }
    }

    fn compare_texts(&mut self, subject: &str, ours: &Texts, recorded: &Value) {
        self.compare(subject, format!("{ours:?}"), format!("{:?}", texts(recorded)));
    }

    fn compare_endpoints(&mut self, port: &ServicePortPlan, expected: &Value) {
        let cluster = addresses(port, EndpointSet::Cluster);
        let local = addresses(port, EndpointSet::Local);
        let reachable: Texts = cluster.union(&local).cloned().collect();
        self.compare_texts("cluster", &cluster, &expected["cluster"]);
        self.compare_texts("local", &local, &expected["local"]);
        self.compare_texts("reachable", &reachable, &expected["allReachable"]);
    }

    fn compare_addresses(&mut self, plan: &Plan, port: &ServicePortPlan, expected: &Value) {
        for (subject, kind) in [
            ("externalIPs", FrontendKind::ExternalIp),
            ("loadBalancerIPs", FrontendKind::LoadBalancerIp),
        ] {
            let recorded = texts(&expected[subject]);
            let mut ours = ips(port, kind);
            ours.extend(taken(plan, port).intersection(&recorded).cloned());
            self.compare_texts(subject, &ours, &expected[subject]);
        }
    }

    fn compare_cluster_ip(&mut self, port: &ServicePortPlan, expected: &Value) {
        let cluster_ip = frontend(port, FrontendKind::ClusterIp).expect("a cluster IP");
        let at = cluster_ip.address.map(|ip| SocketAddr::new(ip, cluster_ip.port));
        let recorded_ip = expected["clusterIP"]
            .as_str()
            .expect("clusterIP")
            .parse()
            .expect("an address");
        let recorded_port = expected["port"].as_u64().expect("port") as u16;
        let recorded = Some(SocketAddr::new(recorded_ip, recorded_port));
        self.compare("clusterIP", format!("{at:?}"), format!("{recorded:?}"));
        let has_any = !matches!(cluster_ip.target(Origin::Outside), Target::Reject);
        self.compare("hasAnyEndpoints", has_any, &expected["hasAnyEndpoints"]);
    }
}

/// Returns the first frontend of a kind.
fn frontend(port: &ServicePortPlan, kind: FrontendKind) -> Option<&Frontend> {
    port.frontends.iter().find(|frontend| frontend.kind == kind)
}

/// Compares a Service port with the recording and returns the differences.
fn differences(plan: &Plan, port: &ServicePortPlan, expected: &Value) -> Vec<String> {
    let mut found = Differences::default();
    found.compare_endpoints(port, expected);
    found.compare_addresses(plan, port, expected);
    found.compare_cluster_ip(port, expected);
    let node_port = frontend(port, FrontendKind::NodePort).map_or(0, |frontend| frontend.port);
    found.compare("nodePort", node_port, &expected["nodePort"]);
    let seconds = port.affinity_seconds.unwrap_or(0);
    found.compare("affinitySeconds", seconds, &expected["affinitySeconds"]);
    if let Some(balancer) = frontend(port, FrontendKind::LoadBalancerIp) {
        let ranges: Texts = balancer.source_ranges.iter().map(ToString::to_string).collect();
        found.compare_texts("sourceRanges", &ranges, &expected["sourceRanges"]);
    }
    found.0
}

#[test]
fn endpoint_choice_matches_recordings() {
    let worlds = worlds();
    let mut wrong = Vec::new();
    for world in &worlds {
        let id = world["id"].as_str().expect("id");
        let plan = plan_of(world);
        let expected = world["expect"].as_object().expect("expect");
        let ours: BTreeMap<String, &ServicePortPlan> =
            plan.ports().map(|port| (name_of(port), port)).collect();
        let names: BTreeSet<&String> = ours.keys().collect();
        let recorded: BTreeSet<&String> = expected.keys().collect();
        if names != recorded {
            wrong.push(format!("{id}: ports {names:?}, recorded {recorded:?}"));
        }
        for (name, port) in &ours {
            let Some(expected) = expected.get(name) else {
                continue;
            };
            wrong.extend(
                differences(&plan, port, expected)
                    .into_iter()
                    .map(|subject| format!("{id} {name}: {subject}")),
            );
            let health_check = plan.health_check(&port.key.service).map_or(0, |check| check.port);
            if expected["healthCheckNodePort"] != health_check {
                wrong.push(format!("{id} {name}: healthCheckNodePort {health_check}"));
            }
        }
    }
    let shown = wrong.len().min(20);
    assert!(
        wrong.is_empty(),
        "{} differences, the first:\n{}",
        wrong.len(),
        wrong[..shown].join("\n")
    );
    assert!(worlds.len() >= 600, "only {} worlds", worlds.len());
}

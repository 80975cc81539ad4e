//! Rows, changes and history against objects that change at random.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::object::{EndpointSlice, Node, ObjectKey, Pod, Service};
use explain::{World, examine_cluster};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::endpoints;
use super::findings::Findings;
use super::history::{self, STEP};
use super::model::{CHANGE_SERVICES_MAX, Model};
use super::objects::PodPlace;
use super::rows::{Change, FrontendKind, Health, ServiceRow, Snapshot};
use super::traffic::{ClusterTraffic, ServiceTraffic, Traffic};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn service(name: &str, port: u16) -> Service {
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"clusterIP": "10.96.0.5", "selector": {"app": name}, "ports": [{"port": port}]},
    }))
    .expect("a Service")
}

/// A slice with an endpoint on node `n0`, `n1` … for each entry; true if it is ready.
fn slice(name: &str, service: &str, endpoints: &[bool]) -> EndpointSlice {
    let endpoints = endpoints.iter().enumerate().map(|(index, ready)| {
        json!({"addresses": [format!("10.244.{index}.7")], "nodeName": format!("n{index}"),
            "conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "name": format!("{name}-{index}")}})
    });
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 8080}],
        "endpoints": endpoints.collect::<Vec<_>>(),
    }))
    .expect("a slice")
}

fn node(name: &str, is_ready: bool) -> Node {
    let status = if is_ready { "True" } else { "False" };
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": "zone-a"}},
        "status": {"conditions": [{"type": "Ready", "status": status}],
            "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": name}]},
    }))
    .expect("a Node")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("shop", name)
}

fn changes(model: &mut Model) -> Vec<Change> {
    let mut changes = Vec::new();
    loop {
        match model.change(NOW) {
            Some(change) => changes.push(change),
            None if !model.is_marked() => return changes,
            None => {}
        }
    }
}

/// Applies a change as the page does.
fn apply(snapshot: &mut Snapshot, change: &Change) {
    assert_eq!(change.revision, snapshot.revision + 1, "no change is missing");
    let name = |row: &ServiceRow| format!("{}/{}", row.shape.namespace, row.shape.name);
    let rows = snapshot.services.drain(..).map(|row| (name(&row), row));
    let mut services: BTreeMap<String, ServiceRow> = rows.collect();
    for removed in &change.removed_services {
        assert!(services.remove(removed).is_some(), "{removed} had a row");
    }
    services.extend(change.services.iter().map(|row| (name(row), row.clone())));
    snapshot.services = services.into_values().collect();
    let rows = snapshot.nodes.drain(..).map(|row| (row.name.clone(), row));
    let mut nodes: BTreeMap<_, _> = rows.collect();
    for removed in &change.removed_nodes {
        assert!(nodes.remove(removed).is_some(), "{removed} had a row");
    }
    nodes.extend(change.nodes.iter().map(|row| (row.name.clone(), row.clone())));
    snapshot.nodes = nodes.into_values().collect();
    snapshot.revision = change.revision;
    snapshot.totals = change.totals;
}

/// A change of the cluster.
#[derive(Clone, Debug)]
enum Step {
    PutService(u8, u16),
    RemoveService(u8),
    PutSlice(u8, u8, Vec<bool>),
    RemoveSlice(u8),
    PutNode(u8, bool),
    RemoveNode(u8),
    Traffic(Option<(u8, u64)>),
    Finish,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = 0u8..4;
    let endpoints = proptest::collection::vec(any::<bool>(), 0..4);
    let step = prop_oneof![
        3 => (index.clone(), 1u16..4).prop_map(|(index, port)| Step::PutService(index, port)),
        1 => index.clone().prop_map(Step::RemoveService),
        4 => (index.clone(), index.clone(), endpoints).prop_map(|(slice, of, endpoints)| Step::PutSlice(slice, of, endpoints)),
        1 => index.clone().prop_map(Step::RemoveSlice),
        2 => (index.clone(), any::<bool>()).prop_map(|(index, ready)| Step::PutNode(index, ready)),
        1 => index.clone().prop_map(Step::RemoveNode),
        2 => proptest::option::of((index, 0u64..3)).prop_map(Step::Traffic),
        2 => Just(Step::Finish),
    ];
    proptest::collection::vec(step, 1..60)
}

fn take(model: &mut Model, step: &Step, now: Timestamp) {
    match step {
        Step::PutService(index, port) => model.put_service(service(&format!("s{index}"), *port)),
        Step::RemoveService(index) => model.remove_service(&key(&format!("s{index}"))),
        Step::PutSlice(index, of, endpoints) => {
            model.put_slice(slice(&format!("e{index}"), &format!("s{of}"), endpoints));
        }
        Step::RemoveSlice(index) => model.remove_slice(&key(&format!("e{index}"))),
        Step::PutNode(index, is_ready) => model.put_node(node(&format!("n{index}"), *is_ready)),
        Step::RemoveNode(index) => model.remove_node(&format!("n{index}")),
        Step::Traffic(traffic) => {
            model.set_traffic(
                traffic.map(|(index, connections)| traffic_of(&format!("s{index}"), connections)),
            );
        }
        Step::Finish => model.end_step(now),
    }
}

fn traffic_of(name: &str, connections: u64) -> ClusterTraffic {
    let total = Traffic {
        connections,
        ..Traffic::default()
    };
    let traffic = ServiceTraffic {
        total,
        ..ServiceTraffic::default()
    };
    [(key(name), traffic)].into()
}

/// Everything besides revision and time.
fn content(mut snapshot: Snapshot) -> Snapshot {
    snapshot.revision = 0;
    snapshot.time = NOW;
    snapshot.history_from = None;
    snapshot
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A reader that applies all changes to an earlier snapshot has the later one. A model that gets only the last
    /// state of the objects has the same rows.
    #[test]
    fn changes_make_the_later_snapshot_from_an_earlier_one(steps in steps(), at in 0usize..60) {
        let mut model = Model::new("test", 0);
        let mut reader = None;
        for (index, step) in steps.iter().enumerate() {
            take(&mut model, step, NOW);
            for change in changes(&mut model) {
                if let Some(snapshot) = reader.as_mut() {
                    apply(snapshot, &change);
                }
            }
            if index == at % steps.len() {
                reader = Some(model.snapshot(NOW));
            }
        }
        let reader = reader.expect("a snapshot");
        let mut later = model.snapshot(NOW);
        later.traffic_known = reader.traffic_known;
        prop_assert_eq!(content(reader), content(later));

        let mut fresh = Model::new("test", 0);
        for step in &steps {
            take(&mut fresh, step, NOW);
        }
        changes(&mut fresh);
        prop_assert_eq!(content(fresh.snapshot(NOW)), content(model.snapshot(NOW)));
    }

    /// The history returns each state at the end of a step as it was.
    #[test]
    fn history_restores_earlier_states(steps in steps()) {
        let mut model = Model::new("test", 0);
        let mut kept: Vec<(Timestamp, Snapshot)> = Vec::new();
        let mut now = NOW;
        for step in &steps {
            take(&mut model, step, now);
            changes(&mut model);
            if matches!(step, Step::Finish) {
                kept.push((now, model.snapshot(now)));
            }
            now += STEP;
        }
        for (time, expected) in kept {
            let past = model.state_at(now, time + Duration::from_secs(1)).expect("a past state");
            prop_assert_eq!(past.time, time);
            prop_assert_eq!(content(past), content(expected));
        }
        prop_assert!(model.state_at(now, NOW - Duration::from_secs(1)).is_none());
    }
}

#[test]
fn change_of_one_slice_computes_one_row() {
    let mut model = Model::new("test", 0);
    for index in 0..1_000 {
        model.put_service(service(&format!("s{index}"), 80));
    }
    changes(&mut model);
    assert_eq!(model.computations(), 1_000);
    model.put_slice(slice("e", "s7", &[true, false]));
    model.put_slice(slice("e", "s7", &[true, true]));
    let change = model.change(NOW).expect("a change");
    assert_eq!(model.computations(), 1_001);
    assert_eq!(change.services.len(), 1);
    let shape = &change.services[0].shape;
    assert_eq!((shape.ready, shape.total), (2, 2));
    assert_eq!(model.change(NOW), None);
}

#[test]
fn change_has_at_most_500_services() {
    let mut model = Model::new("test", 0);
    for index in 0..1_201 {
        model.put_service(service(&format!("s{index}"), 80));
    }
    let sizes: Vec<usize> = changes(&mut model)
        .iter()
        .map(|change| change.services.len())
        .collect();
    assert_eq!(sizes, [CHANGE_SERVICES_MAX, CHANGE_SERVICES_MAX, 201]);
}

#[test]
fn unchanged_object_changes_no_row() {
    let mut model = Model::new("test", 0);
    model.put_service(service("web", 80));
    changes(&mut model);
    model.put_service(service("web", 80));
    assert_eq!(model.change(NOW), None);
    assert_eq!(model.revision(), 1);
}

#[test]
fn endpoint_of_both_families_counts_once() {
    let mut model = Model::new("test", 0);
    model.put_service(service("web", 80));
    model.put_slice(slice("web-4", "web", &[true, false]));
    let mut six = slice("web-4", "web", &[true, true]);
    six.metadata.name = "web-6".to_owned();
    for (index, endpoint) in six.endpoints.iter_mut().enumerate() {
        endpoint.addresses = vec![format!("fd00::{index}").into()];
    }
    model.put_slice(six);
    changes(&mut model);
    let shape = model.row(&key("web")).expect("a row").shape.clone();
    assert_eq!(
        (shape.ready, shape.total),
        (2, 2),
        "the second is ready in one family"
    );
    assert_eq!(shape.nodes, [(Arc::from("n0"), 1, 1), (Arc::from("n1"), 1, 1)]);
    let (rows, omitted) = endpoints::rows(model.objects(), &key("web"), None, 3);
    assert_eq!((rows.len(), omitted), (3, 1));
    assert_eq!(rows[0].pod, "shop/web-4-0");
    assert_eq!(rows[0].ports, "8080/TCP");
}

#[test]
fn frontends_list_all_addresses_of_a_service() {
    let mut model = Model::new("test", 0);
    let service: Service = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5", "fd00::5"],
            "externalIPs": ["192.0.2.9"], "ports": [{"name": "http", "port": 80, "nodePort": 30080}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}, {"hostname": "lb.example"}]}},
    }))
    .expect("a Service");
    model.put_service(service);
    changes(&mut model);
    let row = model.row(&key("web")).expect("a row");
    let found: Vec<(FrontendKind, &str, u16)> = row
        .shape
        .frontends
        .iter()
        .map(|frontend| (frontend.kind, frontend.address.as_str(), frontend.port))
        .collect();
    let expected = [
        (FrontendKind::ClusterIp, "10.96.0.5", 80),
        (FrontendKind::ClusterIp, "fd00::5", 80),
        (FrontendKind::ExternalIp, "192.0.2.9", 80),
        (FrontendKind::LoadBalancer, "203.0.113.1", 80),
        (FrontendKind::LoadBalancer, "lb.example", 80),
        (FrontendKind::NodePort, "", 30_080),
    ];
    assert_eq!(found, expected);
}

#[test]
fn health_follows_findings_and_endpoints() {
    let mut world = World::builder();
    world.add(json!([
        {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": "web"},
         "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": "web-1", "labels": {"run": "web"}}},
    ]));
    let findings = Findings::of(examine_cluster(&world.build(), &Default::default()));
    assert_eq!(findings.counts(&key("web"))[0], 1);
    assert_eq!(findings.all()[0].services, ["shop/web"]);
    assert!(!findings.all()[0].documentation.is_empty());

    let mut model = Model::new("test", 0);
    model.put_service(service("web", 80));
    let mut alias = service("alias", 80);
    alias.spec.kind = "ExternalName".to_owned();
    model.put_service(alias);
    model.put_slice(slice("web", "web", &[true]));
    let health = |model: &mut Model| {
        changes(model);
        ["web", "alias"].map(|name| model.row(&key(name)).expect("a row").shape.health)
    };
    assert_eq!(health(&mut model), [Health::Ok, Health::Idle]);
    model.set_findings(findings);
    assert_eq!(health(&mut model), [Health::Error, Health::Idle]);
    assert_eq!(model.snapshot(NOW).totals.errors, 1);
    model.set_findings(Findings::default());
    assert_eq!(health(&mut model), [Health::Ok, Health::Idle]);
    model.put_slice(slice("web", "web", &[false]));
    assert_eq!(health(&mut model), [Health::Error, Health::Idle]);
}

/// 10,000 Services change in each step. The memory of the history stays below its limit, and the number of past states,
/// too.
#[test]
fn history_is_bounded_with_10000_changing_services() {
    let mut model = Model::new("test", 0);
    let mut now = NOW;
    for index in 0..10_000 {
        model.put_service(service(&format!("s{index}"), 80));
    }
    changes(&mut model);
    model.end_step(now);
    let mut bytes_max = 0;
    for round in 0..12u16 {
        now += STEP;
        for index in 0..10_000 {
            model.put_service(service(&format!("s{index}"), 1_000 + round));
        }
        changes(&mut model);
        model.end_step(now);
        bytes_max = bytes_max.max(model.history_bytes());
        assert!(model.history_bytes() <= history::BYTES_MAX);
    }
    assert!(
        bytes_max > history::BYTES_MAX / 2,
        "the limit was approached: {bytes_max}"
    );
    for _ in 0..history::STEPS_MAX * 2 {
        now += STEP;
        model.end_step(now);
    }
    assert_eq!(model.samples().samples.len(), history::STEPS_MAX);
    let from = model.snapshot(now).history_from.expect("a past");
    assert!(now.duration_since(from).as_secs() <= 3_600, "{from}");
    assert_eq!(model.history_bytes(), 0, "no row changed in the past hour");
}

#[test]
fn traffic_alone_needs_no_copies_of_rows() {
    let mut model = Model::new("test", 0);
    model.put_service(service("web", 80));
    changes(&mut model);
    model.end_step(NOW);
    model.set_traffic(Some(traffic_of("web", 1)));
    changes(&mut model);
    let of_traffic = model.history_bytes();
    assert!(of_traffic > 0);
    model.put_service(service("web", 81));
    changes(&mut model);
    assert!(
        model.history_bytes() > of_traffic,
        "the earlier shape is no longer shared"
    );
    assert_eq!(model.snapshot(NOW).totals.connections, Some(1));
    model.set_traffic(None);
    changes(&mut model);
    assert_eq!(model.row(&key("web")).and_then(|row| row.traffic), None);
}

#[test]
fn finished_and_host_network_pods_have_no_address() {
    let pod = |spec: serde_json::Value, phase: &str| -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "shop"}, "spec": spec,
            "status": {"phase": phase, "podIP": "10.244.0.9", "podIPs": [{"ip": "10.244.0.9"}, {"ip": "fd00::9"}]}}))
        .expect("a Pod")
    };
    assert_eq!(
        PodPlace::of(&pod(json!({"nodeName": "n0"}), "Running"))
            .addresses
            .len(),
        2
    );
    let none = [
        pod(json!({"hostNetwork": true}), "Running"),
        pod(json!({}), "Succeeded"),
    ];
    for pod in &none {
        assert!(PodPlace::of(pod).addresses.is_empty());
    }
}

use api::object::{Endpoint, EndpointPort, EndpointSlice, HintName, ServicePort};
use proptest::prelude::*;

use super::*;
use crate::decide::{Packet, Verdict};
use crate::types::{EndpointSet, Scheduler, Target};

/// A change of an object.
#[derive(Clone, Debug)]
enum Change {
    Service(Box<Service>),
    NoService(usize),
    Slice(Box<EndpointSlice>),
    NoSlice(usize),
    Zone(Option<&'static str>),
    Take,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const SLICES: [&str; 5] = ["s0", "s1", "s2", "s3", "s4"];

fn settings() -> Settings {
    Settings {
        node_name: "node-a".to_owned(),
        pods: PodDetection::Ranges(vec!["10.244.0.0/16".parse().expect("CIDR")]),
        service_cidrs: vec!["10.96.0.0/16".parse().expect("CIDR")],
        node_addresses: vec![
            "172.30.0.11".parse().expect("IP"),
            "fd00:30::11".parse().expect("IP"),
        ],
        ..Settings::default()
    }
}

fn service() -> impl Strategy<Value = Service> {
    let kinds = prop::sample::select(vec!["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]);
    let ips = prop::sample::select(vec![
        "10.96.0.1",
        "10.96.0.2",
        "10.96.0.3",
        "None",
        "bad",
        "fd00::1",
    ]);
    let ports = prop::collection::vec((80u16..83, any::<bool>(), 0u16..3), 1..3);
    let ranges = prop::collection::vec(
        prop::sample::select(vec!["10.0.0.0/8", "172.30.0.0/24", "0.0.0.0/0", "nonsense"]),
        0..2,
    );
    (0..NAMES.len(), kinds, ips, ports, any::<[bool; 5]>(), ranges).prop_map(
        |(name, kind, ip, ports, flags, ranges)| {
            let [
                is_internal_local,
                is_external_local,
                has_external_ip,
                has_ingress,
                is_old,
            ] = flags;
            let mut service = Service::default();
            service.metadata.namespace = "ns".to_owned();
            service.metadata.name = NAMES[name].to_owned();
            service.metadata.creation_timestamp = is_old.then(|| "2020-01-01T00:00:00Z".to_owned());
            let spec = &mut service.spec;
            spec.kind = kind.to_owned();
            spec.cluster_ip = ip.to_owned();
            spec.internal_traffic_policy = is_internal_local.then(|| "Local".to_owned());
            spec.external_traffic_policy = if is_external_local { "Local" } else { "Cluster" }.to_owned();
            spec.external_ips
                .extend(has_external_ip.then(|| "198.51.100.1".to_owned()));
            spec.health_check_node_port = if has_ingress { 31_000 } else { 0 };
            spec.load_balancer_source_ranges = ranges.into_iter().map(str::to_owned).collect();
            spec.ports = ports
                .into_iter()
                .map(|(port, is_udp, node_port)| ServicePort {
                    port,
                    protocol: if is_udp { Protocol::Udp } else { Protocol::Tcp },
                    node_port: if node_port == 0 { 0 } else { 30_000 + node_port },
                    ..ServicePort::default()
                })
                .collect();
            if has_ingress {
                let ingress = api::object::LoadBalancerIngress {
                    ip: "203.0.113.1".into(),
                    ..Default::default()
                };
                service.status.load_balancer.ingress.push(ingress);
            }
            service
        },
    )
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let addresses = prop::sample::select(vec!["10.244.1.1", "10.244.1.2", "10.244.2.1", "oops"]);
    (addresses, any::<[Option<bool>; 3]>(), any::<bool>(), 0usize..3).prop_map(
        |(address, [ready, serving, terminating], is_here, hint)| {
            let mut endpoint = Endpoint {
                addresses: vec![address.into()],
                ..Endpoint::default()
            };
            endpoint.conditions = api::object::EndpointConditions {
                ready,
                serving,
                terminating,
            };
            endpoint.node_name = Some(if is_here { "node-a" } else { "node-b" }.into());
            let zone = [None, Some("za"), Some("zb")][hint];
            endpoint.hints = zone.map(|zone| {
                Box::new(api::object::EndpointHints {
                    for_zones: vec![HintName {
                        name: zone.to_owned(),
                    }],
                    ..Default::default()
                })
            });
            endpoint
        },
    )
}

fn slice() -> impl Strategy<Value = EndpointSlice> {
    let endpoints = prop::collection::vec(endpoint(), 0..4);
    (0..SLICES.len(), 0..NAMES.len(), any::<bool>(), endpoints).prop_map(
        |(name, owner, is_udp, endpoints)| {
            let mut slice = EndpointSlice {
                endpoints,
                ..EndpointSlice::default()
            };
            slice.metadata.namespace = "ns".to_owned();
            slice.metadata.name = SLICES[name].to_owned();
            let label = api::object::SERVICE_NAME_LABEL.to_owned();
            slice.metadata.labels.insert(label, NAMES[owner].to_owned());
            slice.ports.push(EndpointPort {
                name: Some(String::new()),
                protocol: Some(if is_udp { Protocol::Udp } else { Protocol::Tcp }),
                port: Some(8080),
                app_protocol: None,
            });
            slice
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => service().prop_map(|service| Change::Service(Box::new(service))),
        1 => (0..NAMES.len()).prop_map(Change::NoService),
        4 => slice().prop_map(|slice| Change::Slice(Box::new(slice))),
        1 => (0..SLICES.len()).prop_map(Change::NoSlice),
        1 => prop::sample::select(vec![None, Some("za"), Some("zb")]).prop_map(Change::Zone),
        2 => Just(Change::Take),
    ]
}

fn node(zone: Option<&str>) -> NodeFacts {
    let ips = vec!["172.30.0.11".parse().expect("IP")];
    NodeFacts {
        zone: zone.map(str::to_owned),
        ips,
        ..NodeFacts::default()
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

/// Objects after some changes.
#[derive(Default)]
struct World {
    services: BTreeMap<String, Service>,
    slices: BTreeMap<String, EndpointSlice>,
    zone: Option<&'static str>,
}

impl World {
    fn apply(&mut self, change: &Change) {
        match change.clone() {
            Change::Service(service) => {
                self.services.insert(service.metadata.name.clone(), *service);
            }
            Change::NoService(name) => {
                self.services.remove(NAMES[name]);
            }
            Change::Slice(slice) => {
                self.slices.insert(slice.metadata.name.clone(), *slice);
            }
            Change::NoSlice(name) => {
                self.slices.remove(SLICES[name]);
            }
            Change::Zone(zone) => self.zone = zone,
            Change::Take => {}
        }
    }

    fn plan(&self) -> Plan {
        let mut plan = Plan::new(settings());
        self.services
            .values()
            .for_each(|service| plan.apply_service(service));
        self.slices.values().for_each(|slice| plan.apply_slice(slice));
        plan.set_node(node(self.zone));
        plan.take_changes();
        plan
    }
}

fn apply(plan: &mut Plan, change: &Change) {
    match change {
        Change::Service(service) => plan.apply_service(service),
        Change::NoService(name) => plan.remove_service(&key(NAMES[*name])),
        Change::Slice(slice) => plan.apply_slice(slice),
        Change::NoSlice(name) => plan.remove_slice(&key(SLICES[*name])),
        Change::Zone(zone) => plan.set_node(node(*zone)),
        Change::Take => {}
    }
}

fn ports(plan: &Plan) -> Vec<ServicePortPlan> {
    plan.ports().cloned().collect()
}

/// Returns every packet that may be relevant to the generated Services.
fn packets() -> impl Iterator<Item = Packet> {
    let destinations = [
        "10.96.0.1",
        "10.96.0.2",
        "10.96.9.9",
        "198.51.100.1",
        "203.0.113.1",
        "172.30.0.11",
        "127.0.0.1",
    ];
    let sources = ["10.244.1.1", "172.30.0.11", "172.30.0.100", "203.0.113.1"];
    let ports = [80, 81, 30_001, 30_002];
    destinations.into_iter().flat_map(move |destination| {
        sources.into_iter().flat_map(move |source| {
            ports.into_iter().flat_map(move |port| {
                [Protocol::Tcp, Protocol::Udp]
                    .into_iter()
                    .map(move |protocol| Packet {
                        source: source.parse().expect("IP"),
                        destination: destination.parse().expect("IP"),
                        port,
                        protocol,
                        interface: None,
                    })
            })
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// In any order of changes and of taking them, the plan equals that of the remaining objects, and all changes are
    /// reported.
    #[test]
    fn incremental_plan_equals_fresh_plan(changes in prop::collection::vec(change(), 1..40)) {
        let mut world = World::default();
        let mut plan = Plan::new(settings());
        plan.set_node(node(None));
        for change in &changes {
            world.apply(change);
            apply(&mut plan, change);
            if matches!(change, Change::Take) {
                let before: BTreeMap<ObjectKey, Vec<_>> =
                    plan.services().map(|key| (key.clone(), plan.ports_of(key).cloned().collect())).collect();
                let reported = plan.take_changes().services;
                let after: BTreeMap<ObjectKey, Vec<_>> =
                    plan.services().map(|key| (key.clone(), plan.ports_of(key).cloned().collect())).collect();
                let keys: BTreeSet<&ObjectKey> = before.keys().chain(after.keys()).collect();
                let differ: Vec<ObjectKey> =
                    keys.into_iter().filter(|key| before.get(key) != after.get(key)).cloned().collect();
                prop_assert_eq!(reported, differ);
            }
        }
        plan.take_changes();
        let fresh = world.plan();
        prop_assert_eq!(ports(&plan), ports(&fresh));
        let faults = |plan: &Plan| plan.faults().map(|(key, fault)| (key.clone(), fault.clone())).collect::<Vec<_>>();
        prop_assert_eq!(faults(&plan), faults(&fresh));
        prop_assert_eq!(plan.health_checks().collect::<Vec<_>>(), fresh.health_checks().collect::<Vec<_>>());
        prop_assert_eq!(plan.totals, fresh.totals);
        let twice = plan.take_changes();
        prop_assert!(twice.services.is_empty() && twice.withdrawn.is_empty(), "{twice:?}");
    }

    /// Invariants of every plan.
    #[test]
    fn decisions_hold_the_invariants(changes in prop::collection::vec(change(), 1..25)) {
        let mut world = World::default();
        changes.iter().for_each(|change| world.apply(change));
        let plan = world.plan();
        let mut seen = BTreeSet::new();
        for port in plan.ports() {
            prop_assert!(port.cluster.is_sorted() && port.local.is_sorted());
            prop_assert!(port.local.iter().all(|backend| backend.can_be_local));
            for frontend in &port.frontends {
                let key = format!("{:?} {:?} {:?} {}", port.key.family, frontend.address, port.key.protocol, frontend.port);
                prop_assert!(seen.insert(key), "a frontend is there twice");
                for origin in Origin::ALL {
                    if let Target::Balance { set, .. } = frontend.target(origin) {
                        prop_assert!(!port.backends(set).is_empty());
                    }
                }
            }
        }
        for packet in packets() {
            let decision = plan.decide(&packet);
            prop_assert!(!decision.to_string().is_empty());
            if let Verdict::Balanced { choices, set, .. } = &decision.verdict {
                prop_assert!(!choices.is_empty());
                let Some((port, _)) = decision.frontend else { panic!("balanced without a frontend") };
                prop_assert_eq!(choices.len(), port.backends(*set).len());
                let itself = choices.iter().find(|choice| choice.address.ip() == packet.source);
                let is_local = |ip| port.backends(EndpointSet::Cluster).iter().any(|backend| backend.address.ip() == ip && backend.can_be_local);
                prop_assert!(itself.is_none_or(|choice| choice.masquerade || !is_local(packet.source)));
            }
        }
    }
}

fn simple(name: &str, cluster_ip: &str, created: &str) -> Service {
    let mut service = Service::default();
    service.metadata.namespace = "ns".to_owned();
    service.metadata.name = name.to_owned();
    service.metadata.creation_timestamp = Some(created.to_owned());
    service.spec.cluster_ip = cluster_ip.to_owned();
    service.spec.ports.push(ServicePort {
        port: 53,
        protocol: Protocol::Udp,
        ..ServicePort::default()
    });
    service
}

#[test]
fn older_service_owns_contested_frontend() {
    let mut plan = Plan::new(settings());
    plan.apply_service(&simple("a", "10.96.0.9", "2026-02-01T00:00:00Z"));
    plan.apply_service(&simple("b", "10.96.0.9", "2026-01-01T00:00:00Z"));
    plan.take_changes();
    let frontends = |plan: &Plan, name: &str| {
        plan.ports_of(&key(name))
            .map(|port| port.frontends.len())
            .sum::<usize>()
    };
    assert_eq!((frontends(&plan, "a"), frontends(&plan, "b")), (0, 1));
    let faults: Vec<String> = plan
        .faults()
        .map(|(key, fault)| format!("{key}: {fault}"))
        .collect();
    assert_eq!(faults, ["ns/a: 10.96.0.9:53 UDP is taken by Service ns/b"]);

    plan.remove_service(&key("b"));
    let changes = plan.take_changes();
    assert_eq!(changes.services, [key("a"), key("b")]);
    assert_eq!((frontends(&plan, "a"), plan.faults().count()), (1, 0));
    assert_eq!(changes.withdrawn.len(), 1);
    assert!(plan.is_cluster_ip("10.96.0.9".parse().expect("IP")));
}

#[test]
fn irrelevant_updates_are_not_changes() {
    let mut plan = Plan::new(settings());
    plan.apply_service(&simple("a", "10.96.0.9", ""));
    assert!(plan.take_changes().needs_full_write);
    let mut same = simple("a", "10.96.0.9", "");
    same.metadata.resource_version = "7".to_owned();
    same.metadata.annotations.insert("x".to_owned(), "y".to_owned());
    plan.apply_service(&same);
    plan.set_node(plan.node().clone());
    plan.set_service_cidrs(plan.settings().service_cidrs.clone());
    assert!(plan.take_changes().is_empty());
}

#[test]
fn invalid_source_ranges_admit_no_client() {
    let mut service = simple("a", "10.96.0.9", "");
    service.spec.kind = "LoadBalancer".to_owned();
    service.spec.load_balancer_source_ranges.push("anyone".to_owned());
    let ingress = api::object::LoadBalancerIngress {
        ip: "203.0.113.1".into(),
        ..Default::default()
    };
    service.status.load_balancer.ingress.push(ingress);
    let mut plan = Plan::new(settings());
    plan.apply_service(&service);
    plan.take_changes();
    let kinds: Vec<_> = plan
        .ports()
        .flat_map(|port| &port.frontends)
        .map(|frontend| frontend.kind)
        .collect();
    assert_eq!(kinds, [FrontendKind::ClusterIp]);
    assert_eq!(plan.faults().count(), 1);
}

#[test]
fn disabled_gate_ignores_external_ips() {
    let mut service = simple("a", "10.96.0.9", "");
    service.spec.external_ips = vec!["198.51.100.7".to_owned(), "nonsense".to_owned()];
    let kinds = |ignores_external_ips| {
        let mut plan = Plan::new(Settings {
            ignores_external_ips,
            ..settings()
        });
        plan.apply_service(&service);
        plan.take_changes();
        let kinds: Vec<_> = plan
            .ports()
            .flat_map(|port| &port.frontends)
            .map(|frontend| frontend.kind)
            .collect();
        (kinds, plan.faults().count())
    };
    assert_eq!(kinds(true), (vec![FrontendKind::ClusterIp], 0));
    assert_eq!(
        kinds(false),
        (vec![FrontendKind::ClusterIp, FrontendKind::ExternalIp], 1)
    );
}

#[test]
fn default_scheduler_serves_services_without_annotation() {
    let mut plan = Plan::new(Settings {
        default_scheduler: Scheduler::RoundRobin,
        ..settings()
    });
    plan.apply_service(&simple("a", "10.96.0.9", ""));
    let mut named = simple("b", "10.96.0.10", "");
    let annotations = &mut named.metadata.annotations;
    annotations.insert("service.portolan.dev/scheduler".into(), "random".into());
    plan.apply_service(&named);
    plan.take_changes();
    let schedulers: Vec<_> = plan.ports().map(|port| port.scheduler).collect();
    assert_eq!(schedulers, [Scheduler::RoundRobin, Scheduler::Random]);
}

#[test]
fn source_range_with_node_ip_admits_load_balancer_ip() {
    let mut service = simple("a", "10.96.0.9", "");
    service
        .spec
        .load_balancer_source_ranges
        .push("172.30.0.0/24".to_owned());
    let ingress = api::object::LoadBalancerIngress {
        ip: "203.0.113.1".into(),
        ..Default::default()
    };
    service.status.load_balancer.ingress.push(ingress);
    let mut plan = Plan::new(settings());
    plan.set_node(node(None));
    plan.apply_service(&service);
    plan.take_changes();
    let ranges: Vec<String> = plan
        .ports()
        .flat_map(|port| &port.frontends)
        .flat_map(|frontend| &frontend.source_ranges)
        .map(ToString::to_string)
        .collect();
    assert_eq!(ranges, ["172.30.0.0/24", "203.0.113.1/32"]);
}

/// Returns a slice of the Service `a` with these ports and endpoints.
fn slice_of(
    name: &str,
    address_type: &str,
    ports: serde_json::Value,
    endpoints: serde_json::Value,
) -> EndpointSlice {
    let slice = serde_json::json!({
        "metadata": {"namespace": "ns", "name": name, "labels": {"kubernetes.io/service-name": "a"}},
        "addressType": address_type, "ports": ports, "endpoints": endpoints,
    });
    serde_json::from_value(slice).expect("a slice")
}

/// KPR-12: ports match by name and protocol. KPR-13: slices of a Service are merged; only the first address counts, and
/// ports without a name or number, and slices of names, do not. KPR-16: an endpoint of this node is local.
#[test]
fn slices_of_a_service_are_merged_by_port_name_and_protocol() {
    use serde_json::json;
    let mut service = simple("a", "10.96.0.9", "");
    service.spec.ports[0].name = "dns".to_owned();
    service.spec.internal_traffic_policy = Some("Local".to_owned());
    let mut plan = Plan::new(settings());
    plan.apply_service(&service);
    let port =
        |name: &str, protocol: &str, number: u16| json!({"name": name, "protocol": protocol, "port": number});
    let here = json!([{"addresses": ["10.244.1.1", "10.244.1.9"], "nodeName": "node-a"}]);
    let there = |ip: &str| json!([{"addresses": [ip], "nodeName": "node-b"}]);
    let unnamed = json!({"protocol": "UDP", "port": 5300});
    for slice in [
        slice_of(
            "one",
            "IPv4",
            json!([port("dns", "UDP", 53), port("dns", "TCP", 54)]),
            here,
        ),
        slice_of(
            "two",
            "IPv4",
            json!([port("dns", "UDP", 53)]),
            there("10.244.2.1"),
        ),
        slice_of(
            "other-name",
            "IPv4",
            json!([port("web", "UDP", 53)]),
            there("10.244.2.2"),
        ),
        slice_of("no-name", "IPv4", json!([unnamed]), there("10.244.2.3")),
        slice_of(
            "no-number",
            "IPv4",
            json!([port("dns", "UDP", 0)]),
            there("10.244.2.4"),
        ),
        slice_of(
            "names",
            "FQDN",
            json!([port("dns", "UDP", 53)]),
            there("db.example.com"),
        ),
    ] {
        plan.apply_slice(&slice);
    }
    plan.take_changes();
    let port = plan.ports().next().expect("a port");
    let addresses = |backends: &[crate::Backend]| {
        let addresses = backends.iter().map(|backend| backend.address.to_string());
        addresses.collect::<Vec<_>>()
    };
    assert_eq!(
        addresses(&port.local),
        ["10.244.1.1:53"],
        "the endpoint of this node"
    );
    assert!(!port.serving.iter().any(|address| address.port() != 53));
    service.spec.internal_traffic_policy = None;
    plan.apply_service(&service);
    plan.take_changes();
    let port = plan.ports().next().expect("a port");
    assert_eq!(addresses(&port.cluster), ["10.244.1.1:53", "10.244.2.1:53"]);
}

/// KPR-01, API-48: kube-proxy selects slices by the headless label only (`cmd/kube-proxy/app/server.go`, Run).
#[test]
fn label_of_another_proxy_counts_at_services_not_at_slices() {
    use serde_json::json;
    const LABEL: &str = "service.kubernetes.io/service-proxy-name";
    let ports = json!([{"name": "", "protocol": "UDP", "port": 53}]);
    let mut slice = slice_of("one", "IPv4", ports, json!([{"addresses": ["10.244.1.1"]}]));
    slice.metadata.labels.insert(LABEL.into(), "other".into());
    let mut service = simple("a", "10.96.0.9", "");
    let mut plan = Plan::new(settings());
    plan.apply_slice(&slice);
    plan.apply_service(&service);
    plan.take_changes();
    let endpoints = |plan: &Plan| plan.ports().map(|port| port.cluster.len()).sum::<usize>();
    assert_eq!(endpoints(&plan), 1);
    service.metadata.labels.insert(LABEL.into(), String::new());
    plan.apply_service(&service);
    plan.take_changes();
    assert_eq!(plan.ports().count(), 0);
    service.metadata.labels.clear();
    plan.apply_service(&service);
    plan.take_changes();
    assert_eq!(endpoints(&plan), 1, "the slice is known");
}

/// KPR-20.
#[test]
fn health_check_needs_a_port_number() {
    let mut service = simple("a", "10.96.0.9", "");
    service.spec.kind = "LoadBalancer".to_owned();
    service.spec.external_traffic_policy = "Local".to_owned();
    let mut plan = Plan::new(settings());
    plan.apply_service(&service);
    plan.take_changes();
    assert_eq!(plan.health_checks().count(), 0);
    assert!(plan.faults().any(|(_, fault)| *fault == Fault::NoHealthCheckPort));
    service.spec.health_check_node_port = 31_000;
    plan.apply_service(&service);
    plan.take_changes();
    assert_eq!((plan.health_checks().count(), plan.faults().count()), (1, 0));
}

/// EPT-22.
#[test]
fn unready_datagram_endpoints_keep_flows_by_annotation() {
    use serde_json::json;
    let endpoint = |address: &str, serving: bool, terminating: bool| {
        json!({"addresses": [address],
            "conditions": {"ready": false, "serving": serving, "terminating": terminating}})
    };
    let endpoints = json!([
        endpoint("10.244.1.1", false, false),
        endpoint("10.244.1.2", false, true),
        endpoint("10.244.1.3", true, true),
    ]);
    let ports = json!([{"name": "", "protocol": "UDP", "port": 53}]);
    let mut service = simple("a", "10.96.0.9", "");
    let mut plan = Plan::new(settings());
    plan.apply_slice(&slice_of("one", "IPv4", ports, endpoints));
    for (value, expected) in [
        ("false", &["10.244.1.3:53"][..]),
        ("true", &["10.244.1.1:53", "10.244.1.3:53"]),
    ] {
        let annotations = &mut service.metadata.annotations;
        annotations.insert(
            "service.portolan.dev/keep-unready-flows".to_owned(),
            value.to_owned(),
        );
        plan.apply_service(&service);
        plan.take_changes();
        let port = plan.ports().next().expect("a port");
        let serving: Vec<String> = port.serving.iter().map(ToString::to_string).collect();
        assert_eq!(serving, expected, "{value}");
    }
}

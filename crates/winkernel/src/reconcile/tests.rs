use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::schema::HnsVersion;
use crate::tests::fake_host::FakeHost;
use crate::tests::test_plans::*;

fn host(kind: &str) -> FakeHost {
    let mut host = FakeHost::new(kind);
    host.endpoints.push(pod_endpoint(1, &[LOCAL_POD]));
    host
}

fn pass(reconciler: &mut Reconciler, host: &mut FakeHost, plan: &Plan) -> Applied {
    let applied = reconciler.reconcile(host, plan, &none_preserving()).unwrap();
    assert!(applied.failures.is_empty(), "{:?}", applied.failures);
    applied
}

fn remote_addresses(host: &FakeHost) -> Vec<String> {
    let remote = host.endpoints.iter().filter(|endpoint| endpoint.is_remote());
    let mut found: Vec<String> = remote.flat_map(addresses).map(|ip| ip.to_string()).collect();
    found.sort_unstable();
    found
}

/// A plan with the Services `a` and `b` that share an endpoint.
fn sharing() -> Plan {
    let mut plan = empty_plan();
    for (name, ip) in [("a", "10.96.0.1"), ("b", "10.96.0.2")] {
        put_service(&mut plan, name, &[ip], &json!({}), &json!({}));
        put_endpoints(&mut plan, name, &[(REMOTE_POD, "node-b", ready())]);
    }
    plan.take_changes();
    plan
}

#[test]
fn first_pass_creates_and_second_changes_nothing() {
    for (kind, endpoints) in [("L2Bridge", 1), ("Overlay", 3)] {
        let (mut host, plan) = (host(kind), web(&json!({}), &json!({})));
        let mut reconciler = Reconciler::new(settings());
        let applied = pass(&mut reconciler, &mut host, &plan);
        assert_eq!(
            (applied.created_endpoints, applied.created),
            (endpoints, 1),
            "{kind}"
        );
        assert_eq!(host.balancers[0].endpoints.len(), 2);
        let changes = host.changes;
        pass(&mut reconciler, &mut host, &plan);
        pass(&mut Reconciler::new(settings()), &mut host, &plan);
        assert_eq!(host.changes, changes, "{kind}");
    }
}

#[test]
fn remote_endpoint_in_an_overlay_names_its_host() {
    let mut host = host("Overlay");
    pass(
        &mut Reconciler::new(settings()),
        &mut host,
        &web(&json!({}), &json!({})),
    );
    let pod = host
        .endpoints
        .iter()
        .find(|of| of.mac_address.starts_with("02-11"));
    let pod = pod.unwrap();
    assert_eq!(
        pod.policies[0].settings,
        json!({"ProviderAddress": "172.30.0.12"})
    );
    assert_eq!((pod.flags, pod.host_compute_network.as_str()), (1, NETWORK_ID));
    let source = host
        .endpoints
        .iter()
        .find(|of| of.ip_configurations[0].ip_address == SOURCE_VIP)
        .unwrap();
    assert!(!source.is_remote() && source.policies.is_empty());
}

#[test]
fn shared_remote_endpoint_is_removed_with_its_last_service() {
    let (mut host, mut plan) = (host("L2Bridge"), sharing());
    let mut reconciler = Reconciler::new(settings());
    assert_eq!(pass(&mut reconciler, &mut host, &plan).created_endpoints, 1);
    for (name, left) in [("a", vec![REMOTE_POD]), ("b", vec![])] {
        plan.remove_service(&key(name));
        plan.take_changes();
        pass(&mut reconciler, &mut host, &plan);
        assert_eq!(remote_addresses(&host), left, "without {name}");
    }
    assert!(host.balancers.is_empty() && host.endpoints.len() == 1);
}

#[test]
fn new_process_deletes_what_an_earlier_one_left() {
    for kind in ["L2Bridge", "Overlay"] {
        let mut host = host(kind);
        pass(&mut Reconciler::new(settings()), &mut host, &sharing());
        pass(&mut Reconciler::new(settings()), &mut host, &empty_plan());
        assert!(host.balancers.is_empty());
        assert_eq!(remote_addresses(&host), Vec::<String>::new(), "{kind}");
    }
}

#[test]
fn remote_endpoints_of_other_programs_stay() {
    let mut host = host("L2Bridge");
    let mut foreign = pod_endpoint(2, &["10.244.2.99"]);
    foreign.flags = ENDPOINT_REMOTE;
    host.endpoints.push(foreign);
    pass(&mut Reconciler::new(settings()), &mut host, &empty_plan());
    assert_eq!((host.endpoints.len(), host.changes), (2, 0));
}

#[test]
fn changed_endpoints_modify_the_load_balancer() {
    let (mut host, mut plan) = (host("L2Bridge"), web(&json!({}), &json!({})));
    let mut reconciler = Reconciler::new(settings());
    pass(&mut reconciler, &mut host, &plan);
    let id = host.balancers[0].id.clone();
    put_endpoints(&mut plan, "web", &[(SECOND_REMOTE_POD, "node-b", ready())]);
    plan.take_changes();
    let applied = pass(&mut reconciler, &mut host, &plan);
    assert_eq!((applied.modified, applied.created, applied.deleted), (1, 0, 0));
    assert_eq!((applied.created_endpoints, applied.deleted_endpoints), (1, 1));
    assert_eq!(host.balancers[0].id, id);
    assert_eq!(remote_addresses(&host), [SECOND_REMOTE_POD]);
}

#[test]
fn load_balancers_are_replaced_if_they_cannot_be_modified() {
    let (mut host, mut plan) = (host("L2Bridge"), web(&json!({}), &json!({})));
    host.has_modify = false;
    let mut reconciler = Reconciler::new(settings());
    pass(&mut reconciler, &mut host, &plan);
    put_endpoints(&mut plan, "web", &[(LOCAL_POD, "node-a", ready())]);
    plan.take_changes();
    let applied = pass(&mut reconciler, &mut host, &plan);
    assert_eq!((applied.modified, applied.created, applied.deleted), (0, 1, 1));
    assert_eq!(host.balancers[0].endpoints.len(), 1);
    assert!(!reconciler.can_modify);
}

#[test]
fn first_failure_of_a_deletion_is_repeated_at_once() {
    let (mut host, mut plan) = (host("L2Bridge"), sharing());
    let mut reconciler = Reconciler::new(settings());
    pass(&mut reconciler, &mut host, &plan);
    plan.remove_service(&key("a"));
    plan.take_changes();
    host.refusals.insert("delete_load_balancer", 1);
    assert_eq!(pass(&mut reconciler, &mut host, &plan).deleted, 1);
}

#[test]
fn failed_deletion_keeps_endpoints_until_the_next_pass() {
    let (mut host, mut reconciler) = (host("L2Bridge"), Reconciler::new(settings()));
    pass(&mut reconciler, &mut host, &web(&json!({}), &json!({})));
    host.refusals.insert("delete_load_balancer", 2);
    let plan = empty_plan();
    let applied = reconciler
        .reconcile(&mut host, &plan, &none_preserving())
        .unwrap();
    assert_eq!((applied.failures.len(), applied.deleted_endpoints), (1, 0));
    assert!(
        applied.failures[0]
            .error
            .to_string()
            .contains("0x80070005: out of resources")
    );
    assert_eq!(remote_addresses(&host), [REMOTE_POD]);
    let applied = pass(&mut reconciler, &mut host, &plan);
    assert_eq!((applied.deleted, applied.deleted_endpoints), (1, 1));
}

#[test]
fn failed_endpoint_is_left_out_until_the_next_pass() {
    let (mut host, plan) = (host("L2Bridge"), web(&json!({}), &json!({})));
    host.refusals.insert("create_endpoint", 1);
    let mut reconciler = Reconciler::new(settings());
    let applied = reconciler
        .reconcile(&mut host, &plan, &none_preserving())
        .unwrap();
    assert_eq!(applied.failures[0].subject, REMOTE_POD);
    assert_eq!(host.balancers[0].endpoints.len(), 1);
    pass(&mut reconciler, &mut host, &plan);
    assert_eq!(host.balancers[0].endpoints.len(), 2);
}

#[test]
fn failed_creation_names_the_service() {
    let (mut host, plan) = (host("L2Bridge"), web(&json!({}), &json!({})));
    host.refusals.insert("create_load_balancer", 1);
    let mut reconciler = Reconciler::new(settings());
    let applied = reconciler
        .reconcile(&mut host, &plan, &none_preserving())
        .unwrap();
    assert_eq!(applied.failures[0].service, Some(key("web")));
    assert_eq!(pass(&mut reconciler, &mut host, &plan).created, 1);
}

#[test]
fn no_load_balancer_is_created_without_the_endpoint_of_the_source_vip() {
    let (mut host, plan) = (host("Overlay"), web(&json!({}), &json!({})));
    host.refusals.insert("create_endpoint", 1);
    let outcome = Reconciler::new(settings()).reconcile(&mut host, &plan, &none_preserving());
    assert!(matches!(outcome, Err(ReconcileError::SourceVip { .. })));
    assert_eq!((host.endpoints.len(), host.balancers.len()), (1, 0));
}

#[test]
fn missing_network_is_named_beside_those_that_exist() {
    let mut host = host("L2Bridge");
    let mut other = settings();
    other.network_name = "flannel".to_owned();
    let outcome = Reconciler::new(other).reconcile(&mut host, &empty_plan(), &none_preserving());
    let text = outcome.unwrap_err().to_string();
    assert!(
        text.contains("\"flannel\"") && text.contains("[\"pods\"]"),
        "{text}"
    );
}

#[test]
fn old_hns_is_refused() {
    let mut host = host("L2Bridge");
    host.version = HnsVersion { major: 9, minor: 1 };
    let outcome = Reconciler::new(settings()).reconcile(&mut host, &empty_plan(), &none_preserving());
    let expected = SettingsError::SchemaNotSupported.to_string();
    assert_eq!(outcome.unwrap_err().to_string(), expected);
}

#[test]
fn new_network_of_the_same_name_gets_all_objects_again() {
    let (mut host, plan) = (host("Overlay"), web(&json!({}), &json!({})));
    let mut reconciler = Reconciler::new(settings());
    pass(&mut reconciler, &mut host, &plan);
    let id = HnsId::from("A0000000-0000-0000-0000-000000000002");
    host.networks[0].id = id.clone();
    host.endpoints.clear();
    let mut pod = pod_endpoint(2, &[LOCAL_POD]);
    pod.host_compute_network = id;
    host.endpoints.push(pod);
    let applied = pass(&mut reconciler, &mut host, &plan);
    assert_eq!((applied.created_endpoints, applied.modified), (3, 1));
}

#[test]
fn flags_dropped_by_hns_are_no_difference_to_the_writing_process() {
    let spec = json!({
        "type": "NodePort", "ports": [{"name": "http", "port": 80, "nodePort": 30080}],
    });
    let (mut host, plan) = (host("L2Bridge"), web(&spec, &json!({})));
    host.forgets_flags = true;
    let mut reconciler = Reconciler::new(settings());
    assert_eq!(pass(&mut reconciler, &mut host, &plan).created, 2);
    let changes = host.changes;
    pass(&mut reconciler, &mut host, &plan);
    assert_eq!(host.changes, changes);
}

/// Identity and content of the load balancers, without identifiers.
fn content(host: &FakeHost) -> Vec<Value> {
    let address_of = |id: &HnsId| {
        let endpoint = host.endpoints.iter().find(|endpoint| endpoint.id == *id);
        endpoint.map(|endpoint| endpoint.ip_configurations[0].ip_address.clone())
    };
    let mut found: Vec<Value> = host
        .balancers
        .iter()
        .map(|balancer| {
            let mut endpoints: Vec<_> = balancer.endpoints.iter().map(address_of).collect();
            endpoints.sort_unstable();
            let plain = LoadBalancer {
                id: HnsId::default(),
                endpoints: Vec::new(),
                ..balancer.clone()
            };
            json!([plain, endpoints])
        })
        .collect();
    found.sort_by_key(ToString::to_string);
    found
}

/// A plan whose Services have these endpoints, by bit, and these policies.
fn world(services: &[(u8, bool, bool)]) -> Plan {
    let mut plan = empty_plan();
    let all = [
        (LOCAL_POD, "node-a"),
        (REMOTE_POD, "node-b"),
        (SECOND_REMOTE_POD, "node-b"),
        ("192.0.2.77", ""),
    ];
    for (index, (endpoints, is_local, has_node_port)) in services.iter().enumerate() {
        let name = format!("s{index}");
        let mut spec = json!({"internalTrafficPolicy": if *is_local { "Local" } else { "Cluster" }});
        if *has_node_port {
            spec["type"] = json!("NodePort");
            spec["ports"] = json!([{"name": "http", "port": 80, "nodePort": 30_000 + index}]);
        }
        let ip = format!("10.96.0.{}", index + 1);
        put_service(&mut plan, &name, &[&ip], &spec, &json!({}));
        let chosen: Vec<_> = (0..all.len())
            .filter(|bit| *endpoints & (1u8 << bit) != 0)
            .map(|bit| (all[bit].0, all[bit].1, ready()))
            .collect();
        put_endpoints(&mut plan, &name, &chosen);
    }
    plan.take_changes();
    plan
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any sequence of plans, with restarts of the process and without, ends in the state of a fresh host.
    #[test]
    fn passes_converge_to_the_state_of_a_fresh_host(
        kind in prop::sample::select(vec!["L2Bridge", "Overlay"]),
        has_modify in any::<bool>(),
        worlds in prop::collection::vec(
            (prop::collection::vec((0u8..16, any::<bool>(), any::<bool>()), 0..4), any::<bool>()), 1..5,
        ),
    ) {
        let mut host = host(kind);
        host.has_modify = has_modify;
        let mut reconciler = Reconciler::new(settings());
        for (services, restarts) in worlds {
            if restarts {
                reconciler = Reconciler::new(settings());
            }
            let plan = world(&services);
            pass(&mut reconciler, &mut host, &plan);
            let changes = host.changes;
            pass(&mut reconciler, &mut host, &plan);
            prop_assert_eq!(host.changes, changes);
            let mut fresh = self::host(kind);
            pass(&mut Reconciler::new(settings()), &mut fresh, &plan);
            prop_assert_eq!(content(&host), content(&fresh));
            let others = |host: &FakeHost| {
                host.endpoints.iter().filter(|of| of.is_remote()).count()
            };
            prop_assert_eq!(others(&host), others(&fresh));
        }
    }
}

//! Affinities of a Service port whose number or name changes.

use api::object::{EndpointSlice, Service};
use serde_json::json;

use super::*;

/// Returns the Service of [`put`] with number 0 and another port.
fn service(name: &str, port: u16) -> Service {
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "s0"},
        "spec": {
            "type": "NodePort", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "sessionAffinity": "ClientIP",
            "ports": [{"name": name, "port": port, "nodePort": 30_000}],
        },
    }))
    .unwrap()
}

/// Returns keys, numbers and rests of timeouts.
fn affinities() -> Vec<(Vec<u8>, Vec<u8>, Option<u64>)> {
    let read = |element: Element<'_>| {
        let Some(ElementData::Value(number)) = element.data else {
            panic!("an affinity without a number");
        };
        (
            element.key.to_vec(),
            number.to_vec(),
            element.expiration_milliseconds,
        )
    };
    let affinities = Nftables::open()
        .unwrap()
        .elements(TABLE, Map::Affinity.name(Family::V4), read);
    affinities.unwrap()
}

/// EPT-11.
#[test]
fn affinities_follow_the_name_of_a_port() {
    testbed::in_namespace(|| {
        const CLIENT: [u8; 4] = [192, 0, 2, 1];
        let (mut plan, mut dataplane) = loaded(1);
        let numbers = Nftables::open()
            .unwrap()
            .elements(TABLE, Map::ClusterMembers.name(Family::V4), |element| {
                element.key[12..].to_vec()
            })
            .unwrap();
        let key = [&CLIENT[..], &FRONTEND].concat();
        tamper(|batch| {
            let element = Element {
                timeout_milliseconds: Some(3_600_000),
                expiration_milliseconds: Some(1_800_000),
                ..Element::pair(&key, ElementData::Value(&numbers[0]))
            };
            batch
                .elements(Change::Add, Map::Affinity.name(Family::V4), 0)
                .push(&element);
        });
        plan.apply_service(&service("http", 81));
        update(&mut plan, &mut dataplane);
        let found = affinities();
        assert_eq!(found.len(), 1, "{found:?}");
        let (key, number, expiration_milliseconds) = &found[0];
        assert_eq!(
            *key,
            [&CLIENT[..], &[10, 96, 0, 1, 6, 0, 0, 0, 0, 81, 0, 0]].concat()
        );
        assert_eq!(*number, numbers[0]);
        assert!(
            expiration_milliseconds.is_some_and(|rest| rest <= 1_800_000),
            "{found:?}"
        );
        plan.apply_service(&service("other", 82));
        update(&mut plan, &mut dataplane);
        assert!(affinities().is_empty());
    });
}

/// Returns the Service of [`put`] with number 0 and many ports, which begin with the number `first`.
fn service_with_ports(first: u16, count: u16) -> Service {
    let ports: Vec<_> = (0..count)
        .map(|number| json!({"name": format!("p{number}"), "port": first + number}))
        .collect();
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "s0"},
        "spec": {
            "type": "ClusterIP", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "sessionAffinity": "ClientIP",
            "ports": ports,
        },
    }))
    .unwrap()
}

/// A comparison of all pairs of ports would take minutes, and delay the changes of other Services.
#[test]
fn changed_numbers_of_many_ports_take_linear_time() {
    const PORTS: u16 = 20_000;
    let ports: Vec<_> = (0..PORTS)
        .map(|number| json!({"name": format!("p{number}"), "port": 8080}))
        .collect();
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "s0", "labels": {"kubernetes.io/service-name": "s0"}},
        "addressType": "IPv4",
        "ports": ports,
        "endpoints": [{"addresses": ["10.244.0.1"]}],
    }))
    .unwrap();
    let mut plan = Plan::new(settings());
    plan.apply_slice(&slice);
    let (mut applied, mut codes) = (AppliedServices::default(), VerdictCodes::default());
    let mut transaction = |first: u16| {
        plan.apply_service(&service_with_ports(first, PORTS));
        let changes = plan.take_changes();
        let services = changes.services.iter();
        Transaction::new(&plan, services, &Delegation::None, &mut applied, &mut codes)
    };
    let (first, second) = (transaction(1), transaction(1 + PORTS));
    assert!(first.moved_members(&applied, Family::V4).is_empty());
    let moved = second.moved_members(&applied, Family::V4);
    assert_eq!(moved.len(), usize::from(PORTS));
    let number = |key: &MapBytes| u16::from_be_bytes([key.as_slice()[8], key.as_slice()[9]]);
    assert!(
        moved
            .iter()
            .all(|(former, now)| number(former) + PORTS == number(now))
    );
}

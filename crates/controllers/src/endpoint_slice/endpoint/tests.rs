use api::object::{AddressType, Pod, Service};
use serde_json::{Value, json};

use super::{endpoint_of, is_candidate, ports_of};
use crate::caches::PodFacts;
use crate::caches::interner::Interner;

fn service(spec: Value) -> Service {
    serde_json::from_value(json!({"metadata": {"name": "s", "namespace": "n"}, "spec": spec}))
        .expect("a Service")
}

fn pod(spec: Value, status: Value) -> PodFacts {
    let pod: Pod = serde_json::from_value(
        json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec, "status": status}),
    )
    .expect("a Pod");
    PodFacts::of(&pod, &mut Interner::default())
}

fn running(ready: &str) -> Value {
    json!({"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
           "conditions": [{"type": "Ready", "status": ready}]})
}

#[test]
fn conditions_follow_readiness_and_deletion() {
    let plain = service(json!({}));
    let publishes = service(json!({"publishNotReadyAddresses": true}));
    let mut pod = pod(json!({}), running("True"));
    let conditions = |pod: &PodFacts, service: &Service| {
        let conditions = endpoint_of(pod, service, AddressType::IPv4, None)
            .expect("an endpoint")
            .conditions;
        (conditions.ready, conditions.serving, conditions.terminating)
    };
    assert_eq!(conditions(&pod, &plain), (Some(true), Some(true), Some(false)));
    pod.is_terminating = true;
    assert_eq!(conditions(&pod, &plain), (Some(false), Some(true), Some(true)));
    assert_eq!(conditions(&pod, &publishes), (Some(true), Some(true), Some(true)));
    pod.is_ready = false;
    assert_eq!(conditions(&pod, &plain), (Some(false), Some(false), Some(true)));
}

#[test]
fn families_have_their_own_addresses() {
    let pod = pod(json!({}), running("True"));
    let of = |family| {
        endpoint_of(&pod, &service(json!({})), family, None).map(|endpoint| endpoint.addresses[0].to_string())
    };
    assert_eq!(of(AddressType::IPv4).as_deref(), Some("10.0.0.1"));
    assert_eq!(of(AddressType::IPv6).as_deref(), Some("fd00::1"));
}

#[test]
fn finished_pods_and_pods_without_an_address_are_not_candidates() {
    assert!(is_candidate(&pod(json!({}), running("False"))));
    assert!(!is_candidate(&pod(json!({}), json!({"phase": "Pending"}))));
    assert!(!is_candidate(&pod(
        json!({}),
        json!({"phase": "Succeeded", "podIP": "10.0.0.1"})
    )));
}

#[test]
fn named_ports_need_the_name_and_the_protocol() {
    let service = service(json!({"ports": [
        {"name": "a", "port": 80, "targetPort": "web"},
        {"name": "b", "port": 81, "targetPort": "web", "protocol": "UDP"},
        {"name": "c", "port": 82, "targetPort": "side"},
        {"name": "d", "port": 83}]}));
    let spec = json!({
        "containers": [{"name": "c", "ports": [{"name": "web", "containerPort": 8080}]}],
        "initContainers": [
            {"name": "i", "ports": [{"name": "side", "containerPort": 1}]},
            {"name": "r", "restartPolicy": "Always", "ports": [{"name": "side", "containerPort": 9000}]}]});
    let ports = ports_of(&pod(spec, running("True")), &service);
    let found: Vec<_> = ports
        .iter()
        .map(|port| (port.name.as_deref().unwrap_or(""), port.port.unwrap_or(0)))
        .collect();
    assert_eq!(found, [("a", 8080), ("c", 9000), ("d", 83)]);
}

#[test]
fn each_of_many_named_ports_is_found() {
    let name = |index: usize| format!("p{index}");
    let ports =
        (1..=20_000).map(|index| json!({"name": name(index), "port": 1, "targetPort": name(20_001 - index)}));
    let service = service(json!({"ports": ports.collect::<Vec<_>>()}));
    let ports = (1..=20_000).map(|index| json!({"name": name(index), "containerPort": index}));
    let spec = json!({"containers": [{"name": "c", "ports": ports.collect::<Vec<_>>()}]});
    let found = ports_of(&pod(spec, running("True")), &service);
    let numbers: Vec<u16> = found.iter().filter_map(|port| port.port).collect();
    assert_eq!(numbers, (1..=20_000).rev().collect::<Vec<u16>>());
}

#[test]
fn first_of_two_ports_with_a_name_counts() {
    let service = service(json!({"ports": [{"name": "a", "port": 80, "targetPort": "web"}]}));
    let container = |number: u16| json!({"name": "c", "ports": [{"name": "web", "containerPort": number}]});
    let spec = json!({"containers": [container(8080), container(9090)]});
    assert_eq!(
        ports_of(&pod(spec, running("True")), &service)[0].port,
        Some(8080)
    );
}

#[test]
fn hostname_requires_the_subdomain_of_the_service() {
    let hostname = |subdomain: &str| {
        let pod = pod(
            json!({"hostname": "web-0", "subdomain": subdomain}),
            running("True"),
        );
        endpoint_of(&pod, &service(json!({})), AddressType::IPv4, None).and_then(|endpoint| endpoint.hostname)
    };
    assert_eq!(hostname("s").as_deref(), Some("web-0"));
    assert_eq!(hostname("other"), None);
}

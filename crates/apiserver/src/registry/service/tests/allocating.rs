use std::collections::HashSet;

use serde_json::{Value, json};
use store::{Store, Transaction, Write};

use super::server::{Server, config, expected_keys};
use crate::registry::service::*;

fn service(name: &str, spec: Value) -> Value {
    let mut service = json!({"metadata": {"name": name, "namespace": "n"}, "spec": spec});
    api::service::default_on_write(&mut service);
    service
}

fn minimal(name: &str) -> Value {
    service(name, json!({"ports": [{"port": 80}]}))
}

fn cluster_ip(service: &Value) -> String {
    service["spec"]["clusterIP"]
        .as_str()
        .expect("an address")
        .to_owned()
}

#[test]
fn an_allocation_writes_down_what_it_takes() {
    let server = Server::new(&["10.0.0.0/24"]);
    let mut new = service(
        "s",
        json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_007}]}),
    );
    let allocation = server
        .registry
        .create(server.store.index(), &mut new, false)
        .expect("allocated");
    let address = cluster_ip(&new);
    let keys = [
        format!("/networking.k8s.io/ipaddresses/{address}"),
        "/nodeports/30007".to_owned(),
    ];
    assert_eq!(expected_keys(&allocation), keys);
    let Write::Put(_, value) = &allocation.writes[0] else {
        panic!("not written")
    };
    let mut object: Value = serde_json::from_slice(&value.bytes).expect("JSON");
    assert!(value.revision_at.is_some());
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    assert!(metadata.remove("uid").is_some() && metadata.remove("creationTimestamp").is_some());
    assert_eq!(
        object,
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
            "metadata": {"name": address, "resourceVersion": "", "labels": {
                "ipaddress.kubernetes.io/ip-family": "IPv4",
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}},
            "spec": {"parentRef": {"resource": "services", "namespace": "n", "name": "s"}}})
    );
    assert!(api::network::validate_ip_address(&object).is_empty());
}

#[test]
fn what_is_not_committed_comes_back() {
    let server = Server::new(&["10.0.0.0/30"]);
    for _ in 0..5 {
        for name in ["a", "b"] {
            let allocation = server
                .registry
                .create(server.store.index(), &mut minimal(name), false);
            assert_eq!(allocation.expect("allocated").writes.len(), 1);
        }
    }
    assert_eq!(server.registry.usage().ranges[0].allocated, 0);
}

#[test]
fn a_full_range_is_an_internal_error() {
    let server = Server::new(&["10.0.0.0/30"]);
    for name in ["a", "b"] {
        server.create("n", minimal(name), false).expect("created");
    }
    let failure = server
        .registry
        .create(server.store.index(), &mut minimal("c"), false)
        .err();
    let expected = "failed to allocate a serviceIP for Service \"c\": range is full";
    assert_eq!(failure, Some(Failure::Internal(expected.to_owned())));
    server.delete("n", "a").expect("deleted");
    server.create("n", minimal("c"), false).expect("created");
}

#[test]
fn many_services_get_distinct_addresses_and_a_restart_knows_them() {
    let ranges = ["10.0.0.0/24", "fd00::/120"];
    let server = Server::new(&ranges);
    let mut seen = HashSet::new();
    for number in 0..60 {
        let spec = json!({"type": "NodePort", "ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80}]});
        let (created, _) = server
            .create("n", service(&format!("s{number}"), spec), false)
            .expect("created");
        for address in created["spec"]["clusterIPs"].as_array().expect("a list") {
            assert!(seen.insert(address.to_string()));
        }
        assert!(seen.insert(created["spec"]["ports"][0]["nodePort"].to_string()));
    }
    let usage = server.registry.usage();
    assert_eq!(
        usage
            .ranges
            .iter()
            .map(|range| range.allocated)
            .collect::<Vec<_>>(),
        [60, 60]
    );
    let restarted = server.restarted(&ranges).usage();
    assert_eq!(
        restarted
            .ranges
            .iter()
            .map(|range| range.available)
            .collect::<Vec<_>>(),
        usage
            .ranges
            .iter()
            .map(|range| range.available)
            .collect::<Vec<_>>()
    );
    assert_eq!(restarted.available_ports, usage.available_ports);
    assert_eq!(usage.dynamic_ports.allocations, 60);
}

#[test]
fn a_dry_run_takes_nothing() {
    let server = Server::new(&["10.0.0.0/24"]);
    let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]});
    let (shown, _) = server.create("n", service("s", spec), true).expect("accepted");
    assert_eq!(shown["spec"]["clusterIP"], "10.0.0.0");
    assert!(shown["spec"]["healthCheckNodePort"].is_number());
    let usage = server.registry.usage();
    assert_eq!((usage.ranges[0].allocated, usage.allocated_ports), (0, 0));
    server
        .create(
            "n",
            service("s", json!({"clusterIP": "10.0.0.9", "ports": [{"port": 80}]})),
            false,
        )
        .expect("created");
    let taken = service("t", json!({"clusterIP": "10.0.0.9", "ports": [{"port": 80}]}));
    assert_eq!(server.create("n", taken, true).expect_err("taken").0, 422);
}

#[test]
fn refusals_say_why() {
    let server = Server::new(&["10.0.0.0/24"]);
    server
        .create(
            "n",
            service("s", json!({"clusterIP": "10.0.0.9", "ports": [{"port": 80}]})),
            false,
        )
        .expect("created");
    let message = |address: &str| {
        let mut new = service("t", json!({"clusterIP": address, "ports": [{"port": 80}]}));
        match server
            .registry
            .create(server.store.index(), &mut new, false)
            .err()
        {
            Some(Failure::Invalid(errors)) => errors[0].message.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert!(
        message("10.0.0.9").ends_with("failed to allocate IP 10.0.0.9: provided IP is already allocated")
    );
    assert!(message("10.0.0.0").ends_with(
        "the provided IP (10.0.0.0) is not in the valid range. The range of valid IPs is 10.0.0.0/24"
    ));
    assert!(message("10.9.0.5").ends_with("the provided network does not match the current range"));
}

#[test]
fn ports_are_kept_moved_and_freed_by_updates() {
    let server = Server::new(&["10.0.0.0/24"]);
    let spec = json!({"type": "NodePort", "ports": [
        {"name": "a", "port": 80, "nodePort": 30_001}, {"name": "b", "port": 81, "nodePort": 30_002}]});
    let (created, _) = server.create("n", service("s", spec), false).expect("created");
    let mut new = created.clone();
    new["spec"]["ports"] = json!([{"name": "b", "port": 81, "nodePort": 30_001}, {"name": "c", "port": 82}]);
    let (updated, _) = server.update("n", "s", new).expect("updated");
    let next = updated["spec"]["ports"][1]["nodePort"].to_string();
    let mut held = vec!["30001".to_owned(), next];
    held.sort();
    assert_eq!(server.keys("/nodeports/"), held);
    let mut twice = updated.clone();
    twice["spec"]["ports"] =
        json!([{"name": "b", "port": 81, "nodePort": 30_001}, {"name": "c", "port": 82, "nodePort": 30_001}]);
    assert_eq!(server.update("n", "s", twice).expect_err("twice").0, 500);
    let mut away = updated;
    away["spec"]["type"] = "ClusterIP".into();
    server.update("n", "s", away).expect("updated");
    assert!(server.keys("/nodeports/").is_empty());
    assert_eq!(server.registry.usage().allocated_ports, 0);
}

#[test]
fn a_conflict_leaves_the_address_to_its_holder() {
    let server = Server::new(&["10.0.0.0/30"]);
    let mut new = minimal("a");
    let allocation = server
        .registry
        .create(server.store.index(), &mut new, false)
        .expect("allocated");
    let taken_elsewhere = expected_keys(&allocation).remove(0);
    assert!(
        !server
            .restarted(&["10.0.0.0/30"])
            .create(server.store.index(), &mut minimal("x"), false)
            .expect("allocated")
            .conflicted("/services/n/x")
    );
    assert!(allocation.conflicted(&taken_elsewhere));
    assert_eq!(server.registry.usage().ranges[0].allocated, 1);
    let (created, _) = server.create("n", minimal("a"), false).expect("created");
    assert_ne!(cluster_ip(&created), cluster_ip(&new));
}

#[test]
fn ranges_come_and_go() {
    let server = Server::new(&["10.0.0.0/30"]);
    let cidr = |name: &str, net: &str, ready: &str| {
        json!({"metadata": {"name": name}, "spec": {"cidrs": [net]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    };
    let requests = |address: &str| {
        let mut new = service("r", json!({"clusterIP": address, "ports": [{"port": 80}]}));
        server
            .registry
            .create(server.store.index(), &mut new, false)
            .is_ok()
    };
    assert!(!requests("10.1.0.5"));
    server
        .registry
        .range_written(&cidr("more", "10.1.0.0/24", "False"));
    assert!(!requests("10.1.0.5"));
    server
        .registry
        .range_written(&cidr("more", "10.1.0.0/24", "True"));
    assert!(requests("10.1.0.5"));
    for name in ["a", "b", "c"] {
        server.create("n", minimal(name), false).expect("created");
    }
    server.registry.range_written(&cidr("wide", "10.0.0.0/8", "True"));
    let wide = server.registry.usage().ranges.pop().expect("a range");
    assert_eq!(
        wide.allocated, 3,
        "what is taken in one range is taken in those that contain it"
    );
    server.registry.range_removed("wide");
    server.registry.range_removed("more");
    server.registry.range_removed(DEFAULT_SERVICE_CIDR);
    assert!(!requests("10.1.0.5"));
    assert_eq!(
        server.registry.usage().ranges.len(),
        1,
        "the configured range stays"
    );
}

#[test]
fn a_deletion_takes_the_endpoints_along() {
    let server = Server::new(&["10.0.0.0/24"]);
    server.create("n", minimal("s"), false).expect("created");
    let endpoints = json!({"metadata": {"name": "s", "namespace": "n"}});
    let (bytes, revision_at) = api::encode::encode(&endpoints);
    let value = store::Value {
        bytes: bytes.into(),
        revision_at: Some(revision_at),
    };
    let writes = vec![Write::Put("/endpoints/n/s".into(), value)];
    server.commit(Transaction {
        expectations: Vec::new(),
        writes,
    });
    server.delete("n", "s").expect("deleted");
    assert!(
        server.keys("/endpoints/").is_empty() && server.keys("/networking.k8s.io/ipaddresses/").is_empty()
    );
}

#[test]
fn addresses_of_other_writers_are_respected() {
    let server = Server::new(&["10.0.0.0/30"]);
    server
        .registry
        .address_written("10.0.0.1".parse().expect("an address"));
    let (created, _) = server.create("n", minimal("s"), false).expect("created");
    assert_eq!(cluster_ip(&created), "10.0.0.2");
    server
        .registry
        .address_removed("10.0.0.1".parse().expect("an address"));
    server.create("n", minimal("t"), false).expect("created");
}

#[test]
fn ranges_that_do_not_fit_together_are_refused() {
    let server = Server::new(&["10.0.0.0/30"]);
    for ranges in [&[][..], &["10.0.0.0/24", "10.1.0.0/24"], &["fd00::/56"]] {
        assert!(
            Registry::new(server.store.index(), config(ranges)).is_err(),
            "{ranges:?}"
        );
    }
}

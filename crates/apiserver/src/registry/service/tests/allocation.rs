//! Allocation of cluster IPs and node ports to Services, on a real store.

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
        .expect("a cluster IP")
        .to_owned()
}

#[test]
fn allocation_records_its_address_and_port() {
    let server = Server::new(&["10.0.0.0/24"]);
    let mut new = service(
        "s",
        json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_007}]}),
    );
    let allocation = server
        .allocators
        .create(server.store.index(), &mut new, false)
        .expect("an allocation");
    let address = cluster_ip(&new);
    let keys = [
        format!("/networking.k8s.io/ipaddresses/{address}"),
        "/nodeports/30007".to_owned(),
    ];
    assert_eq!(expected_keys(&allocation), keys);
    let Write::Put(_, value) = &allocation.writes[0] else {
        panic!("expected a put")
    };
    let mut object: Value = serde_json::from_slice(&value.bytes).expect("JSON");
    assert!(value.revision_at.is_some());
    let metadata = object["metadata"]
        .as_object_mut()
        .expect("metadata of the IPAddress");
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
fn dropped_allocations_release_their_addresses() {
    let server = Server::new(&["10.0.0.0/30"]);
    for _ in 0..5 {
        for name in ["a", "b"] {
            let allocation = server
                .allocators
                .create(server.store.index(), &mut minimal(name), false);
            assert_eq!(allocation.expect("an allocation").writes.len(), 1);
        }
    }
    assert_eq!(server.allocators.usage().ranges[0].allocated, 0);
}

#[test]
fn exhausted_range_is_an_internal_error() {
    let server = Server::new(&["10.0.0.0/30"]);
    for name in ["a", "b"] {
        server
            .create("n", minimal(name), false)
            .expect("a created Service");
    }
    let failure = server
        .allocators
        .create(server.store.index(), &mut minimal("c"), false)
        .err();
    let expected = "failed to allocate a serviceIP for Service \"c\": range is full";
    assert_eq!(failure, Some(Failure::Internal(expected.to_owned())));
    server.delete("n", "a").expect("a deleted Service");
    server
        .create("n", minimal("c"), false)
        .expect("a created Service");
}

#[test]
fn services_get_distinct_addresses_that_survive_a_restart() {
    let ranges = ["10.0.0.0/24", "fd00::/120"];
    let server = Server::new(&ranges);
    let mut seen = HashSet::new();
    for number in 0..60 {
        let spec = json!({"type": "NodePort", "ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80}]});
        let (created, _) = server
            .create("n", service(&format!("s{number}"), spec), false)
            .expect("a created Service");
        for address in created["spec"]["clusterIPs"].as_array().expect("a JSON list") {
            assert!(seen.insert(address.to_string()));
        }
        assert!(seen.insert(created["spec"]["ports"][0]["nodePort"].to_string()));
    }
    let usage = server.allocators.usage();
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
fn dry_run_reserves_nothing() {
    let server = Server::new(&["10.0.0.0/24"]);
    let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]});
    let (shown, _) = server
        .create("n", service("s", spec), true)
        .expect("an accepted Service");
    assert_eq!(shown["spec"]["clusterIP"], "10.0.0.0");
    assert!(shown["spec"]["healthCheckNodePort"].is_number());
    let usage = server.allocators.usage();
    assert_eq!((usage.ranges[0].allocated, usage.allocated_ports), (0, 0));
    server
        .create(
            "n",
            service("s", json!({"clusterIP": "10.0.0.9", "ports": [{"port": 80}]})),
            false,
        )
        .expect("a created Service");
    // As kube-apiserver 1.36.2: a dry run checks the range of a requested address, not its holder.
    let taken = service("t", json!({"clusterIP": "10.0.0.9", "ports": [{"port": 80}]}));
    server.create("n", taken, true).expect("an accepted Service");
    let outside = service("t", json!({"clusterIP": "10.0.1.9", "ports": [{"port": 80}]}));
    let (code, _) = server
        .create("n", outside, true)
        .expect_err("an address outside of the range");
    assert_eq!(code, 422);
}

// The expectations are responses of kube-apiserver 1.36.2.
#[test]
fn dry_run_shows_ports_above_the_range() {
    let server = Server::new(&["10.0.0.0/24"]);
    let node_port = |name: &str, number: i64| json!({"name": name, "port": number, "nodePort": number});
    let held = json!({"type": "NodePort", "ports": [node_port("a", 31_777)]});
    server
        .create("n", service("s", held.clone()), false)
        .expect("a created Service");
    let plain = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
    let (shown, _) = server
        .create(
            "n",
            service("t", json!({"type": "NodePort", "ports": plain})),
            true,
        )
        .expect("an accepted Service");
    assert_eq!(shown["spec"]["ports"][0]["nodePort"], 32_769);
    assert_eq!(shown["spec"]["ports"][1]["nodePort"], 32_770);
    let outside = json!({"type": "NodePort", "ports": [node_port("a", 5), {"name": "b", "port": 81}]});
    let (shown, _) = server
        .create("n", service("t", outside), true)
        .expect("an accepted Service");
    assert_eq!(shown["spec"]["ports"][1]["nodePort"], 6);
    let (code, _) = server
        .create("n", service("t", held), true)
        .expect_err("a port that is taken");
    assert_eq!(code, 422);
    assert_eq!(server.allocators.usage().allocated_ports, 1);
}

#[test]
fn refusals_have_upstreams_messages() {
    let server = Server::new(&["10.0.0.0/24"]);
    server
        .create(
            "n",
            service("s", json!({"clusterIP": "10.0.0.9", "ports": [{"port": 80}]})),
            false,
        )
        .expect("a created Service");
    let message = |address: &str| {
        let mut new = service("t", json!({"clusterIP": address, "ports": [{"port": 80}]}));
        match server
            .allocators
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
fn updates_keep_move_and_release_ports() {
    let server = Server::new(&["10.0.0.0/24"]);
    let spec = json!({"type": "NodePort", "ports": [
        {"name": "a", "port": 80, "nodePort": 30_001}, {"name": "b", "port": 81, "nodePort": 30_002}]});
    let (created, _) = server
        .create("n", service("s", spec), false)
        .expect("a created Service");
    let mut new = created.clone();
    new["spec"]["ports"] = json!([{"name": "b", "port": 81, "nodePort": 30_001}, {"name": "c", "port": 82}]);
    let (updated, _) = server.update("n", "s", new).expect("an updated Service");
    let next = updated["spec"]["ports"][1]["nodePort"].to_string();
    let mut held = vec!["30001".to_owned(), next];
    held.sort();
    assert_eq!(server.keys("/nodeports/"), held);
    let mut duplicate = updated.clone();
    duplicate["spec"]["ports"] =
        json!([{"name": "b", "port": 81, "nodePort": 30_001}, {"name": "c", "port": 82, "nodePort": 30_001}]);
    assert_eq!(
        server
            .update("n", "s", duplicate)
            .expect_err("a duplicate port")
            .0,
        500
    );
    let mut without_ports = updated;
    without_ports["spec"]["type"] = "ClusterIP".into();
    server
        .update("n", "s", without_ports)
        .expect("an updated Service");
    assert!(server.keys("/nodeports/").is_empty());
    assert_eq!(server.allocators.usage().allocated_ports, 0);
}

#[test]
fn conflicting_address_stays_reserved() {
    let server = Server::new(&["10.0.0.0/30"]);
    let mut new = minimal("a");
    let allocation = server
        .allocators
        .create(server.store.index(), &mut new, false)
        .expect("an allocation");
    let taken_elsewhere = expected_keys(&allocation).remove(0);
    assert!(
        !server
            .restarted(&["10.0.0.0/30"])
            .create(server.store.index(), &mut minimal("x"), false)
            .expect("an allocation")
            .resolve_conflict("/services/n/x")
    );
    assert!(allocation.resolve_conflict(&taken_elsewhere));
    assert_eq!(server.allocators.usage().ranges[0].allocated, 1);
    let (created, _) = server
        .create("n", minimal("a"), false)
        .expect("a created Service");
    assert_ne!(cluster_ip(&created), cluster_ip(&new));
}

#[test]
fn ranges_follow_their_service_cidrs() {
    let server = Server::new(&["10.0.0.0/30"]);
    let cidr = |name: &str, net: &str, ready: &str| {
        json!({"metadata": {"name": name}, "spec": {"cidrs": [net]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    };
    let can_request = |address: &str| {
        let mut new = service("r", json!({"clusterIP": address, "ports": [{"port": 80}]}));
        server
            .allocators
            .create(server.store.index(), &mut new, false)
            .is_ok()
    };
    assert!(!can_request("10.1.0.5"));
    server
        .allocators
        .apply_service_cidr(&cidr("more", "10.1.0.0/24", "False"));
    assert!(!can_request("10.1.0.5"));
    server
        .allocators
        .apply_service_cidr(&cidr("more", "10.1.0.0/24", "True"));
    assert!(can_request("10.1.0.5"));
    for name in ["a", "b", "c"] {
        server
            .create("n", minimal(name), false)
            .expect("a created Service");
    }
    server
        .allocators
        .apply_service_cidr(&cidr("wide", "10.0.0.0/8", "True"));
    let wide = server.allocators.usage().ranges.pop().expect("a range");
    assert_eq!(
        wide.allocated, 3,
        "addresses of a narrower range are taken in a wider one"
    );
    server.allocators.remove_service_cidr("wide");
    server.allocators.remove_service_cidr("more");
    server.allocators.remove_service_cidr(DEFAULT_SERVICE_CIDR);
    assert!(!can_request("10.1.0.5"));
    assert_eq!(
        server.allocators.usage().ranges.len(),
        1,
        "the configured range stays"
    );
}

#[test]
fn deletion_removes_the_endpoints() {
    let server = Server::new(&["10.0.0.0/24"]);
    server
        .create("n", minimal("s"), false)
        .expect("a created Service");
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
    server.delete("n", "s").expect("a deleted Service");
    assert!(
        server.keys("/endpoints/").is_empty() && server.keys("/networking.k8s.io/ipaddresses/").is_empty()
    );
}

#[test]
fn addresses_of_other_writers_are_not_allocated() {
    let server = Server::new(&["10.0.0.0/30"]);
    server
        .allocators
        .mark_address_taken("10.0.0.1".parse().expect("an IP address"));
    let (created, _) = server
        .create("n", minimal("s"), false)
        .expect("a created Service");
    assert_eq!(cluster_ip(&created), "10.0.0.2");
    server
        .allocators
        .mark_address_free("10.0.0.1".parse().expect("an IP address"));
    server
        .create("n", minimal("t"), false)
        .expect("a created Service");
}

#[test]
fn rejects_invalid_combinations_of_ranges() {
    let server = Server::new(&["10.0.0.0/30"]);
    for ranges in [&[][..], &["10.0.0.0/24", "10.1.0.0/24"], &["fd00::/56"]] {
        assert!(
            Allocators::new(server.store.index(), config(ranges)).is_err(),
            "{ranges:?}"
        );
    }
}

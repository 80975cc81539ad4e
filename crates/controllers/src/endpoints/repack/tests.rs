use std::collections::BTreeSet;

use api::object::{EndpointAddress, EndpointSubset, SubsetPort};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::repack;

fn subsets(value: Value) -> Vec<EndpointSubset> {
    serde_json::from_value(value).expect("subsets")
}

#[test]
fn ports_of_the_same_addresses_share_a_subset() {
    let packed = repack(subsets(json!([
        {"addresses": [{"ip": "10.0.0.2"}, {"ip": "10.0.0.1"}], "ports": [{"name": "b", "port": 2}]},
        {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "a", "port": 1}]},
        {"addresses": [{"ip": "10.0.0.2"}], "ports": [{"name": "a", "port": 1}]},
        {"addresses": [{"ip": "10.0.0.3"}], "ports": [{"name": "a", "port": 9}]}])));
    let desired = subsets(json!([
        {"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}],
         "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]},
        {"addresses": [{"ip": "10.0.0.3"}], "ports": [{"name": "a", "port": 9}]}]));
    assert_eq!(packed, desired);
}

#[test]
fn not_ready_overrides_ready_and_addresses_without_ports_stay() {
    let packed = repack(subsets(json!([
        {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]},
        {"notReadyAddresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]},
        {"addresses": [{"ip": "10.0.0.2"}]}])));
    let desired = subsets(json!([
        {"addresses": [{"ip": "10.0.0.2"}]},
        {"notReadyAddresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]}]));
    assert_eq!(packed, desired);
}

#[test]
fn address_of_two_pods_counts_twice() {
    let of = |uid: &str| json!({"ip": "10.0.0.1", "targetRef": {"kind": "Pod", "uid": uid}});
    let packed = repack(subsets(
        json!([{"addresses": [of("b"), of("a")], "ports": [{"port": 1}]}]),
    ));
    assert_eq!(packed[0].addresses.len(), 2);
}

#[test]
fn large_subset_is_not_split() {
    let addresses: Vec<Value> = (0..20_000)
        .map(|index| json!({"ip": format!("10.0.{}.{}", index / 250, index % 250)}))
        .collect();
    let ports: Vec<Value> = (1..=20_000)
        .map(|port| json!({"name": format!("p{port}"), "port": port}))
        .collect();
    // The product is 400 million pairs.
    let packed = repack(subsets(json!([{"addresses": addresses, "ports": ports}])));
    assert_eq!(packed.len(), 1);
    assert_eq!(
        (packed[0].addresses.len(), packed[0].ports.len()),
        (20_000, 20_000)
    );
}

#[test]
fn subsets_without_addresses_disappear() {
    let packed = repack(subsets(json!([
        {"ports": [{"port": 1}]},
        {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}, {"port": 1}]}])));
    let desired = subsets(json!([{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]}]));
    assert_eq!(packed, desired);
}

/// Returns the contents of subsets: address, port and readiness.
fn pairs(subsets: &[EndpointSubset]) -> BTreeSet<(String, Option<u16>, bool)> {
    let mut pairs = BTreeSet::new();
    for subset in subsets {
        let ports: Vec<Option<u16>> = if subset.ports.is_empty() {
            vec![None]
        } else {
            subset.ports.iter().map(|port| Some(port.port)).collect()
        };
        for (list, ready) in [(&subset.addresses, true), (&subset.not_ready_addresses, false)] {
            for address in list {
                pairs.extend(ports.iter().map(|port| (address.ip.to_string(), *port, ready)));
            }
        }
    }
    pairs
}

fn subset() -> impl Strategy<Value = EndpointSubset> {
    let addresses = || proptest::collection::vec(0u8..6, 0..5);
    (addresses(), addresses(), proptest::collection::vec(1u16..5, 0..4)).prop_map(
        |(ready, unready, ports)| {
            let of = |number: u8| EndpointAddress {
                ip: format!("10.0.0.{number}").into(),
                ..EndpointAddress::default()
            };
            EndpointSubset {
                addresses: ready.into_iter().map(of).collect(),
                not_ready_addresses: unready.into_iter().map(of).collect(),
                ports: ports
                    .into_iter()
                    .map(|port| SubsetPort {
                        port,
                        ..SubsetPort::default()
                    })
                    .collect(),
            }
        },
    )
}

proptest! {
    #[test]
    fn equal_contents_have_equal_forms(subsets in proptest::collection::vec(subset(), 0..6)) {
        let packed = repack(subsets.clone());
        let mut reversed = subsets.clone();
        reversed.reverse();
        prop_assert_eq!(&repack(packed.clone()), &packed, "a fixpoint");
        prop_assert_eq!(&repack(reversed), &packed, "whatever the order");
        let before = pairs(&subsets);
        let after = pairs(&packed);
        let overruled = |pair: &(String, Option<u16>, bool)| pair.2 && before.contains(&(pair.0.clone(), pair.1, false));
        // As upstream, addresses without ports join equal addresses with ports.
        let kept = before.iter().filter(|pair| !overruled(pair) && pair.1.is_some());
        for pair in kept {
            prop_assert!(after.contains(pair), "{:?} is lost", pair);
        }
        for pair in &after {
            prop_assert!(before.contains(pair) && !overruled(pair), "{:?} was never said", pair);
        }
    }
}

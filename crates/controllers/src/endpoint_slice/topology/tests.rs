use std::collections::BTreeMap;

use api::object::{AddressType, Endpoint, EndpointConditions, EndpointSlice};
use proptest::prelude::*;
use reconcile::events::EventText;

use super::{ZoneCpus, assign_zone_hints};

fn cpus(zones: &[(&str, u64)]) -> ZoneCpus {
    Some(
        zones
            .iter()
            .map(|(zone, cpus)| ((*zone).to_owned(), *cpus))
            .collect(),
    )
}

/// Returns this number of ready endpoints in each zone.
fn endpoints(zones: &[(&str, usize)]) -> Vec<Endpoint> {
    let each = zones
        .iter()
        .flat_map(|(zone, count)| (0..*count).map(move |number| (zone, number)));
    each.map(|(zone, number)| Endpoint {
        addresses: vec![format!("{zone}{number}").into()],
        zone: Some((*zone).into()),
        conditions: EndpointConditions {
            ready: Some(true),
            ..EndpointConditions::default()
        },
        ..Endpoint::default()
    })
    .collect()
}

fn assigned(endpoints: &mut [Endpoint], before: &[Endpoint], cpus: &ZoneCpus) -> EventText {
    let slice = EndpointSlice {
        endpoints: before.to_vec(),
        ..EndpointSlice::default()
    };
    assign_zone_hints(endpoints.iter_mut(), &[&slice], AddressType::IPv4, cpus)
}

fn counts(endpoints: &[Endpoint]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for hints in endpoints.iter().filter_map(|endpoint| endpoint.hints.as_ref()) {
        assert_eq!(hints.for_zones.len(), 1);
        *counts.entry(hints.for_zones[0].name.clone()).or_default() += 1;
    }
    counts
}

fn shared(zones: &[(&str, usize)], cpus: &ZoneCpus) -> Vec<usize> {
    let mut endpoints = endpoints(zones);
    let event = assigned(&mut endpoints, &[], cpus);
    assert_eq!(event.reason, "TopologyAwareHintsEnabled", "{event:?}");
    counts(&endpoints).into_values().collect()
}

#[test]
fn zones_get_endpoints_in_proportion_to_their_cpus() {
    let even = cpus(&[("a", 4_000), ("b", 4_000)]);
    assert_eq!(shared(&[("a", 3), ("b", 1)], &even), [2, 2]);
    assert_eq!(shared(&[("a", 10), ("b", 2)], &even), [6, 6]);
    let uneven = cpus(&[("a", 2_000), ("b", 6_000)]);
    assert_eq!(shared(&[("a", 4), ("b", 4)], &uneven), [2, 6]);
    // Without an exact proportion, no endpoint moves for less than one.
    let three = cpus(&[("a", 3_400), ("b", 3_300), ("c", 3_300)]);
    assert_eq!(shared(&[("a", 3), ("b", 4), ("c", 3)], &three), [3, 4, 3]);
    // A zone without ready Nodes has no clients, so its endpoints serve the others.
    assert_eq!(shared(&[("a", 1), ("b", 1), ("gone", 2)], &even), [2, 2]);
}

#[test]
fn impossible_distributions_are_reported() {
    let even = cpus(&[("a", 4_000), ("b", 4_000)]);
    let reason = |zones: &[(&str, usize)], cpus: &ZoneCpus| {
        let mut endpoints = endpoints(zones);
        let event = assigned(&mut endpoints, &[], cpus);
        assert_eq!(counts(&endpoints), BTreeMap::new(), "no hints at all");
        assert_eq!(event.reason, "TopologyAwareHintsDisabled");
        event.message
    };
    assert_eq!(
        reason(&[("a", 1)], &even),
        "Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4"
    );
    assert!(reason(&[("a", 2), ("b", 3)], &even).starts_with("Minimum allocation"));
    assert!(reason(&[("a", 2), ("b", 2)], &None).starts_with("Insufficient Node information"));
    assert!(reason(&[("a", 2)], &cpus(&[("a", 1)])).starts_with("Nodes only ready in one zone"));
    assert!(reason(&[("a", 2), ("b", 1), ("", 1)], &even).starts_with("One or more endpoints"));
}

#[test]
fn endpoints_keep_their_hinted_zone() {
    let even = cpus(&[("a", 4_000), ("b", 4_000)]);
    let mut first = endpoints(&[("a", 4)]);
    assigned(&mut first, &[], &even);
    let hint = |endpoint: &Endpoint| endpoint.hints.clone().expect("hints").for_zones[0].name.clone();
    let moved: Vec<_> = first
        .iter()
        .filter(|endpoint| hint(endpoint) == "b")
        .map(|endpoint| endpoint.addresses[0].clone())
        .collect();
    // Other endpoints precede them in order.
    let mut more: Vec<Endpoint> = endpoints(&[("a", 6)]);
    more.rotate_left(4);
    assigned(&mut more, &first, &even);
    for endpoint in more
        .iter()
        .filter(|endpoint| moved.contains(&endpoint.addresses[0]))
    {
        assert_eq!(hint(endpoint), "b");
    }
}

proptest! {
    #[test]
    fn distribution_overloads_no_zone_and_is_a_fixpoint(
        zones in proptest::collection::vec((0usize..30, 1u64..16), 2..5),
    ) {
        let names = ["a", "b", "c", "d"];
        let named: Vec<(&str, usize)> = names.iter().zip(&zones).map(|(name, (count, _))| (*name, *count)).collect();
        let cpus = cpus(&names.iter().zip(&zones).map(|(name, (_, cpus))| (*name, cpus * 1_000)).collect::<Vec<_>>());
        let mut endpoints = endpoints(&named);
        let event = assigned(&mut endpoints, &[], &cpus);
        if event.is_warning {
            prop_assert_eq!(counts(&endpoints), BTreeMap::new());
            return Ok(());
        }
        let counts = counts(&endpoints);
        prop_assert_eq!(counts.values().sum::<usize>(), endpoints.len(), "every endpoint has a hint");
        let all: u64 = zones.iter().map(|(_, cpus)| cpus).sum();
        for (name, (_, cpus)) in names.iter().zip(&zones) {
            let share = endpoints.len() as f64 * *cpus as f64 / all as f64;
            let load = share / counts.get(*name).copied().unwrap_or(0) as f64;
            prop_assert!(load <= 1.2 + 1e-9, "zone {} carries {}", name, load);
        }
        let before = endpoints.clone();
        assigned(&mut endpoints, &before, &cpus);
        prop_assert_eq!(endpoints, before, "a fixpoint");
    }
}

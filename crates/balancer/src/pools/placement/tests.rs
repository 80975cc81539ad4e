use serde_json::{Value, json};

use super::*;

fn placement(addresses: &[&str], more: Value) -> Result<Placement, UnusablePool> {
    let mut pool = json!({"metadata": {"name": "p"}, "spec": more});
    pool["spec"]["addresses"] = json!(addresses);
    Placement::read(&serde_json::from_value(pool).unwrap())
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn any_of_the_selectors_is_enough_and_none_are_all() {
    let selectors = json!([
        {"matchLabels": {"role": "edge", "zone": "a"}},
        {"matchExpressions": [{"key": "dmz", "operator": "Exists"}]},
    ]);
    let chosen = placement(&["192.0.2.0/24"], json!({ "nodeSelectors": selectors })).unwrap();
    assert!(chosen.names_nodes());
    assert!(chosen.is_for_node(&labels(&[("role", "edge"), ("zone", "a")])));
    assert!(chosen.is_for_node(&labels(&[("dmz", "")])));
    assert!(!chosen.is_for_node(&labels(&[("role", "edge"), ("zone", "b")])));
    let all = placement(&["192.0.2.0/24"], json!({"nodeSelectors": []})).unwrap();
    assert!(!all.names_nodes() && all.is_for_node(&Labels::new()));
}

#[test]
fn what_the_api_let_through_is_refused_by_its_field() {
    let fault = |more: Value| placement(&["192.0.2.0/24"], more).unwrap_err().to_string();
    let selectors = json!({"nodeSelectors": [{}, {"matchExpressions": [{"key": "a", "operator": "Has"}]}]});
    let text = fault(selectors);
    assert!(
        text.contains("\"p\" cannot be used: spec.nodeSelectors[1]"),
        "{text}"
    );
    let text = fault(json!({"interfaces": ["a/b"]}));
    assert!(
        text.contains("spec.interfaces: \"a/b\" must not contain"),
        "{text}"
    );
}

#[test]
fn a_change_concerns_the_addresses_of_before_and_after() {
    let mut placements = Placements::default();
    let address = "192.0.2.7".parse().unwrap();
    let read = |more| placement(&["192.0.2.0/24"], more).unwrap();
    assert!(!placements.have(address));
    assert_eq!(placements.set("p", Some(read(json!({})))).len(), 1);
    assert!(placements.have(address));
    let linked = read(json!({"interfaces": ["eth1"]}));
    assert_eq!(placements.set("p", Some(linked.clone())).len(), 2);
    assert!(
        placements.set("p", Some(linked.clone())).is_empty(),
        "nothing is new"
    );
    assert_eq!(placements.of(address).count(), 1);
    assert_eq!(placements.of("192.0.3.7".parse().unwrap()).count(), 0);
    assert_eq!(placements.of("2001:db8::7".parse().unwrap()).count(), 0);
    // Pools may overlap.
    placements.set(
        "q",
        Some(placement(&["192.0.2.7-192.0.2.9"], json!({"interfaces": ["*"]})).unwrap()),
    );
    assert_eq!(placements.of(address).count(), 2);
    let moved = placement(&["198.51.100.0/24"], json!({"interfaces": ["eth1"]})).unwrap();
    assert_eq!(
        placements.set("p", Some(moved)).len(),
        2,
        "what it had and what it has"
    );
    assert_eq!(placements.set("p", None).len(), 1);
    assert!(placements.set("p", None).is_empty());
}

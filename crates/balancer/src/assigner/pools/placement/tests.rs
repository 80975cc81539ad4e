use serde_json::{Value, json};

use super::*;

fn placement(addresses: &[&str], more: Value) -> Result<Placement, InvalidPool> {
    let mut pool = json!({"metadata": {"name": "p"}, "spec": more});
    pool["spec"]["addresses"] = json!(addresses);
    Placement::parse(&serde_json::from_value(pool).unwrap())
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn node_matches_any_selector_and_every_node_without_selectors() {
    let selectors = json!([
        {"matchLabels": {"role": "edge", "zone": "a"}},
        {"matchExpressions": [{"key": "dmz", "operator": "Exists"}]},
    ]);
    let chosen = placement(&["192.0.2.0/24"], json!({ "nodeSelectors": selectors })).unwrap();
    assert!(chosen.selects_nodes());
    let none = Labels::new();
    assert!(chosen.allows_node(&labels(&[("role", "edge"), ("zone", "a")]), &none));
    assert!(chosen.allows_node(&labels(&[("dmz", "")]), &none));
    assert!(!chosen.allows_node(&labels(&[("role", "edge"), ("zone", "b")]), &none));
    let all = placement(&["192.0.2.0/24"], json!({"nodeSelectors": []})).unwrap();
    assert!(!all.selects_nodes() && all.allows_node(&none, &none));
}

#[test]
fn error_names_the_invalid_field() {
    let error = |more: Value| placement(&["192.0.2.0/24"], more).unwrap_err().to_string();
    let selectors = json!({"nodeSelectors": [{}, {"matchExpressions": [{"key": "a", "operator": "Has"}]}]});
    let text = error(selectors);
    assert!(
        text.contains("\"p\" cannot be used: spec.nodeSelectors[1]"),
        "{text}"
    );
    let text = error(json!({"interfaces": ["a/b"]}));
    assert!(
        text.contains("spec.interfaces: \"a/b\" must not contain"),
        "{text}"
    );
}

#[test]
fn change_affects_the_old_and_the_new_addresses() {
    let mut placements = Placements::default();
    let address = "192.0.2.7".parse().unwrap();
    let read = |more| placement(&["192.0.2.0/24"], more).unwrap();
    assert!(!placements.contain(address));
    assert_eq!(placements.set("p", Some(read(json!({})))).len(), 1);
    assert!(placements.contain(address));
    let linked = read(json!({"interfaces": ["eth1"]}));
    assert_eq!(placements.set("p", Some(linked.clone())).len(), 2);
    assert!(placements.set("p", Some(linked.clone())).is_empty(), "unchanged");
    assert_eq!(placements.for_address(address).count(), 1);
    assert_eq!(placements.for_address("192.0.3.7".parse().unwrap()).count(), 0);
    assert_eq!(placements.for_address("2001:db8::7".parse().unwrap()).count(), 0);
    // Pools may overlap.
    placements.set(
        "q",
        Some(placement(&["192.0.2.7-192.0.2.9"], json!({"interfaces": ["*"]})).unwrap()),
    );
    assert_eq!(placements.for_address(address).count(), 2);
    let moved = placement(&["198.51.100.0/24"], json!({"interfaces": ["eth1"]})).unwrap();
    assert_eq!(placements.set("p", Some(moved)).len(), 2, "old and new block");
    assert_eq!(placements.set("p", None).len(), 1);
    assert!(placements.set("p", None).is_empty());
}

/// Placement of an IPAddressPool with these L2Advertisements.
fn of_metallb(advertisements: &[Value]) -> Placement {
    let read = |(number, spec): (usize, &Value)| {
        let name = format!("a{number}");
        let object = json!({"metadata": {"name": name}, "spec": spec});
        (name, serde_json::from_value(object).expect("L2Advertisement"))
    };
    let configuration = Configuration {
        advertisements: advertisements.iter().enumerate().map(read).collect(),
        ..Configuration::default()
    };
    let pool = json!({"metadata": {"name": "p"}, "spec": {"addresses": ["192.0.2.0/24"]}});
    let pool = serde_json::from_value(pool).expect("IPAddressPool");
    Placement::of_metallb(&pool, &configuration).expect("valid pool")
}

#[test]
fn advertisements_are_alternatives() {
    let on = |node: &str, service: &str, link: &str| {
        json!({
            "nodeSelectors": [{"matchLabels": {"name": node}}],
            "serviceSelectors": [{"matchLabels": {"tier": service}}], "interfaces": [link],
        })
    };
    let placement = of_metallb(&[on("a", "web", "eth1"), on("b", "api", "eth0")]);
    let allows = |node: &str, service: &str| {
        placement.allows_node(&labels(&[("name", node)]), &labels(&[("tier", service)]))
    };
    assert!(allows("a", "web") && allows("b", "api"));
    assert!(!allows("a", "api") && !allows("b", "web") && !allows("c", "web"));
    assert!(placement.is_announced(&labels(&[("tier", "web")])));
    assert!(!placement.is_announced(&labels(&[("tier", "database")])));
    let links: Vec<String> = placement.links().iter().map(ToString::to_string).collect();
    assert_eq!(links, ["eth0", "eth1"]);
    let with_all_links = of_metallb(&[on("a", "web", "eth1"), json!({})]);
    assert!(with_all_links.links().is_empty() && !with_all_links.selects_nodes());
}

#[test]
fn addresses_without_valid_advertisement_are_not_announced() {
    let invalid = json!({"nodeSelectors": [{"matchLabels": {"-": "x"}}]});
    for placement in [of_metallb(&[]), of_metallb(&[invalid])] {
        assert!(!placement.is_announced(&Labels::new()));
        let mut placements = Placements::default();
        placements.set("p", Some(placement));
        let address = "192.0.2.7".parse().expect("address");
        assert!(placements.contain(address));
        assert_eq!(placements.for_address(address).count(), 0);
    }
}

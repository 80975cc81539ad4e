use std::sync::Arc;

use api::object::{Labels, Pod};
use serde_json::{Value, json};

use super::{Interner, PodFacts, Pods};

fn facts(name: &str, labels: Value) -> PodFacts {
    let pod: Pod =
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "n", "labels": labels}}))
            .expect("a Pod");
    PodFacts::of(&pod, &mut Interner::default())
}

fn of_spec(spec: Value, status: Value) -> PodFacts {
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec, "status": status}))
        .expect("a Pod");
    PodFacts::of(&pod, &mut Interner::default())
}

fn found(pods: &Pods, key: &str, value: &str) -> Vec<String> {
    let selector = Labels::from([(key.to_owned(), value.to_owned())]);
    let found = pods.matching("n", &selector);
    found.iter().map(|pod| pod.name.to_string()).collect()
}

#[test]
fn pods_are_findable_by_the_keys_that_selectors_name() {
    let mut pods = Pods::default();
    let (app, zone): (Arc<str>, Arc<str>) = ("app".into(), "zone".into());
    pods.insert(facts("b", json!({"app": "x", "zone": "1"})));
    pods.select(&app);
    pods.select(&app);
    pods.insert(facts("a", json!({"app": "x", "zone": "2"})));
    assert_eq!(
        found(&pods, "app", "x"),
        ["a", "b"],
        "one from before, one from after"
    );
    assert_eq!(
        found(&pods, "zone", "1"),
        Vec::<String>::new(),
        "nobody asks by zone"
    );
    pods.select(&zone);
    assert_eq!(found(&pods, "zone", "2"), ["a"]);
    pods.insert(facts("a", json!({"app": "y", "zone": "2"})));
    assert_eq!(
        (found(&pods, "app", "x"), found(&pods, "app", "y")),
        (vec!["b".to_owned()], vec!["a".to_owned()])
    );
    pods.remove(&facts("b", json!({})).key());
    assert_eq!(found(&pods, "app", "x"), Vec::<String>::new());
    pods.unselect(&app);
    assert_eq!(found(&pods, "app", "y"), ["a"], "one selector names it still");
    pods.unselect(&app);
    pods.unselect(&zone);
    assert!(pods.by_label.is_empty() && pods.selected_keys.is_empty());
}

#[test]
fn addresses_that_are_none_are_left_out() {
    let of = |status: Value| {
        let facts = of_spec(json!({}), status);
        facts
            .addresses
            .iter()
            .map(|text| text.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of(json!({"podIPs": [{"ip": "x"}, {"ip": ""}, {"ip": "fd00:0::1"}]})),
        ["fd00:0::1"]
    );
    assert_eq!(
        of(json!({"podIP": "10.0.0.1"})),
        ["10.0.0.1"],
        "from before dual stack"
    );
    assert!(of(json!({"podIP": "x"})).is_empty());
}

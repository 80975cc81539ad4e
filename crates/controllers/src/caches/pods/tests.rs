use std::sync::Arc;

use api::object::{Labels, Pod};
use serde_json::{Value, json};

use super::{INDEXED_KEYS_MAX, Interner, PodFacts, Pods};

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

fn services(pods: &Pods, key: &str, value: &str) -> Vec<String> {
    let selector = Labels::from([(key.to_owned(), value.to_owned())]);
    let services = pods.matching("n", &selector);
    services.iter().map(|pod| pod.name().to_string()).collect()
}

#[test]
fn pods_are_indexed_by_selector_keys() {
    let mut pods = Pods::default();
    let namespace: &Arc<str> = &"n".into();
    let (app, zone): (Arc<str>, Arc<str>) = ("app".into(), "zone".into());
    pods.insert(facts("b", json!({"app": "x", "zone": "1"})));
    pods.add_selector_key(namespace, &app);
    pods.add_selector_key(namespace, &app);
    pods.insert(facts("a", json!({"app": "x", "zone": "2"})));
    assert_eq!(
        services(&pods, "app", "x"),
        ["a", "b"],
        "one from before, one from after"
    );
    assert_eq!(
        services(&pods, "zone", "1"),
        Vec::<String>::new(),
        "no selector uses the zone"
    );
    pods.add_selector_key(namespace, &zone);
    assert_eq!(services(&pods, "zone", "2"), ["a"]);
    pods.insert(facts("a", json!({"app": "y", "zone": "2"})));
    assert_eq!(
        (services(&pods, "app", "x"), services(&pods, "app", "y")),
        (vec!["b".to_owned()], vec!["a".to_owned()])
    );
    pods.remove(&facts("b", json!({})).key());
    assert_eq!(services(&pods, "app", "x"), Vec::<String>::new());
    pods.remove_selector_key(namespace, &app);
    assert_eq!(services(&pods, "app", "y"), ["a"], "one selector names it still");
    pods.remove_selector_key(namespace, &app);
    pods.remove_selector_key(namespace, &zone);
    assert!(pods.by_label.is_empty() && pods.selected_keys.is_empty());
}

#[test]
fn selectors_of_other_namespaces_index_no_pods() {
    let mut pods = Pods::default();
    pods.insert(facts("a", json!({"app": "x"})));
    pods.add_selector_key(&"other".into(), &"app".into());
    assert_eq!(services(&pods, "app", "x"), Vec::<String>::new());
    assert!(pods.by_label.is_empty());
    pods.add_selector_key(&"n".into(), &"app".into());
    pods.remove_selector_key(&"other".into(), &"app".into());
    assert_eq!(services(&pods, "app", "x"), ["a"]);
}

#[test]
fn further_keys_of_a_selector_are_compared_without_an_index() {
    let labels = |last: &str| {
        let many = (0..=INDEXED_KEYS_MAX).map(|number| (format!("k{number}"), "v".to_owned()));
        let mut labels: Labels = many.collect();
        labels.insert("last".to_owned(), last.to_owned());
        labels
    };
    let mut pods = Pods::default();
    pods.insert(facts("a", json!(labels("x"))));
    pods.insert(facts("b", json!(labels("y"))));
    let selector = labels("y");
    for key in selector.keys().take(INDEXED_KEYS_MAX) {
        pods.add_selector_key(&"n".into(), &key.as_str().into());
    }
    assert_eq!(pods.by_label.len(), INDEXED_KEYS_MAX);
    let matching = pods.matching("n", &selector);
    assert_eq!(
        matching.iter().map(|pod| &**pod.name()).collect::<Vec<_>>(),
        ["b"]
    );
}

#[test]
fn invalid_addresses_are_omitted_and_others_are_canonical() {
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
        ["fd00::1"]
    );
    assert_eq!(
        of(json!({"podIP": "10.0.0.1"})),
        ["10.0.0.1"],
        "from before dual stack"
    );
    assert!(of(json!({"podIP": "x"})).is_empty());
}

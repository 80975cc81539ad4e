use serde_json::{Value, json};

use super::*;

/// Returns a world with a Service and a Pod that have this number of ports. The target ports are not declared.
fn world(ports: usize) -> World {
    let of_service = |number: usize| json!({"name": format!("p{number}"), "port": 1 + number, "targetPort": format!("t{number}")});
    let of_pod = |number: usize| json!({"containerPort": 1 + number});
    let list = |entry: &dyn Fn(usize) -> Value| (0..ports).map(entry).collect::<Vec<_>>();
    let mut builder = World::builder();
    builder.add(
        json!({"kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"app": "web"}, "ports": list(&of_service)}}),
    );
    builder.add(json!({"kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "ports": list(&of_pod)}]}, "status": {"phase": "Running"}}));
    builder.build()
}

/// Each port has a finding that lists all ports of the Pod.
#[test]
fn findings_of_one_service_are_bounded() {
    let world = world(200);
    let named = Scope::Service {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
    };
    let undeclared = |scope: &Scope| -> Vec<Finding> {
        let mut found = examine(&world, scope, &Options::default());
        found.retain(|finding| finding.code == crate::Code(8));
        found
    };
    assert_eq!(undeclared(&named).len(), 200);
    let bounded = undeclared(&Scope::All);
    assert_eq!(bounded.len(), FINDINGS_OF_RULE_MAX);
    let texts = bounded.iter().flat_map(|finding| &finding.evidence);
    let longest = texts.map(String::len).max().unwrap_or(0);
    assert_eq!(longest, TEXT_BYTES_MAX + '…'.len_utf8());
}

#[test]
fn service_with_thousands_of_ports_is_examined_only_by_name() {
    let world = world(1_000);
    let options = Options::default();
    assert_eq!(examine_services(&world, &options), []);
    let named = Scope::Service {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
    };
    assert!(!examine(&world, &named, &options).is_empty());
}

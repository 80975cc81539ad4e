use serde_json::json;

use super::*;
use crate::kind::Kind;

fn object(kind: Kind, tree: Value) -> Object {
    Object::read(kind, tree).expect("an object with a name")
}

fn pod(name: &str, namespace: &str, labels: Value) -> Object {
    object(
        Kind::Pod,
        json!({"metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"containers": [{"ports": [{"name": "http", "containerPort": 8080}]}]}, "status": {"podIP": "10.244.1.7"}}),
    )
}

fn policy(spec: Value) -> Object {
    object(
        Kind::NetworkPolicy,
        json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec}),
    )
}

#[test]
fn types_default_to_ingress_and_egress_with_rules() {
    for (spec, ingress, egress) in [
        (json!({}), true, false),
        (json!({"egress": [{}]}), true, true),
        (json!({"policyTypes": ["Egress"]}), false, true),
        (json!({"policyTypes": ["Ingress"], "egress": [{}]}), true, false),
    ] {
        let object = policy(spec);
        let policy = NetworkPolicy(&object);
        assert_eq!(policy.restricts(Direction::Ingress), ingress, "{object:?}");
        assert_eq!(policy.restricts(Direction::Egress), egress, "{object:?}");
    }
}

#[test]
fn selector_selects_pods_of_the_namespace() {
    let object = policy(json!({"podSelector": {"matchLabels": {"app": "web"}}}));
    let policy = NetworkPolicy(&object);
    assert!(policy.selects(Pod(&pod("a", "shop", json!({"app": "web"})))));
    assert!(!policy.selects(Pod(&pod("a", "blog", json!({"app": "web"})))));
    assert!(!policy.selects(Pod(&pod("a", "shop", json!({"app": "cart"})))));
}

#[test]
fn ports_are_numbers_ranges_and_names() {
    let target = pod("a", "shop", json!({}));
    for (ports, is_permitted) in [
        (json!([]), true),
        (json!([{"port": 8080}]), true),
        (json!([{"port": "http"}]), true),
        (json!([{"port": 8000, "endPort": 8099}]), true),
        (json!([{"protocol": "TCP"}]), true),
        (json!([{"port": 80}, {"port": "metrics"}]), false),
        (json!([{"protocol": "UDP", "port": 8080}]), false),
    ] {
        let object = policy(json!({"ingress": [{"ports": ports}]}));
        let rule = NetworkPolicy(&object)
            .rules(Direction::Ingress)
            .next()
            .expect("a rule");
        assert_eq!(
            rule.permits_port(8080, "TCP", Pod(&target)),
            is_permitted,
            "{object:?}"
        );
    }
}

#[test]
fn peers_are_pods_namespaces_and_ranges() {
    let client = pod("a", "crm", json!({"app": "reports"}));
    let namespace = object(
        Kind::Namespace,
        json!({"metadata": {"name": "crm", "labels": {"team": "crm"}}}),
    );
    for (peer, is_permitted) in [
        (json!({"podSelector": {}}), false),
        (json!({"namespaceSelector": {}}), true),
        (
            json!({"namespaceSelector": {"matchLabels": {"team": "crm"}}}),
            true,
        ),
        (
            json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "crm"}}}),
            true,
        ),
        (
            json!({"namespaceSelector": {"matchLabels": {"name": "crm"}}}),
            false,
        ),
        (
            json!({"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "cart"}}}),
            false,
        ),
        (json!({"ipBlock": {"cidr": "10.244.0.0/16"}}), true),
        (
            json!({"ipBlock": {"cidr": "10.244.0.0/16", "except": ["10.244.1.0/24"]}}),
            false,
        ),
    ] {
        let object = policy(json!({"ingress": [{"from": [peer]}]}));
        let rule = NetworkPolicy(&object)
            .rules(Direction::Ingress)
            .next()
            .expect("a rule");
        assert_eq!(
            rule.permits_pod(Pod(&client), Some(&namespace)),
            is_permitted,
            "{object:?}"
        );
    }
}

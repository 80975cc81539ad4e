use api::ingress::CLASS_ANNOTATION;
use serde_json::json;

use super::*;

fn service(namespace: &str, certificates: &str) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": "web",
                     "annotations": {"portolan.dev/edge-certificates": certificates}},
        "spec": {"type": "LoadBalancer"},
        "status": {"conditions": [{"type": ASSIGNED_CONDITION, "status": "True"}],
                   "loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "Proxy"}]}},
    })
}

fn key(namespace: &str, name: &str) -> Key {
    (namespace.to_owned(), name.to_owned())
}

fn user(name: &str, groups: &[&str]) -> Identity {
    Identity {
        user: name.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..Identity::default()
    }
}

#[test]
fn references_secrets_of_services_that_edges_serve() {
    assert_eq!(
        edge_references(&service("a", "one,b/two")),
        [key("a", "one"), key("b", "two")]
    );
    let mut unassigned = service("a", "one");
    unassigned["status"]["conditions"] = json!([]);
    let mut without_proxy = service("a", "one");
    without_proxy["status"]["loadBalancer"]["ingress"][0]["ipMode"] = json!("VIP");
    let mut other_type = service("a", "one");
    other_type["spec"]["type"] = json!("ClusterIP");
    let mut terminating = service("a", "one");
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    for other in [unassigned, without_proxy, other_type, terminating] {
        assert_eq!(edge_references(&other), [], "{other}");
    }
}

#[test]
fn references_follow_service_changes() {
    let mut references = References::default();
    let bytes = |service: &Value| serde_json::to_vec(service).unwrap();
    references.put("/services/a/web", &bytes(&service("a", "one")));
    references.put("/services/b/web", &bytes(&service("b", "a/one")));
    assert_eq!(references.services[&key("a", "one")].len(), 2);
    references.put("/services/a/web", &bytes(&service("a", "two")));
    assert_eq!(references.services[&key("a", "one")].len(), 1);
    references.remove("/services/b/web");
    references.put("/services/a/web", b"not JSON");
    assert!(references.services.is_empty() && references.secrets.is_empty());
}

#[test]
fn ingresses_reference_secrets_of_their_namespace_with_their_class() {
    let ingress = json!({
        "metadata": {"namespace": "a", "name": "web"},
        "spec": {"ingressClassName": "portolan", "tls": [{"secretName": "one"}, {"hosts": ["a.test"]}]},
    });
    let mut references = References::default();
    references.put(
        "/networking.k8s.io/ingresses/a/web",
        &serde_json::to_vec(&ingress).unwrap(),
    );
    let reference = &references.services[&key("a", "one")]["/networking.k8s.io/ingresses/a/web"];
    assert_eq!(reference.namespace, "a");
    assert_eq!(reference.class.as_deref(), Some("portolan"));
    assert_eq!(references.secrets.len(), 1);
    let mut annotated = ingress;
    annotated["spec"]["ingressClassName"] = Value::Null;
    annotated["metadata"]["annotations"] = json!({CLASS_ANNOTATION: "other"});
    assert_eq!(
        ingress_class("/networking.k8s.io/ingresses/a/web", &annotated),
        Some("other")
    );
    assert_eq!(ingress_class("/services/a/web", &service("a", "one")), None);
}

#[test]
fn secrets_of_one_object_are_bounded() {
    let tls = |number: usize| json!({"secretName": format!("s{}", number % 20_000)});
    let ingress = json!({
        "metadata": {"namespace": "a", "name": "web"},
        "spec": {"tls": (0..40_000).map(tls).collect::<Vec<_>>()},
    });
    let mut references = References::default();
    let store_key = "/networking.k8s.io/ingresses/a/web";
    references.put(store_key, ingress.to_string().as_bytes());
    assert_eq!(references.services.len(), SECRETS_MAX);
    assert_eq!(references.secrets[store_key].len(), SECRETS_MAX);
    references.remove(store_key);
    assert!(references.services.is_empty() && references.secrets.is_empty());
}

#[test]
fn recognizes_edges_by_user_and_group() {
    assert!(is_edge(&user(
        "system:portolan-edge:n1",
        &["system:portolan:edges"]
    )));
    assert!(is_edge(&user("system:portolan-load-balancer", &[])));
    for (name, groups) in [
        ("system:portolan-edge", &["system:portolan:edges"][..]),
        ("system:portolan-edge:n1", &[]),
        ("system:portolan-announcer:n1", &["system:portolan:edges"]),
        ("system:node:n1", &["system:nodes"]),
    ] {
        assert!(!is_edge(&user(name, groups)), "{name}");
    }
}

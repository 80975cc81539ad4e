use serde_json::{Value, json};

use super::*;
use crate::access::authentication::Identity;

const NAMESPACE: &str = "default";

fn pod(name: &str, node: &str, spec: Value) -> (String, Vec<u8>) {
    let mut pod = json!({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec});
    pod["spec"]["nodeName"] = node.into();
    (format!("/pods/{NAMESPACE}/{name}"), pod.to_string().into_bytes())
}

fn graph_of(pods: &[(String, Vec<u8>)]) -> Graph {
    let mut graph = Graph::default();
    for (key, value) in pods {
        graph.put(key, value);
    }
    graph
}

fn is_related(graph: &Graph, node: &str, object_type: ObjectType, name: &str) -> bool {
    graph.is_related(node, object_type, NAMESPACE, name)
}

#[test]
fn node_is_related_to_the_objects_of_its_pods() {
    let graph = graph_of(&[
        pod(
            "p",
            "n1",
            json!({"serviceAccountName": "robot", "imagePullSecrets": [{"name": "pull"}],
            "volumes": [{"configMap": {"name": "settings"}}]}),
        ),
        pod("q", "n2", json!({"imagePullSecrets": [{"name": "other"}]})),
        pod("r", "", json!({"imagePullSecrets": [{"name": "unbound"}]})),
    ]);
    for (object_type, name) in [
        (ObjectType::Pod, "p"),
        (ObjectType::ServiceAccount, "robot"),
        (ObjectType::Secret, "pull"),
        (ObjectType::ConfigMap, "settings"),
    ] {
        assert!(is_related(&graph, "n1", object_type, name), "{name}");
        assert!(!is_related(&graph, "n2", object_type, name), "{name}");
        assert!(!graph.is_related("n1", object_type, "elsewhere", name), "{name}");
    }
    for (object_type, name) in [
        (ObjectType::Pod, "q"),
        (ObjectType::Secret, "other"),
        (ObjectType::Secret, "settings"),
        (ObjectType::Secret, "unbound"),
    ] {
        assert!(!is_related(&graph, "n1", object_type, name), "{name}");
    }
    assert!(!is_related(&graph, "", ObjectType::Secret, "unbound"));
}

#[test]
fn removed_pods_end_their_relations() {
    let secrets = |names: &[&str]| {
        let references: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"imagePullSecrets": references})
    };
    let mut graph = graph_of(&[
        pod("p", "n1", secrets(&["a", "b"])),
        pod("q", "n1", secrets(&["b"])),
    ]);
    graph.remove("/pods/default/p");
    assert!(!is_related(&graph, "n1", ObjectType::Secret, "a"));
    assert!(is_related(&graph, "n1", ObjectType::Secret, "b"));
    let (key, moved) = pod("q", "n2", secrets(&["c"]));
    graph.put(&key, &moved);
    assert!(!is_related(&graph, "n1", ObjectType::Secret, "b"));
    assert!(is_related(&graph, "n2", ObjectType::Secret, "c"));
    graph.put(&key, b"malformed");
    assert!(!is_related(&graph, "n2", ObjectType::Secret, "c"));
}

#[test]
fn mirror_pods_are_related_only_to_themselves() {
    let (key, value) = pod(
        "p",
        "n1",
        json!({"serviceAccountName": "robot", "imagePullSecrets": [{"name": "s"}]}),
    );
    let mut mirror: Value = serde_json::from_slice(&value).unwrap();
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let graph = graph_of(&[(key, mirror.to_string().into_bytes())]);
    assert!(is_related(&graph, "n1", ObjectType::Pod, "p"));
    assert!(!is_related(&graph, "n1", ObjectType::Secret, "s"));
    assert!(!is_related(&graph, "n1", ObjectType::ServiceAccount, "robot"));
}

#[test]
fn references_of_one_pod_are_bounded() {
    let references: Vec<Value> = (0..20_000)
        .map(|number| json!({"name": format!("s{number:05}")}))
        .collect();
    let graph = graph_of(&[pod("p", "n1", json!({"imagePullSecrets": references}))]);
    assert!(is_related(&graph, "n1", ObjectType::Secret, "s00000"));
    assert!(!is_related(&graph, "n1", ObjectType::Secret, "s19999"));
}

/// Decides about a request without Pods: verb, namespace, resource and subresource, name, selected node.
fn decide(verb: &str, namespace: &str, resource: &str, name: &str, selected_node: &str) -> NodeDecision {
    let node = Identity {
        user: "system:node:n1".to_owned(),
        groups: vec!["system:nodes".to_owned()],
        ..Identity::default()
    };
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let group = if resource == "leases" {
        "coordination.k8s.io"
    } else {
        ""
    };
    let action = Action::Resource {
        verb,
        group,
        resource,
        subresource,
        name,
    };
    let attributes = Attributes {
        selected_node,
        ..Attributes::new(&node, namespace, action)
    };
    let directory = tempfile::tempdir().unwrap();
    let store = store::SqliteStore::open(directory.path(), store::SqliteOptions::default()).unwrap();
    NodeAuthorizer::default().decide(&attributes, store::Store::index(&store))
}

#[test]
fn node_may_access_its_pods_and_node() {
    for (verb, resource, name, selected) in [
        ("list", "pods", "", "n1"),
        ("watch", "pods", "", "n1"),
        ("create", "pods", "", ""),
        ("delete", "pods", "p", ""),
        ("patch", "pods/status", "p", ""),
        ("create", "pods/eviction", "p", ""),
        ("get", "nodes", "n1", ""),
        ("watch", "nodes", "n1", ""),
        ("create", "nodes", "", ""),
        ("patch", "nodes/status", "n1", ""),
        ("list", "services", "", ""),
    ] {
        assert_eq!(
            decide(verb, "", resource, name, selected),
            NodeDecision::Allowed,
            "{verb} {resource}"
        );
    }
}

#[test]
fn node_may_not_read_reports_of_nodes() {
    for resource in ["nodes/observation", "nodes/flows"] {
        for name in ["n1", "n2"] {
            assert_eq!(
                decide("get", "", resource, name, ""),
                NodeDecision::NoOpinion,
                "{resource} {name}"
            );
        }
    }
}

const UNRELATED: &str = "no relationship found between node 'n1' and this object";
const PODS_OF_OTHERS: &str = "can only list/watch pods with spec.nodeName field selector";

fn assert_denied(cases: &[(&str, &str, &str, &str, &str)]) {
    for (verb, namespace, resource, name, reason) in cases {
        let expected = NodeDecision::Denied((*reason).to_owned());
        assert_eq!(
            decide(verb, namespace, resource, name, ""),
            expected,
            "{verb} {resource} {name}"
        );
    }
}

#[test]
fn node_may_not_access_other_pods_and_nodes() {
    assert_denied(&[
        ("list", "", "pods", "", PODS_OF_OTHERS),
        ("get", "a", "pods", "p", UNRELATED),
        ("list", "a", "pods", "p", UNRELATED),
        (
            "get",
            "",
            "nodes",
            "n2",
            "node 'n1' cannot read 'n2', only its own Node object",
        ),
        (
            "list",
            "",
            "nodes",
            "",
            "node 'n1' cannot read all nodes, only its own Node object",
        ),
    ]);
    let others = decide("watch", "a", "pods", "", "n2");
    assert_eq!(others, NodeDecision::Denied(PODS_OF_OTHERS.to_owned()));
    assert_eq!(decide("update", "a", "pods", "p", ""), NodeDecision::NoOpinion);
    assert_eq!(decide("delete", "", "nodes", "n1", ""), NodeDecision::NoOpinion);
}

#[test]
fn node_may_not_access_unreferenced_objects() {
    let one = "can only create tokens for individual service accounts";
    assert_denied(&[
        ("get", "a", "secrets", "s", UNRELATED),
        ("list", "a", "secrets", "", "No Object name found"),
        (
            "list",
            "",
            "secrets",
            "s",
            "can only read namespaced object of this type",
        ),
        (
            "delete",
            "a",
            "secrets",
            "s",
            "can only read resources of this type",
        ),
        ("get", "a", "secrets/x", "s", "cannot read subresource"),
        ("create", "a", "serviceaccounts/token", "robot", UNRELATED),
        (
            "create",
            "a",
            "serviceaccounts",
            "robot",
            "can only create token subresource of serviceaccount",
        ),
        ("get", "a", "serviceaccounts", "robot", one),
    ]);
}

#[test]
fn node_may_not_access_other_leases() {
    let other = "can only access node lease with the same name as the requesting node";
    let elsewhere = "can only access leases in the \"kube-node-lease\" system namespace";
    let verbs = "can only get, create, update, patch, or delete a node lease";
    assert_denied(&[
        ("list", "a", "leases", "", verbs),
        ("get", "a", "leases", "n1", elsewhere),
        ("get", "kube-node-lease", "leases", "n2", other),
    ]);
}

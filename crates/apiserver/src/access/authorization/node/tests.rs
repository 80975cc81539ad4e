use serde_json::{Value, json};

use super::*;
use crate::access::authentication::Identity;

const NAMESPACE: &str = "default";

fn pod(name: &str, node: &str, spec: Value) -> (String, Vec<u8>) {
    let mut pod = json!({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec});
    pod["spec"]["nodeName"] = node.into();
    (format!("/pods/{NAMESPACE}/{name}"), pod.to_string().into_bytes())
}

fn with(pods: &[(String, Vec<u8>)]) -> Graph {
    let mut graph = Graph::default();
    for (key, value) in pods {
        graph.put(key, value);
    }
    graph
}

fn leads_to(graph: &Graph, node: &str, referent: Referent, name: &str) -> bool {
    graph.leads_to(node, referent, NAMESPACE, name)
}

#[test]
fn leads_to_what_the_pods_of_the_node_refer_to() {
    let graph = with(&[
        pod(
            "p",
            "n1",
            json!({"serviceAccountName": "robot", "imagePullSecrets": [{"name": "pull"}],
            "volumes": [{"configMap": {"name": "settings"}}]}),
        ),
        pod("q", "n2", json!({"imagePullSecrets": [{"name": "other"}]})),
        pod("r", "", json!({"imagePullSecrets": [{"name": "unbound"}]})),
    ]);
    for (referent, name) in [
        (Referent::Pod, "p"),
        (Referent::ServiceAccount, "robot"),
        (Referent::Secret, "pull"),
        (Referent::ConfigMap, "settings"),
    ] {
        assert!(leads_to(&graph, "n1", referent, name), "{name}");
        assert!(!leads_to(&graph, "n2", referent, name), "{name}");
        assert!(!graph.leads_to("n1", referent, "elsewhere", name), "{name}");
    }
    for (referent, name) in [
        (Referent::Pod, "q"),
        (Referent::Secret, "other"),
        (Referent::Secret, "settings"),
        (Referent::Secret, "unbound"),
    ] {
        assert!(!leads_to(&graph, "n1", referent, name), "{name}");
    }
    assert!(!leads_to(&graph, "", Referent::Secret, "unbound"));
}

#[test]
fn forgets_what_no_pod_refers_to_any_more() {
    let secrets = |names: &[&str]| {
        let references: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"imagePullSecrets": references})
    };
    let mut graph = with(&[
        pod("p", "n1", secrets(&["a", "b"])),
        pod("q", "n1", secrets(&["b"])),
    ]);
    graph.remove("/pods/default/p");
    assert!(!leads_to(&graph, "n1", Referent::Secret, "a"));
    assert!(leads_to(&graph, "n1", Referent::Secret, "b"));
    let (key, moved) = pod("q", "n2", secrets(&["c"]));
    graph.put(&key, &moved);
    assert!(!leads_to(&graph, "n1", Referent::Secret, "b"));
    assert!(leads_to(&graph, "n2", Referent::Secret, "c"));
    graph.put(&key, b"nonsense");
    assert!(!leads_to(&graph, "n2", Referent::Secret, "c"));
}

#[test]
fn mirrors_lead_to_nothing_but_themselves() {
    let (key, value) = pod(
        "p",
        "n1",
        json!({"serviceAccountName": "robot", "imagePullSecrets": [{"name": "s"}]}),
    );
    let mut mirror: Value = serde_json::from_slice(&value).unwrap();
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let graph = with(&[(key, mirror.to_string().into_bytes())]);
    assert!(leads_to(&graph, "n1", Referent::Pod, "p"));
    assert!(!leads_to(&graph, "n1", Referent::Secret, "s"));
    assert!(!leads_to(&graph, "n1", Referent::ServiceAccount, "robot"));
}

#[test]
fn bounds_the_references_of_one_pod() {
    let references: Vec<Value> = (0..20_000)
        .map(|number| json!({"name": format!("s{number:05}")}))
        .collect();
    let graph = with(&[pod("p", "n1", json!({"imagePullSecrets": references}))]);
    assert!(leads_to(&graph, "n1", Referent::Secret, "s00000"));
    assert!(!leads_to(&graph, "n1", Referent::Secret, "s19999"));
}

/// A request that is decided without Pods: (verb, namespace, resource and subresource, name, selected node).
fn decide(verb: &str, namespace: &str, resource: &str, name: &str, selected_node: &str) -> Verdict {
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
fn allows_a_node_its_own_pods_and_node() {
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
            Verdict::Allowed,
            "{verb} {resource}"
        );
    }
}

const UNRELATED: &str = "no relationship found between node 'n1' and this object";
const PODS_OF_OTHERS: &str = "can only list/watch pods with spec.nodeName field selector";

fn expect_refusals(cases: &[(&str, &str, &str, &str, &str)]) {
    for (verb, namespace, resource, name, why) in cases {
        let expected = Verdict::Refused((*why).to_owned());
        assert_eq!(
            decide(verb, namespace, resource, name, ""),
            expected,
            "{verb} {resource} {name}"
        );
    }
}

#[test]
fn refuses_a_node_the_pods_and_nodes_of_others() {
    expect_refusals(&[
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
    assert_eq!(others, Verdict::Refused(PODS_OF_OTHERS.to_owned()));
    assert_eq!(decide("update", "a", "pods", "p", ""), Verdict::NoOpinion);
    assert_eq!(decide("delete", "", "nodes", "n1", ""), Verdict::NoOpinion);
}

#[test]
fn refuses_a_node_what_no_pod_refers_to() {
    let one = "can only create tokens for individual service accounts";
    expect_refusals(&[
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
fn refuses_a_node_the_leases_of_others() {
    let other = "can only access node lease with the same name as the requesting node";
    let elsewhere = "can only access leases in the \"kube-node-lease\" system namespace";
    let verbs = "can only get, create, update, patch, or delete a node lease";
    expect_refusals(&[
        ("list", "a", "leases", "", verbs),
        ("get", "a", "leases", "n1", elsewhere),
        ("get", "kube-node-lease", "leases", "n2", other),
    ]);
}

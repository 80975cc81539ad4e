use serde_json::{Value, json};

use super::*;

fn worlds() -> Vec<Value> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../conformance/endpoint-choice.json"
    );
    let text = std::fs::read_to_string(path).expect("recorded worlds in the repository");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    file["worlds"].as_array().expect("a list of worlds").clone()
}

/// Renders a world as the output of `kubectl get -o json`, and as YAML documents.
fn files(world: &Value) -> [String; 2] {
    let items: Vec<&Value> = ["services", "endpointSlices"]
        .into_iter()
        .flat_map(|list| world[list].as_array().expect("a list"))
        .collect();
    let documents: Vec<String> = items
        .iter()
        .map(|item| serde_saphyr::to_string(item).expect("YAML"))
        .collect();
    [
        json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string(),
        documents.join("---\n"),
    ]
}

fn computed(text: &str, node: &str, labels: &Labels) -> Value {
    let objects = Objects::parse(text).expect("a file");
    assert_eq!(objects.problems, Vec::<String>::new());
    view::value(&compute(&objects, node, labels))
}

#[test]
fn decisions_equal_those_of_all_recorded_worlds() {
    let worlds = worlds();
    let mut different = Vec::new();
    for world in &worlds {
        let labels: Labels = serde_json::from_value(world["nodeLabels"].clone()).expect("labels");
        let node = world["nodeName"].as_str().expect("a name");
        let [list, documents] = files(world);
        for text in [&list, &documents, &world.to_string()] {
            if computed(text, node, &labels) != world["expect"] {
                different.push(world["id"].to_string());
            }
        }
        let parsed = Objects::parse(&world.to_string()).expect("a world");
        assert_eq!(parsed.node_name.as_deref(), Some(node));
        assert_eq!(parsed.labels_of(node), labels);
    }
    assert!(worlds.len() >= 600, "only {} worlds", worlds.len());
    assert!(different.is_empty(), "{} differ: {different:?}", different.len());
}

#[test]
fn invalid_objects_are_reported_and_skipped() {
    let text = r#"{"kind":"ServiceList","items":[
        {"metadata":{"name":"bad"},"spec":{"clusterIP":"10.96.0.4","ports":7}},
        {"metadata":{"name":"good"},"spec":{"clusterIP":"10.96.0.5","ports":[{"port":80}]}}]}"#;
    let objects = Objects::parse(text).expect("a file");
    assert_eq!(objects.problems.len(), 1);
    assert!(objects.problems[0].starts_with("Service bad is invalid"));
    let plan = compute(&objects, "node-a", &Labels::new());
    assert_eq!(
        view::text(&plan),
        "IPv4 default/good TCP\n  cluster IP 10.96.0.5:80\n    all clients: rejected, no usable endpoint\n"
    );
}

#[test]
fn last_of_equal_keys_counts_as_with_kubectl() {
    let text = "kind: Service\nmetadata: {name: web, labels: {a: b, a: c}}\nspec: {clusterIP: 10.96.0.4, clusterIP: 10.96.0.5, \
                ports: [{port: 80}]}\n";
    let objects = Objects::parse(text).expect("a file");
    assert_eq!(objects.services.len(), 1);
    assert!(view::text(&compute(&objects, "node-a", &Labels::new())).contains("10.96.0.5:80"));
}

#[test]
fn text_has_a_line_per_origin() {
    let text = "kind: Service
metadata: {name: web}
spec:
  type: NodePort
  clusterIP: 10.96.0.5
  externalTrafficPolicy: Local
  ports: [{port: 80, nodePort: 30080}]
---
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: \"\", port: 8080}]
endpoints:
- {addresses: [10.244.1.2], nodeName: node-b}
";
    let objects = Objects::parse(text).expect("documents");
    let plan = compute(&objects, "node-a", &Labels::new());
    assert_eq!(
        view::text(&plan),
        "IPv4 default/web TCP
  cluster IP 10.96.0.5:80
    all clients: to 10.244.1.2:8080
  node port 30080
    outside, Pods: dropped, no usable endpoint on this node
    this node: to 10.244.1.2:8080, masqueraded
"
    );
}

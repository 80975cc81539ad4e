use serde_json::{Value, json};

use super::*;

fn worlds() -> Vec<Value> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../conformance/endpoint-choice.json"
    );
    let text = std::fs::read_to_string(path).expect("the recorded worlds are in the repository");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    file["worlds"].as_array().expect("a list of worlds").clone()
}

/// The world as `kubectl get -o json` would write it, and the same as YAML documents.
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
    assert_eq!(objects.complaints, Vec::<String>::new());
    view::value(&compute(&objects, node, labels))
}

#[test]
fn all_recorded_worlds_agree_in_every_form() {
    let worlds = worlds();
    let mut wrong = Vec::new();
    for world in &worlds {
        let labels: Labels = serde_json::from_value(world["nodeLabels"].clone()).expect("labels");
        let node = world["nodeName"].as_str().expect("a name");
        let [list, documents] = files(world);
        for text in [&list, &documents, &world.to_string()] {
            if computed(text, node, &labels) != world["expect"] {
                wrong.push(world["id"].to_string());
            }
        }
        let alone = Objects::parse(&world.to_string()).expect("a world");
        assert_eq!(alone.node_name.as_deref(), Some(node));
        assert_eq!(alone.labels_of(node), labels);
    }
    assert!(worlds.len() >= 600, "only {} worlds", worlds.len());
    assert!(wrong.is_empty(), "{} differ: {wrong:?}", wrong.len());
}

#[test]
fn a_bad_object_is_told_and_the_rest_computed() {
    let text = r#"{"kind":"ServiceList","items":[
        {"metadata":{"name":"bad"},"spec":{"clusterIP":"10.96.0.4","ports":7}},
        {"metadata":{"name":"good"},"spec":{"clusterIP":"10.96.0.5","ports":[{"port":80}]}}]}"#;
    let objects = Objects::parse(text).expect("a file");
    assert_eq!(objects.complaints.len(), 1);
    assert!(objects.complaints[0].starts_with("Service bad cannot be read"));
    let plan = compute(&objects, "node-a", &Labels::new());
    assert_eq!(
        view::text(&plan),
        "IPv4 default/good TCP\n  cluster IP 10.96.0.5:80\n    everybody: refused, no endpoint is usable\n"
    );
}

#[test]
fn text_says_who_goes_where() {
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
    everybody: to 10.244.1.2:8080
  node port 30080
    outside, Pods: dropped, no usable endpoint is on this node
    this node: to 10.244.1.2:8080, masqueraded
"
    );
}

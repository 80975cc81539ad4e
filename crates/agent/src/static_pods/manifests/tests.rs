use super::*;

const WEB: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers: [{name: a, image: shell}]
";

fn pods(text: &str) -> Result<Vec<StaticPod>, String> {
    parse(text.as_bytes(), Path::new("/etc/web.yaml"), "n1").map_err(|error| error.to_string())
}

#[test]
fn static_pod_has_name_and_annotations_of_its_node() {
    let pods = pods(WEB).unwrap();
    let pod = &pods[0].pod;
    assert_eq!(pod.metadata.key().to_string(), "default/web-n1");
    assert_eq!(pod.spec.node_name, "n1");
    let annotations = &pods[0].mirror["metadata"]["annotations"];
    assert_eq!(annotations["kubernetes.io/config.source"], "file");
    for annotation in ["kubernetes.io/config.mirror", "kubernetes.io/config.hash"] {
        assert_eq!(annotations[annotation], pod.metadata.uid.as_str());
    }
    assert!(pods[0].mirror["metadata"].get("uid").is_none());
}

#[test]
fn mirror_pod_has_no_finalizers() {
    let pods = pods(&WEB.replace("{name: web,", "{name: web, finalizers: [example.com/hold],")).unwrap();
    let metadata = &pods[0].mirror["metadata"];
    assert!(metadata.get("finalizers").is_none() && metadata["labels"]["app"] == "web");
}

#[test]
fn parses_yaml_documents_json_and_lists() {
    let both = format!("{WEB}\n---\n{}\n---\n", WEB.replace("name: web,", "name: other,"));
    let names = |text: &str| -> Vec<String> {
        let pods = pods(text).unwrap();
        pods.iter().map(|pod| pod.pod.metadata.name.clone()).collect()
    };
    assert_eq!(names(&both), ["web-n1", "other-n1"]);
    let json = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "j"},
                   "spec": {"containers": [{"name": "a", "image": "x"}]}}"#;
    assert_eq!(names(json), ["j-n1"]);
    assert_eq!(
        names(&format!(r#"{{"kind": "List", "items": [{json}]}}"#)),
        ["j-n1"]
    );
}

#[test]
fn numbers_with_a_leading_zero_are_octal() {
    let volume = "{name: v, downwardAPI: {defaultMode: 0400, items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}";
    let pods = pods(&WEB.replace("spec:", &format!("spec:\n  volumes: [{volume}]"))).unwrap();
    assert_eq!(
        pods[0].mirror["spec"]["volumes"][0]["downwardAPI"]["defaultMode"],
        0o400
    );
}

#[test]
fn syntax_error_has_one_line() {
    let message = pods(&WEB.replace("image: shell}", "image: shell")).expect_err("invalid YAML");
    assert!(
        message.starts_with("/etc/web.yaml: ") && message.contains("line "),
        "{message}"
    );
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn errors_name_file_document_and_field() {
    let error = |from: &str, to: &str| pods(&WEB.replace(from, to)).expect_err("an invalid manifest");
    let message = error("image: shell", "image: shell, prots: []");
    assert!(message.starts_with("/etc/web.yaml, document 1: "), "{message}");
    assert!(message.contains("spec.containers[0].prots"), "{message}");
    let message = error("name: a,", "");
    assert!(
        message.contains("spec.containers[0].name: Required value"),
        "{message}"
    );
    let message = error("kind: Pod", "kind: Deployment");
    assert!(message.contains("kind: \"Deployment\""), "{message}");
    let message = error("spec:", "spec:\n  serviceAccountName: x");
    assert!(
        message.contains("spec.serviceAccountName: Forbidden"),
        "{message}"
    );
    let from = "image: shell, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]";
    let message = error("image: shell", from);
    assert!(
        message.contains("spec.containers[0].env[0].valueFrom.secretKeyRef"),
        "{message}"
    );
    let message = error("spec:", "spec:\n  volumes: [{name: v, configMap: {name: c}}]");
    assert!(message.contains("spec.volumes[0].configMap"), "{message}");
    assert!(
        pods("{")
            .expect_err("invalid YAML")
            .starts_with("/etc/web.yaml: ")
    );
}

#[test]
fn uid_depends_on_content_path_and_node() {
    let uid = |text: &str, path: &str, node: &str| {
        let pods = parse(text.as_bytes(), Path::new(path), node).unwrap();
        pods[0].pod.metadata.uid.clone()
    };
    let first = uid(WEB, "/a", "n1");
    assert_eq!(first.len(), 32);
    assert_eq!(uid(&format!("{WEB}\n# a comment"), "/a", "n1"), first);
    assert_ne!(uid(&WEB.replace("shell", "sh"), "/a", "n1"), first);
    assert_ne!(uid(WEB, "/b", "n1"), first);
    assert_ne!(uid(WEB, "/a", "n2"), first);
}

#[test]
fn invalid_content_keeps_previous_pods() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    let mut manifests = Manifests::new(directory.path().to_owned(), "n1".into());
    let mut names = || -> Vec<String> {
        let pods = manifests.scan();
        let mut names: Vec<String> = pods.values().map(|pod| pod.pod.metadata.name.clone()).collect();
        names.sort();
        names
    };
    assert!(names().is_empty());
    write("web.yaml", WEB);
    write(".web.yaml.swp", "incomplete");
    assert_eq!(names(), ["web-n1"]);
    write("web.yaml", "kind: Pod");
    assert_eq!(names(), ["web-n1"], "the previous content");
    write("web.yaml", &WEB.replace("name: web,", "name: new,"));
    assert_eq!(names(), ["new-n1"]);
    // Two files with the same Pod name.
    write("x.yaml", &WEB.replace("name: web,", "name: new,"));
    assert_eq!(names(), ["new-n1"]);
    fs::remove_file(directory.path().join("web.yaml")).unwrap();
    fs::remove_file(directory.path().join("x.yaml")).unwrap();
    assert!(names().is_empty());
}

use super::*;

const WEB: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers: [{name: a, image: shell}]
";

fn pods(text: &str) -> Result<Vec<StaticPod>, String> {
    read(text.as_bytes(), Path::new("/etc/web.yaml"), "n1").map_err(|error| error.to_string())
}

#[test]
fn a_static_pod_is_named_after_its_node_and_knows_its_file() {
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
fn files_have_several_documents_in_either_form() {
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
fn errors_name_the_file_the_document_and_the_field() {
    let refused = |from: &str, to: &str| pods(&WEB.replace(from, to)).expect_err("refused");
    let said = refused("image: shell", "image: shell, prots: []");
    assert!(said.starts_with("/etc/web.yaml, document 1: "), "{said}");
    assert!(said.contains("spec.containers[0].prots"), "{said}");
    let said = refused("name: a,", "");
    assert!(said.contains("spec.containers[0].name: Required value"), "{said}");
    let said = refused("kind: Pod", "kind: Deployment");
    assert!(said.contains("kind: \"Deployment\""), "{said}");
    let said = refused("spec:", "spec:\n  serviceAccountName: x");
    assert!(said.contains("spec.serviceAccountName: Forbidden"), "{said}");
    let from = "image: shell, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]";
    let said = refused("image: shell", from);
    assert!(
        said.contains("spec.containers[0].env[0].valueFrom.secretKeyRef"),
        "{said}"
    );
    let said = refused("spec:", "spec:\n  volumes: [{name: v, configMap: {name: c}}]");
    assert!(said.contains("spec.volumes[0].configMap"), "{said}");
    assert!(pods("{").expect_err("no YAML").starts_with("/etc/web.yaml: "));
}

#[test]
fn another_content_or_place_is_another_pod() {
    let uid = |text: &str, path: &str, node: &str| {
        let pods = read(text.as_bytes(), Path::new(path), node).unwrap();
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
fn what_is_not_understood_ends_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    let mut manifests = Manifests::new(directory.path().to_owned(), "n1".into());
    let mut names = || -> Vec<String> {
        let wanted = manifests.scan();
        let mut names: Vec<String> = wanted.values().map(|pod| pod.pod.metadata.name.clone()).collect();
        names.sort();
        names
    };
    assert!(names().is_empty());
    write("web.yaml", WEB);
    write(".web.yaml.swp", "unfinished");
    assert_eq!(names(), ["web-n1"]);
    write("web.yaml", "kind: Pod");
    assert_eq!(names(), ["web-n1"], "the one of before");
    write("web.yaml", &WEB.replace("name: web,", "name: new,"));
    assert_eq!(names(), ["new-n1"]);
    // The same name in two files.
    write("x.yaml", &WEB.replace("name: web,", "name: new,"));
    assert_eq!(names(), ["new-n1"]);
    fs::remove_file(directory.path().join("web.yaml")).unwrap();
    fs::remove_file(directory.path().join("x.yaml")).unwrap();
    assert!(names().is_empty());
}

use serde_json::json;

use super::*;

#[test]
fn each_variable_has_its_source() {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "shop"},
        "spec": {"containers": [{"name": "a", "env": [{"name": "URL", "value": "http://$(WEB_SERVICE_HOST)"}]}]},
    }))
    .expect("a Pod");
    let service = json!({"metadata": {"name": "web", "namespace": "shop"},
                         "spec": {"clusterIP": "10.0.0.3", "ports": [{"port": 80, "protocol": "TCP"}]}});
    let services = [serde_json::from_value(service).expect("a Service")];
    let text = environment(
        &pod,
        &pod.spec.containers[0],
        &PodFacts::default(),
        &services,
        &Sources::new(),
    )
    .expect("an environment");
    assert!(text.starts_with("# container a\n"), "{text}");
    assert!(text.contains("\nURL=http://10.0.0.3\t# env\n"), "{text}");
    assert!(
        text.contains("\nWEB_SERVICE_HOST=10.0.0.3\t# Service shop/web\n"),
        "{text}"
    );
    assert!(text.contains("\nHOSTNAME=p\t# every container\n"), "{text}");
}

use serde_json::json;

use super::*;

#[test]
fn variables_have_their_source() {
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

/// ENV-11.
#[test]
fn services_that_are_newer_than_the_container_are_named_and_omitted() {
    let object = json!({"metadata": {"name": "p", "namespace": "shop"}, "spec": {}, "status": {"containerStatuses": [
        {"name": "a", "state": {"running": {"startedAt": "2026-03-01T12:00:00Z"}}},
        {"name": "b", "state": {"waiting": {}}},
    ]}});
    let pod: Pod = serde_json::from_value(object.clone()).expect("a Pod");
    let services: Vec<Service> = [
        ("old", "2026-03-01T11:59:00Z"),
        ("same", "2026-03-01T12:00:00Z"),
        ("new", "2026-03-01T12:00:01Z"),
    ]
    .into_iter()
    .map(|(name, created)| {
        let service = json!({"metadata": {"name": name, "namespace": "shop", "creationTimestamp": created},
                             "spec": {"clusterIP": "10.0.0.3", "ports": [{"port": 80, "protocol": "TCP"}]}});
        serde_json::from_value(service).expect("a Service")
    })
    .collect();
    let (present, newer) = split_by_age(&services, started_at(&object, "a"));
    assert_eq!((present.len(), newer.len()), (2, 1));
    let line = "# not set, because the Service is newer than the container: shop/new\n";
    assert_eq!(omission_line(&pod, &newer), line);
    assert_eq!(split_by_age(&services, started_at(&object, "b")).1.len(), 0);
    assert_eq!(omission_line(&pod, &[]), "");
}

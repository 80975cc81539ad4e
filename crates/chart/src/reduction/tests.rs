use serde_json::json;

use super::*;

/// Text that no reduced object contains.
const SECRET: &str = "hunter2";

#[test]
fn pod_loses_its_environment_commands_and_annotations() {
    let mut pod = json!({
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web"},
            "annotations": {"password": SECRET}, "managedFields": [{"manager": SECRET}]},
        "spec": {
            "nodeName": "n1", "serviceAccountName": SECRET, "volumes": [{"name": SECRET}],
            "containers": [{
                "name": "web", "image": "web:1", "ports": [{"containerPort": 8080}],
                "env": [{"name": "DB", "value": SECRET}], "envFrom": [{"secretRef": {"name": SECRET}}],
                "command": ["sh", "-c", SECRET], "args": [SECRET], "volumeMounts": [{"name": SECRET}],
                "lifecycle": {"preStop": {"exec": {"command": [SECRET]}}},
                "livenessProbe": {"httpGet": {"httpHeaders": [{"value": SECRET}]}},
                "readinessProbe": {
                    "httpGet": {"path": "/ready", "port": 8080, "httpHeaders": [{"name": "Authorization", "value": SECRET}]},
                    "exec": {"command": ["check", SECRET]}}}],
            "initContainers": [{"name": "init", "env": [{"value": SECRET}]}],
            "ephemeralContainers": [{"name": "debug", "env": [{"value": SECRET}]}]},
        "status": {"phase": "Running", "podIP": "10.244.0.7", "message": SECRET,
            "containerStatuses": [{"name": "web", "ready": false, "imageID": SECRET,
                "lastState": {"terminated": {"reason": "Error", "exitCode": 1, "message": SECRET}},
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": SECRET}}}]},
    });
    reduce(Kind::Pod, &mut pod);
    assert!(!pod.to_string().contains(SECRET), "{pod:#}");
    assert_eq!(pod["spec"]["containers"][0]["ports"][0]["containerPort"], 8_080);
    assert_eq!(
        pod["spec"]["containers"][0]["readinessProbe"]["httpGet"]["path"],
        "/ready"
    );
    assert_eq!(
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"],
        "CrashLoopBackOff"
    );
    assert_eq!(pod["metadata"]["labels"]["app"], "web");
}

#[test]
fn templates_of_workloads_are_reduced_as_pods() {
    let template = || json!({"metadata": {"annotations": {"a": SECRET}}, "spec": {"containers": [{"name": "a", "env": [{"value": SECRET}]}]}});
    let mut deployment = json!({"metadata": {"name": "web"}, "spec": {"template": template()}});
    reduce(Kind::Deployment, &mut deployment);
    let mut job =
        json!({"metadata": {"name": "web"}, "spec": {"jobTemplate": {"spec": {"template": template()}}}});
    reduce(Kind::CronJob, &mut job);
    for tree in [deployment, job] {
        assert!(!tree.to_string().contains(SECRET), "{tree:#}");
    }
}

#[test]
fn service_keeps_short_annotations_only() {
    let long = "x".repeat(1 << 20);
    let mut service = json!({"metadata": {"name": "web", "annotations": {
        "service.beta.kubernetes.io/aws-load-balancer-type": "nlb",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "long": long, "number": 1}}});
    reduce(Kind::Service, &mut service);
    let annotations = service["metadata"]["annotations"]
        .as_object()
        .expect("annotations");
    let names: Vec<&String> = annotations.keys().collect();
    assert_eq!(
        names,
        ["service.beta.kubernetes.io/aws-load-balancer-type", "number"]
    );
    assert!(service.to_string().len() < 500);
}

#[test]
fn heartbeat_of_a_node_changes_nothing() {
    let node = |time: &str| {
        let mut node = json!({"metadata": {"name": "n1", "resourceVersion": time}, "status": {
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": time}], "images": [{"names": ["a"]}]}});
        reduce(Kind::Node, &mut node);
        node
    };
    assert_eq!(node("2026-01-01T00:00:00Z"), node("2026-01-01T00:05:00Z"));
}

/// Trees of any form are reduced without a panic.
#[test]
fn unexpected_forms_are_kept_out() {
    for mut tree in [
        json!(null),
        json!([]),
        json!("text"),
        json!({"metadata": 1, "spec": []}),
        json!({"metadata": {"annotations": []}, "spec": {"containers": {"a": 1}, "template": []}, "status": "x"}),
        json!({"spec": {"containers": [1, null, {"readinessProbe": "x"}]}, "status": {"containerStatuses": [{"state": []}]}}),
    ] {
        for kind in [
            Kind::Pod,
            Kind::Node,
            Kind::Service,
            Kind::Deployment,
            Kind::CronJob,
        ] {
            reduce(kind, &mut tree);
        }
    }
}

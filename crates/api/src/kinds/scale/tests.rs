use super::*;

fn deployment() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"tier": "front", "app": "web"}}, "paused": true},
        "status": {"replicas": 2},
    })
}

#[test]
fn scale_has_desired_and_actual_replicas_and_selector() {
    let scale = scale_of(&deployment());
    assert_eq!(
        scale,
        json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {"name": "web", "namespace": "n", "uid": "u", "resourceVersion": "7"},
            "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "app=web,tier=front"},
        })
    );
    assert!(validate(&scale).is_empty());
}

/// Upstream: `labels.Selector.String` in `scaleFromDeployment` (`pkg/registry/apps/deployment/storage/storage.go`).
#[test]
fn selector_of_a_scale_keeps_the_operators_of_expressions() {
    let mut object = deployment();
    object["spec"]["selector"]["matchExpressions"] =
        json!([{"key": "env", "operator": "In", "values": ["a"]}]);
    let scale = scale_of(&object);
    assert_eq!(scale["status"]["selector"], "app=web,env in (a),tier=front");
}

#[test]
fn scale_changes_replicas_only() {
    let mut scale = scale_of(&deployment());
    scale["spec"]["replicas"] = json!(5);
    scale["metadata"]["resourceVersion"] = json!("6");
    scale["metadata"]["labels"] = json!({"c": "d"});
    let object = with_scale(&deployment(), &scale);
    let mut expected = deployment();
    expected["spec"]["replicas"] = json!(5);
    expected["metadata"]["resourceVersion"] = json!("6");
    assert_eq!(object, expected);
}

#[test]
fn rejects_negative_replicas() {
    let mut scale = scale_of(&deployment());
    scale["spec"]["replicas"] = json!(-1);
    let errors = validate(&scale);
    assert_eq!(
        errors[0].to_string(),
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0"
    );
}

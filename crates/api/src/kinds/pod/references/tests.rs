use serde_json::json;

use super::*;

/// Specs with one reference each, and upstream's wording of the reference.
fn references() -> Vec<(&'static str, Value)> {
    let container = |container: Value| json!({"containers": [container]});
    let volume = |volume: Value| json!({"volumes": [volume]});
    let projected = |source: Value| volume(json!({"projected": {"sources": [source]}}));
    let variable = json!({"valueFrom": {"secretKeyRef": {"name": "x"}}});
    vec![
        ("serviceaccounts", json!({"serviceAccountName": "x"})),
        ("serviceaccounts", json!({"serviceAccount": "x"})),
        ("secrets", json!({"imagePullSecrets": [{"name": "x"}]})),
        ("secrets", container(json!({"env": [variable]}))),
        ("secrets", json!({"initContainers": [{"env": [variable]}]})),
        ("secrets", json!({"ephemeralContainers": [{"env": [variable]}]})),
        (
            "secrets",
            container(json!({"envFrom": [{"secretRef": {"name": "x"}}]})),
        ),
        ("secrets", volume(json!({"secret": {"secretName": "x"}}))),
        ("secrets", volume(json!({"azureFile": {"secretName": "x"}}))),
        (
            "secrets",
            volume(json!({"csi": {"nodePublishSecretRef": {"name": "x"}}})),
        ),
        ("secrets", volume(json!({"rbd": {"secretRef": {"name": "x"}}}))),
        ("secrets", projected(json!({"secret": {"name": "x"}}))),
        (
            "configmaps",
            container(json!({"envFrom": [{"configMapRef": {"name": "x"}}]})),
        ),
        ("configmaps", volume(json!({"configMap": {"name": "x"}}))),
        ("configmaps", projected(json!({"configMap": {"name": "x"}}))),
        ("resourceclaims", json!({"resourceClaims": [{"name": "x"}]})),
        (
            "persistentvolumeclaims",
            volume(json!({"persistentVolumeClaim": {"claimName": "x"}})),
        ),
        (
            "persistentvolumeclaims (via ephemeral volumes)",
            volume(json!({"ephemeral": {}})),
        ),
        (
            "csidrivers (via CSI volumes)",
            volume(json!({"csi": {"driver": "x"}})),
        ),
        ("secrets (via secret volumes)", volume(json!({"secret": {}}))),
        (
            "serviceaccounts (via projected volumes)",
            projected(json!({"serviceAccountToken": {"path": "x"}})),
        ),
        (
            "clustertrustbundles",
            projected(json!({"clusterTrustBundle": {"name": "x"}})),
        ),
    ]
}

#[test]
fn pod_references_of_each_kind_are_found() {
    for (resource, spec) in references() {
        assert_eq!(api_object_reference(&spec), Some(resource), "{spec}");
        assert_eq!(!secret_names(&spec).is_empty(), resource == "secrets", "{spec}");
        assert_eq!(
            !config_map_names(&spec).is_empty(),
            resource == "configmaps",
            "{spec}"
        );
    }
}

#[test]
fn ignores_volumes_without_api_objects() {
    let spec = json!({
        "containers": [{"env": [{"name": "A", "value": "secretKeyRef"}], "envFrom": []}],
        "imagePullSecrets": [],
        "volumes": [{"emptyDir": {}}, {"hostPath": {"path": "/"}}, {"downwardAPI": {}},
                    {"projected": {"sources": [{"downwardAPI": {}}]}}],
    });
    assert_eq!(api_object_reference(&spec), None);
}

#[test]
fn lists_the_audiences_of_tokens() {
    let spec = json!({"volumes": [{"projected": {"sources": [
        {"serviceAccountToken": {"path": "a"}}, {"serviceAccountToken": {"audience": "vault"}}, {"secret": {"name": "x"}},
    ]}}]});
    assert_eq!(token_audiences(&spec), BTreeSet::from(["", "vault"]));
    assert!(token_audiences(&json!({})).is_empty());
}

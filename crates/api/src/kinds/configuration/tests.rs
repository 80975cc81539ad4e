use serde_json::json;

use super::*;

fn faults(errors: &FieldErrors) -> Vec<(&str, &str)> {
    errors
        .iter()
        .map(|error| (error.reason.as_str(), error.path.as_str()))
        .collect()
}

#[test]
fn secret_takes_string_data_and_has_a_type() {
    let mut secret = json!({
        "metadata": {"name": "s"},
        "data": {"a": "b2xk", "b": "Yg=="},
        "stringData": {"a": "new"},
    });
    default_secret_on_write(&mut secret);
    assert_eq!(
        secret,
        json!({"metadata": {"name": "s"}, "data": {"a": "bmV3", "b": "Yg=="}, "type": "Opaque"})
    );
    let mut empty = json!({"metadata": {"name": "s"}, "stringData": {}, "data": {}});
    default_secret_on_write(&mut empty);
    assert_eq!(empty, json!({"metadata": {"name": "s"}, "type": "Opaque"}));
}

/// As upstream (`pkg/registry/core/serviceaccount/strategy.go`).
#[test]
fn service_accounts_reference_secrets_by_name() {
    let mut account =
        json!({"metadata": {"name": "a"}, "secrets": [{"name": "s", "kind": "Secret", "uid": "u"}, {}]});
    prepare_service_account(&mut account);
    assert_eq!(account["secrets"], json!([{"name": "s"}, {}]));
}

#[test]
fn deprecated_annotation_of_a_service_account_causes_a_warning_once() {
    let plain = json!({"metadata": {"name": "a"}});
    let annotated = json!({"metadata": {
        "name": "a",
        "annotations": {"kubernetes.io/enforce-mountable-secrets": "false"},
    }});
    let expected = [
        "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces \
         to isolate access to mounted secrets",
    ];
    assert_eq!(service_account_creation_warnings(&annotated), expected);
    assert_eq!(service_account_update_warnings(&annotated, &plain), expected);
    assert_eq!(
        service_account_update_warnings(&annotated, &annotated),
        Vec::<String>::new()
    );
    assert_eq!(service_account_creation_warnings(&plain), Vec::<String>::new());
}

#[test]
fn requires_the_keys_of_a_secret_type() {
    let secret = |kind: &str, data: Value| json!({"metadata": {"name": "s", "namespace": "d"}, "type": kind, "data": data});
    let tls = validate_secret(&secret("kubernetes.io/tls", json!({"tls.crt": ""})));
    assert_eq!(faults(&tls), [("FieldValueRequired", "data[tls.key]")]);
    let docker = secret(
        "kubernetes.io/dockerconfigjson",
        json!({".dockerconfigjson": "e29vcHM="}),
    );
    assert_eq!(
        faults(&validate_secret(&docker)),
        [("FieldValueInvalid", "data[.dockerconfigjson]")]
    );
    let token = validate_secret(&secret("kubernetes.io/service-account-token", json!({})));
    assert_eq!(
        faults(&token),
        [(
            "FieldValueRequired",
            "metadata.annotations[kubernetes.io/service-account.name]"
        )]
    );
    let opaque = secret("Opaque", json!({"..a": "", "b c": "", "fine_1.txt": ""}));
    assert_eq!(
        faults(&validate_secret(&opaque)),
        [
            ("FieldValueInvalid", "data[..a]"),
            ("FieldValueInvalid", "data[b c]")
        ]
    );
    let mut changed = opaque.clone();
    changed["type"] = "kubernetes.io/ssh-auth".into();
    let errors = validate_secret_update(&changed, &opaque);
    assert!(faults(&errors).contains(&("FieldValueInvalid", "type")));
}

#[test]
fn rejects_changes_of_immutable_objects() {
    let old = json!({"metadata": {"name": "c", "namespace": "d"}, "immutable": true, "data": {"a": "1"}});
    assert_eq!(faults(&validate_config_map_update(&old, &old)), []);
    let mut new = old.clone();
    new["data"]["a"] = "2".into();
    new["immutable"] = false.into();
    assert_eq!(
        faults(&validate_config_map_update(&new, &old)),
        [
            ("FieldValueForbidden", "immutable"),
            ("FieldValueForbidden", "data")
        ]
    );
}

#[test]
fn rejects_duplicate_keys_and_large_config_maps() {
    let map = |data: Value, binary: Value| json!({"metadata": {"name": "c", "namespace": "d"}, "data": data, "binaryData": binary});
    let twice = validate_config_map(&map(json!({"a": "1"}), json!({"a": "MQ=="})));
    assert_eq!(faults(&twice), [("FieldValueInvalid", "data[a]")]);
    let full = map(json!({"a": "x".repeat(DATA_BYTES_MAX)}), json!({}));
    assert_eq!(faults(&validate_config_map(&full)), []);
    let over = map(json!({"a": "x".repeat(DATA_BYTES_MAX), "b": "x"}), json!({}));
    assert_eq!(faults(&validate_config_map(&over)), [("FieldValueTooLong", "[]")]);
}

// Upstream: registry/core/secret/strategy.go, `warningsForSecret`.
#[test]
fn tls_secrets_without_pem_data_cause_warnings() {
    let of = |kind: &str, certificate: &str, key: &str| {
        secret_warnings(&json!({"type": kind, "data": {"tls.crt": certificate, "tls.key": key}}))
    };
    // `-----BEGIN A-----\n-----END A-----`
    let pem = "LS0tLS1CRUdJTiBBLS0tLS0KLS0tLS1FTkQgQS0tLS0t";
    assert_eq!(
        of("kubernetes.io/tls", "", ""),
        ["tls: failed to find any PEM data in certificate input"]
    );
    assert_eq!(
        of("kubernetes.io/tls", pem, "YQ=="),
        ["tls: failed to find any PEM data in key input"]
    );
    assert!(of("kubernetes.io/tls", pem, pem).is_empty());
    assert!(of("Opaque", "", "").is_empty());
}

/// The responses of kube-apiserver 1.36.2.
#[test]
fn empty_fields_are_not_stored() {
    let mut map = json!({"metadata": {"name": "c"}, "data": {}, "binaryData": {}, "immutable": false});
    default_config_map_on_write(&mut map);
    assert_eq!(map, json!({"metadata": {"name": "c"}, "immutable": false}));
    let mut account = json!({"metadata": {"name": "a"}, "secrets": [], "imagePullSecrets": []});
    default_service_account_on_write(&mut account);
    assert_eq!(account, json!({"metadata": {"name": "a"}}));
}

#[test]
fn immutable_config_maps_with_stored_empty_maps_can_be_updated() {
    let of = |data: Value| json!({"metadata": {"name": "c", "namespace": "d", "resourceVersion": "1"}, "immutable": true, "data": data});
    assert_eq!(
        faults(&validate_config_map_update(&of(Value::Null), &of(json!({})))),
        []
    );
    let changed = validate_config_map_update(&of(json!({"a": "b"})), &of(json!({})));
    assert_eq!(faults(&changed), [("FieldValueForbidden", "data")]);
}

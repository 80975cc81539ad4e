use super::*;

fn secret(data: serde_json::Value) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": NAME}, "type": "Opaque", "data": data}))
        .expect("Secret")
}

#[test]
fn previous_key_is_optional() {
    let both = secret(json!({"key": "bmV3", "previous-key": "b2xk"}));
    let expected = StickySecrets {
        current: b"new".to_vec(),
        previous: Some(b"old".to_vec()),
    };
    assert_eq!(secrets(&both), Ok(expected));
    let one = secret(json!({"key": "bmV3", "previous-key": ""}));
    assert_eq!(secrets(&one).map(|secrets| secrets.previous), Ok(None));
}

#[test]
fn rejects_secrets_without_a_key() {
    for data in [json!(null), json!({}), json!({"key": ""}), json!({"key": "%"})] {
        let error = secrets(&secret(data)).expect_err("missing key");
        assert_eq!(
            error.to_string(),
            "Secret kube-system/portolan-edge-cookies: expected the entry \"key\" in base64, found none; add it"
        );
    }
}

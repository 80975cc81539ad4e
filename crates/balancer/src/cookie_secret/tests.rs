use super::*;

fn secret(data: serde_json::Value) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": NAME}, "type": "Opaque", "data": data}))
        .expect("a Secret")
}

#[test]
fn the_former_secret_may_be_there_or_not() {
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
fn what_holds_no_secret_says_so() {
    for data in [json!(null), json!({}), json!({"key": ""}), json!({"key": "%"})] {
        let fault = secrets(&secret(data)).expect_err("nothing in it");
        assert_eq!(fault, "Secret kube-system/portolan-edge-cookies lacks \"key\"");
    }
}

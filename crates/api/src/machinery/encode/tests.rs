use super::*;
use serde_json::json;

/// Encodes, inserts a revision where told, and reads the result back.
fn with_revision(object: &Value) -> Value {
    let (mut bytes, at) = encode(object);
    bytes.splice(at..at, *b"42");
    serde_json::from_slice(&bytes).expect("JSON")
}

#[test]
fn the_revision_goes_between_the_quotes() {
    let service = json!({"apiVersion":"v1","kind":"Service","metadata":{"name":"{\"a","resourceVersion":"7","uid":"u"},"spec":{}});
    let mut expected = service.clone();
    expected["metadata"]["resourceVersion"] = "42".into();
    assert_eq!(with_revision(&service), expected);
    let (bytes, _) = encode(&service);
    assert!(String::from_utf8_lossy(&bytes).contains(r#""resourceVersion":"","uid""#));
}

#[test]
fn every_tree_has_a_place_for_it() {
    for tree in [
        json!({}),
        json!(null),
        json!({"metadata":null}),
        json!({"metadata":{}}),
        json!({"a\"b":1}),
    ] {
        assert_eq!(
            with_revision(&tree)["metadata"]["resourceVersion"],
            "42",
            "{tree}"
        );
    }
    assert_eq!(with_revision(&json!({"a\"b":1}))["a\"b"], 1);
}

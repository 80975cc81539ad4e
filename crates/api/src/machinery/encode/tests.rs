use super::*;
use serde_json::json;

/// Encodes an object, inserts a revision at the returned offset, and parses the result.
fn with_revision(object: &Value) -> Value {
    let (mut bytes, revision_at) = encode(object);
    bytes.splice(revision_at..revision_at, *b"42");
    serde_json::from_slice(&bytes).expect("JSON")
}

#[test]
fn revision_is_inserted_between_the_quotes() {
    let service = json!({"apiVersion":"v1","kind":"Service","metadata":{"name":"{\"a","resourceVersion":"7","uid":"u"},"spec":{}});
    let mut expected = service.clone();
    expected["metadata"]["resourceVersion"] = "42".into();
    assert_eq!(with_revision(&service), expected);
    let (bytes, _) = encode(&service);
    assert!(String::from_utf8_lossy(&bytes).contains(r#""resourceVersion":"","uid""#));
}

#[test]
fn all_trees_receive_a_revision() {
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

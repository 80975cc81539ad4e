use serde_json::json;

use super::*;

#[test]
fn absent_and_mistyped_fields_read_as_zero() {
    let tree = json!({"name": 7, "port": "80", "list": {}});
    assert_eq!(text(&tree, "name"), "");
    assert_eq!(number(&tree, "port"), 0);
    assert!(items(&tree, "list").is_empty());
    assert!(texts(&json!(3), "list").is_empty());
    assert!(!is_set(&json!({"a": null}), "a"));
    assert_eq!(child(&tree, "nothing"), &Value::Null);
}

#[test]
fn object_mut_creates_missing_objects() {
    let mut tree = json!({"spec": null});
    object_mut(&mut tree, "spec").insert("a".into(), 1.into());
    object_mut(&mut tree, "status").insert("b".into(), 2.into());
    assert_eq!(tree, json!({"spec": {"a": 1}, "status": {"b": 2}}));
}

#[test]
fn omits_zero_values_of_the_given_fields() {
    let mut tree = json!({"a": "", "b": 0, "c": [], "d": null, "e": false, "f": "x", "g": ""});
    omit_zero(&mut tree, &["a", "b", "c", "d", "e", "f"]);
    assert_eq!(tree, json!({"f": "x", "g": ""}));
    let mut tree = json!({"a": "", "b": null});
    omit_null(&mut tree, &["a", "b"]);
    assert_eq!(tree, json!({"a": ""}));
}

use serde_json::json;

use super::*;
use crate::kinds::kind;

fn converted(mut tree: Value) -> Value {
    convert_numbers(
        &mut tree,
        kind::find("", "v1", "services").expect("the kind Service"),
    );
    tree
}

/// Upstream: apimachinery/pkg/runtime/converter.go, `fromUnstructured`.
#[test]
fn floats_without_fraction_become_integers() {
    let tree =
        json!({"metadata": {"generation": 1e2}, "spec": {"ports": [{"port": 80.0, "targetPort": 81.0}]}});
    let expected =
        json!({"metadata": {"generation": 100}, "spec": {"ports": [{"port": 80, "targetPort": 81}]}});
    assert_eq!(converted(tree), expected);
    let fraction = json!({"spec": {"ports": [{"port": 80.5}]}});
    assert_eq!(converted(fraction.clone()), fraction);
}

#[test]
fn integers_outside_of_the_range_wrap() {
    let tree = json!({"metadata": {"generation": 1e20}, "spec": {"ports": [{"port": 99_999_999_999_i64}]}});
    let expected =
        json!({"metadata": {"generation": i64::MIN}, "spec": {"ports": [{"port": 1_215_752_191}]}});
    assert_eq!(converted(tree), expected);
    let tree = json!({"metadata": {"generation": u64::MAX}});
    assert_eq!(converted(tree), json!({"metadata": {"generation": i64::MIN}}));
}

#[test]
fn numbers_of_other_types_are_unchanged() {
    let tree = json!({"metadata": {"labels": {"a": 1.0}}, "spec": {"type": 2.0, "unknown": 3.0}});
    assert_eq!(converted(tree.clone()), tree);
}

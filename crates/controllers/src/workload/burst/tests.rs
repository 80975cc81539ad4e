use serde_json::{Value, json};

use super::*;

fn template(arguments: usize) -> Value {
    json!({"spec": {"containers": [{"name": "c", "args": vec![""; arguments]}]}})
}

#[test]
fn copies_of_a_template_are_bounded_by_their_memory() {
    assert_eq!(pods_at_once(500, &template(100)), 500);
    // About a megabyte as JSON.
    let large = template(400_000);
    let number = pods_at_once(500, &large);
    assert!((1..20).contains(&number), "{number} at once");
    assert!(number * memory_of(&large) <= BYTES_MAX, "{number} at once");
    assert_eq!(pods_at_once(500, &json!("x".repeat(BYTES_MAX))), 1);
}

#[test]
fn texts_and_names_count() {
    let text = "x".repeat(BYTES_MAX / 4);
    assert_eq!(pods_at_once(500, &json!({ "a": text })), 3);
    assert_eq!(pods_at_once(500, &json!({ text: "a" })), 3);
}

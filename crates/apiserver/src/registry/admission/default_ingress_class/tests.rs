use api::ingress::DEFAULT_CLASS_ANNOTATION;

use super::*;

fn class(name: &str, created: &str, is_default: &str) -> Value {
    json!({"metadata": {"name": name, "creationTimestamp": created,
        "annotations": {DEFAULT_CLASS_ANNOTATION: is_default}}})
}

#[test]
fn newest_default_class_is_chosen_then_the_first_name() {
    let old = class("old", "2026-01-01T00:00:00Z", "true");
    let new = class("new", "2026-01-02T00:00:00Z", "true");
    let also_new = class("also-new", "2026-01-02T00:00:00Z", "true");
    let other = class("other", "2026-01-03T00:00:00Z", "false");
    assert_eq!(default_class(std::slice::from_ref(&other)), None);
    assert_eq!(default_class(&[old.clone(), other.clone()]), Some("old"));
    assert_eq!(default_class(&[old.clone(), new.clone()]), Some("new"));
    assert_eq!(default_class(&[old, new, also_new, other]), Some("also-new"));
}

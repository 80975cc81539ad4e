use super::*;

#[test]
fn hashes_are_independent_of_field_order() {
    let a = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}});
    let b = json!({"spec": {"x": 1}, "metadata": {"labels": {"a": "b"}}});
    assert_eq!(template_hash(&a, 0), template_hash(&b, 0));
    assert_ne!(template_hash(&a, 0), template_hash(&a, 1));
    let hash = template_hash(&a, 0);
    assert!(
        hash.bytes().all(|letter| LETTERS.contains(&letter)) && hash.len() <= 10,
        "{hash}"
    );
}

#[test]
fn templates_are_compared_without_the_hash_label() {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}});
    let mut set = ReplicaSet::default();
    set.spec.template = template.clone();
    set.spec.template["metadata"] = with_hash(&template["metadata"], "labels", "abc");
    assert!(has_template(&set, &template));
    set.spec.template["spec"]["x"] = json!(2);
    assert!(!has_template(&set, &template));
}

use super::*;

#[test]
fn checks_updates_of_images_and_containers() {
    let old = pod(
        json!({"containers": [{"name": "a", "image": "x"}], "initContainers": [{"name": "i", "image": "x"}]}),
    );
    let changed = |pointer: &str, value: Value| {
        let mut new = old.clone();
        *new.pointer_mut(pointer).expect("field") = value;
        is_significant_update(&new, &old)
    };
    assert!(!is_significant_update(&old, &old));
    assert!(changed("/spec/containers/0/image", json!("y")));
    assert!(changed("/spec/initContainers/0/image", json!("y")));
    assert!(changed("/spec/containers", json!([])));
    assert!(!changed("/metadata", json!({"labels": {"a": "b"}})));
    let annotated = |key: &str| changed("/metadata", json!({"annotations": {key: "unconfined"}}));
    assert!(annotated("seccomp.security.alpha.kubernetes.io/pod"));
    assert!(annotated("container.seccomp.security.alpha.kubernetes.io/a"));
    assert!(!annotated("container.seccomp.security.alpha.kubernetes.io/z"));
}

#[test]
fn checks_new_ephemeral_containers() {
    let with = |containers: Value| pod(json!({"containers": [], "ephemeralContainers": containers}));
    let (none, one) = (with(json!([])), with(json!([{"name": "e", "image": "x"}])));
    assert!(is_significant_update(&one, &none));
    assert!(!is_significant_update(&one, &one));
    assert!(!is_significant_update(&none, &one));
}

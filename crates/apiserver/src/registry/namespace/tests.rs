use super::*;

#[test]
fn new_namespace_has_phase_label_and_finalizer() {
    let mut namespace = json!({"metadata": {"name": "a"}});
    default_on_write(&mut namespace);
    prepare_create(&mut namespace);
    assert_eq!(namespace["metadata"]["labels"][NAME_LABEL], "a");
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(namespace["status"]["phase"], "Active");
    assert_eq!(finalized(&namespace)["spec"]["finalizers"], json!([]));
}

/// The response of kube-apiserver 1.36.2.
#[test]
fn status_without_a_phase_is_active() {
    let mut namespace =
        json!({"metadata": {"name": "a"}, "status": {"phase": "", "conditions": [{"type": "X"}]}});
    default_on_write(&mut namespace);
    let condition = json!({"type": "X", "status": "", "lastTransitionTime": null});
    assert_eq!(
        namespace["status"],
        json!({"phase": "Active", "conditions": [condition]})
    );
    namespace["status"] = Value::Null;
    default_on_write(&mut namespace);
    assert_eq!(namespace["status"], json!({"phase": "Active"}));
}

#[test]
fn given_finalizers_precede_the_default_one() {
    let mut namespace = json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["x.example/y"]}});
    prepare_create(&mut namespace);
    assert_eq!(
        namespace["spec"]["finalizers"],
        json!(["x.example/y", "kubernetes"])
    );
}

#[test]
fn rejects_finalizers_without_domain() {
    let of = |finalizer: &str| {
        let namespace = json!({"metadata": {"name": "a"}, "spec": {"finalizers": [finalizer]}});
        validate(&namespace).len()
    };
    assert_eq!(
        [of("kubernetes"), of("x.example/y"), of("x"), of("a b")],
        [0, 0, 1, 2]
    );
}

#[test]
fn phase_follows_the_deletion() {
    let of = |phase: &str, is_deleted: bool| {
        let mut namespace = json!({"metadata": {"name": "a"}, "status": {"phase": phase}});
        if is_deleted {
            namespace["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        }
        validate_status_update(&namespace, &namespace).len()
    };
    assert_eq!(
        [
            of("Active", false),
            of("Terminating", false),
            of("x", false),
            of("", false)
        ],
        [0, 1, 1, 0]
    );
    assert_eq!([of("Terminating", true), of("Active", true)], [0, 1]);
}

#[test]
fn update_keeps_spec_and_status() {
    let old = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    let mut new = json!({"spec": {}, "status": {"phase": "Terminating"}});
    prepare_update(&mut new, &old);
    assert_eq!(new, old);
}

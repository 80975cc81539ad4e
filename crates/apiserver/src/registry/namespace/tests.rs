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

#[test]
fn update_keeps_spec_and_status() {
    let old = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    let mut new = json!({"spec": {}, "status": {"phase": "Terminating"}});
    prepare_update(&mut new, &old);
    assert_eq!(new, old);
}

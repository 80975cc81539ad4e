use super::*;

#[test]
fn a_new_namespace_is_active_labelled_and_held_by_its_finalizer() {
    let mut namespace = json!({"metadata": {"name": "a"}});
    default_on_write(&mut namespace);
    prepare_create(&mut namespace);
    assert_eq!(namespace["metadata"]["labels"][NAME_LABEL], "a");
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(namespace["status"]["phase"], "Active");
    assert_eq!(finalized(&namespace)["spec"]["finalizers"], json!([]));
}

#[test]
fn an_update_leaves_spec_and_status_alone() {
    let old = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    let mut new = json!({"spec": {}, "status": {"phase": "Terminating"}});
    prepare_update(&mut new, &old);
    assert_eq!(new, old);
}

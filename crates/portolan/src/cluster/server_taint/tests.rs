use super::*;

#[test]
fn existing_taints_are_kept() {
    let other = json!({"key": "example.com/gpu", "effect": "NoSchedule"});
    let node = json!({"metadata": {"resourceVersion": "7"}, "spec": {"taints": [other]}});
    let patch = patch(&node, &[server_taint()]).expect("a patch");
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    assert_eq!(patch["spec"]["taints"], json!([other, server_taint()]));
    assert_eq!(
        super::patch(&json!({"spec": patch["spec"]}), &[server_taint()]),
        None
    );
    assert!(super::patch(&json!({}), &[server_taint()]).is_some());
}

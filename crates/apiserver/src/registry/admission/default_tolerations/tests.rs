use super::*;

fn keys(tolerations: Value) -> Vec<String> {
    let mut pod = json!({"spec": {"tolerations": tolerations}});
    admit(&mut pod);
    let all = items(&pod["spec"], "tolerations");
    all.iter()
        .map(|toleration| text(toleration, "key").to_owned())
        .collect()
}

#[test]
fn pods_without_tolerations_get_both() {
    assert_eq!(keys(json!([])), TAINTS);
}

#[test]
fn tolerations_of_the_pod_take_precedence() {
    let own = json!([{"key": TAINTS[0], "operator": "Exists", "effect": "NoExecute"}]);
    assert_eq!(keys(own), TAINTS);
    let other_effect = json!([{"key": TAINTS[0], "operator": "Exists", "effect": "NoSchedule"}]);
    assert_eq!(keys(other_effect).len(), 3);
    assert_eq!(keys(json!([{"operator": "Exists"}])), [""]);
}

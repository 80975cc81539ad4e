use super::*;

fn stored(name: &str, controller: Option<&str>, spec: Value) -> Vec<u8> {
    let mut pod = json!({"metadata": {"name": name}, "spec": spec});
    if let Some(uid) = controller {
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": uid, "controller": true}]);
    }
    serde_json::to_vec(&pod).expect("JSON")
}

fn warnings(pods: &[Vec<u8>], is_out_of_time: impl FnMut() -> bool) -> Vec<String> {
    let pods = pods.iter().map(Vec::as_slice);
    existing_pod_warnings(
        "n",
        policy("baseline:latest"),
        pods,
        |class| class == "exempt",
        is_out_of_time,
    )
}

#[test]
fn counts_pods_that_violate_for_the_same_reasons() {
    let host = json!({"hostNetwork": true, "containers": []});
    let privileged = json!({"containers": [{"name": "a", "securityContext": {"privileged": true}}]});
    let pods = [
        stored("d", None, host.clone()),
        stored("b", None, host.clone()),
        stored("c", None, privileged.clone()),
        stored("e", None, host.clone()),
        stored("ok", None, json!({"containers": []})),
        stored("x", None, json!({"hostPID": true, "runtimeClassName": "exempt"})),
    ];
    assert_eq!(
        warnings(&pods, || false),
        [
            "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "b (and 2 other pods): host namespaces",
            "c: privileged",
        ]
    );
    assert_eq!(
        warnings(&pods[..2], || false)[1],
        "b (and 1 other pod): host namespaces"
    );
}

#[test]
fn checks_one_pod_of_each_controller_first() {
    let pods = [
        stored("a", Some("1"), json!({})),
        stored("b", Some("1"), json!({})),
        stored("c", Some("2"), json!({"hostIPC": true})),
    ];
    let mut steps = 0;
    let out_of_time = || {
        steps += 1;
        steps == 2
    };
    assert_eq!(
        warnings(&pods, out_of_time),
        [
            "new PodSecurity enforce level only checked against the first 2 of 3 existing pods",
            "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "c: host namespaces",
        ]
    );
}

#[test]
fn checks_a_limited_number_of_pods() {
    let pods: Vec<Vec<u8>> = (0..=EXISTING_PODS_MAX)
        .map(|number| stored(&format!("p{number}"), None, json!({})))
        .collect();
    assert_eq!(
        warnings(&pods, || false),
        ["new PodSecurity enforce level only checked against the first 3000 of 3001 existing pods"]
    );
}

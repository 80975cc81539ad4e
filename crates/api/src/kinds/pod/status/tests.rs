//! The expectations are responses of kube-apiserver 1.36.2.

use serde_json::{Value, json};

use crate::kinds::pod::{default_pod_on_write, prepare_pod_create, validate_pod_status_update};

fn faults(node: &str, status: Value) -> Vec<String> {
    let mut old = json!({"metadata": {"name": "p", "namespace": "n", "resourceVersion": "1"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
    default_pod_on_write(&mut old);
    prepare_pod_create(&mut old);
    let mut new = old.clone();
    for (field, value) in status.as_object().unwrap() {
        new["status"][field] = value.clone();
    }
    let errors = validate_pod_status_update(&new, &old);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn statuses_of_containers_are_complete() {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {}, "status": {
        "containerStatuses": [{"name": "c", "state": {"running": {}}}],
        "initContainerStatuses": [{"name": "i", "ready": true, "state": {"terminated": {"exitCode": 1}}}]}});
    default_pod_on_write(&mut pod);
    assert_eq!(
        pod["status"]["containerStatuses"][0],
        json!({"name": "c", "state": {"running": {"startedAt": null}}, "lastState": {}, "ready": false,
            "restartCount": 0, "image": "", "imageID": ""})
    );
    assert_eq!(
        pod["status"]["initContainerStatuses"][0]["state"],
        json!({"terminated": {"exitCode": 1, "startedAt": null, "finishedAt": null}})
    );
}

#[test]
fn empty_fields_of_the_status_are_absent() {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {}, "status": {
        "phase": "", "resize": "", "initContainerStatuses": [], "conditions": [{"type": "Ready", "reason": ""}]}});
    default_pod_on_write(&mut pod);
    assert_eq!(
        pod["status"],
        json!({"conditions": [{"type": "Ready", "status": "", "lastProbeTime": null, "lastTransitionTime": null}]})
    );
}

#[test]
fn fields_of_the_status_are_valid() {
    assert_eq!(
        faults("", json!({"observedGeneration": 5, "nominatedNodeName": "n"})),
        [""; 0]
    );
    assert_eq!(
        faults("n", json!({"nominatedNodeName": "m"})),
        ["status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"]
    );
    assert_eq!(
        faults("", json!({"observedGeneration": -5})),
        ["status.observedGeneration: Invalid value: -5: must be a non-negative integer"]
    );
    assert_eq!(
        faults("", json!({"qosClass": "Guaranteed"})),
        ["status.qosClass: Invalid value: \"Guaranteed\": field is immutable"]
    );
    assert_eq!(
        faults("", json!({"hostIPs": [{"ip": "10.1.1.1"}, {"ip": "10.1.1.2"}]})),
        [
            "status.hostIPs[0].ip: Invalid value: \"10.1.1.1\": must be equal to `hostIP`",
            "status.hostIPs: Invalid value: [{\"IP\":\"10.1.1.1\"},{\"IP\":\"10.1.1.2\"}]: may specify no more than one IP for each IP family",
        ]
    );
    assert_eq!(
        faults("", json!({"hostIPs": [{"ip": ""}, {"ip": "2001:db8::1"}]})),
        [
            "status.hostIPs[0]: Invalid value: \"\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            "status.hostIPs: Internal error: failed to check for dual stack with error:invalid IP[0]: ",
            "status.hostIPs: Invalid value: [{\"IP\":\"\"},{\"IP\":\"2001:db8::1\"}]: may specify no more than one IP for each IP family",
        ]
    );
    let conditions = faults("", json!({"conditions": [{"type": "a b"}]}));
    assert!(conditions[0].starts_with("status.conditions[0].Type: Invalid value: \"a b\": name part must"));
}

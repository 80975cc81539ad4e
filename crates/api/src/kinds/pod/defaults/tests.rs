//! The expectations are responses of kube-apiserver 1.36.2; the rules are in upstream's `pkg/apis/core/v1/defaults.go`.

use serde_json::{Value, json};

use crate::kinds::pod::{default_pod_on_write, prepare_pod_create, validate_pod_update};

fn pod(spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec});
    default_pod_on_write(&mut pod);
    prepare_pod_create(&mut pod);
    pod
}

#[test]
fn limits_are_the_default_of_requests() {
    let pod = pod(json!({"containers": [{"name": "c", "image": "x:1", "resources":
        {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100u"}}}]}));
    assert_eq!(
        pod["spec"]["containers"][0]["resources"]["requests"],
        json!({"cpu": "1m", "memory": "1Gi"})
    );
    assert_eq!(pod["status"]["qosClass"], "Burstable");
}

#[test]
fn references_and_sources_have_defaults() {
    let pod = pod(
        json!({"serviceAccount": "old", "containers": [{"name": "c", "image": "x:1",
        "env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]}],
        "volumes": [{"name": "i", "image": {"reference": "a:1"}},
            {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}),
    );
    let spec = &pod["spec"];
    assert_eq!(
        (&spec["serviceAccountName"], &spec["serviceAccount"]),
        (&json!("old"), &json!("old"))
    );
    let reference = &spec["containers"][0]["env"][0]["valueFrom"]["resourceFieldRef"];
    assert_eq!(reference["divisor"], "0");
    assert_eq!(spec["volumes"][0]["image"]["pullPolicy"], "IfNotPresent");
    assert_eq!(
        spec["volumes"][1]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"],
        3600
    );
}

/// Go's types serialize these fields without `omitempty` (`staging/src/k8s.io/api/core/v1/types.go`).
#[test]
fn required_fields_are_stored_with_their_zero_values() {
    let get = json!({"port": 80, "httpHeaders": [{"name": "a"}, {"name": "b", "value": "c"}]});
    let pod = pod(json!({
        "securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced"}]},
        "containers": [{
            "name": "c", "image": "x:1",
            "lifecycle": {"preStop": {"sleep": {}}, "postStart": {"httpGet": get}},
            "livenessProbe": {"httpGet": get},
        }],
    }));
    let spec = &pod["spec"];
    assert_eq!(
        spec["securityContext"]["sysctls"],
        json!([{"name": "kernel.shm_rmid_forced", "value": ""}])
    );
    let container = &spec["containers"][0];
    assert_eq!(
        container["lifecycle"]["preStop"],
        json!({"sleep": {"seconds": 0}})
    );
    for handler in [&container["lifecycle"]["postStart"], &container["livenessProbe"]] {
        assert_eq!(
            handler["httpGet"]["httpHeaders"],
            json!([{"name": "a", "value": ""}, {"name": "b", "value": "c"}])
        );
    }
}

#[test]
fn conditions_have_times() {
    let mut pod = pod(json!({"containers": [{"name": "c", "image": "x"}]}));
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    default_pod_on_write(&mut pod);
    assert_eq!(
        pod["status"]["conditions"][0],
        json!({"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": null})
    );
}

#[test]
fn updates_of_pods_without_later_defaults_are_valid() {
    let mut old =
        pod(json!({"containers": [{"name": "c", "image": "x:1", "resources": {"limits": {"cpu": "1"}}}]}));
    let new = old.clone();
    old["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}});
    assert!(validate_pod_update(&new, &old).is_empty());
}

#[test]
fn label_keys_extend_selectors_of_new_pods() {
    let mut pod = json!({"metadata": {"labels": {"app": "p"}}, "spec": {
        "topologySpreadConstraints": [{"matchLabelKeys": ["app", "none"], "labelSelector": {"matchLabels": {"a": "b"}}}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            [{"mismatchLabelKeys": ["app"], "labelSelector": {}}, {"matchLabelKeys": ["app"]}]}}}});
    prepare_pod_create(&mut pod);
    let requirement = |operator: &str| json!([{"key": "app", "operator": operator, "values": ["p"]}]);
    assert_eq!(
        pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"],
        requirement("In")
    );
    let terms = &pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(
        terms[0]["labelSelector"]["matchExpressions"],
        requirement("NotIn")
    );
    assert_eq!(terms[1].get("labelSelector"), None);
}

#[test]
fn empty_lists_and_maps_are_not_stored() {
    let pod = pod(json!({
        "containers": [{
            "name": "c", "image": "x:1", "resizePolicy": [], "volumeDevices": [],
            "resources": {"limits": {}, "requests": {}, "claims": []},
        }],
        "volumes": [{"name": "p", "projected": {"sources": []}}],
        "schedulingGates": [],
        "dnsConfig": {"nameservers": [], "searches": [], "options": []},
        "securityContext": {"supplementalGroups": [], "sysctls": []},
    }));
    let spec = &pod["spec"];
    let container = spec["containers"][0].as_object().expect("container");
    assert!(!container.contains_key("resizePolicy") && !container.contains_key("volumeDevices"));
    assert_eq!(container["resources"], json!({}));
    assert_eq!(spec["volumes"][0]["projected"]["sources"], json!([]));
    assert_eq!(spec.get("schedulingGates"), None);
    assert_eq!(spec["dnsConfig"], json!({}));
    assert_eq!(spec["securityContext"], json!({}));
}

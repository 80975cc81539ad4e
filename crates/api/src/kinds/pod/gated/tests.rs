//! The expectations are responses of kube-apiserver 1.36.2; the rules are in upstream's `ValidatePodUpdate`.

use serde_json::{Value, json};

use crate::kinds::pod::{default_pod_on_write, prepare_pod_create, validate_pod_update};

fn pod(spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec});
    default_pod_on_write(&mut pod);
    prepare_pod_create(&mut pod);
    pod
}

#[test]
fn gated_pods_may_narrow_their_node_selection() {
    let term = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
    let affinity = |terms: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    let old = pod(
        json!({"containers": [{"name": "c", "image": "x"}], "nodeSelector": {"x": "y"},
        "schedulingGates": [{"name": "a"}, {"name": "b"}], "affinity": affinity(json!([term]))}),
    );
    let faults = |change: &dyn Fn(&mut Value)| {
        let mut new = old.clone();
        change(&mut new["spec"]);
        let errors = validate_pod_update(&new, &old);
        let causes: Vec<String> = errors
            .iter()
            .map(|error| format!("{} {}", error.reason.as_str(), error.path))
            .collect();
        causes.join(" ")
    };
    assert_eq!(
        faults(&|spec| spec["schedulingGates"] = json!([{"name": "b"}])),
        ""
    );
    assert_eq!(
        faults(&|spec| spec["schedulingGates"][1] = json!({"name": "c"})),
        "FieldValueForbidden spec.schedulingGates[1].name"
    );
    assert_eq!(faults(&|spec| spec["nodeSelector"]["q"] = json!("r")), "");
    assert_eq!(
        faults(&|spec| spec["nodeSelector"]["x"] = json!("z")),
        "FieldValueInvalid spec.nodeSelector"
    );
    let wider = json!({"matchExpressions": [{"key": "z", "operator": "Exists"}]});
    let path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    assert_eq!(
        faults(&|spec| spec["affinity"] = affinity(json!([wider]))),
        format!("FieldValueInvalid {path}[0]")
    );
    assert_eq!(
        faults(&|spec| {
            spec.as_object_mut().unwrap().remove("affinity");
        }),
        format!("FieldValueInvalid {path}")
    );
    assert_eq!(
        faults(&|spec| spec["affinity"]["podAffinity"] = json!({})),
        "FieldValueForbidden spec"
    );
}

use serde_json::{Value, json};

use super::*;

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}})
}

fn deployment(change: impl FnOnce(&mut Value)) -> Value {
    let mut deployment = json!({
        "metadata": {"name": "web", "namespace": "n", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template()},
    });
    change(&mut deployment);
    default_deployment_on_write(&mut deployment);
    deployment
}

fn messages(errors: &FieldErrors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn faults(change: impl FnOnce(&mut Value)) -> Vec<String> {
    messages(&validate_deployment(&deployment(|deployment| {
        change(&mut deployment["spec"])
    })))
}

#[test]
fn deployment_gets_defaults() {
    let mut deployment = deployment(|_| {});
    prepare_create(&mut deployment);
    assert_eq!(messages(&validate_deployment(&deployment)), [""; 0]);
    let spec = &deployment["spec"];
    assert_eq!(spec["replicas"], 1);
    assert_eq!(spec["revisionHistoryLimit"], 10);
    assert_eq!(spec["progressDeadlineSeconds"], 600);
    assert_eq!(
        spec["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}})
    );
    assert_eq!(spec["template"]["spec"]["restartPolicy"], "Always");
    assert_eq!(deployment["status"], json!({}));
}

#[test]
fn defaults_keep_given_values() {
    let recreate = deployment(|deployment| {
        deployment["spec"]["replicas"] = json!(0);
        deployment["spec"]["strategy"] = json!({"type": "Recreate"});
    });
    assert_eq!(recreate["spec"]["strategy"], json!({"type": "Recreate"}));
    assert_eq!(recreate["spec"]["replicas"], 0);
    let half =
        deployment(|deployment| deployment["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 2}}));
    assert_eq!(
        half["spec"]["strategy"]["rollingUpdate"],
        json!({"maxSurge": 2, "maxUnavailable": "25%"})
    );
}

#[test]
fn requires_a_selector_that_matches_the_template() {
    assert_eq!(
        faults(|spec| {
            spec.as_object_mut().unwrap().remove("selector");
        }),
        [
            "spec.selector: Required value",
            "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"
        ]
    );
    assert_eq!(
        faults(|spec| spec["selector"] = json!({}))[0],
        "spec.selector: Invalid value: {}: empty selector is invalid for deployment"
    );
    assert_eq!(
        faults(|spec| spec["selector"] = json!({"matchLabels": {"app": "other"}})),
        [
            "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"
        ]
    );
}

#[test]
fn requires_templates_with_restart_policy_always() {
    assert_eq!(
        faults(|spec| spec["template"]["spec"]["restartPolicy"] = json!("Never")),
        ["spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\""]
    );
    assert_eq!(
        faults(|spec| spec["template"]["spec"]["containers"] = json!([])),
        ["spec.template.spec.containers: Required value"]
    );
    assert_eq!(
        faults(|spec| spec["template"]["spec"]["activeDeadlineSeconds"] = json!(5)),
        [
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported"
        ]
    );
}

#[test]
fn rejects_strategies_that_replace_no_pod() {
    let of = |rolling: Value| faults(|spec| spec["strategy"] = json!({"rollingUpdate": rolling}));
    let path = "spec.strategy.rollingUpdate";
    assert_eq!(
        of(json!({"maxUnavailable": 0, "maxSurge": "0%"})),
        [format!(
            "{path}.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"
        )]
    );
    assert_eq!(
        of(json!({"maxUnavailable": "101%"})),
        [format!(
            "{path}.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%"
        )]
    );
    assert_eq!(
        of(json!({"maxSurge": -1})),
        [format!(
            "{path}.maxSurge: Invalid value: -1: must be greater than or equal to 0"
        )]
    );
    assert!(of(json!({"maxSurge": "many"}))[0].contains("a valid percent string"));
    assert_eq!(
        faults(|spec| spec["strategy"] = json!({"type": "Recreate", "rollingUpdate": {}})),
        [format!(
            "{path}: Forbidden: may not be specified when strategy `type` is 'Recreate'"
        )]
    );
    assert!(
        faults(|spec| spec["strategy"] = json!({"type": "Blue"}))[0]
            .starts_with("spec.strategy: Unsupported value")
    );
}

#[test]
fn requires_a_deadline_above_the_minimum_ready_time() {
    assert_eq!(
        faults(|spec| {
            spec["minReadySeconds"] = json!(600);
            spec["replicas"] = json!(-1);
        }),
        [
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds",
        ]
    );
}

#[test]
fn selector_is_immutable() {
    let old = deployment(|_| {});
    let new = deployment(|deployment| {
        deployment["spec"]["selector"]["matchLabels"]["tier"] = json!("x");
        deployment["spec"]["template"]["metadata"]["labels"]["tier"] = json!("x");
    });
    let errors = messages(&validate_deployment_update(&new, &old));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].starts_with("spec.selector: Invalid value: {")
            && errors[0].ends_with(": field is immutable")
    );
}

#[test]
fn generation_counts_changes_of_the_desired_state() {
    let old = deployment(|_| {});
    let generation = |change: &dyn Fn(&mut Value)| {
        let mut new = old.clone();
        change(&mut new);
        prepare_deployment_update(&mut new, &old);
        new["metadata"]["generation"].clone()
    };
    assert_eq!(
        generation(&|deployment| deployment["spec"]["replicas"] = json!(2)),
        2
    );
    assert_eq!(
        generation(&|deployment| deployment["metadata"]["annotations"] = json!({"a": "b"})),
        2
    );
    assert_eq!(
        generation(&|deployment| deployment["metadata"]["labels"] = json!({"a": "b"})),
        1
    );
    assert_eq!(
        generation(&|deployment| deployment["status"] = json!({"replicas": 2})),
        1
    );
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"a": "b"});
    new["spec"]["replicas"] = json!(9);
    new["status"] = json!({"replicas": 2});
    prepare_deployment_status_update(&mut new, &old);
    assert_eq!(new["spec"], old["spec"]);
    assert_eq!(new["metadata"], old["metadata"]);
    assert_eq!(new["status"]["replicas"], 2);
}

#[test]
fn rejects_inconsistent_counts_of_a_status() {
    let old = deployment(|deployment| deployment["status"] = json!({"collisionCount": 2}));
    let mut new = old.clone();
    new["status"] = json!({"replicas": 1, "readyReplicas": 1, "availableReplicas": 2, "collisionCount": 1});
    assert_eq!(
        messages(&validate_deployment_status_update(&new, &old)),
        [
            "status.collisionCount: Invalid value: 1: cannot be decremented",
            "status.availableReplicas: Invalid value: 2: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas",
        ]
    );
    let mut set = old.clone();
    set["status"] = json!({"replicas": 1, "fullyLabeledReplicas": 2});
    assert_eq!(
        messages(&validate_replica_set_status_update(&set, &old)),
        ["status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas"]
    );
}

#[test]
fn replica_set_has_its_rules() {
    let mut set = json!({
        "metadata": {"name": "web", "namespace": "n"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template()},
    });
    default_replica_set_on_write(&mut set);
    assert_eq!(set["spec"]["replicas"], 1);
    assert_eq!(messages(&validate_replica_set(&set)), [""; 0]);
    set["spec"]["template"]["metadata"]["labels"] = json!({});
    assert_eq!(validate_replica_set(&set).len(), 1);
}

#[test]
fn percentages_round_up_or_down() {
    let read = |value: Value| IntOrPercent::read(&value).expect("number or percentage");
    let quarter = read(json!("25%"));
    assert_eq!((quarter.of_rounded_up(3), quarter.of_rounded_down(3)), (1, 0));
    assert_eq!((quarter.of_rounded_up(8), quarter.of_rounded_down(8)), (2, 2));
    assert_eq!(read(json!(4)).of_rounded_up(1), 4);
    for invalid in [json!("25"), json!("%"), json!("+5%"), json!(null), json!(1.5)] {
        assert_eq!(IntOrPercent::read(&invalid), None, "{invalid}");
    }
}

fn workload(spec: Value) -> Value {
    let mut workload = json!({
        "metadata": {"name": "web", "namespace": "n"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template()},
    });
    for (field, value) in spec.as_object().expect("fields") {
        workload["spec"][field] = value.clone();
    }
    workload
}

// The expectations are responses of kube-apiserver 1.36.2; the rules are in upstream's `pkg/apis/apps`.
#[test]
fn statuses_have_counts_of_zero() {
    let mut set = workload(json!({}));
    prepare_replica_set_create(&mut set);
    assert_eq!(set["status"], json!({"replicas": 0}));
    prepare_stateful_set_create(&mut set);
    assert_eq!(set["status"], json!({"replicas": 0, "availableReplicas": 0}));
    set["status"] = json!({"replicas": 2});
    default_stateful_set_on_write(&mut set);
    assert_eq!(set["status"], json!({"replicas": 2, "availableReplicas": 0}));
    let condition = json!({"reason": "", "message": "m"});
    set["status"] =
        json!({"replicas": 0, "readyReplicas": 0, "observedGeneration": 0, "conditions": [condition]});
    default_replica_set_on_write(&mut set);
    assert_eq!(
        set["status"],
        json!({"replicas": 0, "conditions":
            [{"message": "m", "type": "", "status": "", "lastTransitionTime": null}]})
    );
    prepare_daemon_set_create(&mut set);
    assert_eq!(
        set["status"],
        json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0})
    );
}

#[test]
fn conditions_have_times() {
    let web = deployment(|d| d["status"] = json!({"conditions": [{"type": "Available", "status": "True"}]}));
    assert_eq!(
        web["status"]["conditions"][0],
        json!({"type": "Available", "status": "True", "lastTransitionTime": null, "lastUpdateTime": null})
    );
}

#[test]
fn templates_have_no_defaults_of_running_pods() {
    let web = deployment(|d| {
        let spec = &mut d["spec"]["template"]["spec"];
        spec["hostNetwork"] = json!(true);
        spec["serviceAccount"] = json!("sa");
        spec["containers"][0]["ports"] = json!([{"containerPort": 80}]);
        spec["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}});
    });
    assert_eq!(messages(&validate_deployment(&web)), [""; 0]);
    let spec = &web["spec"]["template"]["spec"];
    assert_eq!(spec.get("enableServiceLinks"), None);
    assert_eq!(spec["serviceAccountName"], "sa");
    let container = &spec["containers"][0];
    assert_eq!(
        container["ports"],
        json!([{"containerPort": 80, "protocol": "TCP"}])
    );
    assert_eq!(container["resources"], json!({"limits": {"cpu": "1"}}));
}

#[test]
fn daemon_sets_count_changes_of_their_template() {
    let mut old = workload(json!({}));
    default_daemon_set_on_write(&mut old);
    prepare_daemon_set_create(&mut old);
    let generation =
        |set: &Value| set["metadata"]["annotations"]["deprecated.daemonset.template.generation"].clone();
    assert_eq!(generation(&old), "1");
    let mut new = old.clone();
    new["metadata"]["annotations"] = json!({});
    new["spec"]["minReadySeconds"] = json!(5);
    prepare_daemon_set_update(&mut new, &old);
    assert_eq!(generation(&new), "1");
    new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("x:2");
    prepare_daemon_set_update(&mut new, &old);
    assert_eq!(generation(&new), "2");
    new["spec"].as_object_mut().unwrap().remove("selector");
    assert_eq!(
        messages(&validate_daemon_set(&new)),
        [
            "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"
        ]
    );
}

#[test]
fn stateful_sets_have_their_rules() {
    let faults = |spec: Value| {
        let mut set = workload(spec);
        default_stateful_set_on_write(&mut set);
        messages(&validate_stateful_set(&set))
    };
    assert_eq!(faults(json!({"revisionHistoryLimit": -1})), [""; 0]);
    assert_eq!(
        faults(json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}})),
        [""; 0]
    );
    assert_eq!(
        faults(json!({"persistentVolumeClaimRetentionPolicy": {"whenScaled": "x"}})),
        [
            "spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: \"x\": supported values: \"Retain\", \"Delete\""
        ]
    );
    let service = faults(json!({"serviceName": "A_"}));
    assert!(
        service[0].starts_with("spec.serviceName: Invalid value: \"A_\": a lowercase RFC 1123 label"),
        "{service:?}"
    );
}

#[test]
fn ordinals_have_a_start() {
    for (given, expected) in [
        (json!({}), json!({"start": 0})),
        (json!({"start": 2}), json!({"start": 2})),
    ] {
        let mut set = workload(json!({ "ordinals": given }));
        default_stateful_set_on_write(&mut set);
        assert_eq!(set["spec"]["ordinals"], expected);
    }
    let mut set = workload(json!({}));
    default_stateful_set_on_write(&mut set);
    assert_eq!(set["spec"].get("ordinals"), None);
}

#[test]
fn revisions_have_objects_as_data() {
    let revision = json!({"metadata": {"name": "r", "namespace": "n"}, "data": "x", "revision": 1});
    assert_eq!(
        messages(&validate_controller_revision(&revision)),
        ["data: Required value: data must be a valid JSON object"]
    );
}

#[test]
fn first_collision_count_is_not_a_decrement() {
    let old = deployment(|_| {});
    let mut new = old.clone();
    new["status"] = json!({"collisionCount": -1});
    assert_eq!(
        messages(&validate_deployment_status_update(&new, &old)),
        ["status.collisionCount: Invalid value: -1: must be greater than or equal to 0"]
    );
}

#[test]
fn templates_and_names_cause_warnings() {
    let mut old = workload(json!({"revisionHistoryLimit": -1}));
    old["metadata"]["name"] = json!("a.b");
    old["spec"]["template"]["spec"]["imagePullSecrets"] = json!([{"name": ""}]);
    assert_eq!(workload_creation_warnings(&old).len(), 2);
    assert_eq!(daemon_set_creation_warnings(&old).len(), 1);
    assert_eq!(stateful_set_creation_warnings(&old).len(), 2);
    let mut new = old.clone();
    assert!(workload_update_warnings(&new, &old).is_empty());
    new["metadata"]["generation"] = json!(2);
    assert_eq!(workload_update_warnings(&new, &old).len(), 1);
    assert_eq!(stateful_set_update_warnings(&new, &old).len(), 2);
}

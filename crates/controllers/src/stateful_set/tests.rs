use fastrand::Rng;
use serde_json::json;

use super::*;
use crate::workload::Step;
use crate::workload::tests::model::Model;

/// Number of random histories.
const SEEDS: u64 = 300;

fn model(replicas: i64, policy: &str, partition: i64) -> Model {
    Model::new(json!({
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "serviceName": "peers",
        "podManagementPolicy": policy,
        "revisionHistoryLimit": 2,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"image": 1}},
    }))
}

fn names(model: &Model) -> Vec<&str> {
    model.pods.keys().map(String::as_str).collect()
}

fn images(model: &Model) -> Vec<i64> {
    model
        .pods
        .values()
        .filter_map(|pod| pod["spec"]["image"].as_i64())
        .collect()
}

#[test]
fn pods_have_stable_names_and_labels() {
    let mut model = model(2, "OrderedReady", 0);
    model.converge::<StatefulSet>();
    assert_eq!(names(&model), ["web-0", "web-1"]);
    let pod = &model.pods["web-1"];
    let labels = &pod["metadata"]["labels"];
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-1");
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "1");
    assert_eq!(
        labels["controller-revision-hash"],
        model.workload["status"]["updateRevision"]
    );
    assert_eq!(
        (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
        (&json!("web-1"), &json!("peers"))
    );
    assert_eq!(model.counted("readyReplicas"), 2);
    assert_eq!(
        model.workload["status"]["currentRevision"],
        model.workload["status"]["updateRevision"]
    );
}

#[test]
fn ordered_sets_wait_for_each_pod() {
    let mut model = model(3, "OrderedReady", 0);
    model.reconcile_until_idle::<StatefulSet>();
    assert_eq!(names(&model), ["web-0"]);
    model.run_agents(None);
    model.reconcile_until_idle::<StatefulSet>();
    assert_eq!(names(&model), ["web-0", "web-1"]);
    model.converge::<StatefulSet>();
    model.workload["spec"]["replicas"] = json!(1);
    let steps = model.reconcile_until_idle::<StatefulSet>();
    let deleted: usize = steps
        .iter()
        .map(|step| match step {
            Step::Pods(changes) => changes.delete.len(),
            _ => 0,
        })
        .sum();
    assert_eq!(deleted, 1);
    assert!(!model.pods["web-2"]["metadata"]["deletionTimestamp"].is_null());
}

#[test]
fn parallel_sets_do_not_wait() {
    let mut model = model(3, "Parallel", 0);
    model.reconcile_until_idle::<StatefulSet>();
    assert_eq!(names(&model).len(), 3);
}

#[test]
fn ordinals_begin_at_the_start() {
    let mut model = model(2, "Parallel", 0);
    model.workload["spec"]["ordinals"] = json!({"start": 5});
    model.converge::<StatefulSet>();
    assert_eq!(names(&model), ["web-5", "web-6"]);
}

#[test]
fn partition_counts_from_the_first_ordinal() {
    let mut model = model(2, "Parallel", 1);
    model.workload["spec"]["ordinals"] = json!({"start": 5});
    model.converge::<StatefulSet>();
    model.set_image(2);
    model.converge::<StatefulSet>();
    assert_eq!(images(&model), [1, 2]);
}

#[test]
fn rolling_update_goes_down_to_the_partition() {
    let mut model = model(4, "OrderedReady", 2);
    model.converge::<StatefulSet>();
    model.set_image(2);
    model.reconcile_until_idle::<StatefulSet>();
    assert!(!model.pods["web-3"]["metadata"]["deletionTimestamp"].is_null());
    assert!(model.pods["web-2"]["metadata"]["deletionTimestamp"].is_null());
    model.converge::<StatefulSet>();
    assert_eq!(images(&model), [1, 1, 2, 2]);
    assert_eq!(model.counted("updatedReplicas"), 2);
    // A Pod below the partition keeps its template when it is created again.
    model.pods.remove("web-0");
    model.converge::<StatefulSet>();
    assert_eq!(images(&model), [1, 1, 2, 2]);
    model.workload["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(0);
    model.converge::<StatefulSet>();
    assert_eq!(images(&model), [2, 2, 2, 2]);
}

#[test]
fn on_delete_replaces_only_deleted_pods() {
    let mut model = model(2, "OrderedReady", 0);
    model.converge::<StatefulSet>();
    model.workload["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    model.set_image(2);
    model.converge::<StatefulSet>();
    assert_eq!(images(&model), [1, 1]);
    model.mark_deleted("web-0");
    model.converge::<StatefulSet>();
    assert_eq!(images(&model), [2, 1]);
}

#[test]
fn earlier_template_gets_a_new_number_and_history_is_limited() {
    let mut model = model(1, "OrderedReady", 0);
    for image in [1, 2, 3, 4, 5, 1] {
        model.set_image(image);
        model.converge::<StatefulSet>();
    }
    assert_eq!(model.revisions.len(), 3);
    let latest = &model.workload["status"]["updateRevision"];
    let latest = &model.revisions[latest.as_str().expect("a name")];
    let numbers = model
        .revisions
        .values()
        .filter_map(|revision| revision["revision"].as_i64());
    assert_eq!(latest["revision"].as_i64(), numbers.max());
}

#[test]
fn revision_avoids_a_name_in_use() {
    let mut first = model(1, "OrderedReady", 0);
    first.reconcile_until_idle::<StatefulSet>();
    let mut second = model(1, "OrderedReady", 0);
    second.other_revisions = first.revisions.keys().cloned().collect();
    second.reconcile_until_idle::<StatefulSet>();
    assert_eq!(second.revisions.len(), 1);
    assert!(
        second
            .revisions
            .keys()
            .all(|name| !second.other_revisions.contains(name))
    );
}

#[test]
fn failed_pods_are_replaced() {
    let mut model = model(2, "OrderedReady", 0);
    model.converge::<StatefulSet>();
    let before = model.pods["web-0"]["metadata"]["uid"].clone();
    model.end("web-0", "Failed");
    model.converge::<StatefulSet>();
    assert_ne!(model.pods["web-0"]["metadata"]["uid"], before);
    assert_eq!(model.pods["web-0"]["status"]["phase"], "Running");
}

/// Users, agents and lost writes at random; then the faults stop.
#[test]
fn random_histories_converge() {
    for seed in 0..SEEDS {
        let mut random = Rng::with_seed(seed);
        let policy = ["OrderedReady", "Parallel"][random.usize(0..2)];
        let mut model = model(random.i64(0..4), policy, random.i64(0..3));
        for _ in 0..random.usize(10..120) {
            match random.u8(0..12) {
                0 => model.set_image(random.u8(0..4)),
                1 => model.workload["spec"]["replicas"] = json!(random.i64(0..5)),
                2 => {
                    if let Some(name) = model.any_pod(&mut random) {
                        model.pods.remove(&name);
                    }
                }
                3 => {
                    if let Some(name) = model.any_pod(&mut random) {
                        model.end(&name, "Failed");
                    }
                }
                4 | 5 => _ = model.run_agents(Some(&mut random)),
                _ => {
                    if let Some(step) = model.decision::<StatefulSet>().step {
                        model.apply(step, Some(&mut random));
                    }
                }
            }
        }
        model.workload["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(0);
        model.begin_generation();
        model.converge::<StatefulSet>();
        let replicas = model.workload["spec"]["replicas"].as_i64().expect("a number");
        let expected: Vec<String> = (0..replicas).map(|ordinal| format!("web-{ordinal}")).collect();
        assert_eq!(names(&model), expected, "seed {seed}");
        let image = model.workload["spec"]["template"]["spec"]["image"].as_i64();
        assert!(
            images(&model).iter().all(|other| Some(*other) == image),
            "seed {seed}"
        );
        assert_eq!(model.counted("availableReplicas"), replicas, "seed {seed}");
        let generation = model.workload["metadata"]["generation"]
            .as_i64()
            .expect("a number");
        assert_eq!(model.counted("observedGeneration"), generation, "seed {seed}");
    }
}

use std::collections::BTreeMap;

use fastrand::Rng;
use serde_json::json;

use super::*;
use crate::workload::Step;
use crate::workload::tests::model::Model;

/// Number of random histories.
const SEEDS: u64 = 300;

fn model(nodes: &[&str], unavailable: Value, surge: Value) -> Model {
    let rolling = json!({"maxUnavailable": unavailable, "maxSurge": surge});
    let mut model = Model::new(json!({
        "selector": {"matchLabels": {"app": "web"}},
        "revisionHistoryLimit": 2,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"image": 1}},
    }));
    for node in nodes {
        model.add_node(node, &json!([]));
    }
    model
}

/// Returns the images of the Pods by Node.
fn placed(model: &Model) -> BTreeMap<String, Vec<i64>> {
    let mut placed: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for pod in model.pods.values() {
        let required =
            &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let node = &required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0];
        let images = placed
            .entry(node.as_str().expect("a Node").to_owned())
            .or_default();
        images.push(pod["spec"]["image"].as_i64().expect("an image"));
    }
    placed
}

fn on_each(nodes: &[&str], image: i64) -> BTreeMap<String, Vec<i64>> {
    nodes
        .iter()
        .map(|node| ((*node).to_owned(), vec![image]))
        .collect()
}

#[test]
fn each_node_gets_one_pod_with_the_tolerations_of_daemons() {
    let mut model = model(&["a", "b"], json!(1), json!(0));
    model.converge::<DaemonSet>();
    assert_eq!(placed(&model), on_each(&["a", "b"], 1));
    let pod = model.pods.values().next().expect("a Pod");
    let tolerations = pod["spec"]["tolerations"].as_array().expect("tolerations");
    assert!(tolerations.contains(&json!({
        "key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule",
    })));
    assert_eq!(tolerations.len(), 6);
    for field in [
        "desiredNumberScheduled",
        "numberReady",
        "numberAvailable",
        "updatedNumberScheduled",
    ] {
        assert_eq!(model.counted(field), 2, "{field}");
    }
}

#[test]
fn taints_and_selectors_exclude_nodes() {
    let mut model = model(&["a"], json!(1), json!(0));
    model.add_node("control", &json!([{"key": "control", "effect": "NoSchedule"}]));
    model.add_node(
        "lost",
        &json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]),
    );
    model.converge::<DaemonSet>();
    assert_eq!(placed(&model), on_each(&["a", "lost"], 1));
    // A taint against new Pods leaves the Pod; one against all Pods removes it.
    model.add_node("a", &json!([{"key": "k", "effect": "NoSchedule"}]));
    model.converge::<DaemonSet>();
    assert_eq!(placed(&model), on_each(&["a", "lost"], 1));
    assert_eq!(model.counted("numberMisscheduled"), 1);
    model.add_node("a", &json!([{"key": "k", "effect": "NoExecute"}]));
    model.converge::<DaemonSet>();
    assert_eq!(placed(&model), on_each(&["lost"], 1));
}

/// Plays an update and returns the largest numbers of Nodes without an available Pod, and of additional Pods.
fn bounds_of_update(model: &mut Model) -> (usize, usize) {
    model.converge::<DaemonSet>();
    model.set_image(2);
    let (mut unavailable_max, mut surge_max) = (0, 0);
    for _ in 0..200 {
        if let Some(step) = model.decision::<DaemonSet>().step {
            model.apply(step, None);
        } else if !model.run_agents(None) {
            break;
        }
        let is_available = |pod: &&Value| {
            pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
        };
        let available = model.pods.values().filter(is_available).count();
        unavailable_max = unavailable_max.max(model.nodes.len().saturating_sub(available));
        let live = model
            .pods
            .values()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        surge_max = surge_max.max(live.count().saturating_sub(model.nodes.len()));
    }
    (unavailable_max, surge_max)
}

#[test]
fn rolling_update_keeps_its_bounds() {
    let nodes = ["a", "b", "c", "d"];
    for (unavailable, surge, bounds) in [
        (json!(1), json!(0), (1, 0)),
        (json!("50%"), json!(0), (2, 0)),
        (json!(0), json!(1), (0, 1)),
        (json!(0), json!("50%"), (0, 2)),
    ] {
        let mut model = model(&nodes, unavailable, surge);
        assert_eq!(bounds_of_update(&mut model), bounds);
        assert_eq!(placed(&model), on_each(&nodes, 2));
    }
}

#[test]
fn on_delete_replaces_only_deleted_pods() {
    let mut model = model(&["a", "b"], json!(1), json!(0));
    model.workload["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    model.converge::<DaemonSet>();
    model.set_image(2);
    model.converge::<DaemonSet>();
    assert_eq!(model.counted("updatedNumberScheduled"), 0);
    let name = model.pods.keys().next().expect("a Pod").clone();
    model.mark_deleted(&name);
    model.converge::<DaemonSet>();
    assert_eq!(model.counted("updatedNumberScheduled"), 1);
}

#[test]
fn refused_pods_are_replaced_after_a_pause() {
    let mut model = model(&["a"], json!(1), json!(0));
    model.converge::<DaemonSet>();
    let name = model.pods.keys().next().expect("a Pod").clone();
    model.pods.get_mut(&name).expect("a Pod")["metadata"]["creationTimestamp"] =
        json!(crate::workload::timestamp(model.now));
    model.end(&name, "Failed");
    let steps = model.reconcile_until_idle::<DaemonSet>();
    assert!(
        steps.iter().all(|step| matches!(step, Step::UpdateStatus(..))),
        "{steps:?}"
    );
    assert!(model.decision::<DaemonSet>().requeue_after.is_some());
    model.converge::<DaemonSet>();
    assert_eq!(model.counted("numberAvailable"), 1);
}

#[test]
fn ready_pods_that_a_client_marks_as_failed_are_replaced_at_once() {
    let mut model = model(&["a"], json!(1), json!(0));
    model.converge::<DaemonSet>();
    let name = model.pods.keys().next().expect("a Pod").clone();
    let pod = model.pods.get_mut(&name).expect("a Pod");
    pod["metadata"]["creationTimestamp"] = json!(crate::workload::timestamp(model.now));
    pod["status"]["phase"] = json!("Failed");
    model.reconcile_until_idle::<DaemonSet>();
    assert!(model.pods[&name]["metadata"]["deletionTimestamp"].is_string());
}

/// Users, Nodes, agents and lost writes at random; then the faults stop.
#[test]
fn random_histories_converge() {
    for seed in 0..SEEDS {
        let mut random = Rng::with_seed(seed);
        let (unavailable, surge) = [(1, 0), (2, 0), (0, 1), (0, 2)][random.usize(0..4)];
        let mut model = model(&["a", "b"], json!(unavailable), json!(surge));
        let nodes = ["a", "b", "c", "d"];
        for _ in 0..random.usize(10..150) {
            let node = nodes[random.usize(0..nodes.len())];
            match random.u8(0..14) {
                0 => model.set_image(random.u8(0..4)),
                1 => model.add_node(node, &json!([])),
                2 => _ = model.nodes.remove(node),
                3 => model.add_node(node, &json!([{"key": "k", "effect": "NoExecute"}])),
                4 => {
                    if let Some(name) = model.any_pod(&mut random) {
                        model.end(&name, "Failed");
                    }
                }
                5 => {
                    if let Some(name) = model.any_pod(&mut random) {
                        model.pods.remove(&name);
                    }
                }
                6 | 7 => _ = model.run_agents(Some(&mut random)),
                _ => {
                    if let Some(step) = model.decision::<DaemonSet>().step {
                        model.apply(step, Some(&mut random));
                    }
                }
            }
        }
        model.nodes.clear();
        for node in &nodes[..3] {
            model.add_node(node, &json!([]));
        }
        model.begin_generation();
        model.converge::<DaemonSet>();
        let image = model.workload["spec"]["template"]["spec"]["image"]
            .as_i64()
            .expect("an image");
        assert_eq!(placed(&model), on_each(&nodes[..3], image), "seed {seed}");
        assert_eq!(model.counted("numberAvailable"), 3, "seed {seed}");
    }
}

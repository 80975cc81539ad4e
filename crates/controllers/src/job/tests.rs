use std::collections::BTreeSet;

use fastrand::Rng;
use jiff::SignedDuration;
use serde_json::json;

use super::pods::{format_indexes, parse_indexes};
use super::success_policy::met_rule;
use super::*;
use crate::workload::tests::model::Model;

/// Number of random histories.
const SEEDS: u64 = 300;

fn model(change: Value) -> Model {
    let mut spec = json!({
        "parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false,
        "podReplacementPolicy": "TerminatingOrFailed",
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
            "restartPolicy": "Never", "containers": [{"name": "c"}],
        }},
    });
    for (field, value) in change.as_object().expect("fields") {
        spec[field] = value.clone();
    }
    Model::new(spec)
}

fn active(model: &Model) -> Vec<String> {
    let live = model.pods.iter().filter(|(_, pod)| {
        matches!(pod["status"]["phase"].as_str(), Some("Pending" | "Running"))
            && pod["metadata"]["deletionTimestamp"].is_null()
    });
    live.map(|(name, _)| name.clone()).collect()
}

fn end_all(model: &mut Model, phase: &str) {
    for name in active(model) {
        model.end(&name, phase);
    }
}

fn conditions(model: &Model) -> Vec<String> {
    let conditions = model.workload["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let text = |condition: &Value| {
        let field = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
        format!("{}={} {}", field("type"), field("status"), field("reason"))
    };
    conditions.iter().map(text).collect()
}

#[test]
fn completes_after_its_completions() {
    let mut model = model(json!({"completions": 5, "parallelism": 2}));
    for expected in [2, 2, 1] {
        model.reconcile_until_idle::<Job>();
        assert_eq!(active(&model).len(), expected);
        end_all(&mut model, "Succeeded");
    }
    model.reconcile_until_idle::<Job>();
    assert_eq!(active(&model).len(), 0);
    assert_eq!(model.counted("succeeded"), 5);
    assert_eq!(
        conditions(&model),
        [
            "SuccessCriteriaMet=True CompletionsReached",
            "Complete=True CompletionsReached"
        ]
    );
    assert!(model.workload["status"]["completionTime"].is_string());
    assert!(
        model
            .pods
            .values()
            .all(|pod| pod["metadata"]["finalizers"] == json!([]))
    );
}

#[test]
fn failures_are_replaced_with_back_off_up_to_the_limit() {
    let mut model = model(json!({"backoffLimit": 1}));
    model.reconcile_until_idle::<Job>();
    end_all(&mut model, "Failed");
    model.reconcile_until_idle::<Job>();
    assert_eq!(active(&model).len(), 0);
    assert_eq!(
        model.decision::<Job>().requeue_after,
        Some(std::time::Duration::from_secs(10))
    );
    model.now += SignedDuration::from_secs(10);
    model.reconcile_until_idle::<Job>();
    assert_eq!(active(&model).len(), 1);
    end_all(&mut model, "Failed");
    model.reconcile_until_idle::<Job>();
    assert_eq!(model.counted("failed"), 2);
    assert_eq!(
        conditions(&model),
        [
            "FailureTarget=True BackoffLimitExceeded",
            "Failed=True BackoffLimitExceeded"
        ]
    );
    assert!(
        model.events.iter().any(|event| event.contains("backoff limit")),
        "{:?}",
        model.events
    );
}

#[test]
fn deadline_ends_running_pods() {
    let mut model = model(json!({"activeDeadlineSeconds": 30}));
    model.reconcile_until_idle::<Job>();
    model.run_agents(None);
    model.reconcile_until_idle::<Job>();
    assert!(model.decision::<Job>().requeue_after.is_some());
    model.now += SignedDuration::from_secs(30);
    model.reconcile_until_idle::<Job>();
    assert_eq!(conditions(&model), ["FailureTarget=True DeadlineExceeded"]);
    model.converge::<Job>();
    assert!(model.pods.is_empty());
    assert_eq!(conditions(&model)[1], "Failed=True DeadlineExceeded");
    assert_eq!(model.counted("failed"), 1);
}

/// The clock of the controller that started the Job can be ahead.
#[test]
fn longest_deadline_of_a_job_that_starts_later_does_not_panic() {
    let mut model = model(json!({"activeDeadlineSeconds": i64::MAX}));
    model.reconcile_until_idle::<Job>();
    model.now -= SignedDuration::from_secs(5);
    model.reconcile_until_idle::<Job>();
    assert!(model.decision::<Job>().requeue_after.is_some());
}

#[test]
fn deleted_pods_that_succeeded_are_counted() {
    let mut model = model(json!({"completions": 2, "parallelism": 1}));
    model.reconcile_until_idle::<Job>();
    end_all(&mut model, "Succeeded");
    let name = model.pods.keys().next().expect("a Pod").clone();
    model.mark_deleted(&name);
    model.reconcile_until_idle::<Job>();
    assert_eq!(model.counted("succeeded"), 1);
}

#[test]
fn suspended_jobs_have_no_pods() {
    let mut model = model(json!({"suspend": true}));
    model.reconcile_until_idle::<Job>();
    assert!(model.pods.is_empty());
    assert_eq!(conditions(&model), ["Suspended=True JobSuspended"]);
    model.workload["spec"]["suspend"] = json!(false);
    model.reconcile_until_idle::<Job>();
    assert_eq!(active(&model).len(), 1);
    assert_eq!(conditions(&model), ["Suspended=False JobResumed"]);
    model.workload["spec"]["suspend"] = json!(true);
    model.reconcile_until_idle::<Job>();
    assert_eq!(active(&model).len(), 0);
}

#[test]
fn withdrawn_pods_do_not_count() {
    let mut model = model(json!({"parallelism": 10, "completions": 10}));
    model.reconcile_until_idle::<Job>();
    assert_eq!(active(&model).len(), 10);
    model.workload["spec"]["parallelism"] = json!(7);
    model.reconcile_until_idle::<Job>();
    assert_eq!(active(&model).len(), 7);
    model.workload["spec"]["suspend"] = json!(true);
    model.reconcile_until_idle::<Job>();
    assert_eq!(active(&model).len(), 0);
    assert_eq!(model.counted("failed"), 0);
    assert_eq!(conditions(&model), ["Suspended=True JobSuspended"]);
}

#[test]
fn adoptions_and_releases_move_the_finalizer() {
    let mut model = model(json!({}));
    model.reconcile_until_idle::<Job>();
    let name = active(&model)[0].clone();
    let finalizers = |model: &Model| model.pods[&name]["metadata"]["finalizers"].clone();
    let change_label = |model: &mut Model, value: &str| {
        model.pods.get_mut(&name).expect("a Pod")["metadata"]["labels"]["app"] = json!(value);
        if let Some(step) = model.decision::<Job>().step {
            model.apply(step, None);
        }
    };
    change_label(&mut model, "other");
    assert_eq!(finalizers(&model), json!([]));
    change_label(&mut model, "web");
    assert_eq!(finalizers(&model), json!([FINALIZER]));
}

#[test]
fn elastic_jobs_keep_the_pods_of_their_indexes() {
    let mut model = model(json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed"}));
    model.reconcile_until_idle::<Job>();
    let last = active(&model)[3].clone();
    assert!(last.starts_with("web-3-"), "{last}");
    model.end(&last, "Succeeded");
    model.reconcile_until_idle::<Job>();
    assert_eq!(model.counted("succeeded"), 1);
    model.workload["spec"]["completions"] = json!(2);
    model.workload["spec"]["parallelism"] = json!(2);
    model.reconcile_until_idle::<Job>();
    let indexes: Vec<String> = active(&model).iter().map(|name| name[..6].to_owned()).collect();
    assert_eq!(indexes, ["web-0-", "web-1-"]);
    assert_eq!((model.counted("succeeded"), model.counted("failed")), (0, 0));
}

#[test]
fn index_waits_for_the_end_of_its_pod() {
    let mut model = model(json!({
        "completions": 2, "parallelism": 1, "completionMode": "Indexed", "podReplacementPolicy": "Failed",
    }));
    model.reconcile_until_idle::<Job>();
    let name = active(&model)[0].clone();
    model.mark_deleted(&name);
    model.workload["spec"]["parallelism"] = json!(2);
    model.reconcile_until_idle::<Job>();
    let indexes: Vec<String> = active(&model).iter().map(|name| name[..6].to_owned()).collect();
    assert_eq!(indexes, ["web-1-"]);
}

#[test]
fn indexed_jobs_run_each_index_once() {
    let mut model = model(json!({"completions": 3, "parallelism": 2, "completionMode": "Indexed"}));
    model.reconcile_until_idle::<Job>();
    let pod = model.pods.values().next().expect("a Pod");
    assert_eq!(pod["spec"]["hostname"], "web-0");
    assert_eq!(
        pod["spec"]["containers"][0]["env"][0]["name"],
        "JOB_COMPLETION_INDEX"
    );
    let second = active(&model)[1].clone();
    model.end(&second, "Succeeded");
    model.reconcile_until_idle::<Job>();
    assert_eq!(model.workload["status"]["completedIndexes"], "1");
    let mut indexes: Vec<String> = active(&model).iter().map(|name| name[..6].to_owned()).collect();
    indexes.sort();
    assert_eq!(indexes, ["web-0-", "web-2-"]);
    end_all(&mut model, "Succeeded");
    model.reconcile_until_idle::<Job>();
    assert_eq!(model.workload["status"]["completedIndexes"], "0-2");
}

/// Ends the only active Pod with an exit code of its container.
fn exit(model: &mut Model, code: i64) {
    let name = active(model)[0].clone();
    model.end(&name, "Failed");
    let state = json!({"terminated": {"exitCode": code}});
    model.pods.get_mut(&name).expect("a Pod")["status"]["containerStatuses"] =
        json!([{"name": "c", "state": state}]);
}

#[test]
fn failure_policy_ignores_pods_or_fails_the_job() {
    let rules = json!([
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
        {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "NotIn", "values": [1, 7]}},
    ]);
    let mut model = model(json!({
        "backoffLimit": 1, "podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": rules},
    }));
    model.reconcile_until_idle::<Job>();
    for (code, failed, pause_seconds) in [(7, 0, 10), (7, 0, 20), (1, 1, 40)] {
        exit(&mut model, code);
        model.reconcile_until_idle::<Job>();
        assert_eq!(model.counted("failed"), failed, "{code}");
        assert_eq!(active(&model), Vec::<String>::new(), "no pause after {code}");
        model.now += SignedDuration::from_secs(pause_seconds);
        model.reconcile_until_idle::<Job>();
        assert_eq!(active(&model).len(), 1, "not replaced after {code}");
    }
    exit(&mut model, 42);
    model.converge::<Job>();
    assert_eq!(
        conditions(&model),
        [
            "FailureTarget=True PodFailurePolicy",
            "Failed=True PodFailurePolicy"
        ]
    );
    let message = model.workload["status"]["conditions"][1]["message"].as_str();
    let message = message.expect("a message");
    assert!(message.starts_with("Container c for pod "), "{message}");
    assert!(
        message.ends_with(" failed with exit code 42 matching FailJob rule at index 1"),
        "{message}"
    );
    assert_eq!(model.counted("failed"), 2);
}

#[test]
fn failure_policy_ignores_disrupted_pods() {
    let rules = json!([
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]);
    let mut model = model(json!({
        "backoffLimit": 0, "podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": rules},
    }));
    model.reconcile_until_idle::<Job>();
    let name = active(&model)[0].clone();
    model.end(&name, "Failed");
    model.pods.get_mut(&name).expect("a Pod")["status"]["conditions"] =
        json!([{"type": "DisruptionTarget", "status": "True"}]);
    model.reconcile_until_idle::<Job>();
    model.now += SignedDuration::from_secs(10);
    model.reconcile_until_idle::<Job>();
    assert_eq!((model.counted("failed"), active(&model).len()), (0, 1));
    assert_eq!(conditions(&model), Vec::<String>::new());
}

#[test]
fn success_policy_ends_a_job_before_its_completions() {
    let rules = json!([
        {"succeededIndexes": "3-4", "succeededCount": 1},
        {"succeededIndexes": "0,2"},
        {"succeededCount": 4},
    ]);
    let mut model = model(json!({
        "completions": 5, "parallelism": 3, "completionMode": "Indexed", "successPolicy": {"rules": rules},
    }));
    model.reconcile_until_idle::<Job>();
    for (index, expected) in [(0, vec![]), (2, vec!["SuccessCriteriaMet=True SuccessPolicy"])] {
        let all = active(&model);
        let of_index = all.iter().find(|name| name.starts_with(&format!("web-{index}-")));
        model.end(of_index.expect("a Pod"), "Succeeded");
        model.reconcile_until_idle::<Job>();
        assert_eq!(conditions(&model), expected);
    }
    assert_eq!(active(&model).len(), 0);
    model.converge::<Job>();
    assert_eq!(conditions(&model)[1], "Complete=True SuccessPolicy");
    let status = &model.workload["status"];
    assert_eq!(status["conditions"][1]["message"], "Matched rules at index 1");
    assert_eq!(status["completedIndexes"], "0,2");
    assert!(status["completionTime"].is_string());
}

#[test]
fn rule_with_a_count_needs_as_many_of_its_indexes() {
    let rules = json!([{"succeededIndexes": "1-3", "succeededCount": 2}]);
    let mut model = model(json!({
        "completions": 4, "parallelism": 4, "completionMode": "Indexed", "successPolicy": {"rules": rules},
    }));
    model.reconcile_until_idle::<Job>();
    let all = active(&model);
    for (name, expected) in all.iter().zip([0, 0, 1]) {
        model.end(name, "Succeeded");
        model.reconcile_until_idle::<Job>();
        assert_eq!(conditions(&model).len(), expected, "{name}");
    }
}

#[test]
fn first_success_of_a_work_queue_ends_creation() {
    let mut model = model(json!({"completions": null, "parallelism": 3}));
    model.reconcile_until_idle::<Job>();
    let first = active(&model)[0].clone();
    model.end(&first, "Succeeded");
    model.reconcile_until_idle::<Job>();
    assert_eq!(active(&model).len(), 2);
    assert_eq!(conditions(&model), Vec::<String>::new());
    end_all(&mut model, "Succeeded");
    model.reconcile_until_idle::<Job>();
    assert_eq!(model.counted("succeeded"), 3);
    assert_eq!(conditions(&model).len(), 2);
}

#[test]
fn finished_jobs_are_deleted_after_their_time_to_live() {
    let mut model = model(json!({"ttlSecondsAfterFinished": 60}));
    model.reconcile_until_idle::<Job>();
    end_all(&mut model, "Succeeded");
    model.reconcile_until_idle::<Job>();
    assert_eq!(
        model.decision::<Job>().requeue_after,
        Some(std::time::Duration::from_secs(60))
    );
    model.now += SignedDuration::from_secs(60);
    assert_eq!(
        model.decision::<Job>().step,
        Some(crate::workload::Step::DeleteOwner)
    );
}

#[test]
fn indexes_are_parsed_and_formatted() {
    for text in ["", "0", "1,2", "1-3", "0,2,4-6"] {
        assert_eq!(format_indexes(&parse_indexes(text, 10)), text);
    }
    assert_eq!(parse_indexes("0-99999999999", 3).len(), 3);
    assert_eq!(parse_indexes("x,-1,2", 3).into_iter().collect::<Vec<_>>(), [2]);
}

/// Agents, users and lost writes at random: at the end each success is counted once.
#[test]
fn random_histories_count_each_pod_once() {
    for seed in 0..SEEDS {
        let mut random = Rng::with_seed(seed);
        let completions = random.i64(1..6);
        let mut model = model(json!({
            "completions": completions, "parallelism": random.i64(1..4), "backoffLimit": 1_000,
        }));
        let mut succeeded = 0;
        for _ in 0..2_000 {
            match random.u8(0..10) {
                0 | 1 => {
                    let running = active(&model);
                    if let Some(name) = random.choice(running) {
                        let is_success = random.bool();
                        succeeded += i64::from(is_success);
                        model.end(&name, if is_success { "Succeeded" } else { "Failed" });
                    }
                }
                2 => {
                    if let Some(name) = model.any_pod(&mut random) {
                        model.mark_deleted(&name);
                    }
                }
                3 => _ = model.run_agents(Some(&mut random)),
                4 => model.now += SignedDuration::from_secs(random.i64(0..600)),
                _ => {
                    if let Some(step) = model.decision::<Job>().step {
                        model.apply(step, Some(&mut random));
                    }
                }
            }
        }
        model.converge::<Job>();
        assert_eq!(model.counted("succeeded"), succeeded, "seed {seed}");
        assert!(succeeded >= completions, "seed {seed}");
        assert_eq!(conditions(&model).len(), 2, "seed {seed}");
    }
}

#[test]
fn rules_with_billions_of_indexes_take_no_memory() {
    let job = |rule: Value| -> api::object::Job {
        serde_json::from_value(
            json!({"metadata": {"name": "a"}, "spec": {"completionMode": "Indexed",
            "completions": i32::MAX, "successPolicy": {"rules": [rule]}}}),
        )
        .unwrap()
    };
    let succeeded = BTreeSet::from([0, 7, 1_000_000_000]);
    let met = |rule: Value| met_rule(&job(rule), &succeeded);
    // A set of these indexes has some 30 GB.
    assert_eq!(met(json!({"succeededIndexes": "0-2147483646"})), None);
    assert_eq!(
        met(json!({"succeededIndexes": "1-2147483646", "succeededCount": 2})),
        Some(0)
    );
    assert_eq!(
        met(json!({"succeededIndexes": "1-2147483646", "succeededCount": 3})),
        None
    );
    assert_eq!(met(json!({"succeededIndexes": "0,7"})), Some(0));
    assert_eq!(met(json!({"succeededIndexes": "6-7"})), None);
    assert_eq!(met(json!({"succeededIndexes": "9-8"})), None);
}

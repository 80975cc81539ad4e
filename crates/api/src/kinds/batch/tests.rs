use serde_json::{Value, json};

use super::*;

fn job(spec: Value) -> Value {
    let mut job = json!({
        "metadata": {"name": "count", "namespace": "default", "uid": "u1"},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}],
        }}},
    });
    for (field, value) in spec.as_object().expect("fields") {
        job["spec"][field] = value.clone();
    }
    default_job_on_write(&mut job);
    prepare_job_create(&mut job);
    job
}

fn faults(job: &Value) -> Vec<String> {
    validate_job(job).iter().map(ToString::to_string).collect()
}

#[test]
fn sets_defaults_and_selects_pods_by_uid() {
    let job = job(json!({}));
    let spec = &job["spec"];
    assert_eq!(
        (&spec["completions"], &spec["parallelism"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(spec["backoffLimit"], 6);
    assert_eq!(spec["completionMode"], "NonIndexed");
    assert_eq!(
        spec["selector"],
        json!({"matchLabels": {CONTROLLER_UID_LABEL: "u1"}})
    );
    let labels = &spec["template"]["metadata"]["labels"];
    assert_eq!(
        (&labels["job-name"], &labels[JOB_NAME_LABEL]),
        (&json!("count"), &json!("count"))
    );
    assert_eq!(faults(&job), Vec::<String>::new());
}

#[test]
fn parallelism_alone_makes_a_work_queue() {
    let job = job(json!({"parallelism": 3}));
    assert!(!is_set(&job["spec"], "completions"));
}

// The expectation is a response of kube-apiserver 1.36.2.
#[test]
fn rejects_indexed_jobs_whose_hostnames_are_no_labels() {
    let mut indexed = job(json!({"completionMode": "Indexed", "completions": 11}));
    assert_eq!(faults(&indexed), Vec::<String>::new());
    indexed["metadata"]["name"] = json!("a.b");
    assert_eq!(
        faults(&indexed),
        ["metadata.name: Invalid value: \"a.b\": will not able to create pod with invalid DNS label: a.b-10"]
    );
    indexed["spec"]["completionMode"] = json!("NonIndexed");
    assert_eq!(faults(&indexed), Vec::<String>::new());
}

#[test]
fn rejects_invalid_specs() {
    let cases = [
        (
            json!({"completionMode": "Indexed", "parallelism": 2}),
            "spec.completions: Required value: when completion mode is Indexed",
        ),
        (
            json!({"backoffLimit": -1}),
            "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            json!({"managedBy": "a/b"}),
            "spec.managedBy: Forbidden: is not served",
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(faults(&job(spec)), [expected]);
    }
    let mut always = job(json!({}));
    always["spec"]["template"]["spec"]["restartPolicy"] = json!("Always");
    assert_eq!(
        faults(&always),
        ["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""]
    );
}

#[test]
fn success_policies_name_indexes_of_the_job() {
    let with = |rules: Value| {
        job(
            json!({"completionMode": "Indexed", "completions": 5, "parallelism": 1, "successPolicy": {"rules": rules}}),
        )
    };
    let valid = with(json!([{"succeededIndexes": "0,2-4", "succeededCount": 4}, {"succeededCount": 5}]));
    assert_eq!(faults(&valid), Vec::<String>::new());
    let rule = "spec.successPolicy.rules[0]";
    let cases = [
        (
            json!([]),
            "spec.successPolicy.rules: Required value: at least one rules must be specified when the successPolicy is specified"
                .to_owned(),
        ),
        (
            json!([{}]),
            format!("{rule}: Required value: at least one of succeededCount or succeededIndexes must be specified"),
        ),
        (
            json!([{"succeededIndexes": "invalid-format"}]),
            format!(
                "{rule}.succeededIndexes: Invalid value: \"invalid-format\": error parsing succeededIndexes: cannot convert \
                 string to integer for index: \"invalid\""
            ),
        ),
        (
            json!([{"succeededIndexes": "3,2"}]),
            format!(
                "{rule}.succeededIndexes: Invalid value: \"3,2\": error parsing succeededIndexes: non-increasing order, \
                 previous: 3, current: 2"
            ),
        ),
        (
            json!([{"succeededIndexes": "5"}]),
            format!(
                "{rule}.succeededIndexes: Invalid value: \"5\": error parsing succeededIndexes: too large index: \"5\""
            ),
        ),
        (
            json!([{"succeededIndexes": "0-1", "succeededCount": 3}]),
            format!(
                "{rule}.succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the \
                 specified succeededIndexes field)"
            ),
        ),
    ];
    for (rules, expected) in cases {
        assert_eq!(faults(&with(rules)), [expected]);
    }
    let unindexed = job(json!({"successPolicy": {"rules": [{"succeededCount": 1}]}}));
    assert_eq!(faults(&unindexed).len(), 1);
    assert!(faults(&unindexed)[0].ends_with("requires indexed completion mode"));
    let changed = with(json!([{"succeededCount": 5}]));
    assert_eq!(validate_job_update(&changed, &valid).len(), 1);
}

#[test]
fn failure_policies_have_defaults_and_rules() {
    let with = |rules: Value| job(json!({"podFailurePolicy": {"rules": rules}}));
    let valid = with(json!([
        {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [1, 42]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
    ]));
    assert_eq!(faults(&valid), Vec::<String>::new());
    let spec = &valid["spec"];
    assert_eq!(spec["podReplacementPolicy"], "Failed");
    assert_eq!(
        spec["podFailurePolicy"]["rules"][1]["onPodConditions"][0]["status"],
        "True"
    );
    let rule = "spec.podFailurePolicy.rules[0]";
    let codes = |operator: &str, values: Value| json!({"operator": operator, "values": values});
    let cases = [
        (
            json!([{"action": "FailIndex", "onExitCodes": codes("In", json!([1]))}]),
            format!(
                "{rule}.action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set"
            ),
        ),
        (
            json!([{"onExitCodes": codes("In", json!([1]))}]),
            format!(
                "{rule}.action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]"
            ),
        ),
        (
            json!([{"action": "Count"}]),
            format!("{rule}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"),
        ),
        (
            json!([{"action": "Count", "onExitCodes": codes("In", json!([0]))}]),
            format!("{rule}.onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator"),
        ),
        (
            json!([{"action": "Count", "onExitCodes": codes("NotIn", json!([2, 2]))}]),
            format!("{rule}.onExitCodes.values[1]: Duplicate value: 2"),
        ),
    ];
    for (rules, expected) in cases {
        assert_eq!(faults(&with(rules)), [expected]);
    }
    let mut restarting = valid;
    restarting["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
    restarting["spec"]["podReplacementPolicy"] = json!("TerminatingOrFailed");
    assert_eq!(
        faults(&restarting),
        [
            "spec.podReplacementPolicy: Unsupported value: \"TerminatingOrFailed\": supported values: \"Failed\"",
            "spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is supported when \
             podFailurePolicy is specified",
        ]
    );
}

/// As upstream: a suspended Job without active Pods may change labels, scheduling directives and resources.
#[test]
fn templates_change_in_part_while_suspended() {
    let changed = |job: &Value, field: &str, value: Value| {
        let mut job = job.clone();
        job["spec"]["template"]["spec"][field] = value;
        job
    };
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}],
    }}});
    let with_resources = |job: &Value| {
        let mut job = job.clone();
        job["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
        job
    };
    let with_image = |job: &Value| {
        let mut job = job.clone();
        job["spec"]["template"]["spec"]["containers"][0]["image"] = json!("other");
        job
    };
    let faults = |new: &Value, old: &Value| validate_job_update(new, old).len();
    let running = job(json!({}));
    let suspended = job(json!({"suspend": true}));
    for old in [&running, &suspended] {
        let expected = usize::from(old == &running);
        assert_eq!(
            faults(&changed(old, "nodeSelector", json!({"a": "b"})), old),
            expected
        );
        assert_eq!(faults(&changed(old, "affinity", affinity.clone()), old), expected);
        assert_eq!(faults(&with_resources(old), old), expected);
        assert_eq!(faults(&with_image(old), old), 1);
        assert_eq!(faults(old, old), 0);
    }
    let fault = validate_job_update(&with_image(&suspended), &suspended);
    assert_eq!(fault[0].path.as_str(), "spec.template.spec");
    let with_affinity = changed(&suspended, "affinity", affinity);
    assert_eq!(faults(&suspended, &with_affinity), 0);
    let mut started = suspended.clone();
    started["status"] = json!({"startTime": "2026-01-01T00:00:00Z"});
    assert_eq!(faults(&with_resources(&started), &started), 1);
    started["status"]["conditions"] = json!([{"type": "Suspended", "status": "True"}]);
    assert_eq!(faults(&with_resources(&started), &started), 0);
    started["status"]["active"] = json!(1);
    assert_eq!(faults(&with_resources(&started), &started), 1);
}

#[test]
fn large_indexed_jobs_cause_a_warning() {
    let large = job(json!({"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001}));
    let warnings = job_creation_warnings(&large);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("spec: In Indexed Jobs with "),
        "{warnings:?}"
    );
    let small = job(json!({"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_000}));
    assert_eq!(job_creation_warnings(&small), Vec::<String>::new());
    assert_eq!(job_update_warnings(&large, &large), Vec::<String>::new());
    let mut changed = large.clone();
    changed["metadata"]["generation"] = json!(2);
    assert_eq!(job_update_warnings(&changed, &large).len(), 1);
}

#[test]
fn pod_replacement_policy_may_change() {
    let old = job(json!({}));
    let new = job(json!({"podReplacementPolicy": "Failed"}));
    assert_eq!(validate_job_update(&new, &old), FieldErrors::new());
}

// The expectations are responses of kube-apiserver 1.36.2; the rules are in upstream's `pkg/apis/batch/validation`.
#[test]
fn selectors_are_generated_or_manual() {
    let given = job(json!({"selector": {"matchLabels": {"a": "b"}}}));
    let faults_of_given = faults(&given);
    assert!(
        faults_of_given[0].starts_with("spec.selector: Invalid value: {")
            && faults_of_given[0].ends_with(": `selector` not auto-generated"),
        "{faults_of_given:?}"
    );
    let manual = job(json!({"manualSelector": true}));
    assert_eq!(
        faults(&manual),
        [
            "spec.selector: Required value",
            "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
        ]
    );
}

#[test]
fn labels_of_the_template_are_those_of_a_job_without_labels() {
    let mut labelled = json!({
        "metadata": {"name": "count", "namespace": "default", "uid": "u1"},
        "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never"}}},
    });
    default_job_on_write(&mut labelled);
    prepare_job_create(&mut labelled);
    assert_eq!(
        labelled["metadata"]["labels"],
        labelled["spec"]["template"]["metadata"]["labels"]
    );
    assert_eq!(labelled["metadata"]["labels"][CONTROLLER_UID_LABEL], "u1");
}

#[test]
fn jobs_have_the_labels_of_their_pods() {
    let plain = job(json!({}));
    let mut written = plain.clone();
    default_job_on_write(&mut written);
    assert_eq!(
        plain["metadata"]["labels"],
        plain["spec"]["template"]["metadata"]["labels"]
    );
    assert_eq!(written, plain);
    let manual = job(json!({"manualSelector": true}));
    assert!(!is_set(&manual["metadata"], "labels"));
}

#[test]
fn empty_fields_of_the_status_are_absent() {
    let mut idle = job(json!({}));
    idle["status"] =
        json!({"active": 0, "succeeded": 0, "failed": 0, "completedIndexes": "", "conditions": []});
    default_job_on_write(&mut idle);
    assert_eq!(idle["status"], json!({}));
}

#[test]
fn conditions_have_times() {
    let mut finished = job(json!({}));
    finished["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    default_job_on_write(&mut finished);
    assert_eq!(
        finished["status"]["conditions"][0],
        json!({"type": "Complete", "status": "True", "lastTransitionTime": null, "lastProbeTime": null})
    );
}

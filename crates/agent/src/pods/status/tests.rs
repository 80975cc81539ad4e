use super::*;
use crate::object::RestartPolicy;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn pod(status: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]},
        "status": status,
    }))
    .unwrap()
}

fn containers() -> Containers {
    let tracked = ["a", "b"].map(|name| TrackedContainer::new(name, 0, at(0)));
    Containers::new(String::new(), RestartPolicy::Always, vec![], tracked.into())
}

fn status(pod: &Pod, containers: &Containers, ready: &[(&str, bool)]) -> Value {
    let mut containers = containers.clone();
    for (name, is_ready) in ready {
        containers.set_probe_results(name, true, *is_ready);
    }
    let ips = ["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
    let observation = Observation {
        containers: &containers,
        pod_ips: &ips,
        host_ips: &["172.30.0.11".parse().unwrap()],
        start_time: at(0),
        last_conditions: &pod.status.conditions,
    };
    generate(pod, &observation, at(9))
}

fn condition_of<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let list = status["conditions"].as_array().unwrap();
    list.iter().find(|condition| condition["type"] == kind).unwrap()
}

#[test]
fn starting_pod_is_pending_and_not_ready() {
    let status = status(&pod(json!({})), &containers(), &[]);
    assert_eq!(status["phase"], "Pending");
    assert_eq!(
        status["containerStatuses"][0]["state"]["waiting"]["reason"],
        "ContainerCreating"
    );
    let ready = condition_of(&status, "Ready");
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("False"), &json!("ContainersNotReady"))
    );
    assert_eq!(ready["message"], "containers with unready status: [a b]");
    assert_eq!(status["podIPs"], json!([{"ip": "10.0.0.2"}, {"ip": "fd00::2"}]));
    assert_eq!(
        (&status["podIP"], &status["hostIP"]),
        (&json!("10.0.0.2"), &json!("172.30.0.11"))
    );
}

#[test]
fn pod_is_ready_when_all_containers_are() {
    let mut running = containers();
    running.mark_started("a", at(1));
    running.mark_started("b", at(2));
    let partly = status(&pod(json!({})), &running, &[("a", true), ("b", false)]);
    assert_eq!(
        (&partly["phase"], &condition_of(&partly, "Ready")["status"]),
        (&json!("Running"), &json!("False"))
    );
    let all_ready = status(&pod(json!({})), &running, &[("a", true), ("b", true)]);
    assert_eq!(condition_of(&all_ready, "Ready")["status"], "True");
    assert_eq!(condition_of(&all_ready, "Ready")["reason"], Value::Null);
    assert_eq!(
        all_ready["containerStatuses"][1]["state"]["running"]["startedAt"],
        "2023-11-14T22:13:22Z"
    );
}

#[test]
fn unchanged_condition_keeps_its_transition_time() {
    let old = json!({"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"}]});
    let same = status(&pod(old.clone()), &containers(), &[]);
    assert_eq!(
        condition_of(&same, "Ready")["lastTransitionTime"],
        "2020-01-01T00:00:00Z"
    );
    let mut running = containers();
    running.mark_started("a", at(1));
    running.mark_started("b", at(1));
    let changed = status(&pod(old), &running, &[("a", true), ("b", true)]);
    assert_eq!(
        condition_of(&changed, "Ready")["lastTransitionTime"],
        whole_seconds(at(9))
    );
}

#[test]
fn readiness_gates_delay_ready() {
    let mut gated = pod(json!({}));
    gated.spec.readiness_gates = vec![crate::object::ReadinessGate {
        condition_type: "lb".to_owned(),
    }];
    let mut running = containers();
    running.mark_started("a", at(1));
    running.mark_started("b", at(1));
    let ready = [("a", true), ("b", true)];
    let before = status(&gated, &running, &ready);
    assert_eq!(condition_of(&before, "ContainersReady")["status"], "True");
    assert_eq!(condition_of(&before, "Ready")["reason"], "ReadinessGatesNotReady");
    gated.status.conditions = serde_json::from_value(json!([{"type": "lb", "status": "True"}])).unwrap();
    assert_eq!(
        condition_of(&status(&gated, &running, &ready), "Ready")["status"],
        "True"
    );
}

#[test]
fn terminated_state_has_code_signal_and_times() {
    let mut containers = containers();
    containers.mark_started("a", at(1));
    containers.mark_terminated(
        "a",
        Terminated {
            exit_code: 137,
            signal: Some(9),
            reason: "Error".into(),
            message: "x".repeat(20_000),
            started_at: at(1),
            finished_at: at(4),
        },
    );
    let status = status(&pod(json!({})), &containers, &[]);
    let a = &status["containerStatuses"][0];
    assert_eq!(a["state"]["waiting"]["reason"], "CrashLoopBackOff");
    let last = &a["lastState"]["terminated"];
    assert_eq!((&last["exitCode"], &last["signal"]), (&json!(137), &json!(9)));
    // The two containers share 12 KiB.
    assert_eq!(last["message"].as_str().map(str::len), Some(6_144));
    assert_eq!(
        (&last["startedAt"], &last["finishedAt"]),
        (&json!(whole_seconds(at(1))), &json!(whole_seconds(at(4))))
    );
}

#[test]
fn last_conditions_override_watched_conditions() {
    // The watched Pod does not yet contain that Ready has been false since second 3.
    let watched = pod(json!({}));
    let last_conditions = [PodCondition {
        kind: "Ready".to_owned(),
        status: "False".to_owned(),
        last_transition_time: Some(whole_seconds(at(3))),
    }];
    let observation = Observation {
        containers: &containers(),
        pod_ips: &[],
        host_ips: &[],
        start_time: at(0),
        last_conditions: &last_conditions,
    };
    let status = generate(&watched, &observation, at(9));
    assert_eq!(
        condition_of(&status, "Ready")["lastTransitionTime"],
        whole_seconds(at(3))
    );
    assert_eq!(
        condition_of(&status, "Initialized")["lastTransitionTime"],
        whole_seconds(at(9))
    );
}

#[test]
fn written_status_is_recognized_despite_foreign_additions() {
    let written = status(&pod(json!({})), &containers(), &[("a", true)]);
    let mut present = written.clone();
    assert!(contains(&present, &written));
    present["qosClass"] = "BestEffort".into();
    let conditions = present["conditions"].as_array_mut().unwrap();
    conditions.insert(0, json!({"type": "example.com/gate", "status": "True"}));
    // The server does not store nulls.
    for condition in conditions.iter_mut() {
        condition
            .as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
    }
    assert!(contains(&present, &written));
    for (pointer, foreign) in [
        ("/conditions/3/status", json!("True")),
        ("/conditions/3/reason", json!("Somebody")),
        ("/containerStatuses/0/ready", json!(true)),
        ("/containerStatuses", json!([])),
        ("/phase", json!("Failed")),
        ("/podIPs/0/ip", json!("10.0.0.9")),
    ] {
        let mut changed = present.clone();
        *changed.pointer_mut(pointer).unwrap() = foreign;
        assert!(!contains(&changed, &written), "{pointer}");
    }
}

#[test]
fn status_names_the_generation_that_it_describes() {
    let mut pod = pod(json!({}));
    assert!(
        status(&pod, &containers(), &[])
            .get("observedGeneration")
            .is_none()
    );
    pod.metadata.generation = 3;
    let status = status(&pod, &containers(), &[]);
    assert_eq!(status["observedGeneration"], 3);
    assert_eq!(condition_of(&status, "Ready")["observedGeneration"], 3);
}

#[test]
fn evicted_pod_has_failed() {
    let mut status = status(&pod(json!({})), &containers(), &[]);
    set_evicted(&mut status, "too much", at(5));
    assert_eq!(
        (&status["phase"], &status["reason"], &status["message"]),
        (&json!("Failed"), &json!("Evicted"), &json!("too much"))
    );
    let disruption = condition_of(&status, "DisruptionTarget");
    assert_eq!(disruption["reason"], "TerminationByKubelet");
    assert_eq!(disruption["lastTransitionTime"], whole_seconds(at(5)));
}

#[test]
fn pod_past_its_deadline_has_failed() {
    let mut status = status(&pod(json!({})), &containers(), &[]);
    set_deadline_exceeded(&mut status);
    assert_eq!(
        (&status["phase"], &status["reason"]),
        (&json!("Failed"), &json!("DeadlineExceeded"))
    );
}

#[test]
fn deadline_counts_from_the_start_of_the_pod() {
    let left = |deadline: Value, now: i64| {
        let spec = serde_json::from_value(json!({"activeDeadlineSeconds": deadline})).unwrap();
        time_to_deadline(&spec, at(10), at(now)).map(|left| left.as_secs())
    };
    assert_eq!(left(Value::Null, 30), None);
    assert_eq!(left(json!(60), 30), Some(40));
    assert_eq!(left(json!(60), 70), Some(0));
    assert_eq!(left(json!(60), 99), Some(0));
    // The clock was set back after the start.
    assert_eq!(left(json!(60), 0), Some(70));
    assert_eq!(left(json!(i64::MAX), 0), Some(i64::MAX.unsigned_abs()));
}

#[test]
fn hosts_have_one_address_of_each_family() {
    let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
    let all = ["fd00::1", "10.0.0.1", "10.0.0.2", "fd00::2"].map(ip);
    assert_eq!(first_of_each_family(&all), [ip("fd00::1"), ip("10.0.0.1")]);
}

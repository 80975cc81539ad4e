use proptest::prelude::*;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn terminated(exit_code: i32, started: i64, finished: i64) -> Terminated {
    Terminated {
        exit_code,
        signal: None,
        reason: "Error".into(),
        message: String::new(),
        started_at: at(started),
        finished_at: at(finished),
    }
}

fn containers(policy: RestartPolicy, init: &[&str], main: &[&str]) -> Containers {
    let track = |names: &[&str]| {
        names
            .iter()
            .map(|name| TrackedContainer::new(name, 0, at(0)))
            .collect()
    };
    Containers::new("web_shop(1)".to_owned(), policy, track(init), track(main))
}

#[test]
fn back_off_grows_to_five_minutes_and_resets_after_a_long_run() {
    let mut pod = containers(RestartPolicy::Always, &[], &["a"]);
    let mut now = 0;
    let mut delays = Vec::new();
    for _ in 0..8 {
        pod.mark_started("a", at(now));
        now += 1;
        pod.mark_terminated("a", terminated(1, now - 1, now));
        let due = pod.next_due().unwrap();
        delays.push(due.duration_since(at(now)).as_secs());
        now = due.as_second() - 1_700_000_000;
    }
    assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
    assert_eq!(pod.get("a").unwrap().restarts, 7);
    pod.mark_started("a", at(now));
    pod.mark_terminated("a", terminated(1, now, now + 600));
    assert_eq!(pod.next_due(), Some(at(now + 600)));
}

#[test]
fn restart_policy_decides_about_restart_and_phase() {
    for (policy, code, restarts, phase) in [
        (RestartPolicy::Always, 0, true, Phase::Running),
        (RestartPolicy::Always, 1, true, Phase::Running),
        (RestartPolicy::OnFailure, 0, false, Phase::Succeeded),
        (RestartPolicy::OnFailure, 1, true, Phase::Running),
        (RestartPolicy::Never, 0, false, Phase::Succeeded),
        (RestartPolicy::Never, 1, false, Phase::Failed),
    ] {
        let mut pod = containers(policy, &[], &["a"]);
        assert_eq!(pod.phase(), Phase::Pending);
        pod.mark_started("a", at(0));
        assert_eq!(pod.phase(), Phase::Running);
        pod.mark_terminated("a", terminated(code, 0, 1));
        assert_eq!(pod.next_due().is_some(), restarts, "{policy:?} {code}");
        assert_eq!(pod.phase(), phase, "{policy:?} {code}");
    }
}

#[test]
fn init_containers_run_sequentially() {
    let mut pod = containers(RestartPolicy::Always, &["i", "j"], &["a", "b"]);
    assert_eq!(pod.due(at(0)), ["i"]);
    pod.mark_started("i", at(0));
    assert!(pod.due(at(0)).is_empty());
    pod.mark_terminated("i", terminated(1, 0, 1));
    assert_eq!(pod.due(at(1)), ["i"]);
    pod.mark_started("i", at(1));
    pod.mark_terminated("i", terminated(0, 1, 2));
    assert_eq!(pod.due(at(2)), ["j"]);
    pod.mark_started("j", at(2));
    pod.mark_terminated("j", terminated(0, 2, 3));
    assert!(pod.is_initialized());
    assert_eq!(pod.due(at(3)), ["a", "b"]);
    assert_eq!(pod.phase(), Phase::Pending);
}

#[test]
fn failed_init_container_without_restart_fails_the_pod() {
    let mut pod = containers(RestartPolicy::Never, &["i"], &["a"]);
    pod.mark_started("i", at(0));
    pod.mark_terminated("i", terminated(3, 0, 1));
    assert_eq!(pod.phase(), Phase::Failed);
    assert_eq!(pod.next_due(), None);
}

#[test]
fn failed_start_is_retried_after_back_off() {
    let mut pod = containers(RestartPolicy::Never, &[], &["a"]);
    pod.mark_start_failed("a", "ErrImagePull", "no".to_owned(), at(0));
    assert!(pod.due(at(9)).is_empty());
    assert_eq!(pod.due(at(10)), ["a"]);
    assert_eq!(pod.phase(), Phase::Pending);
}

#[test]
fn lost_sandbox_terminates_running_containers() {
    let mut pod = containers(RestartPolicy::Always, &[], &["a", "b"]);
    pod.mark_started("a", at(0));
    pod.mark_all_lost(at(5));
    let container = pod.get("a").unwrap();
    assert_eq!(container.last.as_ref().unwrap().exit_code, 137);
    assert_eq!(pod.due(at(5)), ["a", "b"]);
}

/// A Pod with a sidecar between two init containers.
fn with_sidecar(policy: RestartPolicy) -> Containers {
    let init = vec![
        TrackedContainer::new("i", 0, at(0)),
        TrackedContainer::new("s", 0, at(0)).restartable(),
        TrackedContainer::new("j", 0, at(0)),
    ];
    Containers::new(
        "web_shop(1)".to_owned(),
        policy,
        init,
        vec![TrackedContainer::new("a", 0, at(0))],
    )
}

#[test]
fn started_sidecar_unblocks_next_init_container() {
    let mut pod = with_sidecar(RestartPolicy::Never);
    pod.mark_started("i", at(0));
    pod.mark_terminated("i", terminated(0, 0, 1));
    assert_eq!(pod.due(at(1)), ["s"]);
    pod.mark_started("s", at(1));
    assert!(pod.due(at(1)).is_empty(), "its startup probe has not succeeded");
    pod.set_probe_results("s", true, false);
    assert_eq!(pod.due(at(2)), ["j"]);
    // A sidecar restarts regardless of the restart policy, and does not affect running init containers.
    pod.mark_started("j", at(2));
    pod.mark_terminated("s", terminated(0, 1, 3));
    assert_eq!(pod.due(at(3)), ["s"]);
    pod.mark_terminated("j", terminated(0, 2, 3));
    pod.mark_started("s", at(3));
    pod.set_probe_results("s", true, true);
    assert_eq!(pod.due(at(3)), ["a"]);
    assert_eq!(pod.phase(), Phase::Pending);
    pod.mark_started("a", at(4));
    assert_eq!(pod.phase(), Phase::Running);
    assert!(pod.is_initialized());
}

#[test]
fn sidecars_terminate_last_and_do_not_affect_phase() {
    let mut pod = with_sidecar(RestartPolicy::Never);
    for name in ["i", "j"] {
        pod.mark_started(name, at(0));
        pod.mark_terminated(name, terminated(0, 0, 1));
    }
    pod.mark_started("s", at(1));
    pod.set_probe_results("s", true, true);
    pod.mark_started("a", at(2));
    assert_eq!(pod.next_to_stop(), ["a"]);
    pod.mark_terminated("a", terminated(0, 2, 3));
    assert!(pod.is_complete());
    assert_eq!(
        (pod.next_to_stop(), pod.phase()),
        (vec!["s".to_owned()], Phase::Running)
    );
    pod.mark_terminated("s", terminated(137, 1, 4));
    assert_eq!((pod.due(at(9)), pod.phase()), (vec![], Phase::Succeeded));
}

#[test]
fn checkpoint_restores_state_for_next_agent() {
    let fresh = || containers(RestartPolicy::OnFailure, &[], &["a", "b", "c"]);
    let mut pod = fresh();
    for name in ["a", "b", "c"] {
        pod.mark_started(name, at(0));
    }
    pod.mark_terminated("b", terminated(1, 0, 1));
    pod.mark_started("b", at(1));
    pod.mark_terminated("b", terminated(1, 1, 2));
    pod.mark_terminated("c", terminated(0, 0, 3));
    let json = serde_json::to_string(&pod.checkpoint()).unwrap();
    let mut next = fresh();
    next.restore(serde_json::from_str(&json).unwrap());
    assert_eq!(next.checkpoint(), pod.checkpoint());
    assert_eq!(next.next_due(), Some(at(12)));
    // A termination in the checkpoint is ignored; a later one counts.
    next.adopt_running("a", at(0));
    next.adopt_terminated("b", terminated(1, 1, 2));
    assert_eq!(next.checkpoint(), pod.checkpoint());
    next.adopt_terminated("b", terminated(0, 12, 13));
    assert_eq!(next.get("b").unwrap().restarts, 2);
    // After a reboot of the node, running containers are lost.
    let mut rebooted = fresh();
    rebooted.restore(pod.checkpoint());
    rebooted.mark_all_lost(at(20));
    assert_eq!(rebooted.due(at(20)), ["a", "b"]);
    rebooted.mark_started("a", at(20));
    assert_eq!(rebooted.get("a").unwrap().restarts, 1);
}

proptest! {
    /// After any sequence of starts and terminations, no delay exceeds five minutes.
    #[test]
    fn waiting_containers_always_become_due(steps in proptest::collection::vec((0usize..2, 0i32..3, 0i64..700), 1..60)) {
        let mut pod = containers(RestartPolicy::OnFailure, &[], &["a", "b"]);
        let mut now = 0;
        for (index, step, wait) in steps {
            let name = ["a", "b"][index];
            match step {
                0 if pod.due(at(now)).iter().any(|due| due == name) => pod.mark_started(name, at(now)),
                1 | 2 if matches!(pod.get(name).unwrap().state, State::Running { .. }) => {
                    pod.mark_terminated(name, terminated(step - 1, now - wait, now));
                }
                _ => {}
            }
            for container in pod.iter() {
                if let State::Waiting { due, .. } = container.state {
                    prop_assert!(due.duration_since(at(now)) <= jiff::SignedDuration::from_mins(5));
                }
            }
            now += wait;
        }
        pod.mark_all_lost(at(now));
        prop_assert!(!pod.is_any_running());
    }
}

#[test]
fn clock_set_back_does_not_delay_start() {
    let mut pod = containers(RestartPolicy::Always, &[], &["a"]);
    pod.delay_start("a", String::new(), at(3_600));
    assert!(pod.due(at(3_500)).is_empty(), "within the longest back-off");
    assert_eq!(pod.due(at(0)), ["a"]);
}

#[test]
fn ephemeral_containers_start_at_once_and_never_restart() {
    let mut pod = containers(RestartPolicy::Always, &["i"], &["a"]);
    pod.add_ephemeral(TrackedContainer::new("e", 0, at(0)));
    assert_eq!(pod.due(at(0)), ["i", "e"]);
    pod.mark_started("e", at(0));
    assert_eq!(pod.phase(), Phase::Pending);
    pod.mark_started("i", at(0));
    pod.mark_terminated("i", terminated(0, 0, 1));
    pod.mark_started("a", at(1));
    pod.mark_terminated("e", terminated(1, 0, 2));
    assert_eq!((pod.due(at(2)), pod.phase()), (vec![], Phase::Running));
    // Known names are not tracked again.
    pod.add_ephemeral(TrackedContainer::new("e", 0, at(3)));
    pod.add_ephemeral(TrackedContainer::new("a", 0, at(3)));
    assert!(pod.due(at(3)).is_empty());
}

#[test]
fn ephemeral_containers_end_with_the_pod() {
    let mut pod = containers(RestartPolicy::Never, &[], &["a"]);
    pod.mark_started("a", at(0));
    pod.add_ephemeral(TrackedContainer::new("e", 0, at(1)));
    pod.mark_started("e", at(1));
    pod.mark_terminated("a", terminated(0, 0, 2));
    assert_eq!(pod.phase(), Phase::Succeeded);
    assert_eq!(pod.next_to_stop(), ["e"]);
    pod.add_ephemeral(TrackedContainer::new("late", 0, at(2)));
    assert!(pod.due(at(3)).is_empty());
}

use proptest::prelude::*;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn ended(exit_code: i32, started: i64, finished: i64) -> Ended {
    Ended {
        exit_code,
        signal: None,
        reason: "Error".into(),
        started_at: at(started),
        finished_at: at(finished),
    }
}

fn containers(policy: RestartPolicy, init: &[&str], main: &[&str]) -> Containers {
    let slots = |names: &[&str]| names.iter().map(|n| Slot::new(n, 0, at(0))).collect();
    Containers::new("web_shop(1)".to_owned(), policy, slots(init), slots(main))
}

#[test]
fn pauses_grow_from_none_to_five_minutes_and_begin_anew() {
    let mut pod = containers(RestartPolicy::Always, &[], &["a"]);
    let mut now = 0;
    let mut pauses = Vec::new();
    for _ in 0..8 {
        pod.started("a", at(now));
        now += 1;
        pod.ended("a", ended(1, now - 1, now));
        let due = pod.next_due().unwrap();
        pauses.push(due.duration_since(at(now)).as_secs());
        now = due.as_second() - 1_700_000_000;
    }
    assert_eq!(pauses, [0, 10, 20, 40, 80, 160, 300, 300]);
    assert_eq!(pod.slot("a").unwrap().restarts, 7);
    pod.started("a", at(now));
    pod.ended("a", ended(1, now, now + 600));
    assert_eq!(pod.next_due(), Some(at(now + 600)));
}

#[test]
fn the_policy_decides_who_comes_back() {
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
        pod.started("a", at(0));
        assert_eq!(pod.phase(), Phase::Running);
        pod.ended("a", ended(code, 0, 1));
        assert_eq!(pod.next_due().is_some(), restarts, "{policy:?} {code}");
        assert_eq!(pod.phase(), phase, "{policy:?} {code}");
    }
}

#[test]
fn init_containers_go_one_after_the_other() {
    let mut pod = containers(RestartPolicy::Always, &["i", "j"], &["a", "b"]);
    assert_eq!(pod.due(at(0)), ["i"]);
    pod.started("i", at(0));
    assert!(pod.due(at(0)).is_empty());
    pod.ended("i", ended(1, 0, 1));
    assert_eq!(pod.due(at(1)), ["i"]);
    pod.started("i", at(1));
    pod.ended("i", ended(0, 1, 2));
    assert_eq!(pod.due(at(2)), ["j"]);
    pod.started("j", at(2));
    pod.ended("j", ended(0, 2, 3));
    assert!(pod.is_initialized());
    assert_eq!(pod.due(at(3)), ["a", "b"]);
    assert_eq!(pod.phase(), Phase::Pending);
}

#[test]
fn a_failed_init_container_that_may_not_restart_fails_the_pod() {
    let mut pod = containers(RestartPolicy::Never, &["i"], &["a"]);
    pod.started("i", at(0));
    pod.ended("i", ended(3, 0, 1));
    assert_eq!(pod.phase(), Phase::Failed);
    assert_eq!(pod.next_due(), None);
}

#[test]
fn what_cannot_be_started_is_tried_again() {
    let mut pod = containers(RestartPolicy::Never, &[], &["a"]);
    pod.failed_to_start("a", "ErrImagePull", "no".to_owned(), at(0));
    assert!(pod.due(at(9)).is_empty());
    assert_eq!(pod.due(at(10)), ["a"]);
    assert_eq!(pod.phase(), Phase::Pending);
}

#[test]
fn a_lost_sandbox_ends_what_ran() {
    let mut pod = containers(RestartPolicy::Always, &[], &["a", "b"]);
    pod.started("a", at(0));
    pod.lost(at(5));
    let slot = pod.slot("a").unwrap();
    assert_eq!(slot.last.as_ref().unwrap().exit_code, 137);
    assert_eq!(pod.due(at(5)), ["a", "b"]);
}

/// A Pod with a sidecar between two init containers.
fn with_sidecar(policy: RestartPolicy) -> Containers {
    let init = vec![
        Slot::new("i", 0, at(0)),
        Slot::new("s", 0, at(0)).restartable(),
        Slot::new("j", 0, at(0)),
    ];
    Containers::new(
        "web_shop(1)".to_owned(),
        policy,
        init,
        vec![Slot::new("a", 0, at(0))],
    )
}

#[test]
fn a_sidecar_holds_up_the_next_only_until_it_has_started() {
    let mut pod = with_sidecar(RestartPolicy::Never);
    pod.started("i", at(0));
    pod.ended("i", ended(0, 0, 1));
    assert_eq!(pod.due(at(1)), ["s"]);
    pod.started("s", at(1));
    assert!(pod.due(at(1)).is_empty(), "its startup probe has not succeeded");
    pod.probed("s", true, false);
    assert_eq!(pod.due(at(2)), ["j"]);
    // It comes back whatever the Pod's policy is, and then holds up nobody who runs already.
    pod.started("j", at(2));
    pod.ended("s", ended(0, 1, 3));
    assert_eq!(pod.due(at(3)), ["s"]);
    pod.ended("j", ended(0, 2, 3));
    pod.started("s", at(3));
    pod.probed("s", true, true);
    assert_eq!(pod.due(at(3)), ["a"]);
    assert_eq!(pod.phase(), Phase::Pending);
    pod.started("a", at(4));
    assert_eq!(pod.phase(), Phase::Running);
    assert!(pod.is_initialized());
}

#[test]
fn sidecars_end_after_the_others_and_do_not_count() {
    let mut pod = with_sidecar(RestartPolicy::Never);
    for name in ["i", "j"] {
        pod.started(name, at(0));
        pod.ended(name, ended(0, 0, 1));
    }
    pod.started("s", at(1));
    pod.probed("s", true, true);
    pod.started("a", at(2));
    assert_eq!(pod.to_stop(), ["a"]);
    pod.ended("a", ended(0, 2, 3));
    assert!(pod.is_done());
    assert_eq!(
        (pod.to_stop(), pod.phase()),
        (vec!["s".to_owned()], Phase::Running)
    );
    pod.ended("s", ended(137, 1, 4));
    assert_eq!((pod.due(at(9)), pod.phase()), (vec![], Phase::Succeeded));
}

#[test]
fn a_new_agent_goes_on_where_the_last_one_was() {
    let fresh = || containers(RestartPolicy::OnFailure, &[], &["a", "b", "c"]);
    let mut pod = fresh();
    for name in ["a", "b", "c"] {
        pod.started(name, at(0));
    }
    pod.ended("b", ended(1, 0, 1));
    pod.started("b", at(1));
    pod.ended("b", ended(1, 1, 2));
    pod.ended("c", ended(0, 0, 3));
    let json = serde_json::to_string(&pod.remember()).unwrap();
    let mut next = fresh();
    next.recall(serde_json::from_str(&json).unwrap());
    assert_eq!(next.remember(), pod.remember());
    assert_eq!(next.next_due(), Some(at(12)));
    // What is known is no news; what happened meanwhile is.
    next.found_running("a", at(0));
    next.found_ended("b", ended(1, 1, 2));
    assert_eq!(next.remember(), pod.remember());
    next.found_ended("b", ended(0, 12, 13));
    assert_eq!(next.slot("b").unwrap().restarts, 2);
    // A machine that was started anew: what ran is lost.
    let mut booted = fresh();
    booted.recall(pod.remember());
    booted.lost(at(20));
    assert_eq!(booted.due(at(20)), ["a", "b"]);
    booted.started("a", at(20));
    assert_eq!(booted.slot("a").unwrap().restarts, 1);
}

proptest! {
    /// Whatever happens in whatever order: no pause is longer than five minutes, and a container
    /// runs, is due, or has ended for good.
    #[test]
    fn nothing_is_forgotten(steps in proptest::collection::vec((0usize..2, 0i32..3, 0i64..700), 1..60)) {
        let mut pod = containers(RestartPolicy::OnFailure, &[], &["a", "b"]);
        let mut now = 0;
        for (index, what, wait) in steps {
            let name = ["a", "b"][index];
            match what {
                0 if pod.due(at(now)).iter().any(|n| n == name) => pod.started(name, at(now)),
                1 | 2 if matches!(pod.slot(name).unwrap().state, State::Running { .. }) => {
                    pod.ended(name, ended(what - 1, now - wait, now));
                }
                _ => {}
            }
            for slot in pod.slots() {
                if let State::Waiting { due, .. } = slot.state {
                    prop_assert!(due.duration_since(at(now)) <= jiff::SignedDuration::from_mins(5));
                }
            }
            now += wait;
        }
        pod.lost(at(now));
        prop_assert!(!pod.any_running());
    }
}

#[test]
fn a_clock_that_is_set_back_holds_nothing_up() {
    let mut pod = containers(RestartPolicy::Always, &[], &["a"]);
    pod.hold_up("a", String::new(), at(3_600));
    assert!(pod.due(at(3_500)).is_empty(), "within a pause");
    assert_eq!(pod.due(at(0)), ["a"]);
}

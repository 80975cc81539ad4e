use proptest::prelude::*;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn ended(exit_code: i32, started: i64, finished: i64) -> Ended {
    Ended {
        exit_code,
        signal: None,
        reason: "Error",
        started_at: Some(at(started)),
        finished_at: at(finished),
    }
}

fn containers(policy: RestartPolicy, init: &[&str], main: &[&str]) -> Containers {
    let slots = |names: &[&str]| names.iter().map(|n| Slot::new(n, 0, at(0))).collect();
    Containers::new(policy, slots(init), slots(main))
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
                    prop_assert!(due.duration_since(at(now)) <= BACK_OFF_MAX);
                }
            }
            now += wait;
        }
        pod.lost(at(now));
        prop_assert!(!pod.any_running());
    }
}

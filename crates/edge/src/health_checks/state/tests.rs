use proptest::prelude::*;

use super::*;
use crate::settings::HealthProbe;

fn check(healthy_threshold: u32, unhealthy_threshold: u32) -> HealthCheck {
    HealthCheck {
        probe: HealthProbe::Tcp,
        port: None,
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(5),
        healthy_threshold,
        unhealthy_threshold,
    }
}

fn after(health: &mut HealthState, answers: &[bool]) -> bool {
    for answer in answers {
        health.count(*answer);
    }
    health.is_healthy()
}

#[test]
fn results_in_a_row_reach_the_threshold() {
    let mut health = HealthState::new(&check(3, 2), Duration::ZERO, 0);
    assert!(health.is_healthy());
    assert!(after(&mut health, &[false, true, false]));
    assert!(!after(&mut health, &[false]));
    assert!(!after(&mut health, &[true, true, false, true, true]));
    assert!(after(&mut health, &[true]));
}

#[test]
fn checks_start_at_their_interval() {
    let mut health = HealthState::new(&check(1, 1), Duration::from_secs(100), u32::MAX / 2);
    let first = health.due().expect("a due check");
    assert!(first > Duration::from_secs(104) && first < Duration::from_secs(106));
    health.start(first);
    assert_eq!(health.due(), None);
    health.count(true);
    assert_eq!(health.due(), Some(first + Duration::from_secs(10)));
    let late = first + Duration::from_secs(95);
    health.start(late);
    health.count(true);
    assert_eq!(health.due(), Some(late));
}

#[test]
fn shorter_interval_applies_at_once() {
    let mut health = HealthState::new(&check(1, 1), Duration::ZERO, u32::MAX);
    let mut shorter = check(1, 1);
    shorter.interval = Duration::from_secs(2);
    health.set(&shorter, Duration::from_secs(1));
    assert_eq!(health.due(), Some(Duration::from_secs(3)));
}

proptest! {
    #[test]
    fn health_changes_exactly_at_the_threshold(
        answers in prop::collection::vec(any::<bool>(), 0..40),
        healthy in 1..4_u32,
        unhealthy in 1..4_u32,
    ) {
        let mut health = HealthState::new(&check(healthy, unhealthy), Duration::ZERO, 0);
        let mut expected = true;
        for end in 0..answers.len() {
            let seen = &answers[..=end];
            let last = seen[end];
            let run = seen.iter().rev().take_while(|answer| **answer == last).count() as u32;
            if last != expected && run >= if last { healthy } else { unhealthy } {
                expected = last;
            }
            prop_assert_eq!(health.count(answers[end]), expected != health_before(&answers, end, healthy, unhealthy));
            prop_assert_eq!(health.is_healthy(), expected);
        }
    }
}

/// Returns the health before the result at `end`.
fn health_before(answers: &[bool], end: usize, healthy: u32, unhealthy: u32) -> bool {
    let (mut held, mut run, mut last) = (true, 0, true);
    for answer in &answers[..end] {
        run = if *answer == last { run + 1 } else { 1 };
        last = *answer;
        if last != held && run >= if last { healthy } else { unhealthy } {
            held = last;
        }
    }
    held
}

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

fn after(health: &mut Health, answers: &[bool]) -> bool {
    for answer in answers {
        health.count(*answer);
    }
    health.is_healthy()
}

#[test]
fn enough_answers_in_a_row_change_it() {
    let mut health = Health::new(&check(3, 2), Duration::ZERO, 0);
    assert!(health.is_healthy());
    assert!(after(&mut health, &[false, true, false]));
    assert!(!after(&mut health, &[false]));
    assert!(!after(&mut health, &[true, true, false, true, true]));
    assert!(after(&mut health, &[true]));
}

#[test]
fn checks_begin_at_their_interval() {
    let mut health = Health::new(&check(1, 1), Duration::from_secs(100), u32::MAX / 2);
    let first = health.due().expect("it is to be asked");
    assert!(first > Duration::from_secs(104) && first < Duration::from_secs(106));
    health.begin(first);
    assert_eq!(health.due(), None);
    health.count(true);
    assert_eq!(health.due(), Some(first + Duration::from_secs(10)));
    let late = first + Duration::from_secs(95);
    health.begin(late);
    health.count(true);
    assert_eq!(health.due(), Some(late));
}

#[test]
fn a_shorter_interval_counts_at_once() {
    let mut health = Health::new(&check(1, 1), Duration::ZERO, u32::MAX);
    let mut shorter = check(1, 1);
    shorter.interval = Duration::from_secs(2);
    health.set(&shorter, Duration::from_secs(1));
    assert_eq!(health.due(), Some(Duration::from_secs(3)));
}

proptest! {
    #[test]
    fn it_changes_exactly_after_as_many_in_a_row_as_asked(
        answers in prop::collection::vec(any::<bool>(), 0..40),
        healthy in 1..4_u32,
        unhealthy in 1..4_u32,
    ) {
        let mut health = Health::new(&check(healthy, unhealthy), Duration::ZERO, 0);
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

/// What it was held for before the answer at `end`.
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

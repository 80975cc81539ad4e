use super::*;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn third_failure_in_a_row_ejects() {
    let mut ejection = Ejection::default();
    assert_eq!(ejection.count_failure(seconds(1)), None);
    assert_eq!(ejection.count_failure(seconds(1)), None);
    ejection = Ejection::default();
    assert_eq!(ejection.count_failure(seconds(1)), None);
    assert_eq!(ejection.count_failure(seconds(1)), None);
    assert_eq!(ejection.count_failure(seconds(1)), Some(seconds(6)));
    assert_eq!(ejection.count_failure(seconds(2)), Some(seconds(6)));
}

#[test]
fn repeated_ejections_grow_up_to_the_maximum() {
    let mut ejection = Ejection::default();
    let mut now = seconds(0);
    assert_eq!(
        (ejection.count_failure(now), ejection.count_failure(now)),
        (None, None)
    );
    let mut durations = Vec::new();
    for _ in 0..40 {
        let until = ejection.count_failure(now).expect("an ejection");
        durations.push((until - now).as_secs());
        now = until;
    }
    assert_eq!(durations[..6], [5, 10, 20, 40, 80, 120]);
    assert!(durations[6..].iter().all(|duration| *duration == 120));
    ejection = Ejection::default();
    assert_eq!(ejection.count_failure(now), None);
}

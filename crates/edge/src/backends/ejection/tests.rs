use super::*;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn the_third_failure_in_a_row_ejects() {
    let mut ejection = Ejection::default();
    assert_eq!(ejection.failed(seconds(1)), None);
    assert_eq!(ejection.failed(seconds(1)), None);
    ejection.succeeded();
    assert_eq!(ejection.failed(seconds(1)), None);
    assert_eq!(ejection.failed(seconds(1)), None);
    assert_eq!(ejection.failed(seconds(1)), Some(seconds(6)));
    assert_eq!(ejection.failed(seconds(2)), Some(seconds(6)));
}

#[test]
fn each_time_in_a_row_is_longer_up_to_the_bound() {
    let mut ejection = Ejection::default();
    let mut now = seconds(0);
    assert_eq!((ejection.failed(now), ejection.failed(now)), (None, None));
    let mut pauses = Vec::new();
    for _ in 0..40 {
        let until = ejection.failed(now).expect("it is ejected");
        pauses.push((until - now).as_secs());
        now = until;
    }
    assert_eq!(pauses[..6], [5, 10, 20, 40, 80, 120]);
    assert!(pauses[6..].iter().all(|pause| *pause == 120));
    ejection.succeeded();
    assert_eq!(ejection.failed(now), None);
}

use super::*;

#[tokio::test(start_paused = true)]
async fn connections_end_between_nine_tenths_and_the_maximum_age() {
    let age = Duration::from_secs(100);
    let policy = Policy {
        connection_age_max: Some(age),
        ..Policy::default()
    };
    let begin = Instant::now();
    let ends: Vec<Duration> = (0..100)
        .filter_map(|_| end_of_age(&policy))
        .map(|end| end - begin)
        .collect();
    assert_eq!(ends.len(), 100);
    assert!(
        ends.iter()
            .all(|end| (Duration::from_secs(90)..=age).contains(end)),
        "{ends:?}"
    );
    assert!(ends.iter().any(|end| *end != ends[0]));
    assert_eq!(
        until_end_of_age(&policy, std::future::pending::<()>()).await,
        None
    );
    assert_eq!(until_end_of_age(&policy, async { 1 }).await, Some(1));
}

#[tokio::test(start_paused = true)]
async fn connections_without_maximum_age_have_no_end() {
    assert_eq!(end_of_age(&Policy::default()), None);
    assert_eq!(share(Duration::MAX, 1_000), Duration::MAX / 1_000 * 1_000);
}

use super::*;

/// Otherwise, a tenant with many ports occupies the thread and the file descriptors.
#[tokio::test(start_paused = true)]
async fn health_checks_of_a_namespace_leave_time_to_others() {
    let [many, other] = [(); 2].map(|()| CheckLimits::new());
    let begun = Instant::now();
    let mut running = Vec::new();
    for _ in 0..CONCURRENT_MAX {
        running.push(many.start().await);
    }
    assert!(begun.elapsed() >= START_INTERVAL * 255, "starts are spread");
    let further = time::timeout(Duration::from_secs(1), many.start()).await;
    assert!(further.is_err(), "as many as may run");
    let now = Instant::now();
    assert!(other.start().await.is_some());
    assert_eq!(now.elapsed(), Duration::ZERO);
    running.pop();
    assert!(many.start().await.is_some());
}

use super::*;

const PERIOD: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn demand_lasts_some_minutes_after_the_last_reader() {
    let demand = Arc::new(Demand::default());
    let waiting = tokio::time::timeout(Duration::from_secs(3_600), demand.requested());
    assert!(waiting.await.is_err(), "there is no reader");
    let reader = Demand::reader(&demand);
    demand.requested().await;
    let ended = tokio::time::timeout(2 * IDLE_TIMEOUT, demand.ended(PERIOD)).await;
    assert!(ended.is_err(), "the reader stays");
    let left = Instant::now();
    drop(reader);
    demand.ended(PERIOD).await;
    assert!(left.elapsed() >= IDLE_TIMEOUT);
    assert_eq!(demand.readers(), 0);
}

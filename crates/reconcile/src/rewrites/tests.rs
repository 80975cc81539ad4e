use super::{LARGE_BYTES, count, measured};

#[tokio::test]
async fn large_objects_of_a_job_count() {
    count(LARGE_BYTES);
    let job = async {
        count(LARGE_BYTES - 1);
        count(LARGE_BYTES);
        tokio::task::yield_now().await;
        count(2 * LARGE_BYTES);
        "done"
    };
    assert_eq!(measured(job).await, ("done", 3 * LARGE_BYTES));
    assert_eq!(measured(async {}).await, ((), 0));
}

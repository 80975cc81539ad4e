//! Priority of the threads.

use rustix::process::getpriority_process;
use rustix::thread::gettid;

use super::{BackgroundThreads, NICE};

#[tokio::test]
async fn tasks_run_on_threads_of_lower_priority() {
    let own = getpriority_process(Some(gettid())).expect("own nice value");
    let threads = BackgroundThreads::default();
    let nice = threads
        .handle()
        .expect("threads")
        .spawn(async { getpriority_process(Some(gettid())) });
    let nice = nice.await.expect("no panic").expect("nice value of the thread");
    assert_eq!(nice, NICE.max(own));
    let after = getpriority_process(Some(gettid())).expect("own nice value");
    assert_eq!(after, own, "other threads keep their nice value");
}

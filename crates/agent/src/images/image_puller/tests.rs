use std::time::Duration;

use ::images::StoreSettings;
use tokio::net::TcpListener;

use super::*;

#[tokio::test]
async fn pull_ends_when_nobody_waits() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = ImageStore::open(directory.path(), StoreSettings::default()).expect("a store");
    let puller = ImagePuller::new(store);
    // The registry never answers.
    let registry = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
    let address = registry.local_addr().expect("an address");
    let reference: Reference = format!("{address}/team/web:1").parse().expect("a name");
    let pull = puller.pull(&reference, Vec::new());
    let waited = tokio::time::timeout(Duration::from_millis(100), pull).await;
    assert!(waited.is_err(), "the pull waits for the registry");
    let is_running = || !puller.running.lock().expect("the pulls").is_empty();
    for _ in 0..500 {
        if !is_running() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the pull goes on");
}

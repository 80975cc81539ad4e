use std::time::Duration;

use ::images::StoreSettings;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::*;

fn access_of(directory: &tempfile::TempDir) -> Arc<ImageAccess> {
    Arc::new(ImageAccess::open(directory.path().join("access.json")))
}

#[tokio::test]
async fn pull_ends_when_nobody_waits() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = ImageStore::open(directory.path(), StoreSettings::default()).expect("a store");
    let puller = ImagePuller::new(store, access_of(&directory));
    // The registry never answers.
    let registry = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
    let address = registry.local_addr().expect("an address");
    let reference: Reference = format!("{address}/team/web:1").parse().expect("a name");
    let pull = puller.pull("team", &reference, Vec::new());
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

/// A registry that never answers delays the pulls of its namespace only.
#[tokio::test]
async fn pulls_of_one_namespace_leave_permits_to_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = ImageStore::open(directory.path(), StoreSettings::default()).expect("a store");
    let puller = Arc::new(ImagePuller::new(store, access_of(&directory)));
    let registry = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
    let address = registry.local_addr().expect("an address");
    let pull = |namespace: &'static str, repository: &str| {
        let reference: Reference = format!("{address}/{repository}:1").parse().expect("a name");
        let puller = Arc::clone(&puller);
        tokio::spawn(async move { puller.pull(namespace, &reference, Vec::new()).await })
    };
    let slow = (0..=PULLS_MAX).map(|number| pull("slow", &format!("slow/{number}")));
    let mut pulls: Vec<_> = slow.collect();
    let mut connections = Vec::new();
    for _ in 0..PULLS_OF_NAMESPACE_MAX {
        connections.push(registry.accept().await.expect("a connection"));
    }
    pulls.push(pull("other", "other/web"));
    let next = tokio::time::timeout(Duration::from_secs(20), registry.accept()).await;
    let (mut connection, _) = next.expect("a connection in time").expect("a connection");
    let mut request = [0; 1024];
    let length = connection.read(&mut request).await.expect("a request");
    let request = String::from_utf8_lossy(&request[..length]).into_owned();
    assert!(request.contains("/other/web/"), "{request}");
    pulls.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Otherwise, the owner of two namespaces stops the pulls of a node for hours.
#[tokio::test]
async fn slow_pulls_of_several_namespaces_leave_their_places_to_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = ImageStore::open(directory.path(), StoreSettings::default()).expect("a store");
    let mut puller = ImagePuller::new(store, access_of(&directory));
    puller.place_time_max = Duration::from_millis(100);
    let puller = Arc::new(puller);
    let registry = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
    let address = registry.local_addr().expect("an address");
    let names = (0..PULLS_MAX).map(|number| format!("slow-{}", number / PULLS_OF_NAMESPACE_MAX));
    let names = names.chain(["other".to_owned()]).enumerate();
    let pulls = names.map(|(number, namespace)| {
        let reference: Reference = format!("{address}/team/{number}:1").parse().expect("a name");
        let puller = Arc::clone(&puller);
        tokio::spawn(async move { puller.pull(&namespace, &reference, Vec::new()).await })
    });
    let pulls: Vec<_> = pulls.collect();
    let mut connections = Vec::new();
    for _ in &pulls {
        let next = tokio::time::timeout(Duration::from_secs(20), registry.accept()).await;
        connections.push(next.expect("a connection in time").expect("a connection"));
    }
    pulls.iter().for_each(tokio::task::JoinHandle::abort);
}

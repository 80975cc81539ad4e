use store::{SqliteOptions, SqliteStore};

use super::*;

#[tokio::test]
async fn server_is_live_until_it_leaves_or_its_record_expires() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("store"), SqliteOptions::default()).unwrap();
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    let (one, two) = ([ip("192.0.2.1"), ip("fd00::1")], [ip("192.0.2.2")]);
    let all = [ip("192.0.2.1"), ip("192.0.2.2"), ip("fd00::1")];
    let begin = Instant::now();
    let after = |seconds| begin + Duration::from_secs(seconds);
    let mut servers = ApiServers::default();
    renew(&store, &one).await.unwrap();
    renew(&store, &two).await.unwrap();
    assert_eq!(servers.live_addresses(&store, begin).await.unwrap(), all);
    // The record of one server is renewed with the same content.
    renew(&store, &two).await.unwrap();
    assert_eq!(servers.live_addresses(&store, after(10)).await.unwrap(), all);
    assert_eq!(servers.live_addresses(&store, after(16)).await.unwrap(), two);
    // A new observer trusts the records that it finds; the expired one is deleted.
    let mut newcomer = ApiServers::default();
    assert_eq!(newcomer.live_addresses(&store, after(16)).await.unwrap(), two);
    renew(&store, &one).await.unwrap();
    assert_eq!(servers.live_addresses(&store, after(17)).await.unwrap(), all);
    leave(&store, &two).await.unwrap();
    assert_eq!(servers.live_addresses(&store, after(17)).await.unwrap(), one);
    renew(&store, &[]).await.unwrap();
}

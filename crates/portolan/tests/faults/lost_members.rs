//! Two API servers on three etcd members: acknowledged writes persist and clients continue after the loss of
//! a member and of a server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use client::{Client, JSON};
use http::Method;
use serde_json::{Value, json};
use testbed::EtcdServer;
use tokio::task::JoinSet;

use crate::client_of;
use crate::support::Api;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const MEMBERS: usize = 3;
const WRITERS: usize = 6;
/// Services that each writer creates.
const SERVICES_EACH: usize = 60;
/// Attempts of one request at most. With [`PAUSE`] between them they outlast an election of etcd.
const ATTEMPTS_MAX: usize = 200;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

#[test]
fn acknowledged_writes_survive_the_loss_of_a_member_and_a_server() {
    if !EtcdServer::is_installed() {
        println!(
            "skipped: acknowledged_writes_survive_the_loss_of_a_member_and_a_server: etcd is not installed"
        );
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut members = EtcdServer::start_cluster(directory.path(), MEMBERS).expect("a cluster");
    let mut urls: Vec<String> = members.iter().map(EtcdServer::url).collect();
    let mut one = Api::start_on_members(&urls);
    urls.rotate_left(1);
    let other = Api::start_on_members(&urls);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (acknowledged, listed) = runtime.block_on(async {
        let clients = [client_of(&one), client_of(&other)];
        let written = Arc::new(AtomicUsize::new(0));
        let mut writers = JoinSet::new();
        for number in 0..WRITERS {
            let mut clients = clients.clone();
            clients.rotate_left(number % 2);
            writers.spawn(write(clients, number, Arc::clone(&written)));
        }
        // The first server uses the member that is first in its list. The member is killed, then the server.
        let part = WRITERS * SERVICES_EACH / 4;
        wait_for_writes(&written, part).await;
        members[0].kill();
        wait_for_writes(&written, 2 * part).await;
        one.kill();
        wait_for_writes(&written, 3 * part).await;
        members[0].run().expect("a restarted member");
        // The second server may have switched to this member.
        members[1].kill();
        let acknowledged: Vec<Value> = writers.join_all().await.into_iter().flatten().collect();
        (acknowledged, list(&clients[1]).await)
    });
    let stored: BTreeMap<&str, &Value> = listed["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|service| (name_of(service), service))
        .collect();
    assert_eq!(acknowledged.len(), WRITERS * SERVICES_EACH);
    assert_eq!(
        stored.len(),
        acknowledged.len() + 1,
        "all Services, and the Service kubernetes"
    );
    for service in &acknowledged {
        let found = stored.get(name_of(service)).expect("an acknowledged Service");
        assert_eq!(found["spec"], service["spec"]);
        assert_eq!(found["metadata"]["uid"], service["metadata"]["uid"]);
    }
    // The remaining members have no address or port that is duplicate, leaked or unrecorded.
    let verify = std::process::Command::new(env!("CARGO_BIN_EXE_portolan"))
        .args(["store", "verify", &urls.join(",")])
        .output()
        .expect("the binary under test");
    let text = String::from_utf8_lossy(&verify.stdout);
    assert!(verify.status.success(), "{text}");
}

fn name_of(service: &Value) -> &str {
    service["metadata"]["name"].as_str().expect("a name")
}

/// Waits for a number of acknowledged writes.
async fn wait_for_writes(written: &AtomicUsize, count: usize) {
    while written.load(Ordering::Relaxed) < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Lists all Services, with retries until the server finds a member.
async fn list(client: &Client) -> Value {
    for _ in 0..ATTEMPTS_MAX {
        match client.get(SERVICES).await {
            Ok(listed) => return listed,
            Err(error) => assert_eq!(error.code(), Some(503), "{error}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("Services were not listed in {ATTEMPTS_MAX} attempts");
}

/// Creates Services through the first server, and through the other one after failures.
async fn write(clients: [Client; 2], writer: usize, written: Arc<AtomicUsize>) -> Vec<Value> {
    let mut acknowledged = Vec::new();
    for number in 0..SERVICES_EACH {
        acknowledged.push(create(&clients, &format!("s-{writer}-{number}")).await);
        written.fetch_add(1, Ordering::Relaxed);
    }
    acknowledged
}

/// Creates a Service with retries. A write with an unknown outcome is repeated; after a conflict the existing
/// Service is read.
async fn create(clients: &[Client; 2], name: &str) -> Value {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "NodePort", "ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 80}]},
    });
    for attempt in 0..ATTEMPTS_MAX {
        let client = &clients[attempt % clients.len()];
        match client.request(Method::POST, SERVICES, JSON, Some(&service)).await {
            Ok(created) => return created,
            Err(error) if error.code() == Some(409) => {
                if let Ok(found) = client.get(&format!("{SERVICES}/{name}")).await {
                    return found;
                }
            }
            Err(error) => assert!(matches!(error.code(), None | Some(503)), "{name}: {error}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("{name} was not created in {ATTEMPTS_MAX} attempts");
}

//! Three members of etcd and two API servers, of which a member and then a server are killed while clients write: what
//! was acknowledged is there, nothing is doubled, and the clients get on.

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
/// How often a client tries one write, and the pause between: beyond what an election of etcd takes.
const TRIES_MAX: usize = 200;
const PAUSE: Duration = Duration::from_millis(100);

#[test]
fn what_was_acknowledged_outlives_a_member_and_a_server() {
    if !EtcdServer::is_installed() {
        println!("skipped: what_was_acknowledged_outlives_a_member_and_a_server: etcd is not installed");
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
        // The member that the first server follows, as it is named first; then the server itself.
        let part = WRITERS * SERVICES_EACH / 4;
        reached(&written, part).await;
        members[0].kill();
        reached(&written, 2 * part).await;
        one.kill();
        reached(&written, 3 * part).await;
        members[0].run().expect("the member again");
        // Now the member that the second server may have gone over to, or not.
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
    assert_eq!(stored.len(), acknowledged.len() + 1, "and the Service kubernetes");
    for service in &acknowledged {
        let found = stored
            .get(name_of(service))
            .expect("what was acknowledged is there");
        assert_eq!(found["spec"], service["spec"]);
        assert_eq!(found["metadata"]["uid"], service["metadata"]["uid"]);
    }
    // No address or port is doubled, leaked or unrecorded, by the word of the members that are left.
    let verify = std::process::Command::new(env!("CARGO_BIN_EXE_portolan"))
        .args(["store", "verify", &urls.join(",")])
        .output()
        .expect("the binary under test starts");
    let said = String::from_utf8_lossy(&verify.stdout);
    assert!(verify.status.success(), "{said}");
}

fn name_of(service: &Value) -> &str {
    service["metadata"]["name"].as_str().expect("a name")
}

/// Waits until so many writes were acknowledged.
async fn reached(written: &AtomicUsize, count: usize) {
    while written.load(Ordering::Relaxed) < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Reads all Services, as soon as the server finds a member again.
async fn list(client: &Client) -> Value {
    for _ in 0..TRIES_MAX {
        match client.get(SERVICES).await {
            Ok(listed) => return listed,
            Err(error) => assert_eq!(error.code(), Some(503), "{error}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("Services were not listed in {TRIES_MAX} attempts");
}

/// Creates Services through the first of the servers, or the other one when that does not do it.
async fn write(clients: [Client; 2], writer: usize, written: Arc<AtomicUsize>) -> Vec<Value> {
    let mut acknowledged = Vec::new();
    for number in 0..SERVICES_EACH {
        acknowledged.push(create(&clients, &format!("s-{writer}-{number}")).await);
        written.fetch_add(1, Ordering::Relaxed);
    }
    acknowledged
}

/// Creates a Service as a client does that gives up only what makes no sense: a write whose outcome is not known is
/// made again, and one that had happened all the same is read.
async fn create(clients: &[Client; 2], name: &str) -> Value {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "NodePort", "ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 80}]},
    });
    for attempt in 0..TRIES_MAX {
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
    panic!("{name} was not created in {TRIES_MAX} attempts");
}

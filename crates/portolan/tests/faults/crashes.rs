//! kill -9 of the API server at any moment: what it has acknowledged is there, and nothing leaks.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use client::{Client, ClientError, JSON};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client_of;
use crate::support::Api;

/// How often the server is killed; more by the environment variable [`KILLS_VARIABLE`].
const KILLS: u64 = 20;
const KILLS_VARIABLE: &str = "PORTOLAN_TEST_KILLS";
/// Different moments of kills, by turns.
const MOMENTS: u64 = 20;
/// Services that are left when a round begins: there are 2,768 node ports.
const PRESENT_MAX: usize = 500;
const WRITERS: usize = 8;
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// What clients know.
#[derive(Default)]
struct Ledger {
    /// Services whose creation was acknowledged, as they were answered.
    present: HashMap<String, Value>,
    /// Services whose deletion was acknowledged.
    deleted: HashSet<String>,
    /// Services about which the last request was never answered.
    unsure: HashSet<String>,
}

#[test]
fn nothing_acknowledged_is_lost() {
    let kills = std::env::var(KILLS_VARIABLE)
        .ok()
        .and_then(|kills| kills.parse().ok());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut api = Api::start();
    let mut ledger = Ledger::default();
    for round in 0..kills.unwrap_or(KILLS) {
        let client = client_of(&api);
        runtime.block_on(async {
            if ledger.present.len() > PRESENT_MAX {
                sweep(&client, &mut ledger).await;
            }
            let mut writers = JoinSet::new();
            for writer in 0..WRITERS {
                writers.spawn(write_until_cut(client.clone(), format!("s-{round}-{writer}")));
            }
            // Another moment in each round, from before the first answer on.
            tokio::time::sleep(Duration::from_millis(2 + 9 * (round % MOMENTS))).await;
            api.kill();
            for known in writers.join_all().await {
                ledger.present.extend(known.present);
                ledger.deleted.extend(known.deleted);
                ledger.unsure.extend(known.unsure);
            }
        });
        verify(&api);
        api.run();
    }
    assert!(!ledger.present.is_empty() && !ledger.deleted.is_empty());
    runtime.block_on(check(&client_of(&api), &ledger));
    println!(
        "{} acknowledged creations, {} deletions",
        ledger.present.len() + ledger.deleted.len(),
        ledger.deleted.len()
    );
}

/// Nothing that the crash left contradicts itself.
fn verify(api: &Api) {
    let verify = Command::new(env!("CARGO_BIN_EXE_portolan"))
        .args(["store", "verify"])
        .arg(api.directory.path().join("data"))
        .output()
        .expect("the binary under test starts");
    let (said, complained) = (
        String::from_utf8_lossy(&verify.stdout),
        String::from_utf8_lossy(&verify.stderr),
    );
    assert!(verify.status.success(), "{said}{complained}");
}

/// Checks what is there, then deletes all of it to make room.
async fn sweep(client: &Client, ledger: &mut Ledger) {
    check(client, ledger).await;
    let mut names: Vec<String> = by_name(client, SERVICES).await.into_keys().collect();
    names.retain(|name| name != "kubernetes");
    let mut deletions = JoinSet::new();
    for share in names.chunks(names.len().div_ceil(WRITERS).max(1)) {
        let (client, share) = (client.clone(), share.to_vec());
        deletions.spawn(async move {
            for name in share {
                let path = format!("{SERVICES}/{name}");
                let deleted = client.send(Method::DELETE, &path, JSON, Bytes::new()).await;
                deleted.expect("a deletion");
            }
        });
    }
    deletions.join_all().await;
    ledger.unsure.clear();
    ledger.present.clear();
    ledger.deleted.extend(names);
}

/// Creates Services of all types by turns and deletes some, until the server does not answer.
async fn write_until_cut(client: Client, prefix: String) -> Ledger {
    let mut known = Ledger::default();
    for number in 0.. {
        let name = format!("{prefix}-{number}");
        let mut service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]},
        });
        match number % 3 {
            0 => service["spec"]["type"] = "NodePort".into(),
            1 => service["spec"]["ipFamilyPolicy"] = "PreferDualStack".into(),
            _ => {}
        }
        match client.request(Method::POST, SERVICES, JSON, Some(&service)).await {
            Ok(created) => known.present.insert(name.clone(), created),
            Err(error) => return cut(known, name, &error),
        };
        // Half of each type.
        if number % 2 == 0 {
            let created = known.present.remove(&name);
            assert!(created.is_some());
            let path = format!("{SERVICES}/{name}");
            match client.request(Method::DELETE, &path, JSON, None).await {
                Ok(_) => known.deleted.insert(name),
                Err(error) => return cut(known, name, &error),
            };
        }
    }
    known
}

fn cut(mut known: Ledger, name: String, error: &ClientError) -> Ledger {
    assert_eq!(error.code(), None, "an answer that is no success: {error}");
    known.unsure.insert(name);
    known
}

async fn check(client: &Client, ledger: &Ledger) {
    let services = by_name(client, SERVICES).await;
    for (name, acknowledged) in &ledger.present {
        let stored = services.get(name).unwrap_or_else(|| panic!("{name} is lost"));
        assert_eq!(stored["spec"], acknowledged["spec"], "{name}");
        assert_eq!(stored["metadata"]["uid"], acknowledged["metadata"]["uid"]);
    }
    for name in services.keys().filter(|name| *name != "kubernetes") {
        assert!(!ledger.deleted.contains(name), "{name} came back");
        let known = ledger.present.contains_key(name) || ledger.unsure.contains(name);
        assert!(known, "nobody created {name}");
    }
    let mut owners = BTreeMap::new();
    let mut node_ports = BTreeSet::new();
    for (name, service) in &services {
        for address in service["spec"]["clusterIPs"].as_array().expect("cluster IPs") {
            let other = owners.insert(address.as_str().expect("an address").to_owned(), name.clone());
            assert_eq!(other, None, "{address} is given out twice");
        }
        for port in service["spec"]["ports"].as_array().expect("ports") {
            if let Some(number) = port["nodePort"].as_u64() {
                assert!(node_ports.insert(number), "node port {number} is given out twice");
            }
        }
    }
    let addresses = by_name(client, "/apis/networking.k8s.io/v1/ipaddresses").await;
    let recorded: BTreeMap<String, String> = addresses
        .into_iter()
        .map(|(address, object)| (address, text(&object["spec"]["parentRef"]["name"])))
        .collect();
    assert_eq!(recorded, owners, "IPAddresses and Services");
    let metrics = client.send(Method::GET, "/metrics", JSON, Bytes::new()).await;
    let metrics = String::from_utf8(metrics.expect("metrics").to_vec()).expect("text");
    let allocated = format!(
        "\nkube_apiserver_nodeport_allocator_allocated_ports {}\n",
        node_ports.len()
    );
    assert!(metrics.contains(&allocated), "{allocated} is not in {metrics}");
}

async fn by_name(client: &Client, path: &str) -> BTreeMap<String, Value> {
    let list: Value = client.get(path).await.expect("a list");
    let items = list["items"].as_array().expect("items").clone();
    items
        .into_iter()
        .map(|item| (text(&item["metadata"]["name"]), item))
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

//! SIGKILL of the API server at any moment: acknowledged writes persist, and no address or port leaks.

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

/// Default for the environment variable [`KILLS_VARIABLE`].
const KILLS: u64 = 20;
/// Environment variable with the number of crashes.
const KILLS_VARIABLE: &str = "PORTOLAN_TEST_KILLS";
/// Delays before a crash, in rotation.
const DELAYS: u64 = 20;
/// Services at the beginning of a round at most: there are 2,768 node ports.
const PRESENT_MAX: usize = 500;
const WRITERS: usize = 8;
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Outcomes of requests as clients observed them.
#[derive(Default)]
struct Ledger {
    /// Services whose creation was acknowledged, as in the response.
    present: HashMap<String, Value>,
    /// Services whose deletion was acknowledged.
    deleted: HashSet<String>,
    /// Services whose last request had no response.
    unknown: HashSet<String>,
}

#[test]
fn acknowledged_writes_survive_crashes() {
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
                check_and_delete(&client, &mut ledger).await;
            }
            let mut writers = JoinSet::new();
            for writer in 0..WRITERS {
                writers.spawn(write_until_crash(client.clone(), format!("s-{round}-{writer}")));
            }
            // The delay differs in each round. The first one ends before the first response.
            tokio::time::sleep(Duration::from_millis(2 + 9 * (round % DELAYS))).await;
            api.kill();
            for outcomes in writers.join_all().await {
                ledger.present.extend(outcomes.present);
                ledger.deleted.extend(outcomes.deleted);
                ledger.unknown.extend(outcomes.unknown);
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

/// Checks the consistency of the data after a crash.
fn verify(api: &Api) {
    let verify = Command::new(env!("CARGO_BIN_EXE_portolan"))
        .args(["store", "verify"])
        .arg(api.directory.path().join("data"))
        .output()
        .expect("the binary under test");
    let (output, errors) = (
        String::from_utf8_lossy(&verify.stdout),
        String::from_utf8_lossy(&verify.stderr),
    );
    assert!(verify.status.success(), "{output}{errors}");
}

/// Checks all Services, then deletes them to free their addresses and ports.
async fn check_and_delete(client: &Client, ledger: &mut Ledger) {
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
                deleted.expect("a deleted Service");
            }
        });
    }
    deletions.join_all().await;
    ledger.unknown.clear();
    ledger.present.clear();
    ledger.deleted.extend(names);
}

/// Creates Services of all types in rotation and deletes half of them, until a request has no response.
async fn write_until_crash(client: Client, prefix: String) -> Ledger {
    let mut ledger = Ledger::default();
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
            Ok(created) => ledger.present.insert(name.clone(), created),
            Err(error) => return with_unknown(ledger, name, &error),
        };
        // Half of the Services of each type are deleted.
        if number % 2 == 0 {
            let created = ledger.present.remove(&name);
            assert!(created.is_some());
            let path = format!("{SERVICES}/{name}");
            match client.request(Method::DELETE, &path, JSON, None).await {
                Ok(_) => ledger.deleted.insert(name),
                Err(error) => return with_unknown(ledger, name, &error),
            };
        }
    }
    ledger
}

/// Adds a Service whose request had no response.
fn with_unknown(mut ledger: Ledger, name: String, error: &ClientError) -> Ledger {
    assert_eq!(error.code(), None, "expected no response: {error}");
    ledger.unknown.insert(name);
    ledger
}

async fn check(client: &Client, ledger: &Ledger) {
    let services = by_name(client, SERVICES).await;
    for (name, acknowledged) in &ledger.present {
        let stored = services.get(name).unwrap_or_else(|| panic!("{name} is lost"));
        assert_eq!(stored["spec"], acknowledged["spec"], "{name}");
        assert_eq!(stored["metadata"]["uid"], acknowledged["metadata"]["uid"]);
    }
    for name in services.keys().filter(|name| *name != "kubernetes") {
        assert!(!ledger.deleted.contains(name), "{name} exists after its deletion");
        let known = ledger.present.contains_key(name) || ledger.unknown.contains(name);
        assert!(known, "{name} was never created");
    }
    let mut owners = BTreeMap::new();
    let mut node_ports = BTreeSet::new();
    for (name, service) in &services {
        for address in service["spec"]["clusterIPs"].as_array().expect("cluster IPs") {
            let other = owners.insert(address.as_str().expect("an address").to_owned(), name.clone());
            assert_eq!(other, None, "{address} is allocated twice");
        }
        for port in service["spec"]["ports"]
            .as_array()
            .expect("the ports of a Service")
        {
            if let Some(number) = port["nodePort"].as_u64() {
                assert!(node_ports.insert(number), "node port {number} is allocated twice");
            }
        }
    }
    let addresses = by_name(client, "/apis/networking.k8s.io/v1/ipaddresses").await;
    let recorded: BTreeMap<String, String> = addresses
        .into_iter()
        .map(|(address, object)| (address, text(&object["spec"]["parentRef"]["name"])))
        .collect();
    assert_eq!(recorded, owners, "IPAddresses match the Services");
    let metrics = client.send(Method::GET, "/metrics", JSON, Bytes::new()).await;
    let metrics = String::from_utf8(metrics.expect("metrics").to_vec()).expect("metrics in UTF-8");
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

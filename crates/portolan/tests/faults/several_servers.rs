//! Two API servers on one etcd: writes are visible on both, allocations are unique, and each server works without the
//! other.

use std::collections::BTreeSet;

use client::{Client, JSON};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client_of;
use crate::support::{Api, etcd};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const WRITERS: usize = 4;
const SERVICES_EACH: usize = 60;

#[test]
fn two_servers_share_allocations_and_work_independently() {
    let Some((etcd, _directory)) = etcd("two_servers_share_allocations_and_work_independently") else {
        return;
    };
    let (mut one, other) = (Api::start_on_etcd(&etcd), Api::start_on_etcd(&etcd));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let clients = [client_of(&one), client_of(&other)];
        let mut allocated = Allocated::default();
        create_through(&clients, "first", &mut allocated).await;
        reuse_addresses_across_servers(&clients, &allocated).await;
        one.kill();
        create_through(&clients[1..], "second", &mut allocated).await;
        one.run();
        let restarted = client_of(&one);
        let list: Value = restarted.get(SERVICES).await.expect("a list");
        let count = list["items"].as_array().map_or(0, Vec::len);
        assert_eq!(
            count,
            WRITERS * SERVICES_EACH * 3 + 1,
            "all Services, and the Service kubernetes"
        );
        create_through(&[restarted, clients[1].clone()], "third", &mut allocated).await;
    });
    let verify = std::process::Command::new(env!("CARGO_BIN_EXE_portolan"))
        .args(["store", "verify", &etcd.url()])
        .output()
        .expect("the binary under test");
    assert!(
        verify.status.success(),
        "{}",
        String::from_utf8_lossy(&verify.stdout)
    );
}

/// Allocated addresses and node ports.
#[derive(Default)]
struct Allocated {
    addresses: BTreeSet<String>,
    ports: BTreeSet<u64>,
}

/// Creates Services with several concurrent writers for each client.
async fn create_through(clients: &[Client], round: &str, allocated: &mut Allocated) {
    let mut writers = JoinSet::new();
    for (number, client) in clients.iter().enumerate() {
        for writer in 0..WRITERS {
            writers.spawn(create(client.clone(), format!("{round}-{number}-{writer}")));
        }
    }
    for service in writers.join_all().await.into_iter().flatten() {
        for address in service["spec"]["clusterIPs"].as_array().expect("cluster IPs") {
            let address = address.as_str().expect("an address").to_owned();
            assert!(
                allocated.addresses.insert(address.clone()),
                "{address} is allocated twice"
            );
        }
        let port = service["spec"]["ports"][0]["nodePort"]
            .as_u64()
            .expect("a node port");
        assert!(allocated.ports.insert(port), "{port} is allocated twice");
    }
}

async fn create(client: Client, prefix: String) -> Vec<Value> {
    let mut created = Vec::new();
    for number in 0..SERVICES_EACH {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("{prefix}-{number}")},
            "spec": {"type": "NodePort", "ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 80}]},
        });
        let response = client.request(Method::POST, SERVICES, JSON, Some(&service)).await;
        created.push(response.expect("a Service"));
    }
    created
}

/// Checks that each server reads the writes of the other at once, and allocates addresses that the other has released.
async fn reuse_addresses_across_servers(clients: &[Client; 2], allocated: &Allocated) {
    let is_free = |port: &u64| !allocated.ports.contains(port);
    let port = (30_000..32_768).find(is_free).expect("a free node port");
    let host = |number: &u8| !allocated.addresses.contains(&format!("10.96.0.{number}"));
    // The API server and DNS have the first addresses.
    let host = (20..=u8::MAX).find(host).expect("a free address");
    let service = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "NodePort", "clusterIP": format!("10.96.0.{host}"), "ports": [{"port": 80, "nodePort": port}]},
        })
    };
    for round in 0..20 {
        let [writer, reader] = if round % 2 == 0 { [0, 1] } else { [1, 0] }.map(|number| &clients[number]);
        let name = format!("reused-{round}");
        let created = writer
            .request(Method::POST, SERVICES, JSON, Some(&service(&name)))
            .await;
        let created = created.expect("a Service with a free address and port");
        let path = format!("{SERVICES}/{name}");
        let read: Value = reader.get(&path).await.expect("the Service on the other server");
        assert_eq!(read, created);
        let taken = reader
            .request(Method::POST, SERVICES, JSON, Some(&service("another")))
            .await;
        assert_eq!(taken.expect_err("an allocated address").code(), Some(422));
        let again = reader
            .request(Method::POST, SERVICES, JSON, Some(&service(&name)))
            .await;
        assert_eq!(
            again.expect_err("an existing Service").code(),
            Some(422),
            "the address is validated first"
        );
        writer
            .send(Method::DELETE, &path, JSON, bytes::Bytes::new())
            .await
            .expect("a deleted Service");
        let gone = reader.get::<Value>(&path).await;
        assert_eq!(gone.expect_err("a deleted Service").code(), Some(404));
    }
}

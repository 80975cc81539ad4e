//! Two API servers on one etcd: whatever one was acknowledged the other knows, nothing is given out twice, and either
//! goes on without the other.

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
fn either_of_two_servers_goes_on_without_the_other() {
    let Some((etcd, _directory)) = etcd("either_of_two_servers_goes_on") else {
        return;
    };
    let (mut one, other) = (Api::start_on_etcd(&etcd), Api::start_on_etcd(&etcd));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let clients = [client_of(&one), client_of(&other)];
        let mut given = Given::default();
        create_through(&clients, "first", &mut given).await;
        hand_over(&clients, &given).await;
        one.kill();
        create_through(&clients[1..], "second", &mut given).await;
        one.run();
        let restarted = client_of(&one);
        let list: Value = restarted.get(SERVICES).await.expect("a list");
        let count = list["items"].as_array().map_or(0, Vec::len);
        assert_eq!(
            count,
            WRITERS * SERVICES_EACH * 3 + 1,
            "and the Service kubernetes"
        );
        create_through(&[restarted, clients[1].clone()], "third", &mut given).await;
    });
    let verify = std::process::Command::new(env!("CARGO_BIN_EXE_portolan"))
        .args(["store", "verify", &etcd.url()])
        .output()
        .expect("the binary under test starts");
    assert!(
        verify.status.success(),
        "{}",
        String::from_utf8_lossy(&verify.stdout)
    );
}

/// What was given out so far.
#[derive(Default)]
struct Given {
    addresses: BTreeSet<String>,
    ports: BTreeSet<u64>,
}

/// Several writers for each client create Services at the same time.
async fn create_through(clients: &[Client], round: &str, given: &mut Given) {
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
                given.addresses.insert(address.clone()),
                "{address} is given out twice"
            );
        }
        let port = service["spec"]["ports"][0]["nodePort"]
            .as_u64()
            .expect("a node port");
        assert!(given.ports.insert(port), "{port} is given out twice");
    }
}

async fn create(client: Client, prefix: String) -> Vec<Value> {
    let mut created = Vec::new();
    for number in 0..SERVICES_EACH {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("{prefix}-{number}")},
            "spec": {"type": "NodePort", "ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 80}]},
        });
        let answer = client.request(Method::POST, SERVICES, JSON, Some(&service)).await;
        created.push(answer.expect("a created Service"));
    }
    created
}

/// What is written by one is read by the other at once, and what is given up by one can be had from the other.
async fn hand_over(clients: &[Client; 2], given: &Given) {
    let is_free = |port: &u64| !given.ports.contains(port);
    let port = (30_000..32_768).find(is_free).expect("a free node port");
    let host = |number: &u8| !given.addresses.contains(&format!("10.96.0.{number}"));
    // The first few are the API server's own and DNS'.
    let host = (20..=u8::MAX).find(host).expect("a free address");
    let service = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "NodePort", "clusterIP": format!("10.96.0.{host}"), "ports": [{"port": 80, "nodePort": port}]},
        })
    };
    for round in 0..20 {
        let [writer, reader] = if round % 2 == 0 { [0, 1] } else { [1, 0] }.map(|number| &clients[number]);
        let name = format!("handed-over-{round}");
        let created = writer
            .request(Method::POST, SERVICES, JSON, Some(&service(&name)))
            .await;
        let created = created.expect("the address and the port are free");
        let path = format!("{SERVICES}/{name}");
        let read: Value = reader.get(&path).await.expect("it is there");
        assert_eq!(read, created);
        let taken = reader
            .request(Method::POST, SERVICES, JSON, Some(&service("another")))
            .await;
        assert_eq!(taken.expect_err("they are taken").code(), Some(422));
        let again = reader
            .request(Method::POST, SERVICES, JSON, Some(&service(&name)))
            .await;
        assert_eq!(
            again.expect_err("it exists").code(),
            Some(422),
            "the address is judged first"
        );
        writer
            .send(Method::DELETE, &path, JSON, bytes::Bytes::new())
            .await
            .expect("a deletion");
        let gone = reader.get::<Value>(&path).await;
        assert_eq!(gone.expect_err("it is gone").code(), Some(404));
    }
}

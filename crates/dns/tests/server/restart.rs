//! The API server is killed and returns: with its history, without it, or with other objects. No response is ever
//! wrong.

#[path = "../support/api.rs"]
mod api_server;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use crate::support::{Decoded, decode, question};
use api_server::Api;
use client::{Client, Config as ClientConfig};
use dns::Config;
use dns::wire::Name;
use serde_json::{Value, json};

/// Address of the DNS server, which no other test uses.
const HOST: Ipv4Addr = Ipv4Addr::new(127, 13, 7, 2);
/// Rounds of queries while the API server is away.
const ROUNDS_AWAY: usize = 200;

/// Response code and addresses.
type Outcome = (u16, BTreeSet<String>);

fn outcome(addresses: &[&str]) -> Outcome {
    let code = if addresses.is_empty() { 3 } else { 0 };
    (code, addresses.iter().map(|text| (*text).to_owned()).collect())
}

fn service(cluster_ip: &str) -> Option<Value> {
    Some(json!({ "metadata": {}, "spec": { "clusterIP": cluster_ip } }))
}

fn slice(addresses: &[&str]) -> Option<Value> {
    let endpoints: Vec<Value> = addresses
        .iter()
        .map(|address| json!({ "addresses": [address] }))
        .collect();
    Some(json!({
        "metadata": { "labels": { "kubernetes.io/service-name": "peers" } },
        "addressType": "IPv4", "endpoints": endpoints,
    }))
}

/// A name with its outcome before and after.
struct Expected {
    name: &'static str,
    before: Outcome,
    after: Outcome,
    /// True after the first response with the new outcome; the old one must not appear again.
    is_new: bool,
}

struct LookupClient {
    server: SocketAddr,
    socket: tokio::net::UdpSocket,
}

impl LookupClient {
    async fn query(&self, name: &str) -> Option<Decoded> {
        let message = question(1, &format!("{name}.ns.svc.cluster.local."), "A", None);
        self.socket.send_to(&message, self.server).await.ok()?;
        let mut buffer = [0; 512];
        let received = tokio::time::timeout(Duration::from_secs(1), self.socket.recv(&mut buffer)).await;
        Some(decode(&buffer[..received.ok()?.ok()?]))
    }

    async fn outcome(&self, name: &str) -> Outcome {
        let answer = self.query(name).await.expect("an answer");
        let addresses = answer.answer.iter().filter_map(|row| row.rsplit(' ').next());
        (answer.code, addresses.map(str::to_owned).collect())
    }

    /// Waits for the initial sync; there is no NXDOMAIN before.
    async fn wait_until_synced(&self) {
        let wait = async {
            loop {
                match self.query("kept").await {
                    Some(answer) if answer.code == 0 => return,
                    Some(answer) => assert_eq!(answer.code, 2, "not known is not denied"),
                    None => {}
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(20), wait).await;
        in_time.expect("the server is synced");
    }

    /// Checks many times that all names have their outcome of before.
    async fn check_before(&self, expected: &[Expected]) {
        for _ in 0..ROUNDS_AWAY {
            for Expected { name, before, .. } in expected {
                assert_eq!(self.outcome(name).await, *before, "{name}, while the API is away");
            }
        }
    }

    /// Queries until all names have their new outcome; each changes once.
    async fn await_after(&self, expected: &mut [Expected]) {
        let wait = async {
            while expected.iter().any(|expected| !expected.is_new) {
                for expected in &mut *expected {
                    let outcome = self.outcome(expected.name).await;
                    expected.is_new |= outcome == expected.after;
                    let right = expected.is_new && outcome == expected.after
                        || !expected.is_new && outcome == expected.before;
                    assert!(right, "{} is answered {outcome:?}", expected.name);
                }
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(30), wait).await;
        in_time.expect("the changes are seen");
    }
}

async fn start(api: &Api) -> LookupClient {
    let client = Client::new(ClientConfig {
        server: format!("http://{}", api.address),
        ..ClientConfig::default()
    })
    .expect("a client");
    let server = UdpSocket::bind((HOST, 0))
        .and_then(|socket| socket.local_addr())
        .expect("a free port");
    let config = Config::new(vec![server], Name::from_text("cluster.local").expect("a name"));
    tokio::spawn(dns::run(config, Some(client), std::future::pending()));
    let socket = tokio::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a socket");
    LookupClient { server, socket }
}

/// History of the API server when it returns.
#[derive(Clone, Copy, Debug)]
enum ServerHistory {
    Kept,
    Compacted,
    Restored,
}

#[tokio::test(flavor = "multi_thread")]
async fn api_server_restart_keeps_answers_correct() {
    let mut api = Api::start().await;
    api.write("namespaces", "ns", Some(json!({ "metadata": {} })));
    api.write("services", "kept", service("10.96.0.1"));
    api.write("services", "changing", service("10.96.1.0"));
    api.write("services", "going-0", service("10.96.0.2"));
    api.write("services", "peers", service("None"));
    api.write("endpointslices", "peers-1", slice(&["10.1.0.0", "10.1.1.0"]));
    let asking = start(&api).await;
    asking.wait_until_synced().await;

    let fates = [
        ServerHistory::Kept,
        ServerHistory::Compacted,
        ServerHistory::Restored,
        ServerHistory::Compacted,
    ];
    let names = [
        ("going-0", "going-1"),
        ("going-1", "going-2"),
        ("going-2", "going-3"),
        ("going-3", "going-4"),
    ];
    for (round, (fate, (going, coming))) in fates.into_iter().zip(names).enumerate() {
        let addresses = |round: usize| [format!("10.1.0.{round}"), format!("10.1.1.{round}")];
        let texts = |round: usize| BTreeSet::from(addresses(round));
        let changing = |round: usize| format!("10.96.1.{round}");
        let mut expected = [
            ("kept", outcome(&["10.96.0.1"]), outcome(&["10.96.0.1"])),
            ("never", outcome(&[]), outcome(&[])),
            (going, outcome(&["10.96.0.2"]), outcome(&[])),
            (coming, outcome(&[]), outcome(&["10.96.0.2"])),
            ("peers", (0, texts(round)), (0, texts(round + 1))),
            (
                "changing",
                outcome(&[&changing(round)]),
                outcome(&[&changing(round + 1)]),
            ),
        ]
        .map(|(name, before, after)| Expected {
            name,
            before,
            after,
            is_new: false,
        });
        api.kill().await;
        asking.check_before(&expected).await;
        api.write("services", going, None);
        api.write("services", coming, service("10.96.0.2"));
        api.write("services", "changing", service(&changing(round + 1)));
        let next = addresses(round + 1);
        api.write(
            "endpointslices",
            "peers-1",
            slice(&next.each_ref().map(String::as_str)),
        );
        match fate {
            ServerHistory::Kept => {}
            ServerHistory::Compacted => api.compact(),
            ServerHistory::Restored => api.restore(),
        }
        asking.check_before(&expected).await;
        api.come_back().await;
        asking.await_after(&mut expected).await;
    }
}

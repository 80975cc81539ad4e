//! The whole server against a slow API: no NXDOMAIN before all objects are delivered, and changes show as soon as
//! they are delivered.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use crate::support::{decode, question};
use client::{Client, Config as ClientConfig};
use dns::Config;
use dns::wire::Name;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Objects that the API has delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Delivered {
    /// Everything but the slices.
    NotAll,
    /// All of the first list.
    List,
    /// The list, and the change after it.
    Change,
}

/// Address of the DNS server, which no other test uses.
const HOST: Ipv4Addr = Ipv4Addr::new(127, 13, 7, 1);

fn slice(address: &str) -> Value {
    json!({
        "metadata": { "name": "peers-1", "namespace": "ns", "resourceVersion": "7",
            "labels": { "kubernetes.io/service-name": "peers" } },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": [address] }],
        "ports": [{ "name": "", "port": 80, "protocol": "TCP" }],
    })
}

fn list(path: &str) -> Value {
    let metadata = json!({ "resourceVersion": "5" });
    let items = if path.contains("endpointslices") {
        json!([slice("10.1.0.1")])
    } else if path.contains("services") {
        json!([{ "metadata": { "name": "peers", "namespace": "ns" }, "spec": { "clusterIP": "None" } }])
    } else {
        json!([{ "metadata": { "name": "ns" } }])
    };
    json!({ "metadata": metadata, "items": items })
}

/// Answers lists, those of slices only after the test permits it, and watches, with one change of a slice.
async fn serve_api(listener: TcpListener, delivered: watch::Receiver<Delivered>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve_requests(stream, delivered.clone()));
    }
}

async fn serve_requests(stream: TcpStream, mut delivered: watch::Receiver<Delivered>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await.expect("readable") == 0 {
                return;
            }
        }
        let path = head.split(' ').nth(1).expect("a path").to_owned();
        let slices = path.contains("endpointslices");
        if !path.contains("watch=true") {
            delivered
                .wait_for(|delivered| !slices || *delivered >= Delivered::List)
                .await
                .expect("the test runs");
            let body = list(&path).to_string();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).await.expect("written");
            continue;
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await.expect("written");
        delivered
            .wait_for(|delivered| *delivered >= Delivered::Change)
            .await
            .expect("the test runs");
        if slices {
            let event = json!({ "type": "MODIFIED", "object": slice("10.1.0.2") }).to_string() + "\n";
            let chunk = format!("{:x}\r\n{event}\r\n", event.len());
            stream.write_all(chunk.as_bytes()).await.expect("written");
        }
        std::future::pending::<()>().await;
    }
}

/// Queries the headless Service until the response is the expected one.
async fn awaited(server: SocketAddr, code: u16, addresses: &[&str]) {
    let socket = tokio::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a socket");
    let message = question(1, "peers.ns.svc.cluster.local.", "A", None);
    let expected: Vec<String> = addresses
        .iter()
        .map(|address| format!("peers.ns.svc.cluster.local. A {address}"))
        .collect();
    let query = async {
        let mut buffer = [0; 512];
        loop {
            // The server may not listen yet, which the kernel reports on send or on receive.
            if socket.send_to(&message, server).await.is_ok()
                && let Ok(Ok(length)) =
                    tokio::time::timeout(Duration::from_millis(100), socket.recv(&mut buffer)).await
            {
                let answer = decode(&buffer[..length]);
                assert_ne!(answer.code, 3, "the name exists");
                if answer.code == code && answer.answer == expected {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(20), query).await;
    assert!(
        in_time.is_ok(),
        "code {code} with {expected:?} is awaited in vain"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn names_follow_the_api() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a socket");
    let server = format!("http://{}", listener.local_addr().expect("bound"));
    let (deliver, delivered) = watch::channel(Delivered::NotAll);
    tokio::spawn(serve_api(listener, delivered));
    let client = Client::new(ClientConfig {
        server,
        ..ClientConfig::default()
    })
    .expect("a client");

    let free = UdpSocket::bind((HOST, 0))
        .and_then(|socket| socket.local_addr())
        .expect("a free port");
    let config = Config::new(vec![free], Name::from_text("cluster.local").expect("a name"));
    let running = tokio::spawn(dns::run(config, Some(client), std::future::pending()));
    awaited(free, 2, &[]).await;
    deliver.send_replace(Delivered::List);
    awaited(free, 0, &["10.1.0.1"]).await;
    deliver.send_replace(Delivered::Change);
    awaited(free, 0, &["10.1.0.2"]).await;
    assert!(!running.is_finished(), "the feed does not end");
}

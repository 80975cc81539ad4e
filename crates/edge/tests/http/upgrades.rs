//! Connections that switch protocols.

use std::time::Duration;

use crate::backend::Backend;
use crate::client::{Client, assert_status};
use crate::served::{Served, served, service};

const UPGRADE: &str =
    "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n";

/// Returns a backend that switches protocols and then echoes in lower case.
fn switching() -> Backend {
    Backend::start(|connection| {
        let head = connection.head().unwrap();
        assert!(head.contains("\r\nupgrade: websocket\r\n"), "{head}");
        connection.answer(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello",
        );
        while let Some(byte) = connection.take(1) {
            connection.answer(byte.to_lowercase().as_bytes());
        }
        connection.answer(b"bye");
    })
}

#[test]
fn tunnels_bytes_after_an_upgrade() {
    let backend = switching();
    let served = served(&[backend.address]);
    let mut client = Client::connect(served.address);
    // Bytes that come with the request belong to the new protocol.
    client.send(format!("{UPGRADE}A\n\0B"));
    let head = client.head();
    assert_status(&head, 101);
    assert!(
        head.contains("upgrade: websocket\r\n") && head.contains("connection: upgrade\r\n"),
        "{head}"
    );
    assert_eq!(client.take(9), "helloa\n\0b");
    client.send("GET / HTTP/1.1\r\n");
    assert_eq!(client.take(16), "get / http/1.1\r\n");
    client.finish();
    assert_eq!(client.rest(), "bye");
}

#[test]
fn declined_upgrade_stays_http() {
    let backend = Backend::echoing();
    let served = served(&[backend.address]);
    let mut client = Client::connect(served.address);
    client.send(format!("{UPGRADE}GET /next HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert!(client.answer().contains("GET /chat "));
    assert!(client.answer().contains("GET /next "));
    assert_eq!(backend.recorded().len(), 2);
}

#[test]
fn bytes_after_a_declined_upgrade_are_checked() {
    let backend = Backend::echoing();
    let served = served(&[backend.address]);
    let mut client = Client::connect(served.address);
    client.send(format!(
        "{UPGRADE}GET /bad HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
    ));
    assert!(client.answer().contains("GET /chat "));
    assert_status(&client.rest(), 400);
    assert_eq!(backend.recorded().len(), 1);
}

#[test]
fn closes_idle_tunnels() {
    let backend = switching();
    let mut service = service(&[backend.address]);
    service.policy.idle_timeout = Duration::from_millis(300);
    let served = Served::new(service);
    let mut client = Client::connect(served.address);
    client.send(UPGRADE);
    assert_status(&client.head(), 101);
    assert_eq!(client.rest(), "hello");
}

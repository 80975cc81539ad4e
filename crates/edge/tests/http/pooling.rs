//! Pooled connections to backends.

use std::time::Duration;

use edge::settings::ProxyVersion;

use crate::backend::{Backend, OK};
use crate::client::{Client, assert_status, exchange, get};
use crate::served::{Served, served, service};

#[test]
fn sequential_requests_share_a_backend_connection() {
    let backend = Backend::answering(OK);
    let served = served(&[backend.address]);
    let mut client = Client::connect(served.address);
    for _ in 0..10 {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_status(&client.answer(), 200);
    }
    assert_eq!(backend.connections(), 1);
}

#[test]
fn closed_connection_is_not_reused() {
    let closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    let backend = Backend::start(|connection| {
        connection.request();
        connection.answer(closing);
    });
    let served = served(&[backend.address]);
    let mut client = Client::connect(served.address);
    for requests in 1..=3 {
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
        // The end of the backend's connection does not end the client's.
        let response = client.answer();
        assert_status(&response, 200);
        assert!(!response.contains("connection: close"), "{response}");
        assert_eq!(backend.connections(), requests);
    }
}

/// Returns a backend that responds to the first request of each connection, and closes it at the second.
fn forgetful() -> Backend {
    Backend::start(|connection| {
        connection.request();
        connection.answer(OK);
        connection.request();
    })
}

#[test]
fn idempotent_request_is_resent_after_a_closed_pooled_connection() {
    let backend = forgetful();
    let served = served(&[backend.address]);
    let mut client = Client::connect(served.address);
    for path in ["/1", "/2"] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_status(&client.answer(), 200);
    }
    let paths: Vec<String> = backend
        .recorded()
        .iter()
        .map(|request| request[..6].to_owned())
        .collect();
    assert_eq!(paths, ["GET /1", "GET /2", "GET /2"]);
}

#[test]
fn non_idempotent_request_is_never_resent() {
    let backend = forgetful();
    let served = served(&[backend.address]);
    let mut client = Client::connect(served.address);
    client.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_status(&client.answer(), 200);
    client.send("POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
    assert_status(&client.answer(), 502);
    assert_eq!(backend.recorded().len(), 2);
}

#[test]
fn request_is_not_resent_after_a_new_connection_fails() {
    let backend = Backend::start(|connection| {
        connection.request();
    });
    let served = served(&[backend.address]);
    assert_status(&get(served.address, "/"), 502);
    assert_eq!(backend.recorded().len(), 1);
}

#[test]
fn connections_with_proxy_header_are_not_shared() {
    let backend = Backend::start(|connection| {
        let mut line = String::new();
        while !line.ends_with("\r\n") {
            let Some(byte) = connection.take(1) else { return };
            line += &byte;
        }
        while connection.request().is_some() {
            let length = line.len();
            connection
                .answer(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{line}").as_bytes());
        }
    });
    let mut service = service(&[backend.address]);
    service.policy.proxy_protocol_to_backends = Some(ProxyVersion::V1);
    let served = Served::new(service);
    let (mut one, mut other) = (Client::connect(served.address), Client::connect(served.address));
    let mut observed = Vec::new();
    for client in [&mut one, &mut other] {
        for _ in 0..2 {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let response = client.answer();
            observed.push(response.split("\r\n\r\n").nth(1).unwrap().to_owned());
        }
    }
    assert!(
        observed[0].starts_with("PROXY TCP4 127.0.0.1 127.0.0.1 "),
        "{observed:?}"
    );
    assert_eq!((&observed[0], &observed[2]), (&observed[1], &observed[3]));
    assert_ne!(observed[0], observed[2]);
    assert_eq!(backend.connections(), 2);
}

#[test]
fn early_response_does_not_mix_with_the_next_request() {
    let backend = Backend::start(|connection| {
        let head = connection.head().unwrap();
        if head.starts_with("POST") {
            connection.answer(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n");
            // The body may or may not arrive.
            std::thread::sleep(Duration::from_millis(50));
            return;
        }
        connection.answer(OK);
    });
    let served = served(&[backend.address]);
    let mut client = Client::connect(served.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nabc");
    assert_status(&client.rest(), 413);
    let response = exchange(
        served.address,
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    assert_status(&response, 200);
}

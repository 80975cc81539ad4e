//! Responses of the edge for backends that refuse, fail or stall.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use crate::backend::{Backend, OK};
use crate::client::{Client, assert_status, exchange, get};
use crate::served::{Served, served, service};

/// Loopback address without a listener, with a port below those that the kernel assigns.
const REFUSING: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 99), 9));

#[test]
fn service_without_backends_responds_503() {
    let mut service = service(&[]);
    let served = Served::new(service.clone());
    assert_status(&get(served.address, "/"), 503);
    let backend = Backend::answering(OK);
    service.listeners[0].backends = crate::served::service(&[backend.address]).listeners[0]
        .backends
        .clone();
    service.listeners[0].backends[0].is_ready = false;
    let unready = Served { service, ..served };
    unready.apply();
    assert_status(&get(unready.address, "/"), 503);
}

#[test]
fn refused_request_goes_to_another_backend() {
    let refusing = REFUSING;
    let backend = Backend::answering(OK);
    let served = served(&[refusing, backend.address]);
    for _ in 0..4 {
        let response = exchange(
            served.address,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab",
        );
        assert_status(&response, 200);
    }
    assert!(
        backend
            .recorded()
            .iter()
            .all(|request| request.ends_with("\r\n\r\nab"))
    );
}

#[test]
fn unreachable_backend_is_502() {
    let refusing = REFUSING;
    let served = served(&[refusing]);
    let response = get(served.address, "/");
    assert_status(&response, 502);
    assert!(!response.contains("127.0.0.1"), "{response}");
}

#[test]
fn invalid_response_is_502() {
    for response in [
        &b""[..],
        b"rubbish\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        b"HTTP/1.1 200",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ] {
        let backend = Backend::start(move |connection| {
            connection.request();
            connection.answer(response);
        });
        let served = served(&[backend.address]);
        assert_status(&get(served.address, "/"), 502);
    }
}

#[test]
fn truncated_response_ends_the_connection() {
    for response in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nx\r\n",
    ] {
        let backend = Backend::start(move |connection| {
            connection.request();
            connection.answer(response.as_bytes());
        });
        let served = served(&[backend.address]);
        let mut client = Client::connect(served.address);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let response = client.rest();
        assert!(
            response.starts_with("HTTP/1.1 200 ") && response.contains("hello"),
            "{response}"
        );
        assert!(!response.ends_with("0\r\n\r\n"), "{response}");
    }
}

#[test]
fn silent_backend_is_504() {
    let backend = Backend::start(|connection| while connection.request().is_some() {});
    let mut service = service(&[backend.address]);
    service.policy.idle_timeout = Duration::from_millis(300);
    let served = Served::new(service);
    let response = exchange(
        served.address,
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab",
    );
    assert_status(&response, 504);
    assert_eq!(backend.recorded().len(), 1);
}

#[test]
fn stalled_response_times_out() {
    let backend = Backend::start(|connection| {
        connection.request();
        connection.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
        connection.request();
    });
    let mut service = service(&[backend.address]);
    service.policy.idle_timeout = Duration::from_millis(300);
    let served = Served::new(service);
    let mut client = Client::connect(served.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.rest().ends_with("hello"));
}

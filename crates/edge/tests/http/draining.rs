//! Draining of connections and backends.

use std::sync::Mutex;
use std::sync::mpsc;
use std::time::Duration;

use crate::backend::{Backend, OK};
use crate::client::{Client, assert_status};
use crate::served::{Served, served, service};

/// Returns a backend that reports each request and responds on command.
fn waiting() -> (Backend, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (came, has_come) = mpsc::channel();
    let (go, may_go) = mpsc::channel();
    let may_go = Mutex::new(may_go);
    let backend = Backend::start(move |connection| {
        while connection.request().is_some() {
            came.send(()).unwrap();
            if may_go.lock().unwrap().recv().is_err() {
                return;
            }
            connection.answer(OK);
        }
    });
    (backend, has_come, go)
}

#[test]
fn drain_finishes_requests_and_starts_none() {
    let (backend, has_come, go) = waiting();
    let served = served(&[backend.address]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut busy = Client::connect(served.address);
    busy.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    has_come.recv().unwrap();
    let mut idle = Client::connect(served.address);
    idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    has_come.recv().unwrap();
    go.send(()).unwrap();
    go.send(()).unwrap();
    assert_status(&idle.answer(), 200);
    assert_status(&busy.answer(), 200);
    busy.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    has_come.recv().unwrap();
    let draining = std::thread::spawn(move || runtime.block_on(served.edge.drain(Duration::from_secs(20))));
    // The idle connection is closed. The other one is closed after its response.
    assert_eq!(idle.rest(), "");
    go.send(()).unwrap();
    let response = busy.rest();
    assert_status(&response, 200);
    assert!(response.contains("\r\nconnection: close\r\n"), "{response}");
    draining.join().unwrap();
}

#[test]
fn removed_backend_finishes_its_requests() {
    let (backend, has_come, go) = waiting();
    let other = Backend::answering(OK);
    let mut served = served(&[backend.address]);
    let mut client = Client::connect(served.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    has_come.recv().unwrap();
    served.service.listeners[0].backends[0].address = other.address;
    served.apply();
    go.send(()).unwrap();
    assert_status(&client.answer(), 200);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_status(&client.answer(), 200);
    assert_eq!((backend.recorded().len(), other.recorded().len()), (1, 1));
}

#[test]
fn removed_backend_is_cut_off_after_the_drain_time() {
    let (backend, has_come, _go) = waiting();
    let mut service = service(&[backend.address]);
    service.policy.draining = Some(Duration::from_millis(200));
    let mut served = Served::new(service);
    let mut client = Client::connect(served.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    has_come.recv().unwrap();
    served.service.listeners[0].backends.clear();
    served.apply();
    assert_status(&client.answer(), 502);
}

#[test]
fn changed_backend_protocol_opens_new_connections() {
    let (backend, has_come, go) = waiting();
    let mut service = service(&[backend.address]);
    service.policy.connect_timeout = Duration::from_millis(300);
    let mut served = Served::new(service);
    let mut client = Client::connect(served.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    has_come.recv().unwrap();
    served.service.listeners[0].backend_protocol = edge::settings::BackendProtocol::Https;
    served.apply();
    go.send(()).unwrap();
    assert_status(&client.answer(), 200);
    // The new connection to the backend has no TLS, so the previous connection was not pooled.
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_status(&client.answer(), 502);
    assert_eq!(backend.connections(), 2);
}

#[test]
fn connection_ends_after_the_request_under_way_at_its_maximum_age() {
    let with_age = |backend: &Backend| {
        let mut service = service(&[backend.address]);
        service.policy.connection_age_max = Some(Duration::from_millis(300));
        Served::new(service)
    };
    let (backend, has_come, go) = waiting();
    let served = with_age(&backend);
    let mut busy = Client::connect(served.address);
    busy.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    has_come.recv().unwrap();
    // Two lifetimes of idle connections, one after the other, are longer than that of the busy one.
    let answering = Backend::answering(OK);
    let other = with_age(&answering);
    for _ in 0..2 {
        let mut idle = Client::connect(other.address);
        idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_status(&idle.answer(), 200);
        assert_eq!(idle.rest(), "");
    }
    go.send(()).unwrap();
    let response = busy.rest();
    assert_status(&response, 200);
    assert!(response.contains("\r\nconnection: close\r\n"), "{response}");
}

//! Connections that end, and those that may go on.

use std::sync::Mutex;
use std::sync::mpsc;
use std::time::Duration;

use crate::backend::{Backend, OK};
use crate::client::{Client, assert_status};
use crate::served::{Served, served, service};

/// Answers a request when it is told to, and tells when one has come.
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
fn what_is_under_way_is_finished_and_nothing_else_begun() {
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
    // The idle one is closed; the other one is told so with its answer.
    assert_eq!(idle.rest(), "");
    go.send(()).unwrap();
    let answer = busy.rest();
    assert_status(&answer, 200);
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    draining.join().unwrap();
}

#[test]
fn a_backend_that_leaves_finishes_what_it_has_begun() {
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
fn a_backend_that_left_is_cut_off_in_the_end() {
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
fn a_backend_that_is_spoken_to_in_another_way_gets_new_connections() {
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
    // This one has no TLS, so that the connection that was in use must not have been kept.
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_status(&client.answer(), 502);
    assert_eq!(backend.connections(), 2);
}

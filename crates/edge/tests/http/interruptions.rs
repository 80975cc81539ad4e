//! Access-log lines of connections and requests that are cut off.

use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use edge::settings::{BackendProtocol, Frontend, LogDestination, LogFormat, ServiceSettings};
use http::Request;
use http_body_util::Empty;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::backend::Backend;
use crate::client::Client;
use crate::http2;
use crate::logging::{finish, log, with_directory, written};
use crate::served::{Served, service};

/// Returns an edge that logs to a directory.
fn logged(mut service: ServiceSettings) -> (Served, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    service.access_log = Some(log(LogDestination::Directory, LogFormat::Json));
    (Served::with(with_directory(directory.path()), service), directory)
}

/// Returns the lines of the log, by request target.
fn lines(directory: &Path) -> Vec<Value> {
    let text = written(directory);
    let mut lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    lines.sort_by_key(|line| line["target"].to_string());
    lines
}

fn end_at_once(served: &Served) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(served.edge.drain(Duration::from_millis(50)));
}

/// Waits until a backend is called.
fn await_call(served: &Served) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let is_called = || {
        let status = served.edge.status();
        let mut backends = status.iter().flat_map(|port| &port.backends);
        backends.any(|backend| backend.under_way > 0)
    };
    while !is_called() {
        assert!(Instant::now() < deadline, "no backend is called");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns a backend that reports each request, sends a part of a response for `/begun`, and nothing for others.
fn silent() -> (Backend, mpsc::Receiver<()>) {
    let (came, has_come) = mpsc::channel();
    let came = Mutex::new(came);
    let backend = Backend::start(move |connection| {
        while let Some(request) = connection.request() {
            if request.starts_with("GET /begun ") {
                connection.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf ");
            }
            came.lock().unwrap().send(()).unwrap();
        }
    });
    (backend, has_come)
}

#[test]
fn shutdown_logs_cut_off_requests() {
    let (backend, has_come) = silent();
    let (served, directory) = logged(service(&[backend.address]));
    let mut waiting = Client::connect(served.address);
    waiting.send("POST /waiting HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    let mut begun = Client::connect(served.address);
    begun.send("GET /begun HTTP/1.1\r\nHost: a\r\n\r\n");
    begun.head();
    begun.take(5);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stream = runtime.spawn(async move {
        let mut client = http2::connect(served.address).await;
        let request = Request::get("http://a/stream")
            .body(Empty::<Bytes>::new())
            .unwrap();
        client.send_request(request).await.map(|_| ())
    });
    for _ in 0..3 {
        has_come.recv().unwrap();
    }
    end_at_once(&served);
    assert!(runtime.block_on(stream).unwrap().is_err());
    assert_eq!((waiting.rest(), begun.rest()), (String::new(), String::new()));
    let lines = lines(directory.path());
    let observed: Vec<_> = lines
        .iter()
        .map(|line| {
            let bytes = (&line["received_bytes"], &line["sent_bytes"]);
            (&line["target"], &line["status"], bytes, &line["outcome"])
        })
        .collect();
    let end = json!("shutdown");
    assert_eq!(
        observed,
        [
            (&json!("/begun"), &json!(200), (&json!(0), &json!(5)), &end),
            (&json!("/stream"), &json!(503), (&json!(0), &json!(0)), &end),
            (&json!("/waiting"), &json!(503), (&json!(3), &json!(0)), &end),
        ]
    );
}

/// Returns a TCP Service, and a backend that sends `hello` and reads.
fn of_connections() -> (ServiceSettings, Backend) {
    let backend = Backend::start(|connection| {
        connection.answer(b"hello");
        while connection.take(1).is_some() {}
    });
    let mut service = service(&[backend.address]);
    service.listeners[0].frontend = Frontend::Tcp;
    service.listeners[0].backend_protocol = BackendProtocol::Tcp;
    (service, backend)
}

/// Returns a client whose data has reached the backend.
fn client_with_received_data(served: &Served, backend: &Backend) -> Client {
    let mut client = Client::connect(served.address);
    client.take(5);
    client.send("some words");
    while backend.recorded().concat() != "some words" {
        std::thread::sleep(Duration::from_millis(5));
    }
    client
}

#[track_caller]
fn assert_line(directory: &Path, backend: &Backend, outcome: &str) {
    let lines = lines(directory);
    let [line] = &lines[..] else { panic!("{lines:?}") };
    for (key, value) in [
        ("backend", json!(backend.address.to_string())),
        ("received_bytes", json!(10)),
        ("sent_bytes", json!(5)),
        ("outcome", json!(outcome)),
    ] {
        assert_eq!(line[key], value, "{key}: {line}");
    }
}

#[test]
fn shutdown_logs_cut_off_connections() {
    let (service, backend) = of_connections();
    let (served, directory) = logged(service);
    let mut client = client_with_received_data(&served, &backend);
    end_at_once(&served);
    assert_eq!(client.rest(), "");
    assert_line(directory.path(), &backend, "shutdown");
}

#[test]
fn logs_connections_cut_off_with_their_backend() {
    let (mut service, backend) = of_connections();
    service.policy.draining = Some(Duration::from_millis(100));
    let (mut served, directory) = logged(service);
    let mut client = client_with_received_data(&served, &backend);
    served.service.listeners[0].backends.clear();
    served.apply();
    assert_eq!(client.rest(), "");
    finish(&served);
    assert_line(directory.path(), &backend, "backend left");
}

#[test]
fn shutdown_logs_pending_connections_without_a_backend() {
    // The backlog is full, so that one more connection has to wait.
    let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let loopback: std::net::SocketAddr = ([127, 0, 0, 1], 0).into();
    listener.bind(&loopback.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let mut filling = Vec::new();
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        filling.push(stream);
    }
    let mut service = service(&[address]);
    service.listeners[0].frontend = Frontend::Tcp;
    service.listeners[0].backend_protocol = BackendProtocol::Tcp;
    service.policy.connect_timeout = Duration::from_secs(60);
    let (served, directory) = logged(service);
    let mut client = std::net::TcpStream::connect(served.address).unwrap();
    client.write_all(b"words").unwrap();
    await_call(&served);
    end_at_once(&served);
    let lines = lines(directory.path());
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(
        (&line["backend"], &line["outcome"]),
        (&Value::Null, &json!("shutdown"))
    );
}

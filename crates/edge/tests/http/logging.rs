//! Access logs and metrics.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use edge::Options;
use edge::log::{Destinations, DirectoryLimits, S3};
use edge::settings::{AccessLog, BackendProtocol, Frontend, LogDestination, LogFormat};
use futures_util::TryStreamExt;
use object_store::ObjectStore;
use object_store::aws::AmazonS3Builder;
use serde_json::{Value, json};

use crate::backend::{Backend, OK};
use crate::client::{Client, assert_status, exchange, get};
use crate::served::{Served, free_port, service};

pub(crate) fn log(destination: LogDestination, format: LogFormat) -> AccessLog {
    AccessLog {
        destination,
        prefix: "logs/of".into(),
        interval: Duration::from_secs(3600),
        format,
    }
}

/// Returns the contents of all files below a directory.
pub(crate) fn written(directory: &Path) -> String {
    let entries = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .map(|path| {
            if path.is_dir() {
                written(&path)
            } else {
                std::fs::read_to_string(path).unwrap()
            }
        })
        .collect()
}

/// Ends all connections and writes the log.
pub(crate) fn finish(served: &Served) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(served.edge.drain(Duration::from_secs(20)));
}

pub(crate) fn with_directory(directory: &Path) -> Options {
    let log_destinations = Destinations {
        directory: Some(directory.to_owned()),
        // The file system of the tests may be almost full.
        directory_limits: DirectoryLimits {
            free_percent_min: 0,
            ..DirectoryLimits::default()
        },
        ..Destinations::default()
    };
    Options {
        log_destinations,
        ..Options::default()
    }
}

#[test]
fn logs_each_request() {
    let backend = Backend::answering(OK);
    let directory = tempfile::tempdir().unwrap();
    let mut service = service(&[backend.address]);
    service.access_log = Some(log(LogDestination::Directory, LogFormat::Json));
    let served = Served::with(with_directory(directory.path()), service);
    exchange(
        served.address,
        "POST /a?b=c HTTP/1.1\r\nHost: a.example\r\nUser-Agent: x\"y\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
    );
    assert_status(
        &exchange(served.address, "GET /bad HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        400,
    );
    finish(&served);
    let text = written(directory.path());
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [first, second] = &lines[..] else {
        panic!("{text}")
    };
    for (key, value) in [
        ("namespace", json!("shop")),
        ("service", json!("web")),
        ("port", json!(served.address.port())),
        ("backend", json!(backend.address.to_string())),
        ("method", json!("POST")),
        ("target", json!("/a?b=c")),
        ("version", json!("HTTP/1.1")),
        ("host", json!("a.example")),
        ("user_agent", json!("x\"y")),
        ("status", json!(200)),
        ("received_bytes", json!(5)),
        ("sent_bytes", json!(2)),
        ("outcome", json!("ok")),
    ] {
        assert_eq!(first[key], value, "{key}: {text}");
    }
    assert_eq!(
        (&second["method"], &second["target"], &second["host"]),
        (&json!("-"), &json!("-"), &Value::Null)
    );
    assert_eq!(
        (&second["status"], &second["outcome"], &second["backend"]),
        (&json!(400), &json!("refused"), &Value::Null)
    );
}

#[test]
fn log_without_destination_is_a_fault() {
    let backend = Backend::answering(OK);
    let served = Served::new(service(&[backend.address]));
    let mut settings = served.service.clone();
    settings.access_log = Some(log(LogDestination::Directory, LogFormat::Common));
    let served = Served {
        service: settings,
        ..served
    };
    served.apply();
    let faults = served.edge.faults().borrow().clone();
    let observed: Vec<String> = faults.values().flatten().map(ToString::to_string).collect();
    assert_eq!(
        observed,
        ["no access log: expected a directory for access logs, found none; set --edge-access-log-directory"]
    );
    assert_status(&get(served.address, "/"), 200);
}

#[test]
fn requests_and_connections_have_lines_of_one_shape() {
    for frontend in [
        Frontend::Http {
            redirects_to_https: None,
        },
        Frontend::Tcp,
    ] {
        let backend = Backend::start(|connection| {
            connection.request();
            connection.answer(OK);
        });
        let directory = tempfile::tempdir().unwrap();
        let mut service = service(&[backend.address]);
        let is_http = frontend != Frontend::Tcp;
        service.listeners[0].frontend = frontend;
        service.listeners[0].backend_protocol = if is_http {
            BackendProtocol::Http
        } else {
            BackendProtocol::Tcp
        };
        service.access_log = Some(log(LogDestination::Directory, LogFormat::Common));
        let served = Served::with(with_directory(directory.path()), service);
        assert_status(&get(served.address, "/a"), 200);
        finish(&served);
        let line = written(directory.path());
        let (client, rest) = line.split_once(" - - [").unwrap();
        let end = if is_http {
            "\"GET /a HTTP/1.1\" 200 2\n".to_owned()
        } else {
            format!("\"TCP {} {}\" - {}\n", served.address, backend.address, OK.len())
        };
        assert_eq!(client, "127.0.0.1");
        assert!(rest.ends_with(&end), "{line}");
    }
}

#[test]
fn counts_requests_by_service_port_and_status() {
    let backend = Backend::answering(OK);
    let served = Served::new(service(&[backend.address]));
    let mut client = Client::connect(served.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.answer();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    client.rest();
    exchange(served.address, "GET / HTTP/1.1\r\n\r\n");
    finish(&served);
    let metrics = served.edge.metrics();
    let labels = format!(
        "namespace=\"shop\",service=\"web\",port=\"{}\"",
        served.address.port()
    );
    for line in [
        format!("portolan_edge_requests_total{{{labels},code=\"200\"}} 2\n"),
        format!("portolan_edge_requests_total{{{labels},code=\"400\"}} 1\n"),
        format!("portolan_edge_request_duration_seconds_count{{{labels}}} 3\n"),
    ] {
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
}

/// S3-compatible service that stops with the test.
struct MotoServer {
    process: Child,
    address: SocketAddr,
}

impl Drop for MotoServer {
    fn drop(&mut self) {
        self.process.kill().unwrap_or_default();
        self.process.wait().map(|_| ()).unwrap_or_default();
    }
}

impl MotoServer {
    /// Starts the server. Fails if this host does not have the program.
    fn start() -> Result<Self, String> {
        let port = free_port();
        let mut process = Command::new("moto_server")
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("moto_server does not start: {error}"))?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        while TcpStream::connect(address).is_err() {
            if let Some(status) = process.try_wait().unwrap() {
                return Err(format!("moto_server ended: {status}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(Self { process, address })
    }

    fn make_bucket(&self, name: &str) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let request = format!(
            "PUT /{name} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    }
}

#[test]
fn writes_logs_to_a_bucket() {
    let moto = match MotoServer::start() {
        Ok(moto) => moto,
        Err(reason) => {
            eprintln!("skipped: writes_logs_to_a_bucket: {reason}");
            return;
        }
    };
    moto.make_bucket("balanced");
    let endpoint = format!("http://{}", moto.address);
    let backend = Backend::answering(OK);
    let mut service = service(&[backend.address]);
    service.access_log = Some(log(LogDestination::Bucket("balanced".into()), LogFormat::Common));
    let s3 = S3 {
        endpoint: Some(endpoint.clone()),
        access_key_id: Some("id".to_owned()),
        secret_access_key: Some("secret".to_owned()),
        ..S3::default()
    };
    let log_destinations = Destinations {
        s3,
        host: "node-1".to_owned(),
        ..Destinations::default()
    };
    let served = Served::with(
        Options {
            log_destinations,
            ..Options::default()
        },
        service,
    );
    for path in ["/1", "/2"] {
        assert_status(&get(served.address, path), 200);
    }
    finish(&served);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let objects: Vec<(String, String)> = runtime.block_on(async {
        let bucket = AmazonS3Builder::new()
            .with_bucket_name("balanced")
            .with_region("us-east-1")
            .with_endpoint(&endpoint)
            .with_allow_http(true)
            .with_access_key_id("id")
            .with_secret_access_key("secret")
            .build()
            .unwrap();
        let list: Vec<_> = bucket.list(None).try_collect().await.unwrap();
        let mut objects = Vec::new();
        for meta in list {
            let bytes = bucket.get(&meta.location).await.unwrap().bytes().await.unwrap();
            objects.push((
                meta.location.to_string(),
                String::from_utf8(bytes.to_vec()).unwrap(),
            ));
        }
        objects
    });
    let [(name, text)] = &objects[..] else {
        panic!("{objects:?}")
    };
    assert!(
        name.starts_with("logs/of/20") && name.contains("/shop_web_node-1_") && name.ends_with(".log"),
        "{name}"
    );
    assert!(
        text.contains("\"GET /1 HTTP/1.1\" 200 2\n") && text.contains("\"GET /2 HTTP/1.1\" 200 2\n"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 2);
}

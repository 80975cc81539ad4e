//! Slow clients, invalid requests and excessive requests, alongside ordinary clients.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::json;

use crate::client_of;
use crate::support::{Api, TOKEN};

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Time for a response; only a failing test takes as long.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Limit for the resident memory of an idle server: a multiple of its need.
const RESIDENT_KIB_MAX: u64 = 200 << 10;

/// Opens a TLS connection for HTTP/1.1 requests in bytes.
fn connect(api: &Api) -> Tls {
    let authority = api.directory.path().join("data/pki/ca.crt");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authority).expect("the CA certificate") {
        roots
            .add(certificate.expect("a certificate"))
            .expect("a root certificate");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::from(api.address.ip());
    let connection = ClientConnection::new(Arc::new(config), name).expect("a TLS connection");
    let stream = TcpStream::connect(api.address).expect("a connection to the API server");
    stream
        .set_read_timeout(Some(RESPONSE_TIMEOUT))
        .expect("a timeout");
    stream
        .set_write_timeout(Some(RESPONSE_TIMEOUT))
        .expect("a timeout");
    StreamOwned::new(connection, stream)
}

/// Returns the head of a POST request with a header for the length of the body.
fn post(length_header: &str) -> String {
    format!(
        "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\n{length_header}\r\n\r\n"
    )
}

/// Reads until the server closes the connection, or sends no more after the first bytes.
fn response(stream: &mut Tls) -> String {
    stream
        .sock
        .set_read_timeout(Some(Duration::from_secs(2)))
        .expect("a timeout");
    let deadline = Instant::now() + RESPONSE_TIMEOUT;
    let (mut text, mut chunk) = (Vec::new(), [0; 4096]);
    while Instant::now() < deadline {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => text.extend_from_slice(&chunk[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock && text.is_empty() => {}
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Checks that the server handles a write of another client in time.
fn expect_write_of_other_client(api: &Api, name: &str) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    runtime.block_on(async {
        let client = client_of(api);
        let write = client.request(http::Method::POST, CONFIG_MAPS, client::JSON, Some(&object));
        let write = tokio::time::timeout(Duration::from_secs(5), write).await;
        write.expect("a response in time").expect("a ConfigMap");
    });
}

#[test]
fn incomplete_requests_do_not_block_other_clients() {
    let api = Api::start();
    let mut stuck = Vec::new();
    for number in 0..40 {
        let mut stream = connect(&api);
        let request = match number % 4 {
            0 => "GET /api HTTP/1.1\r\nHost: api\r\nX-Never: ".to_owned(),
            1 => post("Content-Length: 3000000") + "{",
            2 => post("Transfer-Encoding: chunked") + "ffff\r\n{",
            // The client does not read the watch.
            _ => format!(
                "GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            ),
        };
        stream
            .write_all(request.as_bytes())
            .expect("an incomplete request");
        stuck.push(stream);
    }
    // These connections do not start the handshake.
    let silent: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(api.address).expect("a connection"))
        .collect();
    expect_write_of_other_client(&api, "meanwhile");
    drop((stuck, silent));
    expect_write_of_other_client(&api, "afterwards");
}

#[test]
fn client_that_sends_a_large_body_receives_the_status() {
    let api = Api::start();
    let body = vec![b' '; 8 << 20];
    let mut with_length = connect(&api);
    with_length
        .write_all(post(&format!("Content-Length: {}", body.len())).as_bytes())
        .and_then(|()| with_length.write_all(&body))
        .expect("a server that reads the body");
    let mut chunked = connect(&api);
    chunked
        .write_all(post("Transfer-Encoding: chunked").as_bytes())
        .expect("a server that reads the body");
    for part in body.chunks(1 << 16) {
        let chunk = [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
        chunked.write_all(&chunk).expect("a server that reads the body");
    }
    chunked
        .write_all(b"0\r\n\r\n")
        .expect("a server that reads the body");
    for stream in [&mut with_length, &mut chunked] {
        let response = response(stream);
        assert!(response.starts_with("HTTP/1.1 413 "), "{response}");
        assert!(
            response.contains(r#""reason":"RequestEntityTooLarge""#),
            "{response}"
        );
    }
}

#[test]
fn invalid_requests_are_rejected() {
    let api = Api::start();
    let endless_header = format!("GET /api HTTP/1.1\r\nX-Long: {}\r\n\r\n", "a".repeat(1 << 20));
    let endless_path = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(1 << 20));
    let zeros = "\0".repeat(1000);
    let chunks = post("Transfer-Encoding: chunked") + "nonsense\r\n";
    let both = post("Content-Length: 5\r\nTransfer-Encoding: chunked") + "0\r\n\r\nGET /api HTTP/1.1\r\n\r\n";
    let negative = post("Content-Length: -1");
    let frames = format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{}", "\u{7f}".repeat(5000));
    for request in [
        &endless_header,
        &endless_path,
        &zeros,
        &chunks,
        &both,
        &negative,
        &frames,
    ] {
        let mut stream = connect(&api);
        // The server may close the connection before it has read the request.
        let sent = stream.write_all(request.as_bytes());
        let response = response(&mut stream);
        let begin: String = response.chars().take(100).collect();
        let is_rejected = begin.starts_with("HTTP/1.1 4") || !begin.starts_with("HTTP");
        assert!(is_rejected, "{:?} ({sent:?}): {begin}", request.get(..60));
    }
    expect_write_of_other_client(&api, "afterwards");
}

#[test]
fn unread_lists_and_large_bodies_use_bounded_memory() {
    let api = Api::start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = client_of(&api);
        for number in 0..100 {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c-{number}")},
                "data": {"k": "x".repeat(100_000)},
            });
            let created = client.request(http::Method::POST, CONFIG_MAPS, client::JSON, Some(&object));
            created.await.expect("a ConfigMap");
        }
    });
    let list = format!("GET {CONFIG_MAPS} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    let mut stuck = Vec::new();
    for _ in 0..60 {
        // Each connection requests four lists of 10 MB and reads none.
        let mut stream = connect(&api);
        stream
            .write_all(list.repeat(4).as_bytes())
            .expect("pipelined requests");
        stuck.push(stream);
    }
    let floods: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = connect(&api);
            std::thread::spawn(move || {
                let body = vec![b'['; 3_000_000];
                stream.write_all(post("Content-Length: 3000000").as_bytes())?;
                stream.write_all(&body)?;
                std::io::Result::Ok(response(&mut stream))
            })
        })
        .collect();
    for flood in floods {
        let response = flood.join().expect("the thread of a flood").expect("a sent body");
        assert!(response.starts_with("HTTP/1.1 4"), "{response}");
    }
    expect_write_of_other_client(&api, "meanwhile");
    let resident = api.resident_kib();
    assert!(resident < RESIDENT_KIB_MAX, "resident memory: {resident} KiB");
}

/// Changes in the test of the slow watch. Together they exceed the watch cache (32 MiB) and all buffers on the path.
const CHANGES: usize = 600;
const CHANGE_BYTES: usize = 100_000;

#[test]
fn slow_watch_ends_without_effect_on_other_clients() {
    let api = Api::start();
    let mut slow = connect(&api);
    let watch = format!(
        "GET {CONFIG_MAPS}?watch=true HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    );
    slow.write_all(watch.as_bytes()).expect("a watch request");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = client_of(&api);
        let object = |number: usize| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"},
                "data": {"k": "x".repeat(CHANGE_BYTES), "number": number.to_string()},
            })
        };
        let created = client
            .request(http::Method::POST, CONFIG_MAPS, client::JSON, Some(&object(0)))
            .await;
        let created = created.expect("a ConfigMap");
        let from = created["metadata"]["resourceVersion"]
            .as_str()
            .expect("a revision");
        let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={from}");
        let opened = client
            .open(http::Method::GET, &path, client::JSON, bytes::Bytes::new())
            .await;
        let mut fast = opened.expect("a watch").into_body();
        let reading = tokio::spawn(async move {
            let (mut lines, mut last) = (0, Vec::new());
            while lines < CHANGES {
                let frame = fast.frame().await.expect("an open watch").expect("a frame");
                let data = frame.into_data().expect("a data frame");
                lines += data.iter().filter(|byte| **byte == b'\n').count();
                last = data.to_vec();
            }
            assert!(last.ends_with(b"\n"), "the last frame ends with a complete line");
        });
        let path = format!("{CONFIG_MAPS}/c");
        for number in 1..=CHANGES {
            let changed = object(number);
            let changed = client.request(http::Method::PUT, &path, client::JSON, Some(&changed));
            changed.await.expect("a changed ConfigMap");
        }
        let read = tokio::time::timeout(RESPONSE_TIMEOUT, reading).await;
        read.expect("a fast watch without delay")
            .expect("the task of the fast watch");
    });
    expect_write_of_other_client(&api, "meanwhile");
    let events = response(&mut slow);
    let end = events
        .get(events.len().saturating_sub(1_000)..)
        .unwrap_or_default();
    assert!(end.contains("\"ERROR\"") && end.contains("410"), "{end}");
    assert!(
        events.matches("\"MODIFIED\"").count() < CHANGES,
        "the slow watch ends before the last change"
    );
    let resident = api.resident_kib();
    assert!(resident < RESIDENT_KIB_MAX, "resident memory: {resident} KiB");
}

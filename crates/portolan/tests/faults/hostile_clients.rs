//! Clients that are slow, talk nonsense or want too much, while others are served.

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

/// Longest wait for an answer; only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(20);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Resident memory above which a server that holds nothing is not bounded: some times what it needs.
const RESIDENT_KIB_MAX: u64 = 200 << 10;

/// A TLS connection that speaks HTTP/1.1 by hand.
fn connect(api: &Api) -> Tls {
    let authority = api.directory.path().join("data/pki/ca.crt");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authority).expect("the authority") {
        roots.add(certificate.expect("a certificate")).expect("a root");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::from(api.address.ip());
    let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
    let stream = TcpStream::connect(api.address).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    StreamOwned::new(connection, stream)
}

fn post(announced: &str) -> String {
    format!(
        "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\n{announced}\r\n\r\n"
    )
}

/// All that comes until the far side closes, or says no more after it answered.
fn answer(stream: &mut Tls) -> String {
    stream
        .sock
        .set_read_timeout(Some(Duration::from_secs(2)))
        .expect("a timeout");
    let deadline = Instant::now() + PATIENCE;
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    while Instant::now() < deadline {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => text.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock && text.is_empty() => {}
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Another client writes and reads as ever.
fn others_are_served(api: &Api, name: &str) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    runtime.block_on(async {
        let client = client_of(api);
        let write = client.request(http::Method::POST, CONFIG_MAPS, client::JSON, Some(&object));
        let write = tokio::time::timeout(Duration::from_secs(5), write).await;
        write.expect("others do not wait").expect("others are served");
    });
}

#[test]
fn clients_that_never_finish_keep_nobody_waiting() {
    let api = Api::start();
    let mut stuck = Vec::new();
    for number in 0..40 {
        let mut stream = connect(&api);
        let begun = match number % 4 {
            0 => "GET /api HTTP/1.1\r\nHost: api\r\nX-Never: ".to_owned(),
            1 => post("Content-Length: 3000000") + "{",
            2 => post("Transfer-Encoding: chunked") + "ffff\r\n{",
            // A list that nobody reads.
            _ => format!(
                "GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            ),
        };
        stream.write_all(begun.as_bytes()).expect("sent");
        stuck.push(stream);
    }
    // Not even a handshake.
    let silent: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(api.address).expect("a connection"))
        .collect();
    others_are_served(&api, "meanwhile");
    drop((stuck, silent));
    others_are_served(&api, "afterwards");
}

#[test]
fn a_client_that_sends_all_of_a_large_body_reads_why_it_is_refused() {
    let api = Api::start();
    let body = vec![b' '; 8 << 20];
    let mut announced = connect(&api);
    announced
        .write_all(post(&format!("Content-Length: {}", body.len())).as_bytes())
        .and_then(|()| announced.write_all(&body))
        .expect("the server reads on");
    let mut chunked = connect(&api);
    chunked
        .write_all(post("Transfer-Encoding: chunked").as_bytes())
        .expect("the server reads on");
    for piece in body.chunks(1 << 16) {
        let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
        chunked.write_all(&chunk).expect("the server reads on");
    }
    chunked.write_all(b"0\r\n\r\n").expect("the server reads on");
    for stream in [&mut announced, &mut chunked] {
        let answer = answer(stream);
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(answer.contains(r#""reason":"RequestEntityTooLarge""#), "{answer}");
    }
}

#[test]
fn nonsense_is_refused_and_others_are_served() {
    let api = Api::start();
    let endless_header = format!("GET /api HTTP/1.1\r\nX-Long: {}\r\n\r\n", "a".repeat(1 << 20));
    let endless_path = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(1 << 20));
    let zeros = "\0".repeat(1000);
    let chunks = post("Transfer-Encoding: chunked") + "nonsense\r\n";
    let both = post("Content-Length: 5\r\nTransfer-Encoding: chunked") + "0\r\n\r\nGET /api HTTP/1.1\r\n\r\n";
    let negative = post("Content-Length: -1");
    let frames = format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{}", "\u{7f}".repeat(5000));
    for nonsense in [
        &endless_header,
        &endless_path,
        &zeros,
        &chunks,
        &both,
        &negative,
        &frames,
    ] {
        let mut stream = connect(&api);
        // A server that closes while we still send is in its right.
        let sent = stream.write_all(nonsense.as_bytes());
        let answer = answer(&mut stream);
        let begin: String = answer.chars().take(100).collect();
        let refused = begin.starts_with("HTTP/1.1 4") || !begin.starts_with("HTTP");
        assert!(refused, "{:?} ({sent:?}): {begin}", nonsense.get(..60));
    }
    others_are_served(&api, "afterwards");
}

#[test]
fn lists_that_nobody_reads_and_floods_of_bodies_take_bounded_memory() {
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
            created.await.expect("created");
        }
    });
    let list = format!("GET {CONFIG_MAPS} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    let mut stuck = Vec::new();
    for _ in 0..60 {
        // 10 MB are asked for, some times over, and never read.
        let mut stream = connect(&api);
        stream.write_all(list.repeat(4).as_bytes()).expect("sent");
        stuck.push(stream);
    }
    let floods: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = connect(&api);
            std::thread::spawn(move || {
                let body = vec![b'['; 3_000_000];
                stream.write_all(post("Content-Length: 3000000").as_bytes())?;
                stream.write_all(&body)?;
                std::io::Result::Ok(answer(&mut stream))
            })
        })
        .collect();
    for flood in floods {
        let answer = flood.join().expect("no panic").expect("sent");
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    others_are_served(&api, "meanwhile");
    let resident = api.resident_kib();
    assert!(resident < RESIDENT_KIB_MAX, "{resident} KiB are resident");
}

/// What the changes of the slow watch's test come to: more than the history (32 MiB) and all buffers on the way.
const CHANGES: usize = 600;
const CHANGE_BYTES: usize = 100_000;

#[test]
fn a_slow_watch_is_cut_and_others_do_not_notice() {
    let api = Api::start();
    let mut slow = connect(&api);
    let watch = format!(
        "GET {CONFIG_MAPS}?watch=true HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    );
    slow.write_all(watch.as_bytes()).expect("sent");
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
        let created = created.expect("created");
        let from = created["metadata"]["resourceVersion"]
            .as_str()
            .expect("a revision");
        let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={from}");
        let opened = client
            .open(http::Method::GET, &path, client::JSON, bytes::Bytes::new())
            .await;
        let mut quick = opened.expect("a watch").into_body();
        let reading = tokio::spawn(async move {
            let (mut lines, mut last) = (0, Vec::new());
            while lines < CHANGES {
                let frame = quick.frame().await.expect("the watch goes on").expect("no error");
                let data = frame.into_data().expect("data");
                lines += data.iter().filter(|byte| **byte == b'\n').count();
                last = data.to_vec();
            }
            assert!(last.ends_with(b"\n"), "whole lines");
        });
        let path = format!("{CONFIG_MAPS}/c");
        for number in 1..=CHANGES {
            let changed = object(number);
            let changed = client.request(http::Method::PUT, &path, client::JSON, Some(&changed));
            changed.await.expect("a change");
        }
        let read = tokio::time::timeout(PATIENCE, reading).await;
        read.expect("the quick watch is not held up")
            .expect("it read all");
    });
    others_are_served(&api, "meanwhile");
    let told = answer(&mut slow);
    let end = told.get(told.len().saturating_sub(1_000)..).unwrap_or_default();
    assert!(end.contains("\"ERROR\"") && end.contains("410"), "{end}");
    assert!(told.matches("\"MODIFIED\"").count() < CHANGES, "it was cut");
    let resident = api.resident_kib();
    assert!(resident < RESIDENT_KIB_MAX, "{resident} KiB are resident");
}

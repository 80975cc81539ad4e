//! Connections that ask nothing (H3): they are closed, and one address has only so many.

use serde_json::Value;

use crate::access;
use crate::support::Api;
use crate::wire::{Connection, Wire, first_line, is_closed};

#[test]
fn closes_connections_without_a_request() {
    let api = Api::start();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let silences: [(&str, &[&str], &[u8]); 5] = [
        ("nothing at all", &[], b""),
        ("the beginning of a preface", &[], b"PRI * HTT"),
        ("half of a head", &["http/1.1"], b"GET /livez HTTP/1.1\r\nhost:"),
        ("the beginning of a preface of HTTP/2", &["h2"], b"PRI * HTT"),
        ("HTTP/2 without a stream", &["h2"], preface),
    ];
    let mut connections: Vec<(&str, Connection)> = silences
        .iter()
        .map(|(name, protocols, bytes)| {
            let wire = Wire::new(api.address, protocols);
            (*name, wire.begin(bytes).expect("a connection"))
        })
        .collect();
    for (name, connection) in &mut connections {
        assert!(is_closed(connection), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_one_address_are_limited() {
    let api = Api::start();
    let wire = Wire::new(api.address, &["http/1.1"]);
    // However slowly these are made, they are never more at a time than one address may have.
    let mut connections: Vec<Connection> = (0..400).filter_map(|_| wire.connect().ok()).collect();
    let is_answered = |connection: &mut Connection| {
        let request = b"GET /livez HTTP/1.1\r\nhost: api\r\n\r\n";
        std::io::Write::write_all(connection, request).is_ok()
            && first_line(connection).starts_with("HTTP/1.1 200")
    };
    // Silent ones keep no newer one out.
    let mut newest = wire.connect().expect("a connection");
    assert!(is_answered(&mut newest), "the newest connection");
    let answered = connections
        .iter_mut()
        .map(is_answered)
        .filter(|is_answered| *is_answered);
    let answered = answered.count();
    assert!(
        answered <= 250,
        "{answered} connections without credentials at a time"
    );
    let admin = access::administrator(&api);
    admin
        .get::<Value>("/api/v1/nodes")
        .await
        .expect("the administrator's connection");
}

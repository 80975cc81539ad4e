//! Idle connections without a request: the server closes them, and limits the connections of an address.

use serde_json::Value;

use crate::access;
use crate::support::Api;
use crate::wire::{Connection, Wire, first_line, is_closed};

#[test]
fn connections_without_a_request_are_closed() {
    let api = Api::start();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let prefixes: [(&str, &[&str], &[u8]); 5] = [
        ("nothing at all", &[], b""),
        ("the beginning of a preface", &[], b"PRI * HTT"),
        (
            "an incomplete request head",
            &["http/1.1"],
            b"GET /livez HTTP/1.1\r\nhost:",
        ),
        ("the beginning of a preface of HTTP/2", &["h2"], b"PRI * HTT"),
        ("HTTP/2 without a stream", &["h2"], preface),
    ];
    let mut connections: Vec<(&str, Connection)> = prefixes
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
    // The server closes the oldest connections, so that the limit holds at any speed.
    let mut connections: Vec<Connection> = (0..400).filter_map(|_| wire.connect().ok()).collect();
    let has_response = |connection: &mut Connection| {
        let request = b"GET /livez HTTP/1.1\r\nhost: api\r\n\r\n";
        std::io::Write::write_all(connection, request).is_ok()
            && first_line(connection).starts_with("HTTP/1.1 200")
    };
    // Idle connections do not prevent new ones.
    let mut newest = wire.connect().expect("a connection");
    assert!(has_response(&mut newest), "the newest connection has no response");
    let open = connections
        .iter_mut()
        .map(has_response)
        .filter(|has_response| *has_response);
    let open = open.count();
    assert!(open <= 250, "{open} connections without credentials at a time");
    let admin = access::administrator(&api);
    admin
        .get::<Value>("/api/v1/nodes")
        .await
        .expect("a response to the administrator");
}

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::peer::{Peer, TlsPeer};
use crate::settings::ServiceName;

fn service() -> ServiceName {
    ServiceName {
        namespace: "shop".into(),
        name: "web".into(),
    }
}

fn peer() -> Peer {
    Peer::direct(
        "192.0.2.7:40000".parse().unwrap(),
        "203.0.113.5:80".parse().unwrap(),
    )
}

/// 2000-10-10T13:55:36.25Z.
fn started_at() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(971_186_136_250)
}

fn connection<'a>(service: &'a ServiceName, peer: &'a Peer) -> Record<'a> {
    Record {
        service,
        port: 80,
        started_at: started_at(),
        duration: Duration::from_millis(1500),
        peer,
        backend: Some("10.1.0.5:8080".parse().unwrap()),
        received_bytes: 5,
        sent_bytes: 7,
        outcome: "ok",
    }
}

fn request<'a>(service: &'a ServiceName, peer: &'a Peer) -> RequestRecord<'a> {
    RequestRecord {
        record: Record {
            received_bytes: 0,
            sent_bytes: 2326,
            ..connection(service, peer)
        },
        method: "GET",
        target: "/a?b=c",
        version: "HTTP/1.1",
        host: Some("a.example"),
        referer: None,
        user_agent: Some("curl/8"),
        status: 200,
    }
}

#[test]
fn formats_requests_in_the_common_log_format() {
    let (service, peer) = (service(), peer());
    let line = of_request(&request(&service, &peer), LogFormat::Common);
    assert_eq!(
        line,
        "192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] \"GET /a?b=c HTTP/1.1\" 200 2326\n"
    );
    let mut nothing = request(&service, &peer);
    nothing.record.sent_bytes = 0;
    nothing.status = 503;
    assert!(of_request(&nothing, LogFormat::Common).ends_with("\" 503 -\n"));
}

#[test]
fn formats_connections_in_the_same_shape() {
    let (service, mut peer) = (service(), peer());
    let line = of_connection(&connection(&service, &peer), LogFormat::Common);
    let expected = "192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] \"TCP 203.0.113.5:80 10.1.0.5:8080\" - 7\n";
    assert_eq!(line, expected);
    peer.tls = Some(Arc::new(TlsPeer::default()));
    let nowhere = Record {
        backend: None,
        ..connection(&service, &peer)
    };
    let line = of_connection(&nowhere, LogFormat::Common);
    assert!(line.ends_with("\"SSL 203.0.113.5:80 -\" - 7\n"), "{line}");
}

#[test]
fn formats_all_fields_as_json() {
    let (service, mut peer) = (service(), peer());
    peer.tls = Some(Arc::new(TlsPeer {
        server_name: Some("a.example".to_owned()),
        version: "TLSv1.3",
        cipher_suite: "TLS13_AES_128_GCM_SHA256".to_owned(),
        ..TlsPeer::default()
    }));
    let line = of_request(&request(&service, &peer), LogFormat::Json);
    let expected = json!({
        "time": "2000-10-10T13:55:36.25Z", "namespace": "shop", "service": "web", "port": 80,
        "client": "192.0.2.7:40000", "backend": "10.1.0.5:8080", "method": "GET", "target": "/a?b=c",
        "version": "HTTP/1.1", "host": "a.example", "status": 200, "received_bytes": 0, "sent_bytes": 2326,
        "duration_seconds": 1.5, "tls_version": "TLSv1.3", "tls_cipher_suite": "TLS13_AES_128_GCM_SHA256",
        "referer": null, "user_agent": "curl/8", "outcome": "ok",
    });
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), expected);
    let line = of_connection(&connection(&service, &peer), LogFormat::Json);
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&line["protocol"], &line["tls_server_name"]),
        (&json!("SSL"), &json!("a.example"))
    );
    assert_eq!(
        (&line["received_bytes"], &line["destination"]),
        (&json!(5), &json!("203.0.113.5:80"))
    );
}

/// U+009B begins a sequence of a terminal, as `ESC [`; U+0085 and U+2028 end a line.
#[test]
fn json_escapes_control_characters_of_unicode() {
    let (service, peer) = (service(), peer());
    let agent = "\u{9b}2J\u{85}\u{2028}\u{7f}\u{1f600}\u{e4}\t\"";
    let record = RequestRecord {
        user_agent: Some(agent),
        ..request(&service, &peer)
    };
    let line = of_request(&record, LogFormat::Json);
    let expected = r#""user_agent":"\u009b2J\u0085\u2028\u007f\ud83d\ude00\u00e4\t\""}"#;
    assert!(line.trim_end().ends_with(expected), "{line}");
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["user_agent"], json!(agent));
}

proptest! {
    #[test]
    fn clients_cannot_forge_lines(method in ".*", target in ".*", agent in ".*") {
        let (service, peer) = (service(), peer());
        let record = RequestRecord {
            method: &method,
            target: &target,
            user_agent: Some(&agent),
            host: Some(&target),
            ..request(&service, &peer)
        };
        for format in [LogFormat::Common, LogFormat::Json] {
            let line = of_request(&record, format);
            prop_assert_eq!(line.matches(['\n', '\r']).count(), 1);
            prop_assert!(line.ends_with('\n'));
            let is_plain = line.trim_end().bytes().all(|byte| matches!(byte, b' '..=b'~'));
            prop_assert!(is_plain);
        }
        let line = of_request(&record, LogFormat::Common);
        let unescaped = line.replace("\\\\", "").replace("\\\"", "");
        prop_assert_eq!(unescaped.matches('"').count(), 2);
        let line: Value = serde_json::from_str(&of_request(&record, LogFormat::Json)).unwrap();
        prop_assert_eq!(&line["target"], &json!(target));
    }

    #[test]
    fn lines_are_bounded(length in 0usize..20_000) {
        let (service, peer) = (service(), peer());
        let target = "\u{e4}".repeat(length);
        let record = RequestRecord { target: &target, user_agent: Some(&target), ..request(&service, &peer) };
        for format in [LogFormat::Common, LogFormat::Json] {
            prop_assert!(of_request(&record, format).len() < 16 * TEXT_CHARACTERS_MAX);
        }
    }
}

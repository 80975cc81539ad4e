use serde_json::json;

use super::ask::{request, status_code};
use super::*;
use crate::object::HttpHeader;

#[test]
fn thresholds_count_results_in_a_row() {
    let probe = Probe {
        success_threshold: 2,
        failure_threshold: 3,
        ..Probe::default()
    };
    let mut readiness = Readiness::default();
    let states: Vec<bool> = [1, 0, 1, 1, 0, 0, 1, 0, 0, 0, 1, 1]
        .into_iter()
        .map(|result| {
            readiness.count(result == 1, &probe);
            readiness.is_ready()
        })
        .collect();
    let expected = [0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 1].map(|s| s == 1);
    assert_eq!(states, expected);
}

#[test]
fn absent_fields_have_upstreams_defaults() {
    let probe: Probe = serde_json::from_value(json!({"tcpSocket": {"port": 1}})).unwrap();
    assert_eq!(
        (period(&probe), timeout(&probe)),
        (Duration::from_secs(10), Duration::from_secs(1))
    );
    assert_eq!((probe.success_threshold, probe.failure_threshold), (1, 3));
    let zero: Probe = serde_json::from_value(json!({"periodSeconds": 0, "timeoutSeconds": 0})).unwrap();
    assert_eq!(
        (period(&zero), timeout(&zero)),
        (Duration::from_secs(1), Duration::from_secs(1))
    );
}

#[test]
fn ports_are_numbers_or_names() {
    let container: Container =
        serde_json::from_value(json!({"ports": [{"name": "http", "containerPort": 8080}]})).unwrap();
    let number = |port: serde_json::Value| port_number(&serde_json::from_value(port).unwrap(), &container);
    assert_eq!(number(json!("http")), Some(8080));
    assert_eq!(number(json!(81)), Some(81));
    assert_eq!(number(json!("81")), Some(81));
    assert_eq!(number(json!("gone")), None);
    assert_eq!(number(json!(70000)), None);
    assert_eq!(number(json!(0)), None);
}

#[test]
fn the_request_cannot_be_split_by_an_object() {
    let header = HttpHeader {
        name: "X-A".to_owned(),
        value: "1\r\nX-B: 2".to_owned(),
    };
    let text = request("a b\r\nX-C: 3", "10.0.0.1:80", &[header]);
    assert!(
        text.starts_with("GET /a%20bX-C:%203 HTTP/1.1\r\nHost: 10.0.0.1:80\r\n"),
        "{text}"
    );
    assert!(text.contains("X-A: 1X-B: 2\r\n") && !text.contains("\r\nX-B"));
}

#[test]
fn status_lines_are_read() {
    assert_eq!(status_code(b"HTTP/1.1 204 No Content\r\nA: b"), Some(204));
    assert_eq!(status_code(b"HTTP/1.0 503\n"), Some(503));
    assert_eq!(status_code(b"SSH-2.0-OpenSSH\r\n"), None);
    assert_eq!(status_code(b""), None);
}

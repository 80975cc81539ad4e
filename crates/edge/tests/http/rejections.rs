//! Rejected requests, and that backends get none of them.

use std::time::Duration;

use crate::backend::{Backend, OK};
use crate::client::{Client, assert_status, exchange};
use crate::served::{Served, served, service};

/// Sends bytes and returns the responses. Fails if a byte reaches the backend.
#[track_caller]
fn rejected(request: &str) -> String {
    let backend = Backend::answering(OK);
    let served = served(&[backend.address]);
    let response = exchange(served.address, request);
    assert_eq!(backend.recorded(), Vec::<String>::new(), "{request:?}");
    response
}

#[test]
fn rejects_ambiguous_requests() {
    let shapes = [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4, 5\r\n\r\nabcde",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +4\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 4\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n A: b\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\nA: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\rA: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA: b\0c\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA\0: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA B: c\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / a HTTP/1.1\r\nHost: a\r\n\r\n",
        "G[T / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        "GET / HTTX/1.1\r\nHost: a\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0",
    ];
    for shape in shapes {
        let response = rejected(shape);
        assert_status(&response, 400);
        assert!(response.contains("\r\nconnection: close\r\n"), "{response}");
        assert_eq!(response.matches("HTTP/1.1 ").count(), 1, "{response}");
    }
}

#[test]
fn unsupported_requests_get_their_statuses() {
    for (request, status) in [
        ("CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n".to_owned(), 405),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n".to_owned(),
            501,
        ),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n".to_owned(), 505),
        (
            format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(40_000)),
            414,
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}\r\n\r\n", "a".repeat(40_000)),
            431,
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(200)),
            431,
        ),
    ] {
        assert_status(&rejected(&request), status);
    }
}

#[test]
fn smuggled_requests_are_rejected() {
    let backend = Backend::echoing();
    let served = served(&[backend.address]);
    let valid = "POST /good HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab";
    let invalid = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\nTransfer-Encoding: chunked\r\n\r\n\
        0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
    let responses = exchange(served.address, format!("{valid}{invalid}"));
    assert_status(&responses, 200);
    assert_eq!(responses.matches("HTTP/1.1 400 ").count(), 1, "{responses}");
    let [request] = &backend.recorded()[..] else {
        panic!("{:?}", backend.recorded())
    };
    assert!(
        request.starts_with("POST /good ") && request.ends_with("\r\n\r\nab"),
        "{request}"
    );
}

#[test]
fn malformed_chunks_end_a_request() {
    for body in [
        "5\r\nhello\r\nx\r\n\r\n",
        "5\r\nhelloo\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "0\r\nContent-Length: 1\r\n\r\n",
    ] {
        let backend = Backend::answering(OK);
        let served = served(&[backend.address]);
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        let response = exchange(served.address, request);
        assert_status(&response, 400);
        let recorded = backend.recorded();
        assert!(
            !recorded.iter().any(|request| request.ends_with("0\r\n\r\n")),
            "{recorded:?}"
        );
        assert!(recorded.len() <= 1, "{recorded:?}");
    }
}

#[test]
fn slow_requests_time_out() {
    let backend = Backend::answering(OK);
    let mut service = service(&[backend.address]);
    service.policy.idle_timeout = Duration::from_millis(300);
    let served = Served::new(service);
    let mut head = Client::connect(served.address);
    head.send("GET / HTTP/1.1\r\nHost");
    assert_status(&head.rest(), 408);
    let mut body = Client::connect(served.address);
    body.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
    assert_status(&body.rest(), 408);
    // A client without a request receives no response.
    assert_eq!(Client::connect(served.address).rest(), "");
    let recorded = backend.recorded();
    assert!(
        recorded.iter().all(|request| request.ends_with("\r\n\r\nabc")),
        "{recorded:?}"
    );
}

#[test]
fn trickling_head_times_out() {
    let backend = Backend::answering(OK);
    let mut service = service(&[backend.address]);
    service.policy.idle_timeout = Duration::from_millis(500);
    let served = Served::new(service);
    let mut client = Client::connect(served.address);
    client.send("GET / HTTP/1.1\r\n");
    // More time than the deadline allows, without a long pause.
    for _ in 0..12 {
        std::thread::sleep(Duration::from_millis(100));
        client.send("A: b\r\n");
    }
    assert_status(&client.rest(), 408);
    assert_eq!(backend.recorded(), Vec::<String>::new());
}

#[test]
fn truncated_request_is_not_forwarded_as_complete() {
    let backend = Backend::answering(OK);
    let served = served(&[backend.address]);
    let mut client = Client::connect(served.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n");
    client.finish();
    assert_eq!(client.rest(), "");
    let mut client = Client::connect(served.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel");
    client.finish();
    let response = client.rest();
    assert!(
        response.is_empty() || response.starts_with("HTTP/1.1 400 "),
        "{response}"
    );
    let recorded = backend.recorded();
    assert!(
        !recorded.iter().any(|request| request.ends_with("0\r\n\r\n")),
        "{recorded:?}"
    );
}

#[test]
fn upgrade_to_http_is_rejected() {
    let backend = Backend::answering(OK);
    let served = served(&[backend.address]);
    let response = exchange(
        served.address,
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\n\
            HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
    );
    assert_status(&response, 200);
    let request = &backend.recorded()[0];
    assert!(
        !request.contains("upgrade") && !request.contains("settings"),
        "{request}"
    );
}

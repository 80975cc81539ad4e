//! Forwarded requests and responses.

use crate::backend::{Backend, OK};
use crate::client::{Client, assert_status, exchange, get};
use crate::served::{Served, served, service};

#[test]
fn forwards_requests_with_client_headers() {
    let backend = Backend::answering(OK);
    let served = served(&[backend.address]);
    let response = exchange(
        served.address,
        "GET /a?b=%20 HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 198.51.100.1\r\nX-Forwarded-Proto: x\r\n\
            Forwarded: for=x\r\nKeep-Alive: 5\r\nX-Mine: 1\r\nConnection: x-mine, close\r\n\r\n",
    );
    assert_status(&response, 200);
    assert!(response.ends_with("\r\n\r\nok"), "{response}");
    let port = served.address.port();
    let [request] = &backend.recorded()[..] else {
        panic!("{:?}", backend.recorded())
    };
    assert!(request.starts_with("GET /a?b=%20 HTTP/1.1\r\n"), "{request}");
    let mut fields: Vec<&str> = request.trim_end().lines().skip(1).collect();
    fields.sort_unstable();
    let expected = [
        "forwarded: for=x",
        "host: a.example",
        "x-forwarded-for: 198.51.100.1, 127.0.0.1",
        &format!("x-forwarded-port: {port}"),
        "x-forwarded-proto: http",
    ];
    assert_eq!(fields, expected);
}

#[test]
fn serves_several_requests_on_a_connection() {
    let backend = Backend::echoing();
    let served = served(&[backend.address]);
    let mut client = Client::connect(served.address);
    for path in ["/1", "/2", "/3"] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(client.answer().contains(&format!("GET {path} ")));
    }
    // Pipelined requests receive their responses in order.
    client.send("GET /4 HTTP/1.1\r\nHost: a\r\n\r\nGET /5 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.answer().contains("GET /4 "));
    assert!(client.answer().contains("GET /5 "));
}

#[test]
fn absolute_targets_become_paths() {
    let backend = Backend::answering(OK);
    let served = served(&[backend.address]);
    let response = exchange(
        served.address,
        "GET http://a.example/b HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
    );
    assert_status(&response, 200);
    let request = &backend.recorded()[0];
    assert!(
        request.starts_with("GET /b HTTP/1.1\r\n") && request.contains("host: a.example\r\n"),
        "{request}"
    );
}

#[test]
fn responds_to_http10_clients() {
    let backend =
        Backend::answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n");
    let served = served(&[backend.address]);
    let response = exchange(served.address, "GET / HTTP/1.0\r\n\r\n");
    assert!(
        response.starts_with("HTTP/1.0 200 OK\r\n") && response.ends_with("\r\n\r\nok"),
        "{response}"
    );
    assert!(!response.contains("chunked"), "{response}");
    let request = &backend.recorded()[0];
    let host = format!("\r\nhost: {}\r\n", served.address);
    assert!(
        request.starts_with("GET / HTTP/1.1\r\n") && request.contains(&host),
        "{request}"
    );
}

#[test]
fn keeps_lengths_and_trailers_of_bodies() {
    let backend = Backend::echoing();
    let served = served(&[backend.address]);
    let mut client = Client::connect(served.address);
    client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    let response = client.answer();
    assert!(
        response.contains("content-length: 5\r\n") && response.ends_with("\r\n\r\nhello"),
        "{response}"
    );
    client.send(
        "POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n\
            3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 5\r\n\r\n",
    );
    let response = client.answer();
    assert!(response.contains("transfer-encoding: chunked\r\n"), "{response}");
    assert!(
        response.contains("0\r\nx-sum: 5\r\n\r\n") && !response.contains("x=y"),
        "{response}"
    );
}

#[test]
fn forwards_large_bodies_in_both_directions() {
    const BYTES: usize = 3 << 20;
    let backend = Backend::start(|connection| {
        let _head = connection.head();
        connection.answer(format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n").as_bytes());
        let mut left = BYTES;
        while left > 0 {
            let part = left.min(64 << 10);
            let taken = connection.take(part).unwrap();
            connection.answer(taken.as_bytes());
            left -= part;
        }
    });
    let served = served(&[backend.address]);
    let mut client = Client::connect(served.address);
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {BYTES}\r\n\r\n"
    ));
    let body: String = ('a'..='z').cycle().take(BYTES).collect();
    assert_status(&client.head(), 200);
    for part in body.as_bytes().chunks(256 << 10) {
        client.send(part);
        assert_eq!(client.take(part.len()).as_bytes(), part);
    }
}

#[test]
fn keeps_trailers_of_responses_for_clients_with_te() {
    let response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 2\r\n\r\n";
    let backend = Backend::answering(response);
    let served = served(&[backend.address]);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: te, close\r\n\r\n";
    let response = exchange(served.address, request);
    assert!(
        response.ends_with("2\r\nok\r\n0\r\nx-sum: 2\r\n\r\n"),
        "{response}"
    );
    assert!(
        backend.recorded()[0].contains("te: trailers\r\n"),
        "{}",
        backend.recorded()[0]
    );
}

#[test]
fn head_responses_have_no_body() {
    let backend = Backend::answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
    let served = served(&[backend.address]);
    let mut client = Client::connect(served.address);
    for _ in 0..2 {
        client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = client.head();
        assert!(head.contains("content-length: 1000\r\n"), "{head}");
    }
    assert_eq!(backend.connections(), 1);
}

#[test]
fn continue_is_sent_when_the_backend_wants_the_body() {
    let backend = Backend::start(|connection| {
        while let Some(head) = connection.head() {
            if head.starts_with("POST /no ") {
                connection.answer(b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
                continue;
            }
            connection.answer(b"HTTP/1.1 100 Continue\r\n\r\n");
            let body = connection.take(5).unwrap();
            connection.answer(format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{body}").as_bytes());
        }
    });
    let served = served(&[backend.address]);
    let request = |path| {
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    };
    let mut client = Client::connect(served.address);
    client.send(request("/yes"));
    assert_status(&client.head(), 100);
    client.send("hello");
    let response = client.answer();
    assert!(
        response.starts_with("HTTP/1.1 200 ") && response.ends_with("hello"),
        "{response}"
    );
    let mut client = Client::connect(served.address);
    client.send(request("/no"));
    assert_status(&client.rest(), 417);
}

#[test]
fn redirects_http_to_https() {
    let backend = Backend::answering(OK);
    let mut service = service(&[backend.address]);
    service.listeners[0].frontend = edge::settings::Frontend::Http {
        redirects_to_https: Some(443),
    };
    let served = Served::new(service);
    let response = exchange(
        served.address,
        "POST /a?b=c HTTP/1.1\r\nHost: a.example:8080\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
    );
    assert_status(&response, 301);
    assert!(
        response.contains("\r\nlocation: https://a.example/a?b=c\r\n"),
        "{response}"
    );
    assert_eq!(backend.recorded(), Vec::<String>::new());
}

#[test]
fn requests_choose_backends_independently() {
    let (one, other) = (Backend::answering(OK), Backend::answering(OK));
    let served = served(&[one.address, other.address]);
    let mut client = Client::connect(served.address);
    for _ in 0..4 {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_status(&client.answer(), 200);
    }
    assert_eq!((one.recorded().len(), other.recorded().len()), (2, 2));
    assert_status(&get(served.address, "/"), 200);
}

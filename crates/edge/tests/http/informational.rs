//! Informational responses of backends (RFC 9110, section 15.2).

use crate::backend::{Backend, OK};
use crate::client::{Client, assert_status, exchange};
use crate::served::served;

const HINTS: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nKeep-Alive: 5\r\n\r\n";

#[test]
fn early_hints_precede_the_response() {
    let (go, may_go) = std::sync::mpsc::channel();
    let may_go = std::sync::Mutex::new(may_go);
    let backend = Backend::start(move |connection| {
        while connection.request().is_some() {
            connection.answer(HINTS);
            connection.answer(b"HTTP/1.1 102 Processing\r\n\r\n");
            may_go.lock().unwrap().recv().unwrap();
            connection.answer(HINTS);
            connection.answer(OK);
        }
    });
    let served = served(&[backend.address]);
    let mut client = Client::connect(served.address);
    for _ in 0..2 {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let hints = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n";
        assert_eq!(client.head(), hints);
        assert_eq!(client.head(), "HTTP/1.1 102 Processing\r\n\r\n");
        // They arrive before the backend responds.
        go.send(()).unwrap();
        assert_eq!(client.head(), hints);
        assert_status(&client.answer(), 200);
    }
    assert_eq!(backend.connections(), 1);
}

#[test]
fn pipelined_requests_get_their_own_hints() {
    let backend = Backend::start(|connection| {
        while let Some(request) = connection.request() {
            let path = request.split(' ').nth(1).unwrap();
            connection.answer(format!("HTTP/1.1 103 Early Hints\r\nLink: <{path}>\r\n\r\n").as_bytes());
            connection.answer(
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len()).as_bytes(),
            );
        }
    });
    let served = served(&[backend.address]);
    let mut client = Client::connect(served.address);
    let requests: Vec<String> = (0..20)
        .map(|number| format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"))
        .collect();
    client.send(requests.concat());
    for number in 0..20 {
        assert!(client.head().contains(&format!("link: </{number}>\r\n")));
        let response = client.answer();
        assert_status(&response, 200);
        assert!(response.ends_with(&format!("/{number}")), "{response}");
    }
}

#[test]
fn http10_clients_get_no_informational_responses() {
    let backend = Backend::start(|connection| {
        connection.request();
        connection.answer(HINTS);
        connection.answer(OK);
    });
    let served = served(&[backend.address]);
    let response = exchange(served.address, "GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    assert!(response.starts_with("HTTP/1.0 200 "), "{response}");
    assert!(!response.contains("103"), "{response}");
}

#[test]
fn continue_is_sent_once_beside_hints() {
    let backend = Backend::start(|connection| {
        connection.head();
        connection.answer(HINTS);
        connection.answer(b"HTTP/1.1 100 Continue\r\n\r\n");
        let body = connection.take(5).unwrap();
        connection.answer(HINTS);
        connection.answer(format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{body}").as_bytes());
    });
    let served = served(&[backend.address]);
    let mut client = Client::connect(served.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_status(&client.head(), 103);
    assert_status(&client.head(), 100);
    client.send("hello");
    assert_status(&client.head(), 103);
    let response = client.answer();
    assert_status(&response, 200);
    assert!(response.ends_with("hello"), "{response}");
}

#[test]
fn forwards_bodies_without_expect_at_once() {
    let backend = Backend::start(|connection| {
        connection.head();
        connection.answer(b"HTTP/1.1 100 Continue\r\n\r\n");
        let body = connection.take(5).unwrap();
        connection.answer(format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{body}").as_bytes());
    });
    let served = served(&[backend.address]);
    let mut client = Client::connect(served.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    // A client that does not expect it ignores it.
    assert_status(&client.head(), 100);
    assert!(client.answer().ends_with("hello"));
}

#[test]
fn endless_informational_responses_are_bounded() {
    const COUNT: usize = 5_000;
    let backend = Backend::start(|connection| {
        connection.request();
        for _ in 0..COUNT {
            connection.answer(HINTS);
        }
        connection.answer(OK);
    });
    let served = served(&[backend.address]);
    let responses = exchange(
        served.address,
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    let hints = responses.matches("HTTP/1.1 103 ").count();
    assert!((1..=COUNT).contains(&hints), "{hints}");
    assert!(responses.ends_with("\r\n\r\nok"), "{hints}");
}

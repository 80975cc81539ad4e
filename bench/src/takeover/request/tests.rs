//! Tests of complete and incomplete responses.

use super::is_complete;

#[test]
fn waits_for_head_and_body() {
    assert!(!is_complete(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n"));
    assert!(!is_complete(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab"));
    assert!(is_complete(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd"));
}

#[test]
fn rejects_a_response_without_body() {
    assert!(!is_complete(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    assert!(!is_complete(b"HTTP/1.1 200 OK\r\n\r\nabcd"));
}

use std::io::Read;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::*;

/// Waits until the kernel has removed the connection of a socket that both sides have closed.
fn wait_until_closed(stream: &TcpStream) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while stream.peer_addr().is_ok() {
        assert!(Instant::now() < deadline, "the connection is still open");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn disconnects_a_closed_connection_for_the_same_backend() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let backend = listener.local_addr().expect("an address");
    let mut stream = TcpStream::connect(backend).expect("a connection");
    drop(listener.accept().expect("an accepted connection"));
    stream
        .read_to_end(&mut Vec::new())
        .expect("the end of the stream");
    stream.shutdown(Shutdown::Write).expect("a shutdown");
    wait_until_closed(&stream);

    assert!(disconnect(&stream, backend).expect("a disconnected socket"));

    let socket = SockRef::from(&stream);
    socket.connect(&backend.into()).expect("a second connection");
    listener.accept().expect("an accepted connection");
}

#[test]
fn keeps_an_open_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let backend = listener.local_addr().expect("an address");
    let stream = TcpStream::connect(backend).expect("a connection");
    let _accepted = listener.accept().expect("an accepted connection");

    assert!(!disconnect(&stream, backend).expect("an unchanged socket"));
    assert_eq!(stream.peer_addr().expect("a peer"), backend);
}

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::*;

/// Both ends of a connection over loopback. Splices do not wait, so tests wait for data with a read timeout or a peek.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let (server, _) = listener.accept().expect("an accepted connection");
    for stream in [&client, &server] {
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("a read timeout");
    }
    (client, server)
}

#[test]
fn moves_bytes_from_socket_to_socket() {
    let (mut client, inbound) = connection();
    let (outbound, mut backend) = connection();
    client.write_all(b"bulk data").expect("written bytes");
    inbound.peek(&mut [0; 1]).expect("received bytes");
    let mut pipe = Pipe::take().expect("a pipe");

    let filled = pipe.fill(&inbound).expect("a filled pipe");
    assert!(!pipe.is_empty());
    let drained = pipe.drain(&outbound).expect("a drained pipe");

    assert_eq!((filled, drained), (9, 9));
    assert!(pipe.is_empty());
    let mut received = [0; 9];
    backend.read_exact(&mut received).expect("relayed bytes");
    assert_eq!(&received, b"bulk data");
}

#[test]
fn reports_the_end_of_the_stream() {
    let (client, inbound) = connection();
    drop(client);
    inbound.peek(&mut [0; 1]).expect("the end of the stream");
    let mut pipe = Pipe::take().expect("a pipe");

    assert_eq!(pipe.fill(&inbound), Ok(0));
}

#[test]
fn keeps_an_empty_pipe_for_the_next_stream() {
    let first = Pipe::take().expect("a pipe");
    let descriptor = format!("{:?}", first.ends);
    drop(first);

    let second = Pipe::take().expect("a pipe");

    assert_eq!(format!("{:?}", second.ends), descriptor);
}

#[test]
fn closes_a_pipe_that_holds_bytes() {
    let (mut client, inbound) = connection();
    client.write_all(b"unsent").expect("written bytes");
    inbound.peek(&mut [0; 1]).expect("received bytes");
    let mut pipe = Pipe::take().expect("a pipe");
    pipe.fill(&inbound).expect("a filled pipe");
    let idle_pipes = IDLE_PIPES.with_borrow(Vec::len);
    drop(pipe);

    assert_eq!(IDLE_PIPES.with_borrow(Vec::len), idle_pipes);
}

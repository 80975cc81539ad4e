use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::task::Poll;

use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// Returns a connection to a backend, and the backend's side of it.
fn connect(listener: &TcpListener, to: SocketAddr) -> (TcpStream, std::net::TcpStream) {
    let socket = open(to).expect("a socket");
    let called = rustix::net::connect(&socket, &to);
    assert!(matches!(called, Ok(()) | Err(Errno::INPROGRESS)), "{called:?}");
    let (far, _) = listener.accept().expect("an accepted connection");
    (
        TcpStream::from_std(socket.into()).expect("a registered socket"),
        far,
    )
}

fn kept() -> usize {
    REUSABLE.with_borrow(VecDeque::len)
}

/// Returns true if there is data or the end to be read, once the runtime has run.
async fn has_event(stream: &TcpStream) -> bool {
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
    poll_fn(|cx| Poll::Ready(stream.poll_read_ready(cx).is_ready())).await
}

#[tokio::test]
async fn reuses_a_socket_closed_by_both_sides() {
    let (listener, address) = listener();
    let (mut first, far) = connect(&listener, address);
    drop(far);
    assert_eq!(first.read(&mut [0]).await.expect("data until the end"), 0);
    release(first, address);
    assert_eq!(kept(), 1);
    let (mut second, mut far) = connect(&listener, address);
    assert_eq!(kept(), 0, "the kept socket is used");
    assert!(!has_event(&second).await, "the end was another connection's");
    second.write_all(b"question").await.expect("the data is written");
    let mut received = [0; 8];
    far.read_exact(&mut received).expect("received data");
    assert_eq!(&received, b"question");
    far.write_all(b"answer").expect("the data is written");
    drop(far);
    let mut answer = String::new();
    second
        .read_to_string(&mut answer)
        .await
        .expect("data until the end");
    assert_eq!(answer, "answer");
}

#[tokio::test]
async fn reuses_no_socket_for_another_backend() {
    let (listener, address) = listener();
    let (mut stream, far) = connect(&listener, address);
    drop(far);
    assert_eq!(stream.read(&mut [0]).await.expect("data until the end"), 0);
    release(stream, address);
    let other = open("127.0.0.1:1".parse().expect("an address")).expect("a socket");
    assert_eq!(kept(), 1, "the kept socket is not used");
    drop(other);
    clear();
    assert_eq!(kept(), 0);
}

#[tokio::test]
async fn closes_a_socket_with_unacknowledged_fin() {
    let (listener, address) = listener();
    let (mut stream, mut far) = connect(&listener, address);
    stream
        .write_all(b"last words")
        .await
        .expect("the data is written");
    release(stream, address);
    assert_eq!(kept(), 0);
    let mut words = String::new();
    far.read_to_string(&mut words).expect("an orderly end");
    assert_eq!(words, "last words");
}

#[tokio::test]
async fn reuses_a_socket_that_was_closed_first() {
    let (listener, address) = listener();
    let (mut stream, far) = connect(&listener, address);
    stream.shutdown().await.expect("the end of the connection");
    drop(far);
    assert_eq!(stream.read(&mut [0]).await.expect("data until the end"), 0);
    release(stream, address);
    assert_eq!(kept(), 1);
    let (again, _far) = connect(&listener, address);
    assert!(!has_event(&again).await);
}

#[tokio::test]
async fn keeps_a_bounded_number_of_sockets() {
    let (listener, address) = listener();
    let calls: Vec<_> = (0..REUSABLE_MAX + 2)
        .map(|_| connect(&listener, address))
        .collect();
    for (mut stream, far) in calls {
        drop(far);
        assert_eq!(stream.read(&mut [0]).await.expect("data until the end"), 0);
        release(stream, address);
    }
    assert_eq!(kept(), REUSABLE_MAX);
}

#[tokio::test]
async fn idle_sockets_are_closed_after_the_reuse_timeout() {
    let (listener, address) = listener();
    let (mut stream, far) = connect(&listener, address);
    drop(far);
    assert_eq!(stream.read(&mut [0]).await.expect("data until the end"), 0);
    release(stream, address);
    assert!(take(address, Instant::now() + REUSE_TIMEOUT).is_none());
    assert_eq!(kept(), 0);
}

#[test]
fn closes_a_socket_without_timestamps() {
    testbed::in_namespace(|| {
        testbed::write_sysctl("net.ipv4.tcp_timestamps", "0").expect("the option is set");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let (listener, address) = listener();
            let (mut stream, far) = connect(&listener, address);
            drop(far);
            assert_eq!(stream.read(&mut [0]).await.expect("data until the end"), 0);
            release(stream, address);
            assert_eq!(kept(), 0);
        });
    });
}

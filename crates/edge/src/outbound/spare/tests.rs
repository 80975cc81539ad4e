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

/// A connection to a backend, and the backend's side.
fn call(listener: &TcpListener, to: SocketAddr) -> (TcpStream, std::net::TcpStream) {
    let socket = take(to).expect("a socket");
    let called = rustix::net::connect(&socket, &to);
    assert!(matches!(called, Ok(()) | Err(Errno::INPROGRESS)), "{called:?}");
    let (far, _) = listener.accept().expect("accepted");
    (TcpStream::from_std(socket.into()).expect("awaited"), far)
}

fn spare() -> usize {
    SPARE.with_borrow(VecDeque::len)
}

/// Whether there is something to be read, or the end, once the runtime had its turn.
async fn is_told_something(stream: &TcpStream) -> bool {
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
    poll_fn(|cx| Poll::Ready(stream.poll_read_ready(cx).is_ready())).await
}

#[tokio::test]
async fn a_socket_whose_connection_is_over_calls_again() {
    let (listener, address) = listener();
    let (mut first, far) = call(&listener, address);
    drop(far);
    assert_eq!(first.read(&mut [0]).await.expect("read to the end"), 0);
    give_back(first, address);
    assert_eq!(spare(), 1);
    let (mut second, mut far) = call(&listener, address);
    assert_eq!(spare(), 0, "it is used");
    assert!(
        !is_told_something(&second).await,
        "the end was another connection's"
    );
    second.write_all(b"question").await.expect("written");
    let mut heard = [0; 8];
    far.read_exact(&mut heard).expect("read");
    assert_eq!(&heard, b"question");
    far.write_all(b"answer").expect("written");
    drop(far);
    let mut answer = String::new();
    second.read_to_string(&mut answer).await.expect("read to the end");
    assert_eq!(answer, "answer");
}

#[tokio::test]
async fn a_socket_calls_nobody_else() {
    let (listener, address) = listener();
    let (mut stream, far) = call(&listener, address);
    drop(far);
    assert_eq!(stream.read(&mut [0]).await.expect("read to the end"), 0);
    give_back(stream, address);
    let other = take("127.0.0.1:1".parse().expect("an address")).expect("a socket");
    assert_eq!(spare(), 1, "it is not used");
    drop(other);
    close_all();
    assert_eq!(spare(), 0);
}

#[tokio::test]
async fn a_socket_whose_end_is_not_known_to_the_backend_is_closed() {
    let (listener, address) = listener();
    let (mut stream, mut far) = call(&listener, address);
    stream.write_all(b"last words").await.expect("written");
    give_back(stream, address);
    assert_eq!(spare(), 0);
    let mut words = String::new();
    far.read_to_string(&mut words)
        .expect("it ended, and did not break");
    assert_eq!(words, "last words");
}

#[tokio::test]
async fn a_socket_that_ended_first_calls_again_too() {
    let (listener, address) = listener();
    let (mut stream, far) = call(&listener, address);
    stream.shutdown().await.expect("ended");
    drop(far);
    assert_eq!(stream.read(&mut [0]).await.expect("read to the end"), 0);
    give_back(stream, address);
    assert_eq!(spare(), 1);
    let (again, _far) = call(&listener, address);
    assert!(!is_told_something(&again).await);
}

#[tokio::test]
async fn no_more_sockets_are_kept_than_may_be() {
    let (listener, address) = listener();
    let calls: Vec<_> = (0..SPARE_MAX + 2).map(|_| call(&listener, address)).collect();
    for (mut stream, far) in calls {
        drop(far);
        assert_eq!(stream.read(&mut [0]).await.expect("read to the end"), 0);
        give_back(stream, address);
    }
    assert_eq!(spare(), SPARE_MAX);
}

#[tokio::test]
async fn a_socket_is_kept_for_a_moment_only() {
    let (listener, address) = listener();
    let (mut stream, far) = call(&listener, address);
    drop(far);
    assert_eq!(stream.read(&mut [0]).await.expect("read to the end"), 0);
    give_back(stream, address);
    assert!(take_spare(address, Instant::now() + KEPT_FOR).is_none());
    assert_eq!(spare(), 0);
}

#[test]
fn a_socket_of_a_connection_without_timestamps_is_closed() {
    testbed::in_namespace(|| {
        testbed::write_sysctl("net.ipv4.tcp_timestamps", "0").expect("set");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let (listener, address) = listener();
            let (mut stream, far) = call(&listener, address);
            drop(far);
            assert_eq!(stream.read(&mut [0]).await.expect("read to the end"), 0);
            give_back(stream, address);
            assert_eq!(spare(), 0);
        });
    });
}

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::*;
use crate::stream::AbortiveClose;

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
    (
        near.expect("a connection"),
        far.expect("an accepted connection").0,
    )
}

#[tokio::test]
async fn silent_client_has_no_initial_data() {
    let (_client, from_client) = pair().await;
    let mut first = InitialData::read_available(&from_client).expect("nothing");
    assert!(first.bytes.is_empty());
    let (to_backend, _backend) = pair().await;
    assert!(!first.try_send(&to_backend).expect("no data"));
    assert!(!first.is_sent());
}

#[tokio::test]
async fn unsent_data_goes_to_another_backend() {
    let (mut client, from_client) = pair().await;
    client.write_all(b"hello").await.expect("the data is written");
    from_client.readable().await.expect("readiness");
    let mut first = InitialData::read_available(&from_client).expect("received data");
    let unconnected = socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::NONBLOCK,
        None,
    );
    let unconnected = unconnected.expect("a socket");
    first.try_send(&unconnected).expect_err("an unconnected socket");
    assert!(!first.is_sent());
    let (to_backend, backend) = pair().await;
    assert!(first.try_send(&to_backend).expect("sent data"));
    assert!(first.is_sent());
    backend.readable().await.expect("readiness");
    let mut received = [0; 8];
    assert_eq!(backend.try_read(&mut received).expect("received data"), 5);
    assert_eq!(received.get(..5), Some(b"hello".as_slice()));
}

#[tokio::test]
async fn reset_client_is_an_error() {
    let (mut client, from_client) = pair().await;
    client.abort_on_drop();
    drop(client);
    from_client.readable().await.expect("readiness");
    let error = InitialData::read_available(&from_client).expect_err("a reset");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

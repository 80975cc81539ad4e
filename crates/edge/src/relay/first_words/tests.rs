use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::*;

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
    (near.expect("connected"), far.expect("accepted").0)
}

#[tokio::test]
async fn who_has_said_nothing_is_not_waited_for() {
    let (_client, from_client) = pair().await;
    let mut first = FirstWords::hear(&from_client).expect("nothing");
    assert!(first.words.is_empty());
    let (to_backend, _backend) = pair().await;
    assert!(!first.say(&to_backend).expect("nothing is said"));
    assert!(!first.are_taken());
}

#[tokio::test]
async fn what_one_did_not_take_another_one_is_told() {
    let (mut client, from_client) = pair().await;
    client.write_all(b"hello").await.expect("written");
    from_client.readable().await.expect("there");
    let mut first = FirstWords::hear(&from_client).expect("heard");
    let nobody = socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::NONBLOCK,
        None,
    );
    let nobody = nobody.expect("a socket");
    first.say(&nobody).expect_err("it is not connected");
    assert!(!first.are_taken());
    let (to_backend, backend) = pair().await;
    assert!(first.say(&to_backend).expect("said"));
    assert!(first.are_taken());
    backend.readable().await.expect("there");
    let mut heard = [0; 8];
    assert_eq!(backend.try_read(&mut heard).expect("read"), 5);
    assert_eq!(heard.get(..5), Some(b"hello".as_slice()));
}

#[tokio::test]
async fn a_client_that_broke_off_has_nothing_to_say() {
    let (client, from_client) = pair().await;
    super::super::reset_at_close(&client);
    drop(client);
    from_client.readable().await.expect("there");
    let error = FirstWords::hear(&from_client).expect_err("a reset");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

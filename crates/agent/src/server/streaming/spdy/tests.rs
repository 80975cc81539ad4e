use super::*;

#[tokio::test]
async fn end_of_a_direction_is_not_a_reset() {
    let (near, mut far) = tokio::io::duplex(64 << 10);
    let (present, _gone) = oneshot::channel();
    let mut server = Server::start(near, present);
    let mut client = Connection::new(Role::Client);
    let id = client.open(&Headers::new()).expect("headers");
    client.send(id, b"in", true);
    far.write_all(&client.take_output()).await.expect("written");
    let mut stream = server.opened.recv().await.expect("a stream");
    assert_eq!(stream.received.recv().await, Some(Bytes::from_static(b"in")));
    assert_eq!(stream.received.recv().await, None);
    let reset = stream.reset.try_recv();
    assert_eq!(reset, Err(oneshot::error::TryRecvError::Empty));
    client.reset(id);
    far.write_all(&client.take_output()).await.expect("written");
    assert!(stream.reset.await.is_err());
}

use super::*;

/// Bytes of the longest payload of a ping (RFC 6455, section 5.5).
const PING_BYTES: u8 = 125;
/// Bytes that wait in each direction of the connection.
const CONNECTION_BYTES: usize = 1 << 10;

/// Returns the frame of a ping of a client, with a mask of zeros.
fn ping() -> Vec<u8> {
    let mut frame = vec![0x89, 0x80 | PING_BYTES, 0, 0, 0, 0];
    frame.extend(vec![b'p'; usize::from(PING_BYTES)]);
    frame
}

#[tokio::test]
async fn unread_responses_to_pings_are_bounded() {
    let (near, mut far) = tokio::io::duplex(CONNECTION_BYTES);
    let (mut sink, mut source) = accept(near).await;
    for _ in 0..2 * WRITE_BUFFER_BYTES_MAX / usize::from(PING_BYTES) {
        far.write_all(&ping()).await.expect("a ping is sent");
        let received = source.next().await;
        assert!(matches!(received, Some(Ok(Message::Ping(_)))), "{received:?}");
    }
    let flushing = async move {
        sink.flush().await.expect("responses are sent");
        drop((sink, source));
    };
    let mut responses = Vec::new();
    let ((), read) = tokio::join!(flushing, far.read_to_end(&mut responses));
    read.expect("responses are read");
    assert!(responses.len() > CONNECTION_BYTES, "{}", responses.len());
    let bytes_max = WRITE_BUFFER_BYTES_MAX + CONNECTION_BYTES + 2 * usize::from(PING_BYTES);
    assert!(responses.len() <= bytes_max, "{}", responses.len());
}

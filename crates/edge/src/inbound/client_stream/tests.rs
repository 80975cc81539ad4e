use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::*;
use crate::admission::bandwidth::{BandwidthReservation, Rate};

#[tokio::test]
async fn unread_bytes_come_first() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    let mut client = client.expect("a connection");
    let mut stream = ClientStream::new(accepted.expect("an accepted connection").0);
    assert!(stream.plain_tcp().is_some());
    stream.unread(b"header and ");
    assert!(stream.plain_tcp().is_none());
    client.write_all(b"words").await.expect("the data is written");
    client.shutdown().await.expect("the end of the connection");
    let mut first = [0; 4];
    stream.read_exact(&mut first).await.expect("received data");
    assert_eq!(&first, b"head");
    let mut rest = String::new();
    stream
        .read_to_string(&mut rest)
        .await
        .expect("data until the end");
    assert_eq!(rest, "er and words");
    assert!(stream.plain_tcp().is_some());
}

#[tokio::test(start_paused = true)]
async fn throttles_both_directions() {
    const RATE: u64 = 100_000;
    const BYTES: usize = 300_000;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (mut client, mut stream) = (
        client.expect("a connection"),
        ClientStream::new(accepted.expect("an accepted connection").0),
    );
    let began = Instant::now();
    let lane = || {
        let rate = Rate::new(RATE).expect("a limit");
        Some(Throttle::new(
            BandwidthReservation::new(Arc::default(), rate),
            began,
        ))
    };
    stream.unread(b"words before that");
    stream.throttle(Some(Box::new(ConnectionBandwidth {
        received: lane(),
        sent: lane(),
    })));
    assert!(stream.plain_tcp().is_none());
    let echo = tokio::spawn(async move {
        let (mut from, mut to) = tokio::io::split(stream);
        let copied = tokio::io::copy(&mut from, &mut to).await.expect("copied");
        to.shutdown().await.expect("the end of the connection");
        copied
    });
    let words: Vec<u8> = (0..BYTES).map(|number| (number % 251) as u8).collect();
    let (mut from, mut to) = client.split();
    let write = async {
        to.write_all(&words).await.expect("the data is written");
        to.shutdown().await.expect("the end of the connection");
    };
    let mut received = Vec::new();
    let (read, ()) = tokio::join!(from.read_to_end(&mut received), write);
    read.expect("data until the end");
    assert!(received == [&b"words before that"[..], &words].concat());
    assert_eq!(echo.await.expect("the end of the task"), received.len() as u64);
    // The runtime's clock stands still while a task can run.
    assert!(
        began.elapsed() >= Duration::from_millis(2_900),
        "{:?}",
        began.elapsed()
    );
}

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::*;
use crate::bandwidth::{Rate, Turns};

#[tokio::test]
async fn what_was_put_back_comes_first() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    let mut client = client.expect("connected");
    let mut stream = Early::new(accepted.expect("accepted").0);
    assert!(stream.bare().is_some());
    stream.put_back(b"header and ");
    assert!(stream.bare().is_none());
    client.write_all(b"words").await.expect("written");
    client.shutdown().await.expect("ended");
    let mut first = [0; 4];
    stream.read_exact(&mut first).await.expect("read");
    assert_eq!(&first, b"head");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.expect("read to the end");
    assert_eq!(rest, "er and words");
    assert!(stream.bare().is_some());
}

#[tokio::test(start_paused = true)]
async fn what_shares_a_bandwidth_takes_its_time_both_ways() {
    const RATE: u64 = 100_000;
    const BYTES: usize = 300_000;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (mut client, mut stream) = (
        client.expect("connected"),
        Early::new(accepted.expect("accepted").0),
    );
    let began = Instant::now();
    let lane = || {
        let rate = Rate::new(RATE).expect("a bound");
        Some(Lane::new(Turns::new(Arc::default(), rate), began))
    };
    stream.put_back(b"words before that");
    stream.share(Some(Box::new(SharedBandwidth {
        received: lane(),
        sent: lane(),
    })));
    assert!(stream.bare().is_none());
    let echo = tokio::spawn(async move {
        let (mut from, mut to) = tokio::io::split(stream);
        let copied = tokio::io::copy(&mut from, &mut to).await.expect("copied");
        to.shutdown().await.expect("ended");
        copied
    });
    let words: Vec<u8> = (0..BYTES).map(|number| (number % 251) as u8).collect();
    let (mut from, mut to) = client.split();
    let write = async {
        to.write_all(&words).await.expect("written");
        to.shutdown().await.expect("ended");
    };
    let mut heard = Vec::new();
    let (read, ()) = tokio::join!(from.read_to_end(&mut heard), write);
    read.expect("read to the end");
    assert!(heard == [&b"words before that"[..], &words].concat());
    assert_eq!(echo.await.expect("it ends"), heard.len() as u64);
    // The clock is the runtime's own, and stands still while there is something to do.
    assert!(
        began.elapsed() >= Duration::from_millis(2_900),
        "{:?}",
        began.elapsed()
    );
}

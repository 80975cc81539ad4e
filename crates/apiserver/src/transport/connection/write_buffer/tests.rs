use std::pin::pin;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

/// A stream that counts the writes it gets.
struct Counted {
    stream: DuplexStream,
    writes: Arc<Mutex<usize>>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        *self.writes.lock().unwrap() += 1;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

fn counted(room_bytes: usize) -> (Counted, DuplexStream, Arc<Mutex<usize>>) {
    let (near, far) = duplex(room_bytes);
    let writes = Arc::new(Mutex::new(0));
    let stream = Counted {
        stream: near,
        writes: writes.clone(),
    };
    (stream, far, writes)
}

#[tokio::test]
async fn what_is_written_at_once_is_sent_at_once() {
    let (stream, mut far, writes) = counted(1 << 20);
    let (mut corked, cork) = cork(stream);
    let connection = async move {
        for _ in 0..100 {
            corked.write_all(b"frame").await.unwrap();
            corked.flush().await.unwrap();
        }
        // Still alive: nothing but the cork sends what was written.
        corked.read_u8().await.ok();
    };
    let reading = async move {
        let mut all = vec![0; 500];
        far.read_exact(&mut all).await.unwrap();
        all
    };
    let (connection, mut streams) = (pin!(connection), Streams::default());
    let (all, ()) = tokio::join!(reading, cork.drive(connection, &mut streams));
    assert_eq!(all, b"frame".repeat(100));
    assert_eq!(*writes.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_slow_reader_gets_everything_in_order() {
    let (stream, mut far, _) = counted(1_000);
    let (mut corked, cork) = cork(stream);
    let sent: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
    let expected = sent.clone();
    let connection = async move {
        for (number, piece) in sent.chunks(30_011).enumerate() {
            corked.write_all(piece).await.unwrap();
            if number % 3 == 0 {
                corked.flush().await.unwrap();
            }
        }
        corked.shutdown().await.unwrap();
    };
    let reading = async move {
        let mut all = Vec::new();
        far.read_to_end(&mut all).await.unwrap();
        all
    };
    let (connection, mut streams) = (pin!(connection), Streams::default());
    let (all, ()) = tokio::join!(reading, cork.drive(connection, &mut streams));
    assert!(all == expected, "{} bytes came", all.len());
}

#[tokio::test]
async fn a_peer_that_is_gone_is_told() {
    let (stream, far, _) = counted(10);
    let (mut corked, cork) = cork(stream);
    drop(far);
    let connection = async move {
        loop {
            if let Err(error) = corked.write_all(b"frame").await {
                return error.kind();
            }
            if let Err(error) = corked.flush().await {
                return error.kind();
            }
            tokio::task::yield_now().await;
        }
    };
    let ended = cork.drive(pin!(connection), &mut Streams::default()).await;
    assert_eq!(ended, io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn a_connection_that_goes_on_as_something_else_sends_by_itself() {
    let (stream, mut far, _) = counted(1 << 20);
    let (mut corked, cork) = cork(stream);
    let connection = async move {
        corked.write_all(b"101 ").await.unwrap();
        corked
    };
    let mut corked = cork.drive(pin!(connection), &mut Streams::default()).await;
    drop(cork);
    corked.write_all(b"tunnel").await.unwrap();
    let mut all = [0; 10];
    far.read_exact(&mut all).await.unwrap();
    assert_eq!(&all, b"101 tunnel");
}

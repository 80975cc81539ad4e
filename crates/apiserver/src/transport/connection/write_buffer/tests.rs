use std::pin::pin;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

/// Stream that counts its writes.
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
async fn combines_small_writes() {
    let (stream, mut far, writes) = counted(1 << 20);
    let (mut stream, write_buffer) = buffered(stream);
    let connection = async move {
        for _ in 0..100 {
            stream.write_all(b"frame").await.unwrap();
            stream.flush().await.unwrap();
        }
        // The stream stays open: only the write buffer sends.
        stream.read_u8().await.ok();
    };
    let reading = async move {
        let mut all = vec![0; 500];
        far.read_exact(&mut all).await.unwrap();
        all
    };
    let (connection, mut streams) = (pin!(connection), Streams::default());
    let (all, ()) = tokio::join!(reading, write_buffer.drive(connection, &mut streams));
    assert_eq!(all, b"frame".repeat(100));
    assert_eq!(*writes.lock().unwrap(), 1);
}

#[tokio::test]
async fn slow_reader_receives_all_bytes_in_order() {
    let (stream, mut far, _) = counted(1_000);
    let (mut stream, write_buffer) = buffered(stream);
    let sent: Vec<u8> = (0..1_000_000u32).map(|number| number as u8).collect();
    let expected = sent.clone();
    let connection = async move {
        for (number, piece) in sent.chunks(30_011).enumerate() {
            stream.write_all(piece).await.unwrap();
            if number % 3 == 0 {
                stream.flush().await.unwrap();
            }
        }
        stream.shutdown().await.unwrap();
    };
    let reading = async move {
        let mut all = Vec::new();
        far.read_to_end(&mut all).await.unwrap();
        all
    };
    let (connection, mut streams) = (pin!(connection), Streams::default());
    let (all, ()) = tokio::join!(reading, write_buffer.drive(connection, &mut streams));
    assert!(all == expected, "{} bytes received", all.len());
}

#[tokio::test]
async fn reports_a_closed_peer() {
    let (stream, far, _) = counted(10);
    let (mut stream, write_buffer) = buffered(stream);
    drop(far);
    let connection = async move {
        loop {
            if let Err(error) = stream.write_all(b"frame").await {
                return error.kind();
            }
            if let Err(error) = stream.flush().await {
                return error.kind();
            }
            tokio::task::yield_now().await;
        }
    };
    let ended = write_buffer
        .drive(pin!(connection), &mut Streams::default())
        .await;
    assert_eq!(ended, io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn upgraded_connection_sends_at_once() {
    let (stream, mut far, _) = counted(1 << 20);
    let (mut stream, write_buffer) = buffered(stream);
    let connection = async move {
        stream.write_all(b"101 ").await.unwrap();
        stream
    };
    let mut stream = write_buffer
        .drive(pin!(connection), &mut Streams::default())
        .await;
    drop(write_buffer);
    stream.write_all(b"tunnel").await.unwrap();
    let mut all = [0; 10];
    far.read_exact(&mut all).await.unwrap();
    assert_eq!(&all, b"101 tunnel");
}

//! A connection of which more was read than was meant: what is left comes first.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::relay::Side;

/// A connection, and what was read of it and is to be read again.
#[derive(Debug)]
pub(crate) struct Early {
    stream: TcpStream,
    words: Box<[u8]>,
    read: usize,
}

impl Early {
    /// A connection of which nothing was read.
    pub fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            words: Box::default(),
            read: 0,
        }
    }

    /// Has these bytes be read next. All that was put back before must have been read.
    pub fn put_back(&mut self, words: &[u8]) {
        (self.words, self.read) = (words.into(), 0);
    }

    /// The connection itself.
    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }

    fn left(&self) -> &[u8] {
        self.words.get(self.read..).unwrap_or_default()
    }
}

impl Side for Early {
    fn bare(&self) -> Option<&TcpStream> {
        self.left().is_empty().then_some(&self.stream)
    }
}

impl AsyncRead for Early {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = self.left();
        if left.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let words = left.get(..buffer.remaining()).unwrap_or(left);
        buffer.put_slice(words);
        self.read += words.len();
        if self.left().is_empty() {
            self.put_back(&[]);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Early {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

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
}

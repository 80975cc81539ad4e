//! TLS stream, of either side, that sends a closing alert.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::ConnectionCommon;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use crate::stream::{AbortiveClose, RelayStream, delegate_write_control};

/// TLS stream after its handshake.
///
/// When it is shut down or dropped, it sends `close_notify` (RFC 8446, section 6.1), except after an abort. Dropping it
/// does not wait until the peer receives the alert. If the alert cannot be sent because of unsent data, the peer
/// detects a truncated stream, as it must.
#[derive(Debug)]
pub(crate) struct TlsConnection<S: RelayStream> {
    stream: TlsStream<S>,
    is_aborted: bool,
}

impl<S: RelayStream> TlsConnection<S> {
    /// Creates a stream after its handshake.
    pub(crate) fn new(stream: impl Into<TlsStream<S>>) -> Self {
        Self {
            stream: stream.into(),
            is_aborted: false,
        }
    }

    /// Returns the protocol that the handshake selected by ALPN, if any.
    pub(crate) fn alpn(&self) -> Option<&[u8]> {
        self.stream.get_ref().1.alpn_protocol()
    }

    /// Returns the stream that carries the TLS records.
    pub(crate) fn carrier_mut(&mut self) -> &mut S {
        self.stream.get_mut().0
    }
}

impl<S: RelayStream> Drop for TlsConnection<S> {
    fn drop(&mut self) {
        if self.is_aborted {
            return;
        }
        let sent = match &mut self.stream {
            TlsStream::Client(stream) => {
                let (carrier, tls) = stream.get_mut();
                send_close_notify(carrier.tcp(), tls)
            }
            TlsStream::Server(stream) => {
                let (carrier, tls) = stream.get_mut();
                send_close_notify(carrier.tcp(), tls)
            }
        };
        if let Err(error) = sent {
            tracing::trace!(%error, "close_notify not sent");
        }
    }
}

/// Sends `close_notify`, unless it was sent.
fn send_close_notify<D>(socket: &TcpStream, tls: &mut ConnectionCommon<D>) -> io::Result<()> {
    tls.send_close_notify();
    let mut socket = NonBlockingWriter(SockRef::from(socket));
    while tls.wants_write() {
        tls.write_tls(&mut socket)?;
    }
    Ok(())
}

/// Writes the bytes that the kernel takes at once.
struct NonBlockingWriter<'a>(SockRef<'a>);

impl Write for NonBlockingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Sockets of the runtime never block.
        self.0.send(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: RelayStream> AbortiveClose for TlsConnection<S> {
    fn abort_on_drop(&mut self) {
        self.is_aborted = true;
        self.carrier_mut().abort_on_drop();
    }
}

impl<S: RelayStream> RelayStream for TlsConnection<S> {
    fn plain_tcp(&self) -> Option<&TcpStream> {
        None
    }

    fn tcp(&self) -> &TcpStream {
        self.stream.get_ref().0.tcp()
    }

    fn is_tls(&self) -> bool {
        true
    }

    fn is_throttled(&self) -> bool {
        self.stream.get_ref().0.is_throttled()
    }
}

impl<S: RelayStream> AsyncRead for TlsConnection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: RelayStream> AsyncWrite for TlsConnection<S> {
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

    delegate_write_control!(stream);
}

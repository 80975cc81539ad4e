//! A connection inside of TLS, at either end, that tells its peer when it ends.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::ConnectionCommon;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use crate::relay::{BreakOff, Side, carried_by};

/// A connection whose handshake is complete. However it ends, its peer is told so by a `close_notify` (RFC 8446, 6.1): by
/// shutting it down, or when it is dropped. What the peer does not take in that moment is not waited for; then words of the
/// stream are still in front of the alert, and the peer is right to take it for one that broke off.
#[derive(Debug)]
pub(crate) struct TlsConnection<S: Side> {
    stream: TlsStream<S>,
    is_broken_off: bool,
}

impl<S: Side> TlsConnection<S> {
    /// Of a handshake.
    pub fn new(stream: impl Into<TlsStream<S>>) -> Self {
        Self {
            stream: stream.into(),
            is_broken_off: false,
        }
    }

    /// The protocol that the handshake agreed on, if it did on one.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.stream.get_ref().1.alpn_protocol()
    }

    /// The connection that carries it.
    pub fn carrier_mut(&mut self) -> &mut S {
        self.stream.get_mut().0
    }
}

impl<S: Side> Drop for TlsConnection<S> {
    fn drop(&mut self) {
        if self.is_broken_off {
            return;
        }
        let told = match &mut self.stream {
            TlsStream::Client(stream) => {
                let (carrier, tls) = stream.get_mut();
                say_farewell(carrier.socket(), tls)
            }
            TlsStream::Server(stream) => {
                let (carrier, tls) = stream.get_mut();
                say_farewell(carrier.socket(), tls)
            }
        };
        if let Err(error) = told {
            tracing::trace!(%error, "a peer is not told that its connection ends");
        }
    }
}

/// Says that nothing more will come, unless that was said.
fn say_farewell<D>(socket: &TcpStream, tls: &mut ConnectionCommon<D>) -> io::Result<()> {
    tls.send_close_notify();
    let mut socket = AtOnce(SockRef::from(socket));
    while tls.wants_write() {
        tls.write_tls(&mut socket)?;
    }
    Ok(())
}

/// Writes what the kernel takes without waiting.
struct AtOnce<'a>(SockRef<'a>);

impl Write for AtOnce<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Sockets of the runtime never block.
        self.0.send(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: Side> BreakOff for TlsConnection<S> {
    fn break_off(&mut self) {
        self.is_broken_off = true;
        self.carrier_mut().break_off();
    }
}

impl<S: Side> Side for TlsConnection<S> {
    fn bare(&self) -> Option<&TcpStream> {
        None
    }

    fn socket(&self) -> &TcpStream {
        self.stream.get_ref().0.socket()
    }

    fn is_tls(&self) -> bool {
        true
    }

    fn is_held_back(&self) -> bool {
        self.stream.get_ref().0.is_held_back()
    }
}

impl<S: Side> AsyncRead for TlsConnection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: Side> AsyncWrite for TlsConnection<S> {
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

    carried_by!(stream);
}

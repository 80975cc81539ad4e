//! Streams that the edge relays: TCP, with or without TLS.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Stream to a client or to a backend.
pub(crate) trait RelayStream: AsyncRead + AsyncWrite + AbortiveClose + Unpin {
    /// Returns the TCP socket, if its bytes pass unchanged: then the kernel can splice them.
    fn plain_tcp(&self) -> Option<&TcpStream>;

    /// Returns the TCP socket that carries the stream.
    fn tcp(&self) -> &TcpStream;

    /// Returns true for a stream inside of TLS, which has an alert for the end of the stream.
    fn is_tls(&self) -> bool {
        false
    }

    /// Returns true while the stream waits for bandwidth. The peer has not caused the idle time of such a stream.
    fn is_throttled(&self) -> bool {
        false
    }
}

/// Stream that can close before it has sent all of its data.
pub(crate) trait AbortiveClose {
    /// Makes the stream end with a reset when it is dropped, so that the peer detects that the data is incomplete.
    fn abort_on_drop(&mut self);
}

impl RelayStream for TcpStream {
    fn plain_tcp(&self) -> Option<&TcpStream> {
        Some(self)
    }

    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl AbortiveClose for TcpStream {
    fn abort_on_drop(&mut self) {
        reset_on_drop(self);
    }
}

/// Methods of `AsyncWrite`, except writing, that a stream delegates to the field that carries it.
macro_rules! delegate_write_control {
    ($field:ident) => {
        fn is_write_vectored(&self) -> bool {
            self.$field.is_write_vectored()
        }

        fn poll_flush(
            mut self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
        ) -> ::std::task::Poll<::std::io::Result<()>> {
            ::std::pin::Pin::new(&mut self.$field).poll_flush(cx)
        }

        fn poll_shutdown(
            mut self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
        ) -> ::std::task::Poll<::std::io::Result<()>> {
            ::std::pin::Pin::new(&mut self.$field).poll_shutdown(cx)
        }
    };
}
pub(crate) use delegate_write_control;

/// Informs the peer of the end when the stream is dropped. TLS sends an alert, plain TCP a reset.
pub(crate) fn close_early(stream: &mut impl RelayStream) {
    if !stream.is_tls() {
        stream.abort_on_drop();
    }
}

/// Makes a socket send a reset when it is closed.
fn reset_on_drop(stream: &TcpStream) {
    // A linger time of zero discards unsent data and sends RST at close (socket(7), SO_LINGER).
    if let Err(error) = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)) {
        tracing::debug!(%error, "SO_LINGER not set; the connection closes without a reset");
    }
}

//! Connections to backends: choice, attempts, TLS and socket options.

pub(crate) mod socket_reuse;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::Errno;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::backends::ChosenBackend;
use crate::peer::Peer;
use crate::port::{Port, PortSettings};
use crate::proxy_protocol::{Addresses, Header, write_version1, write_version2};
use crate::relay::InitialData;
use crate::settings::{BackendProtocol, Frontend, ProxyVersion};
use crate::stream::{AbortiveClose, RelayStream};
use crate::tls::{self, TlsConnection};

/// Time for which sent data may stay unacknowledged (TCP_USER_TIMEOUT). It detects a backend that has ended without
/// closing its connections, also if many requests share a connection.
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(20);
/// Idle time before the first keep-alive probe.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(20);
/// Time between keep-alive probes.
const KEEPALIVE_PERIOD: Duration = Duration::from_secs(5);
/// Unanswered keep-alive probes after which a connection has failed.
const KEEPALIVE_PROBES: u32 = 3;
/// Maximum number of backends that are tried for one connection.
const ATTEMPTS_MAX: usize = 4;

/// Connection to a backend.
#[derive(Debug)]
pub(crate) enum BackendStream {
    /// TCP without TLS.
    Plain(TcpStream),
    /// TCP with TLS.
    Tls(Box<TlsConnection<TcpStream>>),
}

impl BackendStream {
    /// Returns the protocol that the TLS handshake selected by ALPN, if any.
    pub(crate) fn alpn(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.alpn(),
        }
    }
}

/// Reason why the edge has no connection to a backend. Another backend, or a later attempt, can succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The TCP connection failed.
    #[error("connection to backend {to} failed: {source}")]
    Connect {
        /// Address of the backend.
        to: SocketAddr,
        /// I/O error.
        source: io::Error,
    },
    /// The PROXY header was not sent.
    #[error("PROXY header not sent to backend {to}: {source}")]
    Header {
        /// Address of the backend.
        to: SocketAddr,
        /// I/O error.
        source: io::Error,
    },
    /// The TLS handshake failed.
    #[error("TLS handshake with backend {to} failed: {source}")]
    Tls {
        /// Address of the backend.
        to: SocketAddr,
        /// I/O error, with the TLS alert if there is one.
        source: io::Error,
    },
    /// Connection, PROXY header and handshake took longer than the limit.
    #[error("connection to backend {to} not open within {limit:?}")]
    Timeout {
        /// Address of the backend.
        to: SocketAddr,
        /// Time limit of all steps together.
        limit: Duration,
    },
    /// The Service has no backend, or all its backends have failed.
    #[error("no backend available")]
    NoBackend,
}

/// Connects to the chosen backend within `connect_timeout`. Sends a PROXY header if the Service has one, and
/// completes the TLS handshake if the backend protocol has one. Success or failure counts for the ejection of
/// the backend.
pub(crate) async fn connect(
    port: &Arc<Port>,
    chosen: &ChosenBackend,
    peer: &Peer,
) -> Result<BackendStream, ConnectError> {
    connect_with(port, chosen, peer, true, &mut InitialData::default()).await
}

/// Connects like [`connect`] without offering HTTP/2: only HTTP/1.1 can switch to another protocol.
pub(crate) async fn connect_http1(
    port: &Arc<Port>,
    chosen: &ChosenBackend,
    peer: &Peer,
) -> Result<BackendStream, ConnectError> {
    connect_with(port, chosen, peer, false, &mut InitialData::default()).await
}

/// Connects to a chosen backend, and records the result. The PROXY header is sent first.
async fn connect_with(
    port: &Arc<Port>,
    chosen: &ChosenBackend,
    peer: &Peer,
    offers_http2: bool,
    initial: &mut InitialData,
) -> Result<BackendStream, ConnectError> {
    let settings = port.policy.settings();
    let to = chosen.backend.address;
    let header = Header::For(Addresses {
        source: peer.client,
        destination: peer.destination,
    });
    let is_http = matches!(
        settings.listener.frontend,
        Frontend::Http { .. } | Frontend::Https(_)
    );
    let protocols = match settings.listener.backend_protocol {
        BackendProtocol::Tcp | BackendProtocol::Http | BackendProtocol::Http2 => None,
        BackendProtocol::Ssl | BackendProtocol::Https if !is_http => {
            // The bytes pass unchanged, so they belong to the protocol that the client has negotiated.
            let agreed = peer.tls.as_ref().and_then(|tls| tls.alpn.clone());
            Some(agreed.into_iter().collect())
        }
        BackendProtocol::Ssl | BackendProtocol::Https if offers_http2 => Some(tls::http_protocols()),
        BackendProtocol::Ssl | BackendProtocol::Https => Some(Vec::new()),
    };
    let tls = protocols.map(|protocols| (port.tls_to_backends(), protocols));
    let limit = settings.service.policy.connect_timeout;
    let proxy_header = proxy_header(&settings, header, Some(peer));
    let opened = timeout(limit, open(to, proxy_header, tls, initial)).await;
    let result = opened.unwrap_or(Err(ConnectError::Timeout { to, limit }));
    // A relayed connection ends with its client or by its idle timeout. Only a connection that is pooled for other
    // requests can stay open after its backend has failed.
    if let (true, Ok(stream)) = (is_http, &result)
        && let Err(error) = enable_keep_alive(stream.tcp())
    {
        tracing::debug!(%error, port = %port.key, "backend connection without keep-alive");
    }
    if let Err(error) = &result {
        tracing::debug!(%error, port = %port.key, "backend not reached");
        chosen.backend.record_failure(error.to_string());
    }
    port.policy
        .backends()
        .record_connect(&chosen.backend, result.is_ok());
    result
}

/// Connects to a backend of [`PortPolicy::choose`](crate::port::PortPolicy::choose), and to another one where
/// that fails. A backend that is near, and gets neither a PROXY header nor a handshake, gets the client's
/// initial data at once.
pub(crate) async fn connect_any(
    port: &Arc<Port>,
    peer: &Peer,
    initial: &mut InitialData,
) -> Result<(ChosenBackend, BackendStream), ConnectError> {
    let mut tried = Vec::new();
    let mut last = ConnectError::NoBackend;
    while tried.len() < ATTEMPTS_MAX {
        let Some(chosen) = port.policy.choose(peer.ip(), &tried) else {
            break;
        };
        match connect_with(port, &chosen, peer, true, initial).await {
            Ok(stream) => return Ok((chosen, stream)),
            Err(error) => last = error,
        }
        tried.push(chosen.backend.address);
    }
    Err(last)
}

/// Connects for a health check. A PROXY header states that there is no client.
pub(crate) async fn connect_for_check(
    port: &Port,
    settings: &PortSettings,
    to: SocketAddr,
    is_tls: bool,
) -> Result<BackendStream, ConnectError> {
    let tls = is_tls.then(|| (port.tls_to_backends(), Vec::new()));
    let proxy_header = proxy_header(settings, Header::Own, None);
    open(to, proxy_header, tls, &mut InitialData::default()).await
}

/// Returns the bytes of the PROXY header that backends of the Service expect, if any.
fn proxy_header(settings: &PortSettings, header: Header, peer: Option<&Peer>) -> Option<Vec<u8>> {
    let version = settings.service.policy.proxy_protocol_to_backends?;
    let mut bytes = Vec::new();
    match version {
        ProxyVersion::V1 => write_version1(header, &mut bytes),
        ProxyVersion::V2 => {
            let tls = peer.and_then(|peer| peer.tls.as_deref());
            write_version2(header, tls, &mut bytes);
        }
    }
    Some(bytes)
}

/// Opens a connection, with TLS that offers the given protocols by ALPN if `tls` is present. Without PROXY
/// header and TLS, the initial data goes out with the connection.
async fn open(
    to: SocketAddr,
    proxy_header: Option<Vec<u8>>,
    tls: Option<(&Arc<ClientConfig>, Vec<Vec<u8>>)>,
    initial: &mut InitialData,
) -> Result<BackendStream, ConnectError> {
    let initial = (proxy_header.is_none() && tls.is_none()).then_some(initial);
    let mut stream = connect_tcp(to, initial)
        .await
        .map_err(|source| ConnectError::Connect { to, source })?;
    if let Some(bytes) = proxy_header {
        let sent = stream.write_all(&bytes).await;
        sent.map_err(|source| ConnectError::Header { to, source })?;
    }
    let Some((config, protocols)) = tls else {
        return Ok(BackendStream::Plain(stream));
    };
    let connector = TlsConnector::from(config.clone());
    let connector = connector.with_alpn(protocols);
    let handshake = Box::pin(connector.connect(ServerName::from(to.ip()), stream)).await;
    let stream = handshake.map_err(|source| ConnectError::Tls { to, source })?;
    Ok(BackendStream::Tls(Box::new(TlsConnection::new(stream))))
}

async fn connect_tcp(to: SocketAddr, initial: Option<&mut InitialData>) -> io::Result<TcpStream> {
    let socket = socket_reuse::open(to)?;
    // Without a quick acknowledgement, the third segment of the TCP handshake contains the initial data.
    if let Err(error) = socket.set_tcp_quickack(false) {
        tracing::debug!(%error, "TCP_QUICKACK not disabled; the handshake takes one segment more");
    }
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from_std(socket.into())?;
    // No step after this one may fail: data that one backend has taken must not go to another one.
    let is_connected = initial.map_or(Ok(false), |initial| initial.try_send(&stream))?;
    if !is_connected {
        let ready = stream.ready(Interest::WRITABLE).await?;
        // For a failed connection the kernel reports the end of writing as well.
        if ready.is_write_closed()
            && let Some(error) = stream.take_error()?
        {
            return Err(error);
        }
    }
    Ok(stream)
}

/// Enables keep-alive, which ends a connection whose backend host has failed.
fn enable_keep_alive(stream: &TcpStream) -> io::Result<()> {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_PERIOD)
        .with_retries(KEEPALIVE_PROBES);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_TIMEOUT))
}

impl RelayStream for BackendStream {
    fn plain_tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Plain(stream) => Some(stream),
            Self::Tls(_) => None,
        }
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.tcp(),
        }
    }

    fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

impl AbortiveClose for BackendStream {
    fn abort_on_drop(&mut self) {
        match self {
            Self::Plain(stream) => stream.abort_on_drop(),
            Self::Tls(stream) => stream.abort_on_drop(),
        }
    }
}

impl AsyncRead for BackendStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for BackendStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

//! Connections to backends.

pub(crate) mod spare;

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

use crate::backends::Chosen;
use crate::peer::Peer;
use crate::port::{Current, Port};
use crate::proxy_protocol::{Addresses, Header, write_version1, write_version2};
use crate::relay::{BreakOff, FirstWords, Side};
use crate::settings::{BackendProtocol, Frontend, ProxyVersion};
use crate::tls::{self, TlsConnection};

/// How long what was sent may be without acknowledgement: a machine that is gone without a word is found out, also
/// where many requests share its connection.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(20);
/// When a silent connection is asked whether it is still there, and how often again until it is given up.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(20);
const KEEPALIVE_PERIOD: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 3;
/// Backends that are tried for one connection.
const TRIES_MAX: usize = 4;

/// A connection to a backend.
#[derive(Debug)]
pub(crate) enum Outbound {
    /// Bytes.
    Plain(TcpStream),
    /// Bytes inside of TLS.
    Tls(Box<TlsConnection<TcpStream>>),
}

impl Outbound {
    /// The protocol that the handshake agreed on, if there was one.
    pub fn alpn(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.alpn(),
        }
    }
}

/// No connection to a backend. Another backend, or a later attempt, may take it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No connection.
    #[error("connecting to backend {to}: {source}")]
    Connect {
        /// Whom.
        to: SocketAddr,
        /// What failed.
        source: io::Error,
    },
    /// The PROXY header could not be sent.
    #[error("sending the PROXY header to backend {to}: {source}")]
    Header {
        /// Whom.
        to: SocketAddr,
        /// What failed.
        source: io::Error,
    },
    /// The handshake failed.
    #[error("TLS handshake with backend {to}: {source}")]
    Tls {
        /// Whom.
        to: SocketAddr,
        /// What failed.
        source: io::Error,
    },
    /// All of that took too long.
    #[error("backend {to} did not answer within {limit:?}")]
    Timeout {
        /// Whom.
        to: SocketAddr,
        /// How long it had.
        limit: Duration,
    },
    /// There is no backend, or no other one after those that failed.
    #[error("no backend is left to be asked")]
    Nobody,
}

/// Connects to a backend that was chosen, within `connect_timeout`: sends the PROXY header if the Service asks for one, and
/// completes the TLS handshake if the backend protocol has it. What comes of it counts for the backend's ejection.
pub(crate) async fn connect(
    port: &Arc<Port>,
    chosen: &Chosen,
    peer: &Peer,
) -> Result<Outbound, ConnectError> {
    connect_with(port, chosen, peer, true, &mut FirstWords::default()).await
}

/// The same, with HTTP/2 not offered to the backend: other protocols can take the place of HTTP/1.1 only.
pub(crate) async fn connect_http1(
    port: &Arc<Port>,
    chosen: &Chosen,
    peer: &Peer,
) -> Result<Outbound, ConnectError> {
    connect_with(port, chosen, peer, false, &mut FirstWords::default()).await
}

async fn connect_with(
    port: &Arc<Port>,
    chosen: &Chosen,
    peer: &Peer,
    offers_http2: bool,
    first: &mut FirstWords,
) -> Result<Outbound, ConnectError> {
    let current = port.current();
    let to = chosen.backend.address;
    let header = Header::For(Addresses {
        source: peer.client,
        destination: peer.destination,
    });
    let is_http = matches!(
        current.listener.frontend,
        Frontend::Http { .. } | Frontend::Https(_)
    );
    let protocols = match current.listener.backend_protocol {
        BackendProtocol::Tcp | BackendProtocol::Http => None,
        BackendProtocol::Ssl | BackendProtocol::Https if is_http => Some(match offers_http2 {
            true => tls::http_protocols(),
            false => Vec::new(),
        }),
        // What is passed on as it comes is of the protocol that the client agreed on.
        BackendProtocol::Ssl | BackendProtocol::Https => {
            let agreed = peer.tls.as_ref().and_then(|tls| tls.alpn.clone());
            Some(agreed.into_iter().collect())
        }
    };
    let tls = protocols.map(|protocols| (&port.shared.tls_to_backends, protocols));
    let limit = current.service.policy.connect_timeout;
    let introduction = introduction(&current, header, Some(peer));
    let opened = timeout(limit, open(to, introduction, tls, first)).await;
    let result = opened.unwrap_or(Err(ConnectError::Timeout { to, limit }));
    // Bytes end with their client, or by silence; only what is kept for other requests can outlive its backend unnoticed.
    if let (true, Ok(stream)) = (is_http, &result)
        && let Err(error) = watch_over(stream.socket())
    {
        tracing::debug!(%error, port = %port.key, "a backend that goes without a word is not found out");
    }
    if let Err(error) = &result {
        tracing::debug!(%error, port = %port.key, "a backend is not reached");
        chosen.backend.remember_failure(error.to_string());
    }
    port.backends().note(&chosen.backend, result.is_ok());
    result
}

/// The same with another backend where one fails, as often as that makes sense, each chosen by [`Port::choose`]. One that is
/// near, and is to be told nothing else before, is told what the client has said at once.
pub(crate) async fn connect_any(
    port: &Arc<Port>,
    peer: &Peer,
    first: &mut FirstWords,
) -> Result<(Chosen, Outbound), ConnectError> {
    let mut tried = Vec::new();
    let mut last = ConnectError::Nobody;
    while tried.len() < TRIES_MAX {
        let Some(chosen) = port.choose(peer.ip(), &tried) else {
            break;
        };
        match connect_with(port, &chosen, peer, true, first).await {
            Ok(stream) => return Ok((chosen, stream)),
            Err(error) => last = error,
        }
        tried.push(chosen.backend.address);
    }
    Err(last)
}

/// Connects for a health check. There is no client: a PROXY header says so.
pub(crate) async fn connect_to_check(
    port: &Port,
    current: &Current,
    to: SocketAddr,
    is_tls: bool,
) -> Result<Outbound, ConnectError> {
    let tls = is_tls.then(|| (&port.shared.tls_to_backends, Vec::new()));
    let introduction = introduction(current, Header::Own, None);
    open(to, introduction, tls, &mut FirstWords::default()).await
}

/// The PROXY header that a backend is sent, if it is sent one.
fn introduction(current: &Current, header: Header, peer: Option<&Peer>) -> Option<Vec<u8>> {
    let version = current.service.policy.proxy_protocol_to_backends?;
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

/// Connects, with TLS if that is given, which offers these protocols by ALPN. Where there is nothing to be said before, the
/// client's first words may be said already.
async fn open(
    to: SocketAddr,
    introduction: Option<Vec<u8>>,
    tls: Option<(&Arc<ClientConfig>, Vec<Vec<u8>>)>,
    first: &mut FirstWords,
) -> Result<Outbound, ConnectError> {
    let first = (introduction.is_none() && tls.is_none()).then_some(first);
    let mut stream = dial(to, first)
        .await
        .map_err(|source| ConnectError::Connect { to, source })?;
    if let Some(bytes) = introduction {
        let sent = stream.write_all(&bytes).await;
        sent.map_err(|source| ConnectError::Header { to, source })?;
    }
    let Some((config, protocols)) = tls else {
        return Ok(Outbound::Plain(stream));
    };
    let connector = TlsConnector::from(config.clone());
    let connector = connector.with_alpn(protocols);
    let shaken = Box::pin(connector.connect(ServerName::from(to.ip()), stream)).await;
    let stream = shaken.map_err(|source| ConnectError::Tls { to, source })?;
    Ok(Outbound::Tls(Box::new(TlsConnection::new(stream))))
}

async fn dial(to: SocketAddr, first: Option<&mut FirstWords>) -> io::Result<TcpStream> {
    let socket = spare::take(to)?;
    // That the handshake is complete is told with the first words, which mostly follow at once.
    if let Err(error) = socket.set_tcp_quickack(false) {
        tracing::debug!(%error, "a backend is told twice that it is connected");
    }
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from_std(socket.into())?;
    // The last thing that may fail: what it took nobody else is told.
    let is_connected = first.map_or(Ok(false), |first| first.say(&stream))?;
    if !is_connected {
        // Of one that has failed the kernel tells its end too.
        let ready = stream.ready(Interest::WRITABLE).await?;
        if ready.is_write_closed()
            && let Some(error) = stream.take_error()?
        {
            return Err(error);
        }
    }
    Ok(stream)
}

/// Tells a backend that it is connected, where no words do: it may be the one to speak first.
pub(crate) fn acknowledge(stream: &TcpStream) {
    if let Err(error) = SockRef::from(stream).set_tcp_quickack(true) {
        tracing::debug!(%error, "a backend may learn late that it is connected");
    }
}

/// Has a connection break when the other machine is gone without a word.
fn watch_over(stream: &TcpStream) -> io::Result<()> {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_PERIOD)
        .with_retries(KEEPALIVE_PROBES);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))
}

impl Side for Outbound {
    fn bare(&self) -> Option<&TcpStream> {
        match self {
            Self::Plain(stream) => Some(stream),
            Self::Tls(_) => None,
        }
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.socket(),
        }
    }

    fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

impl BreakOff for Outbound {
    fn break_off(&mut self) {
        match self {
            Self::Plain(stream) => stream.break_off(),
            Self::Tls(stream) => stream.break_off(),
        }
    }
}

impl AsyncRead for Outbound {
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

impl AsyncWrite for Outbound {
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

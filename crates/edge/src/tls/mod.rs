//! TLS: how it ends here for clients, and how backends are spoken to.

mod certificates;
mod connection;

use std::io;
use std::sync::Arc;

use rustls::server::{Acceptor, NoServerSessionStorage, ProducesTickets};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};

use crate::faults::Fault;
use crate::peer::TlsPeer;
use crate::settings::{Alpn, Tls, TlsPolicy};
use certificates::Certificates;
pub(crate) use connection::TlsConnection;

/// What HTTP listeners and backends agree on by ALPN, the preferred one first.
const HTTP_PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// How TLS ends at a port.
#[derive(Debug)]
pub(crate) struct Ending {
    /// For handshakes.
    pub config: Arc<ServerConfig>,
    /// For clients that offer none of the protocols that were asked for, and go on without.
    without_alpn: Option<Arc<ServerConfig>>,
    certificates: Arc<Certificates>,
}

impl Ending {
    /// Sets up handshakes. Certificates that cannot be used are told of; in the place of each, the one of the same source
    /// that `former` had goes on being used. Nothing without any certificate.
    pub fn new(
        tls: &Tls,
        is_http: bool,
        former: Option<&Self>,
        tickets: Option<Arc<dyn ProducesTickets>>,
    ) -> (Option<Self>, Vec<Fault>) {
        let former = former.map(|former| &*former.certificates);
        let (certificates, mut faults) = Certificates::load(&tls.certificates, former);
        let Some(certificates) = certificates.map(Arc::new) else {
            faults.push(Fault::NoCertificate);
            return (None, faults);
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = match builder.with_protocol_versions(versions(tls.policy)) {
            Ok(builder) => builder,
            // Both versions are compiled in.
            Err(error) => {
                tracing::error!(%error, "TLS cannot be set up");
                faults.push(Fault::NoCertificate);
                return (None, faults);
            }
        };
        let mut config = builder
            .with_no_client_auth()
            .with_cert_resolver(certificates.clone());
        config.session_storage = Arc::new(NoServerSessionStorage {});
        if let Some(tickets) = tickets {
            config.ticketer = tickets;
        }
        let is_asked_for = !matches!(tls.alpn, Alpn::AsSpoken | Alpn::Never);
        let without_alpn = is_asked_for.then(|| Arc::new(config.clone()));
        let protocols = protocols(tls.alpn, is_http).iter();
        config.alpn_protocols = protocols.map(|protocol| protocol.to_vec()).collect();
        let ending = Self {
            config: Arc::new(config),
            without_alpn,
            certificates,
        };
        (Some(ending), faults)
    }

    /// Completes the handshake with a client.
    pub async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Some(without_alpn) = &self.without_alpn else {
            return TlsAcceptor::from(self.config.clone()).accept(stream).await;
        };
        let begun = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let ours = &self.config.alpn_protocols;
        let offered = begun.client_hello().alpn();
        let is_common =
            offered.is_none_or(|mut offered| offered.any(|offer| ours.iter().any(|our| our == offer)));
        let config = if is_common { &self.config } else { without_alpn };
        begun.into_stream(config.clone()).await
    }
}

/// What clients may agree on by ALPN, the preferred one first.
fn protocols(alpn: Alpn, is_http: bool) -> &'static [&'static [u8]] {
    match alpn {
        Alpn::AsSpoken if is_http => &HTTP_PROTOCOLS,
        Alpn::AsSpoken | Alpn::Never => &[],
        Alpn::Http1Only => &[b"http/1.1", b"http/1.0"],
        Alpn::Http2Only => &[b"h2"],
        Alpn::Http2Optional => &[b"http/1.1", b"http/1.0", b"h2"],
        Alpn::Http2Preferred => &[b"h2", b"http/1.1", b"http/1.0"],
    }
}

fn versions(policy: TlsPolicy) -> &'static [&'static SupportedProtocolVersion] {
    const BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
    match policy {
        TlsPolicy::Tls12And13 => BOTH,
        TlsPolicy::Tls13 => &BOTH[..1],
        TlsPolicy::Tls12 => &BOTH[1..],
    }
}

/// Keys for session tickets, renewed by themselves. Without them, sessions are not resumed.
pub(crate) fn tickets() -> Option<Arc<dyn ProducesTickets>> {
    match rustls::crypto::ring::Ticketer::new() {
        Ok(tickets) => Some(tickets),
        Err(error) => {
            tracing::warn!(%error, "TLS sessions are not resumed: no keys for their tickets");
            None
        }
    }
}

/// What backends that speak HTTP are offered by ALPN.
pub(crate) fn http_protocols() -> Vec<Vec<u8>> {
    HTTP_PROTOCOLS.map(<[u8]>::to_vec).to_vec()
}

/// What a handshake agreed on.
pub(crate) fn agreed(connection: &ServerConnection) -> TlsPeer {
    TlsPeer {
        server_name: connection.server_name().map(ToOwned::to_owned),
        alpn: connection.alpn_protocol().map(ToOwned::to_owned),
        version: match connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        },
        cipher_suite: connection
            .negotiated_cipher_suite()
            .and_then(|suite| suite.suite().as_str())
            .unwrap_or_default()
            .to_owned(),
    }
}

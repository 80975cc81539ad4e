//! TLS termination for clients, and TLS towards backends.

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
pub use certificates::certificate_fault;
pub(crate) use connection::TlsConnection;

/// Protocols of HTTP listeners and backends for ALPN, the preferred one first.
const HTTP_PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// TLS termination of a port.
#[derive(Debug)]
pub(crate) struct TlsTermination {
    /// Configuration of handshakes.
    pub config: Arc<ServerConfig>,
    /// Configuration for clients that offer none of the protocols of an ALPN policy, and continue without ALPN.
    without_alpn: Option<Arc<ServerConfig>>,
    certificates: Arc<Certificates>,
}

impl TlsTermination {
    /// Configures TLS termination. Each invalid certificate is a fault, and is replaced by that of the same source in
    /// `former`. Returns `None` if no certificate is valid.
    pub(crate) fn new(
        tls: &Tls,
        is_http: bool,
        former: Option<&Self>,
        tickets: Option<Arc<dyn ProducesTickets>>,
    ) -> (Option<Self>, Vec<Fault>) {
        let former = former.map(|former| &*former.certificates);
        let (certificates, mut faults) = Certificates::load(&tls.certificates, tls.hosts.as_ref(), former);
        let Some(certificates) = certificates.map(Arc::new) else {
            faults.push(Fault::NoCertificate);
            return (None, faults);
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = match builder.with_protocol_versions(versions(tls.policy)) {
            Ok(builder) => builder,
            // Cannot happen: both versions are compiled in.
            Err(error) => {
                tracing::error!(%error, "TLS not configured");
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
        let has_alpn_policy = !matches!(tls.alpn, Alpn::Automatic | Alpn::Never);
        let without_alpn = has_alpn_policy.then(|| Arc::new(config.clone()));
        let protocols = protocols(tls.alpn, is_http).iter();
        config.alpn_protocols = protocols.map(|protocol| protocol.to_vec()).collect();
        let termination = Self {
            config: Arc::new(config),
            without_alpn,
            certificates,
        };
        (Some(termination), faults)
    }

    /// Returns the source of each certificate, and the time at which it expires in seconds since 1970.
    pub(crate) fn expirations(&self) -> impl Iterator<Item = (&str, i64)> {
        self.certificates.expirations()
    }

    /// Completes the handshake with a client.
    ///
    /// # Errors
    /// The error of the connection or of the handshake.
    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Some(without_alpn) = &self.without_alpn else {
            return TlsAcceptor::from(self.config.clone()).accept(stream).await;
        };
        let handshake = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let protocols = &self.config.alpn_protocols;
        let offered = handshake.client_hello().alpn();
        let is_common = offered.is_none_or(|mut offered| {
            offered.any(|offer| protocols.iter().any(|protocol| protocol == offer))
        });
        let config = if is_common { &self.config } else { without_alpn };
        handshake.into_stream(config.clone()).await
    }
}

/// Protocols for ALPN, the preferred one first.
fn protocols(alpn: Alpn, is_http: bool) -> &'static [&'static [u8]] {
    match alpn {
        Alpn::Automatic if is_http => &HTTP_PROTOCOLS,
        Alpn::Automatic | Alpn::Never => &[],
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

/// Returns the keys for session tickets, which rotate by themselves. Without them, clients cannot resume sessions.
pub(crate) fn tickets() -> Option<Arc<dyn ProducesTickets>> {
    match rustls::crypto::ring::Ticketer::new() {
        Ok(tickets) => Some(tickets),
        Err(error) => {
            tracing::warn!(%error, "keys for session tickets not created; TLS sessions are not resumed");
            None
        }
    }
}

/// Protocols that HTTP backends are offered by ALPN.
pub(crate) fn http_protocols() -> Vec<Vec<u8>> {
    HTTP_PROTOCOLS.map(<[u8]>::to_vec).to_vec()
}

/// Returns the result of a handshake.
pub(crate) fn handshake_result(connection: &ServerConnection) -> TlsPeer {
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

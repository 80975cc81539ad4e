//! TLS: how it ends here for clients, and how backends are spoken to.

mod certificates;

use std::sync::Arc;

use rustls::server::{NoServerSessionStorage, ProducesTickets};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ServerConfig, ServerConnection, SupportedProtocolVersion};

use crate::faults::Fault;
use crate::peer::TlsPeer;
use crate::settings::{Tls, TlsPolicy};
use certificates::Certificates;

/// What HTTP listeners and backends agree on by ALPN, the preferred one first.
const HTTP_PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// How TLS ends at a port.
#[derive(Debug)]
pub(crate) struct Ending {
    /// For handshakes.
    pub config: Arc<ServerConfig>,
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
        if is_http {
            config.alpn_protocols = HTTP_PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        }
        let config = Arc::new(config);
        (Some(Self { config, certificates }), faults)
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

/// TLS to backends, whose certificates are not looked at; with HTTP's protocols if it is for HTTP.
pub(crate) fn to_backends(is_http: bool) -> Result<ClientConfig, client::ConfigError> {
    let mut config = client::tls_without_verification()?;
    if is_http {
        config.alpn_protocols = HTTP_PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    }
    Ok(config)
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

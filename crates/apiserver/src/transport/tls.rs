//! TLS: our certificate, which can be exchanged while the server runs, and the clients that our authority signed.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

use crate::bootstrap::pki::{Pair, Pki};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate or key is not PEM.
    #[error("a certificate or key cannot be read: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// Certificates or keys cannot be used for TLS.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
    /// The authority cannot be used to check clients.
    #[error("clients' certificates cannot be checked: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// The serving certificate in use.
pub(crate) struct Serving {
    key: RwLock<Arc<CertifiedKey>>,
}

impl Serving {
    /// Serves with a certificate.
    pub(crate) fn new(pair: &Pair) -> Result<Serving, TlsError> {
        Ok(Serving {
            key: RwLock::new(certified(pair)?),
        })
    }

    /// Serves new connections with another certificate.
    pub(crate) fn exchange(&self, pair: &Pair) -> Result<(), TlsError> {
        let key = certified(pair)?;
        *self.key.write().unwrap_or_else(PoisonError::into_inner) = key;
        Ok(())
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is secret.
        f.write_str("Serving")
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.key.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// The configuration for HTTP/2 and HTTP/1.1, with session tickets, and client certificates for those who have one.
pub(crate) fn config(pki: &Pki, serving: Arc<Serving>) -> Result<ServerConfig, TlsError> {
    let provider = provider();
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(pki.authority.as_bytes()) {
        roots.add(authority?)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(serving);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ticketer = ring::Ticketer::new()?;
    Ok(config)
}

fn certified(pair: &Pair) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?;
    Ok(Arc::new(CertifiedKey::from_der(chain?, key, &provider())?))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

//! TLS configuration: a serving certificate that can be replaced at run time, and client certificates of the
//! cluster CA.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

use crate::bootstrap::pki::{CertificateAndKey, Pki};

/// Invalid TLS configuration.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate or key is not PEM.
    #[error("expected a certificate or key as PEM: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// Certificates or keys are unusable for TLS.
    #[error("invalid TLS configuration: {0}")]
    Setup(#[from] rustls::Error),
    /// The cluster CA cannot verify client certificates.
    #[error("cluster CA cannot verify client certificates: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// Serving certificate in use.
pub(crate) struct ServingCertificate {
    key: RwLock<Arc<CertifiedKey>>,
}

impl ServingCertificate {
    /// Loads a serving certificate with its key.
    ///
    /// # Errors
    /// Certificate or key are invalid.
    pub(crate) fn new(pair: &CertificateAndKey) -> Result<ServingCertificate, TlsError> {
        Ok(ServingCertificate {
            key: RwLock::new(certified_key(pair)?),
        })
    }

    /// Replaces the certificate for new connections.
    ///
    /// # Errors
    /// Certificate or key are invalid; the current one stays.
    pub(crate) fn replace(&self, pair: &CertificateAndKey) -> Result<(), TlsError> {
        let key = certified_key(pair)?;
        *self.key.write().unwrap_or_else(PoisonError::into_inner) = key;
        Ok(())
    }
}

impl fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is secret.
        f.write_str("ServingCertificate")
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.key.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// Returns the configuration for HTTP/2 and HTTP/1.1 with session tickets and optional client certificates.
///
/// # Errors
/// The cluster CA is unusable.
pub(crate) fn server_config(pki: &Pki, serving: Arc<ServingCertificate>) -> Result<ServerConfig, TlsError> {
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

fn certified_key(pair: &CertificateAndKey) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?;
    Ok(Arc::new(CertifiedKey::from_der(chain?, key, &provider())?))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

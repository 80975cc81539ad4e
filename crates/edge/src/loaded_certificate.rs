//! Certificate as TLS uses it, read from PEM.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

/// A certificate with its names.
#[derive(Debug)]
pub(crate) struct LoadedCertificate {
    pub(crate) source: Arc<str>,
    /// In lower case and in order; `*.` starts a wildcard.
    names: Vec<String>,
    pub(crate) expires_at_unix_seconds: i64,
    pub(crate) key: Arc<CertifiedKey>,
}

impl LoadedCertificate {
    /// Reads the certificate of `source` from a chain and a private key in PEM.
    ///
    /// # Errors
    /// Returns the first defect.
    pub(crate) fn read(
        source: &Arc<str>,
        chain_pem: &[u8],
        key_pem: &[u8],
    ) -> Result<Self, CertificateError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain_pem)
            .collect::<Result<_, _>>()
            .map_err(CertificateError::Chain)?;
        let leaf = chain.first().ok_or(CertificateError::NoCertificate)?;
        let (_, leaf) = X509Certificate::from_der(leaf).map_err(|error| unreadable_certificate(&error))?;
        let mut names = names(&leaf)?;
        names.sort_unstable();
        let expires_at_unix_seconds = leaf.validity().not_after.timestamp();
        let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(CertificateError::Key)?;
        let key = rustls::crypto::ring::sign::any_supported_type(&key).map_err(CertificateError::KeyKind)?;
        let key = CertifiedKey::new(chain, key);
        key.keys_match().map_err(CertificateError::Pair)?;
        Ok(Self {
            source: source.clone(),
            names,
            expires_at_unix_seconds,
            key: Arc::new(key),
        })
    }

    /// Returns true if the certificate has exactly this name.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.names.binary_search_by(|own| own.as_str().cmp(name)).is_ok()
    }
}

/// Defect of a certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error("tls.crt: expected a certificate chain in PEM: {0}")]
    Chain(rustls::pki_types::pem::Error),
    #[error("tls.crt: expected a certificate, found none")]
    NoCertificate,
    #[error("tls.key: expected a private key in PEM: {0}")]
    Key(rustls::pki_types::pem::Error),
    #[error("tls.key: expected RSA of 2048 bits or more, ECDSA P-256 or P-384, or Ed25519: {0}")]
    KeyKind(rustls::Error),
    #[error("tls.key does not belong to the first certificate in tls.crt: {0}")]
    Pair(rustls::Error),
    #[error("tls.crt: the first certificate is invalid: {0}")]
    Certificate(String),
}

/// Returns the names of a certificate in lower case: its alternative names, or its common name if it has none.
fn names(certificate: &X509Certificate<'_>) -> Result<Vec<String>, CertificateError> {
    let alternative = certificate
        .subject_alternative_name()
        .map_err(|error| unreadable_certificate(&error))?;
    let names: Vec<String> = match alternative {
        Some(extension) => extension
            .value
            .general_names
            .iter()
            .filter_map(|name| match name {
                GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
                _ => None,
            })
            .collect(),
        None => certificate
            .subject()
            .iter_common_name()
            .filter_map(|name| name.as_str().ok())
            .map(str::to_ascii_lowercase)
            .collect(),
    };
    Ok(names)
}

fn unreadable_certificate(error: &dyn std::fmt::Display) -> CertificateError {
    CertificateError::Certificate(error.to_string())
}

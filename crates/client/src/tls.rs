//! TLS configuration for the API server.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use trust::AcceptAnyServerCert;

use crate::certificate_files::CertificateFiles;
use crate::config::{Config, ConfigError};

/// Returns the TLS configuration: trusted CAs and the client certificate.
///
/// # Errors
///
/// Returns [`ConfigError::Unusable`] if certificates or keys are invalid.
pub fn tls_config(config: &Config) -> Result<ClientConfig, ConfigError> {
    let provider = Arc::new(trust::client_crypto_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("the TLS library", error))?;
    let builder = if config.insecure_skip_tls_verify {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnyServerCert::new(provider)))
    } else {
        builder.with_root_certificates(roots(config)?)
    };
    if let Some((certificate, key)) = &config.client_certificate_files {
        let files = CertificateFiles::new(certificate.clone(), key.clone());
        // Unusable files at start are most likely a mistake.
        files
            .load()
            .map_err(|error| unusable("the client certificate", error))?;
        return Ok(builder.with_client_cert_resolver(Arc::new(files)));
    }
    let tls = match &config.client_certificate {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_slice_iter(certificate)
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| unusable("the client certificate", error))?;
            let key =
                PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable("the client key", error))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| unusable("the client certificate", error))?
        }
    };
    Ok(tls)
}

fn roots(config: &Config) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&config.certificate_authority) {
        let certificate = certificate.map_err(|error| unusable("the certificate authority", error))?;
        roots
            .add(certificate)
            .map_err(|error| unusable("the certificate authority", error))?;
    }
    Ok(roots)
}

fn unusable(subject: &'static str, error: impl std::fmt::Display) -> ConfigError {
    ConfigError::Unusable {
        subject,
        reason: error.to_string(),
    }
}

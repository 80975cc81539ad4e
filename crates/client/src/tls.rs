//! TLS towards the API server.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CipherSuite, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme, SupportedCipherSuite,
};

use crate::certificate_files::CertificateFiles;
use crate::config::{Config, ConfigError};

/// The TLS side of a configuration: whom to trust and how to identify ourselves.
///
/// # Errors
/// [`ConfigError::Unusable`] if certificates or keys cannot be used.
pub fn tls_config(config: &Config) -> Result<ClientConfig, ConfigError> {
    let provider = Arc::new(provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| unusable("the TLS library", e))?;
    let builder = if config.insecure_skip_tls_verify {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(TrustAnyone(provider)))
    } else {
        builder.with_root_certificates(roots(config)?)
    };
    if let Some((certificate, key)) = &config.client_certificate_files {
        let files = CertificateFiles::new(certificate.clone(), key.clone());
        // What cannot be used now is most likely a mistake.
        files.load().map_err(|e| unusable("the client certificate", e))?;
        return Ok(builder.with_client_cert_resolver(Arc::new(files)));
    }
    let tls = match &config.client_certificate {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_slice_iter(certificate)
                .collect::<Result<Vec<_>, _>>()
                .map_err(|e| unusable("the client certificate", e))?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| unusable("the client key", e))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|e| unusable("the client certificate", e))?
        }
    };
    Ok(tls)
}

/// The suites in the order of Go's programs, which is that of all other clients of the API: AES with 128 bits first. What is
/// watched is encrypted and decrypted all day.
fn provider() -> CryptoProvider {
    let mut provider = rustls::crypto::ring::default_provider();
    let has_short_key =
        |suite: &SupportedCipherSuite| matches!(suite.suite(), CipherSuite::TLS13_AES_128_GCM_SHA256);
    provider.cipher_suites.sort_by_key(|suite| !has_short_key(suite));
    provider
}

/// TLS towards servers whose certificate is not looked at, such as Pods that are probed.
///
/// # Errors
/// If the TLS library has no protocol in common with itself.
pub fn tls_without_verification() -> Result<ClientConfig, ConfigError> {
    tls_config(&Config {
        insecure_skip_tls_verify: true,
        ..Config::default()
    })
}

fn roots(config: &Config) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&config.certificate_authority) {
        let certificate = certificate.map_err(|e| unusable("the certificate authority", e))?;
        roots
            .add(certificate)
            .map_err(|e| unusable("the certificate authority", e))?;
    }
    Ok(roots)
}

fn unusable(what: &'static str, error: impl std::fmt::Display) -> ConfigError {
    ConfigError::Unusable {
        what,
        reason: error.to_string(),
    }
}

/// `insecure-skip-tls-verify: true`: the user asked for it.
#[derive(Debug)]
struct TrustAnyone(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAnyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

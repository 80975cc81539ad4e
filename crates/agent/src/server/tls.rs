//! TLS configuration of the endpoint, with client authentication.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::ServerError;
use crate::settings::ServerSettings;

/// Common name of the API server's client certificate (the one that kubeadm issues).
pub(super) const API_SERVER: &str = "kube-apiserver-kubelet-client";

/// Returns a configuration that accepts only clients with a certificate of the CA.
///
/// # Errors
/// See [`ServerError`].
pub(super) fn config(settings: &ServerSettings) -> Result<ServerConfig, ServerError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(&settings.client_authority) {
        roots.add(authority?)?;
    }
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build()?;
    Ok(ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(settings.certificate.clone()))
}

/// Returns true if a verified certificate is that of the API server.
pub(super) fn is_api_server(chain: Option<&[CertificateDer<'_>]>) -> bool {
    let Some(first) = chain.and_then(|chain| chain.first()) else {
        return false;
    };
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(first) else {
        return false;
    };
    let mut names = certificate.subject().iter_common_name();
    names.next().and_then(|name| name.as_str().ok()) == Some(API_SERVER)
}

//! Certificates of a port, selected by the server name that a client requests.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use crate::faults::Fault;
use crate::settings::{Certificate, HostCertificates};

/// Certificates of a port.
#[derive(Debug)]
pub(super) struct Certificates {
    /// In the order of the settings.
    loaded: Vec<Arc<LoadedCertificate>>,
    /// Indices of certificates by host in lower case; `*.` starts a wildcard. `None` selects by the names in the
    /// certificates, and the first one for other names.
    by_host: Option<HashMap<String, Vec<usize>>>,
}

/// A certificate with its names.
#[derive(Debug)]
pub(crate) struct LoadedCertificate {
    source: Arc<str>,
    /// In lower case and in order; `*.` starts a wildcard.
    names: Vec<String>,
    expires_at_unix_seconds: i64,
    key: Arc<CertifiedKey>,
}

impl LoadedCertificate {
    fn has_name(&self, name: &str) -> bool {
        self.names.binary_search_by(|own| own.as_str().cmp(name)).is_ok()
    }
}

/// Defect of a certificate.
#[derive(Debug, thiserror::Error)]
enum CertificateError {
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

impl Certificates {
    /// Loads certificates. An invalid one is replaced by that of the same source among `former`. With `hosts`, names have
    /// the certificates of these sources, and other names have none.
    pub(super) fn load(
        settings: &[Arc<Certificate>],
        hosts: Option<&HostCertificates>,
        former: Option<&Self>,
    ) -> (Option<Self>, Vec<Fault>) {
        let mut faults = Vec::new();
        let mut loaded: Vec<Arc<LoadedCertificate>> = Vec::new();
        for certificate in settings {
            match load_shared(certificate) {
                Ok(certificate) => loaded.push(certificate),
                Err(reason) => {
                    faults.push(Fault::InvalidCertificate {
                        source_name: certificate.source.clone(),
                        reason: reason.to_string(),
                    });
                    let former = former.into_iter().flat_map(|former| &former.loaded);
                    loaded.extend(
                        former
                            .filter(|former| former.source == certificate.source)
                            .take(1)
                            .cloned(),
                    );
                }
            }
        }
        let by_host = hosts.map(|hosts| by_host(&loaded, hosts));
        let certificates = (!loaded.is_empty()).then_some(Self { loaded, by_host });
        (certificates, faults)
    }

    /// Returns the source of each certificate, and the time at which it expires in seconds since 1970.
    pub(super) fn expirations(&self) -> impl Iterator<Item = (&str, i64)> {
        self.loaded
            .iter()
            .map(|certificate| (&*certificate.source, certificate.expires_at_unix_seconds))
    }

    /// Returns the certificates for a name in order of preference, and then that for all names, if any. A wildcard
    /// stands for the leftmost label (RFC 6125, section 6.4.3).
    fn matching(&self, name: Option<&str>) -> std::vec::IntoIter<&LoadedCertificate> {
        let name = name.map(|name| name.trim_end_matches('.').to_ascii_lowercase());
        let parent = name.as_ref().and_then(|name| name.split_once('.'));
        let wildcard = parent.map(|(_, parent)| format!("*.{parent}"));
        let mut found: Vec<&LoadedCertificate> = Vec::new();
        match &self.by_host {
            // A wildcard covers names without an entry only.
            Some(by_host) => {
                let exact = name.and_then(|name| by_host.get(&name));
                let numbers = exact.or_else(|| by_host.get(&wildcard?));
                let numbers = numbers.into_iter().flatten();
                found.extend(numbers.filter_map(|number| self.loaded.get(*number).map(Arc::as_ref)));
            }
            None => {
                for name in [name, wildcard].into_iter().flatten() {
                    let named = self.loaded.iter().filter(|loaded| loaded.has_name(&name));
                    found.extend(named.map(Arc::as_ref));
                }
                found.extend(self.loaded.first().map(Arc::as_ref));
            }
        }
        found.into_iter()
    }
}

impl ResolvesServerCert for Certificates {
    /// Selects the first certificate for the name with a key type that the client supports.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let schemes = hello.signature_schemes();
        let mut candidates = self.matching(hello.server_name());
        let found = candidates.find(|loaded| loaded.key.key.choose_scheme(schemes).is_some());
        // With a key type that it does not support, the client reports the cause of the failure.
        let unsupported = || match self.by_host {
            None => self.loaded.first().map(Arc::as_ref),
            Some(_) => self.matching(hello.server_name()).next(),
        };
        found.or_else(unsupported).map(|loaded| loaded.key.clone())
    }
}

/// Returns the defect of a certificate, if it has one.
pub fn certificate_fault(certificate: &Certificate) -> Option<String> {
    load_shared(certificate).err().map(|reason| reason.to_string())
}

/// Returns the certificate, or its defect. All ports share the result, which is read once.
fn load_shared(certificate: &Certificate) -> Result<Arc<LoadedCertificate>, Arc<str>> {
    let read = || match read(certificate) {
        Ok(loaded) => Ok(Arc::new(loaded)),
        Err(error) => Err(error.to_string().into()),
    };
    certificate.loaded.get_or_init(read).clone()
}

/// Returns the certificates of the names that select them by source.
fn by_host(loaded: &[Arc<LoadedCertificate>], hosts: &HostCertificates) -> HashMap<String, Vec<usize>> {
    let mut positions = HashMap::<&str, usize>::new();
    for (number, loaded) in loaded.iter().enumerate() {
        positions.entry(&loaded.source).or_insert(number);
    }
    let position = |source: &Arc<str>| positions.get(&**source).copied();
    let found = hosts
        .iter()
        .map(|(host, source)| (host.to_string(), source.iter().filter_map(position).collect()));
    found.collect()
}

fn read(certificate: &Certificate) -> Result<LoadedCertificate, CertificateError> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&certificate.chain_pem)
        .collect::<Result<_, _>>()
        .map_err(CertificateError::Chain)?;
    let leaf = chain.first().ok_or(CertificateError::NoCertificate)?;
    let (_, leaf) = X509Certificate::from_der(leaf).map_err(|error| unreadable(&error))?;
    let mut names = names(&leaf)?;
    names.sort_unstable();
    let expires_at_unix_seconds = leaf.validity().not_after.timestamp();
    let key = PrivateKeyDer::from_pem_slice(&certificate.key_pem).map_err(CertificateError::Key)?;
    let key = rustls::crypto::ring::sign::any_supported_type(&key).map_err(CertificateError::KeyKind)?;
    let key = CertifiedKey::new(chain, key);
    key.keys_match().map_err(CertificateError::Pair)?;
    Ok(LoadedCertificate {
        source: certificate.source.clone(),
        names,
        expires_at_unix_seconds,
        key: Arc::new(key),
    })
}

/// Returns the names of a certificate in lower case: its alternative names, or its common name if it has none.
fn names(certificate: &X509Certificate<'_>) -> Result<Vec<String>, CertificateError> {
    let alternative = certificate
        .subject_alternative_name()
        .map_err(|error| unreadable(&error))?;
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

fn unreadable(error: &dyn std::fmt::Display) -> CertificateError {
    CertificateError::Certificate(error.to_string())
}

#[cfg(test)]
mod tests;

//! Certificates of a port, selected by the server name that a client requests.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::faults::Fault;
use crate::loaded_certificate::LoadedCertificate;
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
    let read = || {
        let Certificate {
            source,
            chain_pem,
            key_pem,
            ..
        } = certificate;
        match LoadedCertificate::read(source, chain_pem, key_pem) {
            Ok(loaded) => Ok(Arc::new(loaded)),
            Err(error) => Err(error.to_string().into()),
        }
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

#[cfg(test)]
mod tests;

//! Certificates, chosen by the name that a client asks for.

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
use crate::settings::Certificate;

/// The certificates of a port.
#[derive(Debug)]
pub(super) struct Certificates {
    /// In the order of the settings.
    loaded: Vec<Loaded>,
    /// Which ones are for a name, in lower case; `*.` begins one for all names directly below.
    by_name: HashMap<String, Vec<usize>>,
}

#[derive(Clone, Debug)]
struct Loaded {
    source: Arc<str>,
    names: Vec<String>,
    key: Arc<CertifiedKey>,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("tls.crt is no chain of certificates in PEM: {0}")]
    Chain(rustls::pki_types::pem::Error),
    #[error("tls.crt holds no certificate")]
    NoCertificate,
    #[error("tls.key is no private key in PEM: {0}")]
    Key(rustls::pki_types::pem::Error),
    #[error(
        "tls.key is of no kind that is supported (RSA of 2048 bits and more, ECDSA P-256 and P-384, Ed25519): {0}"
    )]
    KeyKind(rustls::Error),
    #[error("tls.key is not the key of the first certificate in tls.crt: {0}")]
    Pair(rustls::Error),
    #[error("the first certificate in tls.crt cannot be read: {0}")]
    Certificate(String),
}

impl Certificates {
    /// Reads certificates. In the place of one that cannot be used, that of the same source among `former` is.
    pub fn load(settings: &[Arc<Certificate>], former: Option<&Self>) -> (Option<Self>, Vec<Fault>) {
        let mut faults = Vec::new();
        let mut loaded: Vec<Loaded> = Vec::new();
        for certificate in settings {
            match read(certificate) {
                Ok(certificate) => loaded.push(certificate),
                Err(error) => {
                    faults.push(Fault::BadCertificate {
                        source_name: certificate.source.clone(),
                        why: error.to_string(),
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
        let mut by_name = HashMap::<String, Vec<usize>>::new();
        for (number, certificate) in loaded.iter().enumerate() {
            for name in &certificate.names {
                by_name.entry(name.clone()).or_default().push(number);
            }
        }
        let certificates = (!loaded.is_empty()).then_some(Self { loaded, by_name });
        (certificates, faults)
    }

    /// Those for a name (RFC 6125, section 6.4.3: a wildcard stands for one label, the leftmost), the preferred one first;
    /// then the first one of all.
    fn of(&self, name: Option<&str>) -> impl Iterator<Item = &Loaded> {
        let name = name.map(|name| name.trim_end_matches('.').to_ascii_lowercase());
        let exact = name.as_ref().and_then(|name| self.by_name.get(name));
        let wildcard = name
            .as_ref()
            .and_then(|name| name.split_once('.'))
            .and_then(|(_, parent)| self.by_name.get(&format!("*.{parent}")));
        let numbers = [exact, wildcard].into_iter().flatten().flatten();
        numbers
            .filter_map(|number| self.loaded.get(*number))
            .chain(self.loaded.first())
    }
}

impl ResolvesServerCert for Certificates {
    /// The first of those for the name whose kind of key the client knows.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let schemes = hello.signature_schemes();
        let mut fitting = self.of(hello.server_name());
        let found = fitting.find(|loaded| loaded.key.key.choose_scheme(schemes).is_some());
        // One that the client does not know has it tell why it fails.
        found.or(self.loaded.first()).map(|loaded| loaded.key.clone())
    }
}

fn read(certificate: &Certificate) -> Result<Loaded, Unusable> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&certificate.chain_pem)
        .collect::<Result<_, _>>()
        .map_err(Unusable::Chain)?;
    let names = names(chain.first().ok_or(Unusable::NoCertificate)?)?;
    let key = PrivateKeyDer::from_pem_slice(&certificate.key_pem).map_err(Unusable::Key)?;
    let key = rustls::crypto::ring::sign::any_supported_type(&key).map_err(Unusable::KeyKind)?;
    let key = CertifiedKey::new(chain, key);
    key.keys_match().map_err(Unusable::Pair)?;
    Ok(Loaded {
        source: certificate.source.clone(),
        names,
        key: Arc::new(key),
    })
}

/// The names that a certificate is for, in lower case: its alternative names, or its common name if it has none.
fn names(certificate: &CertificateDer<'_>) -> Result<Vec<String>, Unusable> {
    let unreadable = |error: &dyn std::fmt::Display| Unusable::Certificate(error.to_string());
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(|error| unreadable(&error))?;
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

#[cfg(test)]
mod tests;

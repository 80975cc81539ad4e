//! Certificates in Secrets of type `kubernetes.io/tls`.
//!
//! The edge reads a Secret by name, only while one of its Services refers to it. It polls Secrets, so that it
//! needs only the right `get`: with the right `watch` it could read all Secrets.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub use api::edge_secret::ALLOWED_NAMESPACES;
use api::edge_secret::is_namespace_allowed;
use api::object::ObjectKey;
use client::ClientError;
use edge::settings::Certificate;

use super::secret::{Secret, SecretError};

/// Type of Secrets with certificates.
const TYPE: &str = "kubernetes.io/tls";
/// Minimum interval between two reads of a Secret.
pub const READ_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum rate of reads. With more than a hundred Secrets, the interval of each is longer.
const READS_PER_SECOND: u32 = 20;

/// Result of the last read of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CachedSecret {
    /// Value of [`ALLOWED_NAMESPACES`]; empty if the Secret cannot be read.
    allowed_namespaces: Arc<str>,
    /// The certificate, or an error that only allowed namespaces may see.
    certificate: Result<Arc<Certificate>, SecretError>,
    /// Defect of the certificate, if it has one.
    fault: Option<Arc<str>>,
}

impl CachedSecret {
    fn failed(error: SecretError) -> Self {
        Self {
            allowed_namespaces: Arc::from(""),
            certificate: Err(error),
            fault: None,
        }
    }

    fn allows(&self, namespace: &str) -> bool {
        is_namespace_allowed(&self.allowed_namespaces, namespace)
    }
}

/// Cache of the Secrets that Services refer to, with their resourceVersions.
#[derive(Debug, Default)]
pub struct Certificates {
    cached: HashMap<ObjectKey, (String, CachedSecret)>,
}

impl Certificates {
    /// Returns the certificate in a Secret for a Service of `namespace`; `None` if the Secret was not read yet. The
    /// error for a namespace that the Secret does not allow discloses neither its existence nor its contents.
    pub fn get(&self, namespace: &str, secret: &ObjectKey) -> Option<Result<Arc<Certificate>, SecretError>> {
        let (_, cached) = self.cached.get(secret)?;
        let is_own = *secret.namespace == *namespace;
        if !is_own && !cached.allows(namespace) {
            return Some(Err(SecretError::NotAllowed {
                secret: secret.clone(),
                namespace: namespace.to_owned(),
            }));
        }
        Some(cached.certificate.clone())
    }

    /// Returns the defect of the certificate in a Secret, which TLS cannot use.
    pub fn fault(&self, secret: &ObjectKey) -> Option<&str> {
        let (_, cached) = self.cached.get(secret)?;
        cached.fault.as_deref()
    }

    /// Returns true if the Secret was read, successfully or not.
    pub fn is_read(&self, secret: &ObjectKey) -> bool {
        self.cached.contains_key(secret)
    }

    /// Stores the result of a read. Returns true if it differs from the former one. A temporary failure keeps
    /// the former one.
    pub fn store(&mut self, key: &ObjectKey, result: &Result<Secret, ClientError>) -> bool {
        let (version, secret) = match result {
            Ok(secret) => {
                let version = secret.metadata.resource_version.clone();
                let is_same = self
                    .cached
                    .get(key)
                    .is_some_and(|(cached, _)| *cached == version && !version.is_empty());
                if is_same {
                    return false;
                }
                let allowed = secret.metadata.annotations.get(ALLOWED_NAMESPACES);
                let certificate = certificate(secret, key);
                let readable = certificate.as_ref().ok();
                let fault = readable.and_then(|certificate| edge::certificate_fault(certificate));
                let cached = CachedSecret {
                    allowed_namespaces: allowed.map_or("", String::as_str).into(),
                    certificate,
                    fault: fault.map(Into::into),
                };
                (version, cached)
            }
            Err(error) if error.is_not_found() => {
                let error = SecretError::NotFound(key.clone());
                (String::new(), CachedSecret::failed(error))
            }
            Err(error) => {
                if self.cached.contains_key(key) {
                    tracing::warn!(secret = %key, %error, "Secret not read; its last version stays in use");
                    return false;
                }
                let error = SecretError::Unreadable {
                    secret: key.clone(),
                    reason: error.to_string(),
                };
                (String::new(), CachedSecret::failed(error))
            }
        };
        let has_changed = self.cached.get(key).is_none_or(|(_, cached)| *cached != secret);
        self.cached.insert(key.clone(), (version, secret));
        has_changed
    }

    /// Drops all Secrets that are not referenced.
    pub fn retain(&mut self, is_referenced: impl Fn(&ObjectKey) -> bool) {
        self.cached.retain(|key, _| is_referenced(key));
    }
}

/// Returns the certificate in a Secret.
fn certificate(secret: &Secret, key: &ObjectKey) -> Result<Arc<Certificate>, SecretError> {
    if secret.kind != TYPE {
        return Err(SecretError::WrongType {
            secret: key.clone(),
            found: secret.kind.clone(),
            expected: TYPE,
        });
    }
    let entry = |entry: &'static str| {
        let bytes = secret.bytes(entry);
        bytes.ok_or_else(|| SecretError::MissingEntry {
            secret: key.clone(),
            entry,
        })
    };
    Ok(Arc::new(Certificate::new(
        key.to_string().into(),
        entry("tls.crt")?,
        entry("tls.key")?,
    )))
}

/// Returns the interval between rounds in which each of `count` Secrets is read once.
pub fn round_interval(count: usize) -> Duration {
    let at_rate = Duration::from_secs(1) * u32::try_from(count).unwrap_or(u32::MAX) / READS_PER_SECOND;
    READ_INTERVAL.max(at_rate)
}

//! Certificates out of Secrets of type `kubernetes.io/tls`. A Secret is read by its name, only while a Service of this node's
//! edge refers to it, and again and again, since `get` is the only right that this needs: whoever may watch Secrets
//! may read all of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

pub use api::edge_secret::ALLOWED_NAMESPACES;
use api::edge_secret::is_namespace_allowed;
use api::object::ObjectKey;
use client::ClientError;
use edge::settings::Certificate;

use super::secret::Secret;

/// The type that a Secret must have.
const TYPE: &str = "kubernetes.io/tls";
/// How often each Secret is looked at.
pub const PERIOD: Duration = Duration::from_secs(5);
/// Most Secrets that are read a second: with more than five times as many, each is looked at less often.
const READS_PER_SECOND: u32 = 20;

/// What is known of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    /// The value of [`ALLOWED_NAMESPACES`]; empty without a Secret that can be read.
    allowed: Arc<str>,
    /// The certificate, or why there is none, for those who may know.
    certificate: Result<Arc<Certificate>, Arc<str>>,
}

impl Known {
    fn unreadable(why: String) -> Self {
        Self {
            allowed: Arc::from(""),
            certificate: Err(why.into()),
        }
    }

    fn lets(&self, namespace: &str) -> bool {
        is_namespace_allowed(&self.allowed, namespace)
    }
}

/// All Secrets that are referred to.
#[derive(Debug, Default)]
pub struct Certificates {
    known: HashMap<ObjectKey, (String, Known)>,
}

impl Certificates {
    /// The certificate that a Service of `namespace` gets out of a Secret; the error is for people. `None` if the Secret was
    /// not read yet. Of a Secret that does not let the namespace have it, the error says neither whether it exists nor what
    /// it holds.
    pub fn of(&self, namespace: &str, secret: &ObjectKey) -> Option<Result<Arc<Certificate>, String>> {
        let (_, known) = self.known.get(secret)?;
        let is_own = *secret.namespace == *namespace;
        if !is_own && !known.lets(namespace) {
            return Some(Err(format!(
                "Secret {secret} cannot be used from namespace {namespace}: it must exist, and its annotation \
                 {ALLOWED_NAMESPACES} must name the namespace"
            )));
        }
        let certificate = known.certificate.clone();
        Some(certificate.map_err(|why| why.to_string()))
    }

    /// Whether a Secret was read.
    pub fn is_known(&self, secret: &ObjectKey) -> bool {
        self.known.contains_key(secret)
    }

    /// Takes in what a Secret is; whether that is news. What could not be read for a reason that will pass leaves what
    /// was known.
    pub fn take(&mut self, key: &ObjectKey, read: &Result<Secret, ClientError>) -> bool {
        let (version, known) = match read {
            Ok(secret) => {
                let version = secret.metadata.resource_version.clone();
                let is_same = self
                    .known
                    .get(key)
                    .is_some_and(|(before, _)| *before == version && !version.is_empty());
                if is_same {
                    return false;
                }
                let allowed = secret.metadata.annotations.get(ALLOWED_NAMESPACES);
                let known = Known {
                    allowed: allowed.map_or("", String::as_str).into(),
                    certificate: certificate(secret, key).map_err(Into::into),
                };
                (version, known)
            }
            Err(error) if error.is_not_found() => {
                let why = format!("there is no Secret {key}");
                (String::new(), Known::unreadable(why))
            }
            Err(error) => {
                if self.known.contains_key(key) {
                    tracing::warn!(secret = %key, %error, "the Secret cannot be read, what it was counts");
                    return false;
                }
                let why = format!("Secret {key} cannot be read: {error}");
                (String::new(), Known::unreadable(why))
            }
        };
        let is_news = self.known.get(key).is_none_or(|(_, before)| *before != known);
        self.known.insert(key.clone(), (version, known));
        is_news
    }

    /// Forgets all but these.
    pub fn keep(&mut self, referred_to: &BTreeSet<ObjectKey>) {
        self.known.retain(|key, _| referred_to.contains(key));
    }
}

/// The certificate that a Secret holds; the error is for those who may use the Secret.
fn certificate(secret: &Secret, key: &ObjectKey) -> Result<Arc<Certificate>, String> {
    if secret.kind != TYPE {
        return Err(format!(
            "Secret {key} is of type {:?}, expected {TYPE}",
            secret.kind
        ));
    }
    let part = |name: &str| {
        secret
            .bytes(name)
            .ok_or_else(|| format!("Secret {key} lacks {name}"))
    };
    Ok(Arc::new(Certificate {
        source: key.to_string().into(),
        chain_pem: part("tls.crt")?,
        key_pem: part("tls.key")?,
    }))
}

/// How long to wait between rounds in which each of `count` Secrets is read.
pub fn pause(count: usize) -> Duration {
    let of_rate = Duration::from_secs(1) * u32::try_from(count).unwrap_or(u32::MAX) / READS_PER_SECOND;
    PERIOD.max(of_rate)
}

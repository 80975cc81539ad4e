//! Certificates out of Secrets of type `kubernetes.io/tls`. A Secret is read by its name, only while a Service of this node's
//! edge refers to it, and again and again, since `get` is the only right that this needs: whoever may watch Secrets
//! may read all of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api::object::ObjectKey;
use client::ClientError;
use edge::settings::Certificate;

use super::secret::Secret;

/// The annotation by which a Secret lets Services of other namespaces have its certificate: their namespaces,
/// separated by commas, or `*`.
pub const ALLOWED_NAMESPACES: &str = "portolan.dev/allowed-namespaces";
/// The type that a Secret must have.
const TYPE: &str = "kubernetes.io/tls";
/// How often each Secret is looked at.
pub const PERIOD: Duration = Duration::from_secs(5);
/// Most Secrets that are read a second: with more than five times as many, each is looked at less often.
const READS_PER_SECOND: u32 = 20;

/// What is known of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// A certificate, and who may have it besides its own namespace.
    Certificate {
        /// The certificate.
        certificate: Arc<Certificate>,
        /// The value of [`ALLOWED_NAMESPACES`].
        allowed: Arc<str>,
    },
    /// Nothing that can be used, and why.
    Unusable(Arc<str>),
}

/// All Secrets that are referred to.
#[derive(Debug, Default)]
pub struct Certificates {
    known: HashMap<ObjectKey, (String, Known)>,
}

impl Certificates {
    /// The certificate that a Service of `namespace` gets out of a Secret; the error is for people. `None` if the Secret was
    /// not read yet.
    pub fn of(&self, namespace: &str, secret: &ObjectKey) -> Option<Result<Arc<Certificate>, String>> {
        let (_, known) = self.known.get(secret)?;
        Some(match known {
            Known::Unusable(why) => Err(why.to_string()),
            Known::Certificate { certificate, allowed } => {
                let is_own = *secret.namespace == *namespace;
                let mut allowed = allowed.split(',').map(str::trim);
                match is_own || allowed.any(|one| one == "*" || one == namespace) {
                    true => Ok(Arc::clone(certificate)),
                    false => Err(format!(
                        "Secret {secret} does not let Services of namespace {namespace} have its certificate: its annotation \
                         {ALLOWED_NAMESPACES} must name the namespace"
                    )),
                }
            }
        })
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
                (version, certificate(secret, key))
            }
            Err(error) if error.is_not_found() => {
                let why = format!("there is no Secret {key}");
                (String::new(), Known::Unusable(why.into()))
            }
            Err(error) => {
                if self.known.contains_key(key) {
                    tracing::warn!(secret = %key, %error, "the Secret cannot be read, what it was counts");
                    return false;
                }
                let why = format!("Secret {key} cannot be read: {error}");
                (String::new(), Known::Unusable(why.into()))
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

/// The certificate that a Secret holds.
fn certificate(secret: &Secret, key: &ObjectKey) -> Known {
    let unusable = |why: String| Known::Unusable(why.into());
    if secret.kind != TYPE {
        return unusable(format!(
            "Secret {key} is of type {:?}, expected {TYPE}",
            secret.kind
        ));
    }
    let part = |name: &str| {
        secret
            .bytes(name)
            .ok_or_else(|| format!("Secret {key} lacks {name}"))
    };
    let (chain_pem, key_pem) = match (part("tls.crt"), part("tls.key")) {
        (Ok(chain), Ok(private)) => (chain, private),
        (Err(why), _) | (_, Err(why)) => return unusable(why),
    };
    let allowed = secret.metadata.annotations.get(ALLOWED_NAMESPACES);
    Known::Certificate {
        certificate: Arc::new(Certificate {
            source: key.to_string().into(),
            chain_pem,
            key_pem,
        }),
        allowed: allowed.map_or("", String::as_str).into(),
    }
}

/// How long to wait between rounds in which each of `count` Secrets is read.
pub fn pause(count: usize) -> Duration {
    let of_rate = Duration::from_secs(1) * u32::try_from(count).unwrap_or(u32::MAX) / READS_PER_SECOND;
    PERIOD.max(of_rate)
}

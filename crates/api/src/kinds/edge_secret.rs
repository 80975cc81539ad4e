//! Secrets of the edge: TLS certificates that annotations of Services name, and the key of the cookies for sticky
//! sessions. The edge reads them; the API server denies it all other Secrets.

use std::sync::Arc;

/// Namespace of the Secret with the cookie key.
pub const COOKIES_NAMESPACE: &str = "kube-system";
/// Name of the Secret with the cookie key.
pub const COOKIES_NAME: &str = "portolan-edge-cookies";
/// Annotation of a Secret: namespaces whose Services may use its certificate, separated by commas, or `*`.
pub const ALLOWED_NAMESPACES: &str = "portolan.dev/allowed-namespaces";
/// `loadBalancerClass` of Services that the edge serves, independent of their annotations.
pub const EDGE_CLASS: &str = "portolan.dev/edge";
/// Condition of a Service: true if Portolan assigned its addresses.
pub const ASSIGNED_CONDITION: &str = "portolan.dev/AddressAssigned";
/// Reason of [`ASSIGNED_CONDITION`] if the addresses are those of nodes. They are not announced.
pub const NODE_ADDRESSES_REASON: &str = "NodeAddresses";

/// Maximum number of Secrets of one list. Edges read 20 Secrets a second, those of all namespaces in turn.
pub const SECRETS_MAX: usize = 100;
/// Longest name of a Secret or namespace (RFC 1123 subdomain).
const NAME_BYTES_MAX: usize = 253;

/// Form in which an annotation names Secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// List, as [`parse`] reads it.
    List,
    /// One Secret, after the last `/`.
    LastPart,
}

/// Annotations of Services that name Secrets with certificates.
pub const ANNOTATIONS: [(&str, Form); 7] = [
    (
        "loadbalancer.openstack.org/default-tls-container-ref",
        Form::LastPart,
    ),
    ("load-balancer.hetzner.cloud/http-certificates", Form::List),
    ("portolan.dev/edge-certificates", Form::List),
    (
        "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-cert-id",
        Form::List,
    ),
    (
        "service.beta.kubernetes.io/aws-load-balancer-ssl-cert",
        Form::List,
    ),
    (
        "service.beta.kubernetes.io/do-loadbalancer-certificate-id",
        Form::List,
    ),
    (
        "service.beta.kubernetes.io/oci-load-balancer-tls-secret",
        Form::List,
    ),
];

/// Name of a Secret with a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretName {
    /// Namespace; `None` for the namespace of the Service.
    pub namespace: Option<Arc<str>>,
    /// Name of the Secret.
    pub name: Arc<str>,
}

/// Returns the Secrets that the annotations of a Service name. Values that cannot be parsed are skipped.
pub fn named_secrets<'a>(annotations: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<SecretName> {
    let lists = annotations.filter_map(|(key, value)| {
        let (_, form) = ANNOTATIONS.iter().find(|(name, _)| *name == key)?;
        match form {
            Form::List => parse(value.trim()),
            Form::LastPart => parse(last_part(value.trim())),
        }
    });
    lists.flatten().collect()
}

/// Parses Secrets separated by commas. Each is `name`, `namespace/name`, or a cloud identifier whose part after the
/// last `/` is the name: `arn:aws:acm:…:certificate/NAME`. `None` if one has another form, or if there are more than
/// [`SECRETS_MAX`].
pub fn parse(text: &str) -> Option<Vec<SecretName>> {
    let parts = text.split(',').take(SECRETS_MAX + 1);
    let secrets: Option<Vec<SecretName>> = parts.map(|part| secret(part.trim())).collect();
    secrets.filter(|secrets| secrets.len() <= SECRETS_MAX)
}

/// Returns the part after the last `/`.
pub fn last_part(text: &str) -> &str {
    text.rsplit('/').next().unwrap_or_default()
}

/// Returns true if a Secret with this value of [`ALLOWED_NAMESPACES`] allows Services of `namespace` to use
/// its certificate.
pub fn is_namespace_allowed(allowed: &str, namespace: &str) -> bool {
    let mut allowed = allowed.split(',').map(str::trim);
    allowed.any(|one| one == "*" || one == namespace)
}

fn secret(text: &str) -> Option<SecretName> {
    if text.starts_with("arn:") {
        let (_, last) = text.rsplit_once('/')?;
        return Some(SecretName {
            namespace: None,
            name: name(last)?,
        });
    }
    match text.split_once('/') {
        None => Some(SecretName {
            namespace: None,
            name: name(text)?,
        }),
        Some((namespace, rest)) => Some(SecretName {
            namespace: Some(name(namespace)?),
            name: name(rest)?,
        }),
    }
}

fn name(text: &str) -> Option<Arc<str>> {
    let is_inner =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let fits = bytes.len() <= NAME_BYTES_MAX
        && bytes.first().is_some_and(is_end)
        && bytes.last().is_some_and(is_end)
        && bytes.iter().copied().all(is_inner);
    fits.then(|| text.into())
}

#[cfg(test)]
mod tests;

//! The claims of ServiceAccount tokens.

use api::tree::{child, text};
use serde::{Deserialize, Serialize};

use super::super::SERVICE_ACCOUNT_PREFIX;

/// Claims of RFC 7519, and upstream's claim `kubernetes.io`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Claims {
    pub(super) aud: Vec<String>,
    /// Expiration, in seconds since the epoch.
    pub(super) exp: i64,
    pub(super) iat: i64,
    pub(super) iss: String,
    /// Token ID, for logs and audit.
    #[serde(default)]
    pub(super) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(super) owner: Owner,
    #[serde(default)]
    pub(super) nbf: i64,
    pub(super) sub: String,
}

/// Owner of a token, and the objects that it is bound to.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Owner {
    pub(super) namespace: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) node: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) pod: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) secret: Option<Reference>,
    pub(super) serviceaccount: Reference,
}

/// Name and UID of one object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Reference {
    pub(super) name: String,
    pub(super) uid: String,
}

impl Reference {
    /// Returns the reference to an object.
    pub(super) fn to(object: &serde_json::Value) -> Reference {
        let metadata = child(object, "metadata");
        Reference {
            name: text(metadata, "name").to_owned(),
            uid: text(metadata, "uid").to_owned(),
        }
    }
}

impl Claims {
    /// Returns true if the subject is the ServiceAccount of the claim `kubernetes.io`.
    pub(super) fn is_consistent(&self) -> bool {
        let account = self
            .sub
            .strip_prefix(SERVICE_ACCOUNT_PREFIX)
            .and_then(|subject| subject.split_once(':'));
        account == Some((&self.owner.namespace, &self.owner.serviceaccount.name))
    }
}

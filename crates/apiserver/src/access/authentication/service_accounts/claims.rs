//! What a token of a ServiceAccount says.

use api::tree::{child, text};
use serde::{Deserialize, Serialize};

use super::super::SERVICE_ACCOUNT_PREFIX;

/// The claims of a token, as upstream has them: those of RFC 7519, and under `kubernetes.io` whose the token is.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Claims {
    pub(super) aud: Vec<String>,
    /// Seconds since 1970.
    pub(super) exp: i64,
    pub(super) iat: i64,
    pub(super) iss: String,
    /// What identifies the token in logs.
    #[serde(default)]
    pub(super) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(super) owner: Owner,
    #[serde(default)]
    pub(super) nbf: i64,
    pub(super) sub: String,
}

/// Whose a token is, and what it is bound to.
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

/// One certain object, not another of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Reference {
    pub(super) name: String,
    pub(super) uid: String,
}

impl Reference {
    /// The reference to an object.
    pub(super) fn to(object: &serde_json::Value) -> Reference {
        let metadata = child(object, "metadata");
        Reference {
            name: text(metadata, "name").to_owned(),
            uid: text(metadata, "uid").to_owned(),
        }
    }
}

impl Claims {
    /// Whether the subject is the ServiceAccount that the token says it is of.
    pub(super) fn is_consistent(&self) -> bool {
        let account = self
            .sub
            .strip_prefix(SERVICE_ACCOUNT_PREFIX)
            .and_then(|subject| subject.split_once(':'));
        account == Some((&self.owner.namespace, &self.owner.serviceaccount.name))
    }
}

//! CertificateSigningRequest (certificates.k8s.io/v1).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, null_as_default, resource};

/// A CertificateSigningRequest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CertificateSigningRequest {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is asked for, and by whom.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: CertificateSigningRequestSpec,
    /// What became of it.
    #[serde(deserialize_with = "null_as_default")]
    pub status: CertificateSigningRequestStatus,
}

resource!(
    CertificateSigningRequest,
    "certificates.k8s.io",
    "v1",
    "CertificateSigningRequest",
    "certificatesigningrequests"
);

impl CertificateSigningRequest {
    /// The condition of a type, if it is true.
    pub fn condition(&self, kind: &str) -> Option<&CertificateSigningRequestCondition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|condition| condition.kind == kind && condition.status == "True")
    }
}

/// `spec` of a CertificateSigningRequest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CertificateSigningRequestSpec {
    /// The request, PEM in base64.
    pub request: String,
    /// Who is to sign.
    pub signer_name: String,
    /// For how many seconds the certificate is to be good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration_seconds: Option<i64>,
    /// What the certificate is to be good for.
    #[serde(deserialize_with = "null_as_default")]
    pub usages: Vec<String>,
    /// Who asks; the API server says so.
    pub username: String,
    /// The groups of who asks.
    #[serde(deserialize_with = "null_as_default")]
    pub groups: Vec<String>,
    /// What else is known of who asks.
    #[serde(deserialize_with = "null_as_default")]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// `status` of a CertificateSigningRequest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CertificateSigningRequestStatus {
    /// What was decided, and whether it could not be signed.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<CertificateSigningRequestCondition>,
    /// The certificate, PEM in base64; "" before it is signed.
    pub certificate: String,
}

/// A condition of a CertificateSigningRequest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CertificateSigningRequestCondition {
    /// Approved, Denied or Failed.
    #[serde(rename = "type")]
    pub kind: String,
    /// True.
    pub status: String,
    /// Why, in a word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
    /// RFC 3339 time of the last change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<String>,
}

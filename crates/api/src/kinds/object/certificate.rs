//! CertificateSigningRequest (certificates.k8s.io/v1).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, null_as_default, resource};

/// A CertificateSigningRequest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CertificateSigningRequest {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Request and requester.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: CertificateSigningRequestSpec,
    /// Decision and certificate.
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
    /// Returns the condition of a type if it is true.
    pub fn condition(&self, kind: &str) -> Option<&CertificateSigningRequestCondition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|condition| condition.kind == kind && condition.status == "True")
    }
}

/// `spec` of a CertificateSigningRequest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CertificateSigningRequestSpec {
    /// PKCS #10 request, PEM in base64.
    pub request: String,
    /// Name of the signer, such as `kubernetes.io/kubelet-serving`.
    pub signer_name: String,
    /// Requested lifetime in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration_seconds: Option<i64>,
    /// Requested usages.
    #[serde(deserialize_with = "null_as_default")]
    pub usages: Vec<String>,
    /// User name of the requester, set by the API server.
    pub username: String,
    /// Groups of the requester.
    #[serde(deserialize_with = "null_as_default")]
    pub groups: Vec<String>,
    /// Extra attributes of the requester.
    #[serde(deserialize_with = "null_as_default")]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// `status` of a CertificateSigningRequest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CertificateSigningRequestStatus {
    /// Decision, or failure of the signer.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<CertificateSigningRequestCondition>,
    /// Certificate chain, PEM in base64; "" before it is signed.
    pub certificate: String,
}

/// A condition of a CertificateSigningRequest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CertificateSigningRequestCondition {
    /// Approved, Denied or Failed.
    #[serde(rename = "type")]
    pub kind: String,
    /// Always True.
    pub status: String,
    /// Reason, one word in CamelCase.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// RFC 3339 time of the last change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<String>,
}

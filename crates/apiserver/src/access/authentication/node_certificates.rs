//! Validity of node certificates: client certificates of a node's agent and its other components.
//!
//! A certificate is valid only while its Node exists, so a removed node loses its rights before the certificate
//! expires:
//!
//! - The Node exists, and the certificate has an [`Incarnation`]: the certificate is valid if the Node has the same
//!   incarnation. Certificates of an earlier node with this name stay invalid after another node has joined under the
//!   name.
//! - The Node exists, and the certificate has no incarnation, because an earlier version or an administrator issued it.
//!   The certificate is valid if it was signed at [`CERTIFICATES_SINCE`] or later, or if the Node has no such
//!   annotation. If the node joined with incarnations ([`INCARNATION`]), only certificates that an administrator issued
//!   may lack one.
//! - The Node does not exist, or is deleted and waits for the garbage collector only. Only a certificate that an
//!   administrator issued is valid, for one hour. With it the agent can register the Node. `portolan kubeconfig` and
//!   `portolan up` issue such certificates; CertificateSigningRequests cannot.
//!
//! No certificate is valid after its expiration, also on a connection that was opened before.

use std::collections::HashMap;

use api::certificates::{
    BACKDATE_SECONDS, CERTIFICATES_SINCE, INCARNATION, INCARNATION_UNIT_PREFIX, Incarnation, NodeIdentity,
};
use api::kind;
use jiff::Timestamp;
use serde::Deserialize;
use store::Index;
use x509_parser::prelude::X509Certificate;

use super::Identity;

/// Organizational unit of certificates that an administrator issued without a CertificateSigningRequest.
pub(crate) const ISSUED_BY_ADMINISTRATOR: &str = "portolan:by-hand";
/// Period in which a certificate that an administrator issued is valid without a Node.
const REGISTRATION_SECONDS: i64 = 3_600;
/// Finalizers of the garbage collector.
const COLLECTOR_FINALIZERS: [&str; 2] = ["foregroundDeletion", "orphan"];
/// Tolerated clock difference between signers, for certificates and Nodes without an incarnation.
const CLOCK_TOLERANCE_SECONDS: i64 = 30;

/// The parts of a client certificate that decide about its validity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    /// Time of the signature, in seconds since the epoch.
    signed_at_seconds: i64,
    /// Last second of validity, since the epoch.
    expires_at_seconds: i64,
    /// True if an administrator issued the certificate.
    is_issued_by_administrator: bool,
    /// Incarnation of the Node that the certificate was issued for, if it carries one.
    incarnation: Option<Incarnation>,
}

impl ClientCertificate {
    pub(super) fn of(certificate: &X509Certificate<'_>) -> ClientCertificate {
        let units = certificate.subject().iter_organizational_unit();
        let units: Vec<&str> = units.filter_map(|unit| unit.as_str().ok()).collect();
        let mut incarnations = units
            .iter()
            .filter_map(|unit| unit.strip_prefix(INCARNATION_UNIT_PREFIX));
        ClientCertificate {
            signed_at_seconds: certificate.validity().not_before.timestamp() + BACKDATE_SECONDS,
            expires_at_seconds: certificate.validity().not_after.timestamp(),
            is_issued_by_administrator: units.contains(&ISSUED_BY_ADMINISTRATOR),
            incarnation: incarnations.next().map(Incarnation::from_text),
        }
    }

    /// Returns the incarnation of the Node that the certificate was issued for, if it carries one.
    pub(super) fn incarnation(&self) -> Option<&Incarnation> {
        self.incarnation.as_ref()
    }

    /// A certificate that is valid for one hour.
    #[cfg(test)]
    pub(crate) fn at(seconds: i64) -> ClientCertificate {
        ClientCertificate {
            signed_at_seconds: seconds,
            expires_at_seconds: seconds + REGISTRATION_SECONDS,
            is_issued_by_administrator: false,
            incarnation: None,
        }
    }

    /// Returns true if the certificate may have become invalid by `now` without a change of its Node.
    pub(crate) fn may_be_expired(&self, now: Timestamp) -> bool {
        self.is_issued_by_administrator || self.is_expired(now)
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        now.as_second() > self.expires_at_seconds
    }
}

/// Reason for the rejection of a client certificate, for the log only.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Rejection {
    /// The certificate has expired.
    #[error("the certificate has expired")]
    Expired,
    /// The Node does not exist.
    #[error("Node {0:?} does not exist: the node has to join again")]
    NoNode(String),
    /// Another node has joined under the name, or the Node was deleted and created again.
    #[error("the certificate belongs to an earlier incarnation of Node {0:?}")]
    OtherIncarnation(String),
    /// The certificate was signed before the current node joined under the name.
    #[error("the certificate is older than Node {node:?} permits: {CERTIFICATES_SINCE} is {since:?}")]
    TooOld {
        /// Name of the Node.
        node: String,
        /// The value of the annotation.
        since: String,
    },
    /// The stored Node is malformed.
    #[error("cannot read Node {node:?}: {source}")]
    Unreadable {
        /// Name of the Node.
        node: String,
        /// The JSON error.
        source: serde_json::Error,
    },
}

/// The part of a stored Node that is read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredNode {
    metadata: StoredMetadata,
}

/// Metadata of a stored Node.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredMetadata {
    uid: String,
    annotations: Option<HashMap<String, String>>,
    deletion_timestamp: Option<String>,
    finalizers: Option<Vec<String>>,
}

/// Returns true if a Node is deleted and waits for the garbage collector only. Any user can delay the collector, by an object
/// that names the Node as its owner. While other finalizers remain, the agent ends the Pods of the Node.
pub(super) fn is_removed(is_deleted: bool, finalizers: &[String]) -> bool {
    let mut finalizers = finalizers.iter();
    is_deleted && finalizers.all(|name| COLLECTOR_FINALIZERS.contains(&name.as_str()))
}

/// Checks the client certificate of an identity. Certificates that do not belong to a node are valid until they
/// expire.
pub(crate) fn check(identity: &Identity, index: &Index, now: Timestamp) -> Result<(), Rejection> {
    let Some(certificate) = &identity.certificate else {
        return Ok(());
    };
    if certificate.is_expired(now) {
        return Err(Rejection::Expired);
    }
    let Some(node_identity) = NodeIdentity::of(&identity.user, &identity.groups) else {
        return Ok(());
    };
    let node = node_identity.node_name.to_owned();
    let metadata = match metadata_of(&node, index) {
        Ok(metadata) => metadata,
        Err(source) => return Err(Rejection::Unreadable { node, source }),
    };
    let Some(metadata) = metadata else {
        let may_register = certificate.is_issued_by_administrator
            && now.as_second() - certificate.signed_at_seconds <= REGISTRATION_SECONDS;
        return if may_register {
            Ok(())
        } else {
            Err(Rejection::NoNode(node))
        };
    };
    let annotations = metadata.annotations.unwrap_or_default();
    let joined_by = annotations.get(INCARNATION);
    let tolerance_seconds = match (&certificate.incarnation, joined_by) {
        (Some(incarnation), _) => {
            let current = Incarnation::new(&metadata.uid, joined_by.map_or("", String::as_str));
            return if *incarnation == current {
                Ok(())
            } else {
                Err(Rejection::OtherIncarnation(node))
            };
        }
        (None, Some(_)) if !certificate.is_issued_by_administrator => {
            return Err(Rejection::OtherIncarnation(node));
        }
        (None, Some(_)) => 0,
        (None, None) => CLOCK_TOLERANCE_SECONDS,
    };
    let Some(since) = annotations.get(CERTIFICATES_SINCE) else {
        return Ok(());
    };
    match since.parse::<Timestamp>() {
        Ok(time) if certificate.signed_at_seconds + tolerance_seconds >= time.as_second() => Ok(()),
        _ => Err(Rejection::TooOld {
            node,
            since: since.clone(),
        }),
    }
}

/// Returns the metadata of a Node that is not removed.
fn metadata_of(node: &str, index: &Index) -> Result<Option<StoredMetadata>, serde_json::Error> {
    let entry = kind::find("", "v1", "nodes").and_then(|nodes| index.get(&nodes.store_key("", node)));
    let Some(entry) = entry else {
        return Ok(None);
    };
    let StoredNode { metadata } = serde_json::from_slice(&entry.value)?;
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    let is_removed = is_removed(metadata.deletion_timestamp.is_some(), finalizers);
    Ok((!is_removed).then_some(metadata))
}

#[cfg(test)]
mod tests;

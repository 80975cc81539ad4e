//! Certificates of Nodes' machines, those of the agent and of its parts: they count as long as the Node does, so that a
//! machine whose Node was removed has no rights any more, however long its certificates last.
//!
//! - The Node exists, and the certificate carries an [`Incarnation`]: it counts if it is the Node's. So certificates of a
//!   machine that had the name before stay worthless after another one has joined under it, however soon.
//! - The certificate carries none, since an earlier version signed it, or it was given out by hand: it counts if it was
//!   signed at [`CERTIFICATES_SINCE`] or later, and always if the Node has no such annotation. Of a Node whose machine
//!   joined with certificates that carry one ([`INCARNATION`]), those given out by hand alone count without.
//! - There is no Node: no certificate counts, but one that the server's own authority gave out by hand (`portolan
//!   kubeconfig`, `portolan up` for its own machine) does for an hour, so that its agent can register the Node. No request
//!   for a certificate leads to one with that mark.
//!
//! No certificate, of a Node or of anybody else, counts longer than it says, also on a connection that began before.

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

/// The organizational unit in certificates that the authority gave out by hand.
pub(crate) const BY_HAND: &str = "portolan:by-hand";
/// Validity of a certificate that an administrator issued, without a Node.
const REGISTRATION_SECONDS: i64 = 3_600;
/// How much the clock of a signer may lie behind that of another one, of Nodes whose certificates carry no incarnation.
const CLOCK_TOLERANCE_SECONDS: i64 = 30;

/// Time and origin of the signature of a client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// When, in seconds since the epoch.
    at_seconds: i64,
    /// The last second at which the certificate is good, since the epoch.
    ends_at_seconds: i64,
    /// Set if an administrator issued the certificate.
    is_by_hand: bool,
    /// The incarnation of the Node that it was signed for, if it carries one.
    incarnation: Option<Incarnation>,
}

impl Signed {
    pub(super) fn of(certificate: &X509Certificate<'_>) -> Signed {
        let units = certificate.subject().iter_organizational_unit();
        let units: Vec<&str> = units.filter_map(|unit| unit.as_str().ok()).collect();
        let mut incarnations = units
            .iter()
            .filter_map(|unit| unit.strip_prefix(INCARNATION_UNIT_PREFIX));
        Signed {
            at_seconds: certificate.validity().not_before.timestamp() + BACKDATE_SECONDS,
            ends_at_seconds: certificate.validity().not_after.timestamp(),
            is_by_hand: units.contains(&BY_HAND),
            incarnation: incarnations.next().map(Incarnation::written),
        }
    }

    /// The incarnation of the Node that the certificate was signed for, if it carries one.
    pub(super) fn incarnation(&self) -> Option<&Incarnation> {
        self.incarnation.as_ref()
    }

    /// A certificate that is good for an hour.
    #[cfg(test)]
    pub(crate) fn at(seconds: i64) -> Signed {
        Signed {
            at_seconds: seconds,
            ends_at_seconds: seconds + REGISTRATION_SECONDS,
            is_by_hand: false,
            incarnation: None,
        }
    }

    /// Whether time alone may have made the certificate worthless by `now`, without a change of its Node.
    pub(crate) fn may_have_lapsed(&self, now: Timestamp) -> bool {
        self.is_by_hand || self.has_ended(now)
    }

    fn has_ended(&self, now: Timestamp) -> bool {
        now.as_second() > self.ends_at_seconds
    }
}

/// Reason for the rejection of a client certificate, for the log only.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Rejection {
    /// The certificate has expired.
    #[error("the certificate has ended")]
    Ended,
    /// The Node was removed, or never was.
    #[error("there is no Node {0:?}: its machine has to join again")]
    NoNode(String),
    /// Another machine has joined under the name since, or the Node was removed and made again.
    #[error("the certificate is of an earlier incarnation of the Node {0:?}")]
    OtherIncarnation(String),
    /// Another machine has joined under the name since.
    #[error("the certificate is older than the Node {node:?} allows: {CERTIFICATES_SINCE} is {since:?}")]
    TooOld {
        /// The Node.
        node: String,
        /// The value of the annotation.
        since: String,
    },
    /// The Node cannot be read.
    #[error("the Node {node:?} cannot be read: {source}")]
    Unreadable {
        /// The Node.
        node: String,
        /// Why.
        source: serde_json::Error,
    },
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredNode {
    metadata: StoredMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredMetadata {
    uid: String,
    annotations: Option<HashMap<String, String>>,
}

/// Checks whether the certificate counts that proved an identity, if one did. Those of no Node count until they end.
pub(crate) fn check(identity: &Identity, index: &Index, now: Timestamp) -> Result<(), Rejection> {
    let Some(signed) = &identity.signed else {
        return Ok(());
    };
    if signed.has_ended(now) {
        return Err(Rejection::Ended);
    }
    let Some(of_node) = NodeIdentity::of(&identity.user, &identity.groups) else {
        return Ok(());
    };
    let node = of_node.node_name.to_owned();
    let entry = kind::find("", "v1", "nodes").and_then(|nodes| index.get(&nodes.store_key("", &node)));
    let Some(entry) = entry else {
        let registers = signed.is_by_hand && now.as_second() - signed.at_seconds <= REGISTRATION_SECONDS;
        return if registers {
            Ok(())
        } else {
            Err(Rejection::NoNode(node))
        };
    };
    let stored: StoredNode = match serde_json::from_slice(&entry.value) {
        Ok(stored) => stored,
        Err(source) => return Err(Rejection::Unreadable { node, source }),
    };
    let annotations = stored.metadata.annotations.unwrap_or_default();
    let joined_by = annotations.get(INCARNATION);
    let tolerance_seconds = match (&signed.incarnation, joined_by) {
        (Some(carried), _) => {
            let current = Incarnation::new(&stored.metadata.uid, joined_by.map_or("", String::as_str));
            return match *carried == current {
                true => Ok(()),
                false => Err(Rejection::OtherIncarnation(node)),
            };
        }
        (None, Some(_)) if !signed.is_by_hand => return Err(Rejection::OtherIncarnation(node)),
        (None, Some(_)) => 0,
        (None, None) => CLOCK_TOLERANCE_SECONDS,
    };
    let Some(since) = annotations.get(CERTIFICATES_SINCE) else {
        return Ok(());
    };
    match since.parse::<Timestamp>() {
        Ok(time) if signed.at_seconds + tolerance_seconds >= time.as_second() => Ok(()),
        _ => Err(Rejection::TooOld {
            node,
            since: since.clone(),
        }),
    }
}

#[cfg(test)]
mod tests;

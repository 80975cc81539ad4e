//! The Node of a machine that joins. It is made, or marked anew, before the certificate is signed: so the name is taken
//! from then on, one machine alone gets it, and certificates of machines that had the name before count no longer
//! ([`CERTIFICATES_SINCE`]).

use api::certificates::condition::APPROVED;
use api::certificates::{CERTIFICATES_SINCE, Incarnation, JOINED_BY_REQUEST};
use api::object::{CertificateSigningRequest, Node, ObjectKey, Resource};
use client::{Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::decide::APPROVED_REASON;
use super::objection::{Objection, object_to_joining};
use crate::write::read;

/// The incarnation of a Node.
pub(super) fn incarnation(node: &Node) -> Incarnation {
    let since = node.metadata.annotations.get(CERTIFICATES_SINCE);
    Incarnation::new(&node.metadata.uid, since.map_or("", String::as_str))
}

/// How the name of a machine that joins is taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// It is: the certificate may be signed.
    Held,
    /// By making the Node.
    Create,
    /// By marking the Node, as long as it is of this resourceVersion.
    Mark(String),
    /// Not at all.
    Refused(Objection),
}

/// How the approved request of a machine that joins takes its name. Pure.
pub(super) fn claim(request: &CertificateSigningRequest, present: Option<&Node>) -> Claim {
    let Some(node) = present else {
        return Claim::Create;
    };
    if node.metadata.annotations.get(JOINED_BY_REQUEST) == Some(&request.metadata.uid) {
        return Claim::Held;
    }
    // A person who approves a request has the last word about the name.
    let is_approved_by_hand = request
        .condition(APPROVED)
        .is_some_and(|condition| condition.reason != APPROVED_REASON);
    match object_to_joining(request, node) {
        Some(objection) if !is_approved_by_hand => Claim::Refused(objection),
        _ => Claim::Mark(node.metadata.resource_version.clone()),
    }
}

/// Takes the name of the machine that joins with a request; the objection, if another machine has it.
///
/// # Errors
/// If the API does not answer, or another writer was quicker: another try finds out.
pub(super) async fn take_name(
    client: &Client,
    request: &CertificateSigningRequest,
    node_name: &str,
    now: Timestamp,
) -> Result<Option<Objection>, ClientError> {
    let node = read::<Node>(client, &ObjectKey::new("", node_name)).await?;
    let annotations = json!({
        CERTIFICATES_SINCE: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        JOINED_BY_REQUEST: request.metadata.uid,
    });
    let (method, path, media_type, body): (_, _, _, Value) = match claim(request, node.as_ref()) {
        Claim::Held => return Ok(None),
        Claim::Refused(objection) => return Ok(Some(objection)),
        Claim::Create => {
            let node = json!({"apiVersion": Node::VERSION, "kind": Node::KIND,
                              "metadata": {"name": node_name, "annotations": annotations}});
            (Method::POST, Node::collection(None), JSON, node)
        }
        Claim::Mark(resource_version) => {
            let path = format!("{}/{node_name}", Node::collection(None));
            let metadata = json!({"resourceVersion": resource_version, "annotations": annotations});
            (Method::PATCH, path, MERGE_PATCH, json!({"metadata": metadata}))
        }
    };
    client.request(method, &path, media_type, Some(&body)).await?;
    tracing::info!(
        node = node_name,
        request = request.metadata.name,
        "name of a Node taken"
    );
    Ok(None)
}

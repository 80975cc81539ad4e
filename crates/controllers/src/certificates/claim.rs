//! The Node of a machine that joins. It is made, or marked anew, before the certificate is signed: so the name is taken
//! from then on, one machine alone gets it, and certificates of machines that had the name before count no longer
//! ([`Incarnation`]).

use api::certificates::condition::APPROVED;
use api::certificates::{
    CERTIFICATES_SINCE, INCARNATION, Incarnation, JOINED_BY_REQUEST, NodeIdentity, Request,
};
use api::object::{CertificateSigningRequest, Node, ObjectKey, Resource};
use client::{Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::decide::APPROVED_REASON;
use super::objection::{Objection, object_to_joining};
use super::recognise::{joining_node, requester};
use super::request_of;
use crate::write::read;

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
    let is_of_request = |annotation| node.metadata.annotations.get(annotation) == Some(&request.metadata.uid);
    if is_of_request(INCARNATION) {
        return Claim::Held;
    }
    // An earlier version of the signer took the name, and did not get further.
    if is_of_request(JOINED_BY_REQUEST) {
        return Claim::Mark(node.metadata.resource_version.clone());
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
        INCARNATION: request.metadata.uid,
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

/// The incarnation that the certificate of a request carries; `None` if it is of no Node's machine, or there is no Node
/// yet. The objection, if the Node is not any more the one whose machine made the request.
///
/// # Errors
/// If the API does not answer.
pub(super) async fn carried_incarnation(
    client: &Client,
    request: &CertificateSigningRequest,
) -> Result<Result<Option<Incarnation>, Objection>, ClientError> {
    let Some(node_name) = request_of(request).ok().and_then(|asked| node_name(&asked)) else {
        return Ok(Ok(None));
    };
    let node = read::<Node>(client, &ObjectKey::new("", &node_name)).await?;
    Ok(incarnation_for(request, &node_name, node.as_ref()))
}

/// The Node to whose machine a certificate would belong.
fn node_name(asked: &Request) -> Option<String> {
    let identity = NodeIdentity::of(asked.common_name()?, &asked.organizations)?;
    Some(identity.node_name.to_owned())
}

/// The incarnation that a certificate for the machine of `present` carries. Pure.
pub(super) fn incarnation_for(
    request: &CertificateSigningRequest,
    node_name: &str,
    present: Option<&Node>,
) -> Result<Option<Incarnation>, Objection> {
    let current = present.map(Incarnation::of_node);
    let joined_by = present.and_then(|node| node.metadata.annotations.get(INCARNATION));
    if joining_node(request).is_some() {
        // Since the name was taken, another machine may have replaced this one.
        let is_held = joined_by == Some(&request.metadata.uid);
        return match is_held {
            true => Ok(current),
            false => Err(Objection::NameTaken(node_name.to_owned())),
        };
    }
    if requester(request) != Some(node_name) {
        // People alone approve it.
        return Ok(current);
    }
    let proved = request
        .spec
        .extra
        .get(INCARNATION)
        .and_then(|values| values.first());
    let is_of_current = match proved {
        Some(written) => current.as_ref() == Some(&Incarnation::written(written)),
        // The certificate that proved the requester carries none; those of a machine that joined do.
        None => joined_by.is_none(),
    };
    match is_of_current {
        true => Ok(current),
        false => Err(Objection::AnotherIncarnation(node_name.to_owned())),
    }
}
